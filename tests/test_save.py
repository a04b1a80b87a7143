"""Saving: whole or not at all, data files included."""

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from onnx import TensorProto, helper, numpy_helper

from surgeon import copying
from surgeon.errors import ModelFileError, UsageError
from surgeon.model import Model, Patch
from surgeon.save import save
from tests.model_samples import GRAPH, everywhere, tensor
from tests.wire_strategies import models

WEIGHTS = np.random.default_rng(0).standard_normal(5000).astype(np.float32)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A model file of its own in a folder of its own."""
    folder = tmp_path / "source"
    folder.mkdir()
    onnx.save(everywhere(), folder / "m.onnx")
    return folder / "m.onnx"


def external(path: Path, location: str = "w.data", *, write: bool = True, **entries: Any) -> Path:
    """A model with WEIGHTS and a scalar in one data file."""
    tensors = []
    for name, dims, offset, length in (("w", [5000], 0, 20000), ("s", [], 20000, 4)):
        one = TensorProto(name=name, data_type=1, dims=dims, data_location=TensorProto.EXTERNAL)
        for key, value in ({"location": location, "offset": offset, "length": length} | entries).items():
            one.external_data.add(key=key, value=str(value))
        tensors.append(one)
    path.parent.mkdir(exist_ok=True)
    onnx.save(helper.make_model(helper.make_graph([onnx.NodeProto(name="n", op_type="Relu")], "g", [], [], tensors)), path)
    if write:
        (path.parent / location).parent.mkdir(exist_ok=True)
        (path.parent / location).write_bytes(WEIGHTS.tobytes() + np.float32(2.5).tobytes())
    return path


def renamed(model: Model, name: bytes = b"renamed") -> Patch:
    """A patch that names the graph."""
    patch = Patch(model)
    patch.replace(GRAPH, 2, 0, [name])
    return patch


def files_in(folder: Path) -> set[str]:
    """Every file below a folder."""
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def values(path: Path) -> list[Any]:
    """What onnx itself reads."""
    return [numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer]


# --- the model file --------------------------------------------------------------------------------------------------


def test_without_edits_the_file_is_the_same(source: Path, tmp_path: Path) -> None:
    """No patch, an empty patch; another file, the same file, from memory."""
    data = source.read_bytes()
    with Model.open(source) as model:
        for patch in (None, Patch(model)):
            save(model, patch, tmp_path / "out.onnx")
            assert (tmp_path / "out.onnx").read_bytes() == data
            before = source.stat()
            save(model, patch, source)
            assert (source.stat().st_ino, source.read_bytes()) == (before.st_ino, data)
    memory = Model.open(data)
    save(memory, None, tmp_path / "memory.onnx")
    assert (tmp_path / "memory.onnx").read_bytes() == data


@settings(max_examples=40, deadline=None)
@given(models())
def test_any_file_is_saved_as_the_patch_says(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """The file has the bytes that the patch gives in memory."""
    folder = tmp_path_factory.mktemp("any")
    (folder / "m.onnx").write_bytes(data)
    with Model.open(folder / "m.onnx", threshold=0) as model:
        patch = Patch(model)
        patch.insert(GRAPH, 1, model.count(GRAPH, 1), [b"\x1a\x01n"])
        if model.count(GRAPH, 5):
            patch.delete(GRAPH, 5, 0)
        save(model, patch, folder / "out.onnx")
        assert (folder / "out.onnx").read_bytes() == patch.apply()
        save(model, None, folder / "same.onnx")
    assert (folder / "same.onnx").read_bytes() == data


def test_large_spans_are_copied_right(tmp_path: Path) -> None:
    """Pieces on both sides of each limit of the writer: from the map, read, copied by the kernel."""
    tensors = [tensor(f"t{n}", n) for n in (100, 3000, 30_000, 300_000, 1_000_000, 50)]
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [], tensors)), tmp_path / "m.onnx")
    with Model.open(tmp_path / "m.onnx") as model:
        patch = Patch(model)
        for index in range(6):
            patch.insert(GRAPH, 5, index, [TensorProto(name=f"new{index}").SerializeToString()])
        save(model, patch, tmp_path / "out.onnx")
        assert (tmp_path / "out.onnx").read_bytes() == patch.apply()


@pytest.mark.parametrize("number", [errno.EXDEV, errno.ENOSYS, errno.EINVAL, None])
def test_systems_without_copy_file_range(number: int | None, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call fails, does nothing, or is not there (macOS, Windows): plain reads and writes do the same."""

    def fails(*_: object) -> int:
        if number is None:
            return 0
        raise OSError(number, "no")

    monkeypatch.setattr(os, "copy_file_range", fails, raising=False)
    monkeypatch.setattr("surgeon.save._READ", 100)
    monkeypatch.setattr("surgeon.save._MAPPED", 10)
    out = source.with_name("out.onnx")
    with Model.open(source) as model:
        patch = renamed(model)
        save(model, patch, out)
        assert out.read_bytes() == patch.apply()
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delattr(os, "pread")
    with Model.open(source) as model:
        save(model, renamed(model), out)
        assert out.read_bytes() == renamed(model).apply()


def test_source_and_target_may_be_one_file(source: Path) -> None:
    """Mode bits stay; the model must be opened again before it is saved again."""
    source.chmod(0o640)
    with Model.open(source) as model:
        expected = renamed(model).apply()
        save(model, renamed(model), source)
        assert source.read_bytes() == expected
        assert stat.S_IMODE(source.stat().st_mode) == 0o640
        with pytest.raises(ModelFileError, match="changed on disk"):
            save(model, renamed(model, b"again"), source)
    assert files_in(source.parent) == {"m.onnx"}


def test_a_link_stays_a_link(source: Path, tmp_path: Path) -> None:
    """The file that a symbolic link means is replaced."""
    link = tmp_path / "link.onnx"
    link.symlink_to(source)
    with Model.open(link) as model:
        save(model, renamed(model), link)
    assert link.is_symlink()
    assert onnx.load(source).graph.name == "renamed"


def test_the_very_file_is_checked(source: Path, tmp_path: Path) -> None:
    """The check sees the whole file beside the target, under another name."""
    seen: list[Path] = []

    def check(path: Path) -> None:
        seen.append(path)
        assert path.parent == tmp_path
        assert onnx.load(path).graph.name == "renamed"
        assert not (tmp_path / "out.onnx").exists()

    with Model.open(source) as model:
        save(model, renamed(model), tmp_path / "out.onnx", check=check)
    assert seen == [tmp_path / f".out.onnx.surgeon-{os.getpid()}.tmp"]
    assert not seen[0].exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ModelFileError, ZeroDivisionError])
def test_a_failed_check_leaves_everything_as_it_was(error: type[BaseException], tmp_path: Path) -> None:
    """Old model, old data files, old folders; nothing new."""
    source = external(tmp_path / "source" / "m.onnx", "sub/w.data")
    out = tmp_path / "out"
    out.mkdir()
    (out / "m.onnx").write_bytes(b"old")
    for force in (False, True):
        if force:
            (out / "sub").mkdir()
            (out / "sub" / "w.data").write_bytes(b"old data")

        def check(_: Path) -> None:
            assert (out / "sub" / "w.data").stat().st_size == 20004
            raise error("no")

        with Model.open(source) as model, pytest.raises(error):
            save(model, renamed(model), out / "m.onnx", check=check, force=force)
        assert (out / "m.onnx").read_bytes() == b"old"
        assert files_in(out) == ({"m.onnx", "sub/w.data"} if force else {"m.onnx"})
        assert (out / "sub").exists() == force
    assert (out / "sub" / "w.data").read_bytes() == b"old data"


@pytest.mark.parametrize(
    ("number", "why"),
    [(errno.ENOSPC, "disk is full"), (errno.EROFS, "read-only"), (errno.EACCES, "permission"), (errno.EIO, "error")],
)
def test_what_the_system_says_is_said_plainly(
    number: int, why: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence, and no litter, wherever the write fails."""

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    for name in ("surgeon.save.write_all", "surgeon.atomic.os.fsync"):
        with monkeypatch.context() as patched:
            patched.setattr(name, fail)
            with Model.open(source) as model, pytest.raises(ModelFileError, match=f"(?i)cannot be written, .*{why}"):
                save(model, renamed(model), tmp_path / "out.onnx")
        assert files_in(tmp_path) == {"source/m.onnx"}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_targets_that_cannot_be(source: Path, tmp_path: Path) -> None:
    """A folder, a missing folder, a device."""
    with Model.open(source) as model:
        for out, why in [(tmp_path, "is a folder"), (tmp_path / "no" / "m.onnx", "does not exist"), (Path("/dev/full"), "regular")]:
            with pytest.raises(ModelFileError, match=why):
                save(model, None, out)


def test_a_source_that_changed_is_not_saved(source: Path, tmp_path: Path) -> None:
    """Before the save, and while its check runs."""
    with Model.open(source) as model:
        with pytest.raises(ModelFileError, match="changed on disk"):
            save(model, None, tmp_path / "out.onnx", check=lambda _: os.utime(source, (1, 1)))
        with pytest.raises(ModelFileError, match="changed on disk"):
            save(model, None, tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()


def test_a_killed_run_leaves_one_file_that_the_next_run_removes(source: Path, tmp_path: Path) -> None:
    """After SIGKILL the old file is whole, and the temporary one is swept; that of a living run is not."""
    out = tmp_path / "out.onnx"
    out.write_bytes(b"old")
    code = (
        "import sys, time; from surgeon.model import Model; from surgeon.save import save\n"
        "def wait(path): print('ready', flush=True); time.sleep(60)\n"
        "save(Model.open(sys.argv[1]), None, sys.argv[2], check=wait)"
    )
    with subprocess.Popen([sys.executable, "-c", code, source, out], stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"ready\n"
        temporary = f".out.onnx.surgeon-{run.pid}.tmp"
        with Model.open(source) as model:
            save(model, None, tmp_path / "out.onnx")
            assert temporary in files_in(tmp_path)  # its run is alive
            run.send_signal(signal.SIGKILL)
            run.wait()
            assert temporary in files_in(tmp_path)
            (tmp_path / f".out.onnx.surgeon-{os.getpid()}.tmp").write_bytes(b"of an earlier process with our id")
            (tmp_path / ".out.onnx.surgeon-notes.tmp").write_bytes(b"not ours")
            save(model, None, out)
    assert files_in(tmp_path) == {"out.onnx", "source/m.onnx", ".out.onnx.surgeon-notes.tmp"}


# --- data files ------------------------------------------------------------------------------------------------------


def test_external_values_are_read_when_asked_for(tmp_path: Path) -> None:
    """Also a scalar; the sizes are known without the file."""
    path = external(tmp_path / "m.onnx", write=False)
    model = Model.open(path)
    assert model.external_bytes == 20004
    external(path)
    model = Model.open(path)
    w, s = (model.value(t) for t in model.skeleton.graph.initializer)
    np.testing.assert_array_equal(w, WEIGHTS)
    assert (s.shape, s.item()) == ((), 2.5)
    model.close()
    assert w[0] == WEIGHTS[0]


def test_offset_and_length_may_be_absent(tmp_path: Path) -> None:
    """They mean 0 and what the shape needs."""
    one = TensorProto(name="w", data_type=1, dims=[10], data_location=TensorProto.EXTERNAL)
    one.external_data.add(key="location", value="w.bin")
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [], [one])), tmp_path / "m.onnx")
    (tmp_path / "w.bin").write_bytes(WEIGHTS.tobytes())
    model = Model.open(tmp_path / "m.onnx")
    np.testing.assert_array_equal(model.value(model.skeleton.graph.initializer[0]), WEIGHTS[:10])


@pytest.mark.parametrize(
    ("location", "why"),
    [("/etc/hostname", "outside"), ("../w.data", "outside"), ("a/../../w.data", "outside"), ("C:\\w.data", "outside"),
     ("link", "link that leaves"), ("linked/w.data", "link that leaves"), ("none.data", "cannot be opened"), ("", "names no file"),
     ("folder", "regular file"), ("short.data", "too short")],
)  # fmt: skip
def test_data_files_that_are_refused(location: str, why: str, tmp_path: Path) -> None:
    """On access and on save, in one sentence; opening the model touches none of them."""
    (tmp_path / "w.data").write_bytes(WEIGHTS.tobytes() + bytes(4))
    path = external(tmp_path / "source" / "m.onnx", location, write=False)
    (path.parent / "link").symlink_to(tmp_path / "w.data")
    (path.parent / "linked").symlink_to(tmp_path)
    (path.parent / "folder").mkdir()
    (path.parent / "short.data").write_bytes(bytes(100))
    with Model.open(path) as model:
        with pytest.raises(ModelFileError, match=why):
            model.value(model.skeleton.graph.initializer[0])
        for out in (tmp_path / "out.onnx", path.parent / "out.onnx"):
            with pytest.raises(ModelFileError, match=why):
                save(model, renamed(model), out)
            assert not out.exists()


@pytest.mark.parametrize("entries", [{"offset": -1}, {"offset": "x"}, {"length": 3}, {"length": -4}])
def test_extents_that_make_no_sense(entries: dict[str, Any], tmp_path: Path) -> None:
    """Offsets and lengths are numbers, and as large as the tensor."""
    model = Model.open(external(tmp_path / "m.onnx", **entries))
    with pytest.raises(ModelFileError, match=r"no number of bytes|needs 20000 bytes"):
        model.value(model.skeleton.graph.initializer[0])


def test_the_same_folder_shares(tmp_path: Path) -> None:
    """Nothing happens to the data file."""
    path = external(tmp_path / "m.onnx")
    before = (tmp_path / "w.data").stat()
    for mode in ("auto", "share", "copy", "link"):
        with Model.open(path) as model:
            save(model, renamed(model), tmp_path / "out.onnx", external_data=mode)
    after = (tmp_path / "w.data").stat()
    assert (before.st_ino, before.st_mtime_ns, before.st_nlink) == (after.st_ino, after.st_mtime_ns, after.st_nlink)
    assert files_in(tmp_path) == {"m.onnx", "out.onnx", "w.data"}
    np.testing.assert_array_equal(values(tmp_path / "out.onnx")[0], WEIGHTS)


def test_another_folder_gets_a_copy(tmp_path: Path) -> None:
    """In sub-folders too; what is there already is left; other content only goes with force."""
    path = external(tmp_path / "source" / "m.onnx", "sub/w.data")
    out = tmp_path / "out"
    out.mkdir()
    with Model.open(path) as model:
        save(model, renamed(model), out / "m.onnx")
        np.testing.assert_array_equal(values(out / "m.onnx")[0], WEIGHTS)
        inode = (out / "sub/w.data").stat().st_ino
        save(model, None, out / "again.onnx")
        assert (out / "sub/w.data").stat().st_ino == inode
        (out / "sub/w.data").write_bytes(bytes(20004))
        with pytest.raises(ModelFileError, match="other content.*force"):
            save(model, None, out / "again.onnx")
        assert (out / "sub/w.data").read_bytes() == bytes(20004)
        save(model, None, out / "again.onnx", force=True)
    np.testing.assert_array_equal(values(out / "again.onnx")[0], WEIGHTS)
    assert files_in(out) == {"m.onnx", "again.onnx", "sub/w.data"}


def test_link_gives_the_file_a_second_name(tmp_path: Path) -> None:
    """No bytes are copied."""
    path = external(tmp_path / "source" / "m.onnx")
    (tmp_path / "out").mkdir()
    with Model.open(path) as model:
        save(model, None, tmp_path / "out" / "m.onnx", external_data="link")
    assert os.path.samefile(tmp_path / "out" / "w.data", tmp_path / "source" / "w.data")


def test_inline_puts_the_data_into_the_model(tmp_path: Path) -> None:
    """With and without a patch, in place too; what else the tensor says stays."""
    path = external(tmp_path / "source" / "m.onnx", checksum="00")
    with Model.open(path) as model:
        for patch in (None, renamed(model)):
            save(model, patch, tmp_path / "m.onnx", external_data="inline")
            proto = onnx.load(tmp_path / "m.onnx", load_external_data=False)
            assert proto.graph.initializer[0] == numpy_helper.from_array(WEIGHTS, "w")
            assert numpy_helper.to_array(proto.graph.initializer[1]).item() == 2.5
        assert proto.graph.name == "renamed"
        assert files_in(tmp_path) == {"m.onnx", "source/m.onnx", "source/w.data"}
        save(model, None, path, external_data="inline")
    assert Model.open(path).external_tensors == []


def test_inline_past_two_gib_is_refused(tmp_path: Path) -> None:
    """Before a byte is written."""
    big = TensorProto(name="w", data_type=1, dims=[1 << 29], data_location=TensorProto.EXTERNAL)
    big.external_data.add(key="location", value="w.data")
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [], [big])), tmp_path / "m.onnx")
    with open(tmp_path / "w.data", "wb") as file:
        file.truncate(1 << 31)
    with Model.open(tmp_path / "m.onnx") as model, pytest.raises(ModelFileError, match="2 GiB"):
        save(model, None, tmp_path / "out.onnx", external_data="inline")
    assert files_in(tmp_path) == {"m.onnx", "w.data"}


def test_modes_that_do_not_fit(tmp_path: Path) -> None:
    """Sharing elsewhere, data of a model from memory, a word that is no mode."""
    path = external(tmp_path / "source" / "m.onnx")
    memory = Model.open(path.read_bytes())
    with Model.open(path) as model:
        wrong: list[tuple[Model, Path, Any]] = [
            (model, tmp_path / "out.onnx", "share"), (model, tmp_path / "out.onnx", "move"),
            (memory, path, "copy"), (memory, path, "inline"), (memory, path, "link"),
        ]  # fmt: skip
        for one, out, mode in wrong:
            with pytest.raises(UsageError):
                save(one, renamed(one), out, external_data=mode)
    with pytest.raises(ModelFileError, match="came from memory"):
        memory.value(memory.skeleton.graph.initializer[0])
    save(memory, None, path.with_name("out.onnx"))  # its data files are there
    np.testing.assert_array_equal(values(path.with_name("out.onnx"))[0], WEIGHTS)


def test_a_data_file_is_never_the_target(tmp_path: Path) -> None:
    """Neither the source's own, nor one that is to be copied to that name."""
    path = external(tmp_path / "source" / "m.onnx")
    for out in (tmp_path / "source" / "w.data", tmp_path / "w.data"):
        with Model.open(path) as model, pytest.raises(ModelFileError, match="data file"):
            save(model, renamed(model), out)
    assert (tmp_path / "source" / "w.data").stat().st_size == 20004
    assert not (tmp_path / "w.data").exists()


def test_holes_stay_holes(tmp_path: Path) -> None:
    """A sparse file of 8 GB is copied and compared in no time and takes no room."""
    with open(tmp_path / "a", "wb") as file:
        file.truncate(8 << 30)
        file.seek(4 << 30)
        file.write(b"data")
    began = time.perf_counter()
    source, target = copying.open_read(tmp_path / "a"), os.open(tmp_path / "b", os.O_RDWR | os.O_CREAT)
    copying.copy_file(source, target)
    os.close(source)
    if os.stat(tmp_path / "a").st_blocks < 1000:  # a file system that has holes
        assert os.stat(tmp_path / "b").st_blocks < 1000
        assert time.perf_counter() - began < 1
    assert copying.same_content(tmp_path / "a", tmp_path / "b")
    os.pwrite(target, b"x", 7 << 30)
    os.close(target)
    assert not copying.same_content(tmp_path / "a", tmp_path / "b")


def test_reflinks_are_tried_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file system shares extents, nothing is copied."""
    fcntl = pytest.importorskip("fcntl")
    asked: list[int] = []
    monkeypatch.setattr(fcntl, "ioctl", lambda target, request, source: asked.append(request))
    (tmp_path / "a").write_bytes(b"data")
    source, target = copying.open_read(tmp_path / "a"), os.open(tmp_path / "b", os.O_RDWR | os.O_CREAT)
    copying.copy_file(source, target)
    assert (asked, os.fstat(target).st_size) == ([0x40049409], 0)
    os.close(source)
    os.close(target)


def test_memory_does_not_grow_with_the_weights(tmp_path: Path) -> None:
    """A model of 400 MB is opened, edited and saved in 60 MB beyond what the imports take."""
    big = TensorProto(name="w", data_type=1, dims=[100_000_000])
    head = b"\x4a" + bytes_of_varint(400_000_000)
    body = big.SerializeToString() + head
    graph = b"\x12\x01g\x2a" + bytes_of_varint(len(body) + 400_000_000) + body
    with open(tmp_path / "m.onnx", "wb") as file:
        file.write(b"\x08\x08\x3a" + bytes_of_varint(len(graph) + 400_000_000) + graph)
        file.truncate(file.tell() + 400_000_000)
    code = (
        "import resource, sys; from surgeon.model import Model, Patch; from surgeon.save import save\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; before = peak()\n"
        "model = Model.open(sys.argv[1]); patch = Patch(model); patch.replace(((7, 0),), 2, 0, [b'renamed'])\n"
        "save(model, patch, sys.argv[2]); print(peak() - before)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "m.onnx", tmp_path / "out.onnx"], capture_output=True, check=True
    )
    assert int(run.stdout) < 60_000
    assert os.stat(tmp_path / "out.onnx").st_size > 400_000_000


def bytes_of_varint(value: int) -> bytes:
    """A varint."""
    from tests.wire_strategies import varint

    return varint(value)


