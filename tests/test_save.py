"""Saving: whole or not at all."""

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from hypothesis import given, settings
from onnx import TensorProto, helper

from surgeon.errors import ModelFileError
from surgeon.file.model import Model
from surgeon.file.patch import Patch
from surgeon.file.save import save
from tests.model_samples import GRAPH, everywhere, external, files_in, renamed, tensor
from tests.wire_strategies import models, varint


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A model file of its own in a folder of its own."""
    folder = tmp_path / "source"
    folder.mkdir()
    onnx.save(everywhere(), folder / "m.onnx")
    return folder / "m.onnx"


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
    """The file has the bytes that the patch gives in memory; random external data without a file is refused."""
    folder = tmp_path_factory.mktemp("any")
    (folder / "m.onnx").write_bytes(data)
    with Model.open(folder / "m.onnx", threshold=0) as model:
        patch = Patch(model)
        patch.insert(GRAPH, 1, model.count(GRAPH, 1), [b"\x1a\x01n"])
        if model.count(GRAPH, 5):
            patch.delete(GRAPH, 5, 0)
        try:
            save(model, patch, folder / "out.onnx")
        except ModelFileError as refused:
            if "external data, but has no file" not in str(refused):
                raise
            assert not (folder / "out.onnx").exists()
            return
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
    monkeypatch.setattr("surgeon.file.save._READ", 100)
    monkeypatch.setattr("surgeon.file.save._MAPPED", 10)
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


def test_what_is_written_over_keeps_owner_and_mode(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the bits that run a file with its owner's rights; a new file is the user's own, with what umask says."""
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "fchown", lambda _, user, group: given.append((user, group)))
    source.chmod(0o6750)
    before = source.stat()
    with Model.open(source) as model:
        save(model, renamed(model), source)
    assert stat.S_IMODE(source.stat().st_mode) == 0o750
    assert given == [(before.st_uid, before.st_gid)]
    old = os.umask(0o027)
    try:
        with Model.open(source) as model:
            save(model, None, tmp_path / "new.onnx")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new.onnx").stat().st_mode) == 0o640
    assert len(given) == 1


@pytest.mark.parametrize("group_is_refused", [False, True])
def test_an_owner_who_may_not_be_given_is_left(
    group_is_refused: bool, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only root gives files away; a group may be given by its members, and nothing is said where it may not."""
    asked: list[bool] = []

    def fchown(_: int, user: int, __: int) -> None:
        asked.append(user == -1)
        if user != -1 or group_is_refused:
            raise PermissionError(errno.EPERM, "no")

    monkeypatch.setattr(os, "fchown", fchown)
    with Model.open(source) as model:
        save(model, renamed(model), source)
    assert asked == [False, True]
    assert onnx.load(source).graph.name == "renamed"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_root_leaves_files_to_their_owners(tmp_path: Path) -> None:
    """The model, and a data file of other content that is overwritten."""
    path, out = external(tmp_path / "source" / "m.onnx"), tmp_path / "out"
    out.mkdir()
    for name in ("m.onnx", "w.data"):
        (out / name).write_bytes(b"old")
        os.chown(out / name, 1234, 2345)
        (out / name).chmod(0o4640)
    with Model.open(path) as model:
        save(model, renamed(model), out / "m.onnx", force=True)
    for name in ("m.onnx", "w.data"):
        status = (out / name).stat()
        assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1234, 2345, 0o640)


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

        def check(path: Path) -> None:
            assert (path.parent / "sub" / "w.data").stat().st_size == 20004
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

    for name in ("surgeon.file.save.write_all", "surgeon.file.io.atomic_file.os.fsync"):
        with monkeypatch.context() as patched:
            patched.setattr(name, fail)
            with Model.open(source) as model, pytest.raises(ModelFileError, match=f"(?i)cannot be written: .*{why}"):
                save(model, renamed(model), tmp_path / "out.onnx")
        assert files_in(tmp_path) == {"source/m.onnx"}


def test_an_interrupted_copy_leaves_no_litter(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of the bytes: the old file is whole."""
    before = source.read_bytes()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("surgeon.file.save.copy_span", interrupt)
    monkeypatch.setattr("surgeon.file.save._READ", 100)
    with Model.open(source) as model, pytest.raises(KeyboardInterrupt):
        save(model, renamed(model), source)
    assert (source.read_bytes(), files_in(source.parent)) == (before, {"m.onnx"})


def test_two_saves_to_one_target_do_not_meet(source: Path, tmp_path: Path) -> None:
    """The second is told to wait; the first is not disturbed."""
    out = tmp_path / "out.onnx"
    with Model.open(source) as model:

        def check(_: Path) -> None:
            with pytest.raises(ModelFileError, match="another process is writing it"):
                save(model, None, out)

        save(model, renamed(model), out, check=check)
    assert onnx.load(out).graph.name == "renamed"
    assert files_in(tmp_path) == {"out.onnx", "source/m.onnx"}


def test_targets_that_cannot_be(source: Path, tmp_path: Path) -> None:
    """A folder, a missing folder, a device."""
    with Model.open(source) as model:
        missing = tmp_path / "no" / "m.onnx"
        for out, why in [(tmp_path, "is a folder"), (missing, "does not exist"), (Path(os.devnull), "regular")]:
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
        "import sys, time; from surgeon.file.model import Model; from surgeon.file.save import save\n"
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


def test_a_killed_run_into_another_folder_leaves_one_thing(tmp_path: Path) -> None:
    """Model and data files lie in one temporary folder until both are whole; the next save sweeps it."""
    source = external(tmp_path / "source" / "m.onnx", "sub/deep/w.data")
    out = tmp_path / "out" / "m.onnx"
    out.parent.mkdir()
    code = (
        "import os, sys; from surgeon.file.model import Model; from surgeon.file.save import save\n"
        "def die(path): assert (path.parent / 'sub/deep/w.data').exists(); os.kill(os.getpid(), 9)\n"
        "save(Model.open(sys.argv[1]), None, sys.argv[2], check=die)"
    )
    run = subprocess.run([sys.executable, "-c", code, source, out], check=False)
    assert run.returncode == -signal.SIGKILL
    (litter,) = os.listdir(out.parent)
    assert litter.startswith(".m.onnx.surgeon-")
    assert litter.endswith(".tmp")
    with Model.open(source) as model:
        save(model, renamed(model), out)
    assert files_in(out.parent) == {"m.onnx", "sub/deep/w.data"}
    assert sorted(os.listdir(out.parent)) == ["m.onnx", "sub"]
    assert (out.parent / "sub/deep/w.data").read_bytes() == (source.parent / "sub/deep/w.data").read_bytes()


def test_a_living_run_keeps_its_folder(tmp_path: Path) -> None:
    """A second save to the target is told to wait, also where both are of one process."""
    source = external(tmp_path / "source" / "m.onnx")
    out = tmp_path / "out.onnx"
    with Model.open(source) as model:

        def check(path: Path) -> None:
            with pytest.raises(ModelFileError, match="another process is writing it"):
                save(model, None, out)
            assert path.exists()

        save(model, renamed(model), out, check=check)
    assert files_in(tmp_path) == {"out.onnx", "w.data", "source/m.onnx", "source/w.data"}


@pytest.mark.parametrize("force", [False, True])
def test_data_that_come_there_during_the_check(force: bool, tmp_path: Path) -> None:
    """The same content is left as it is; other content is not overwritten without force."""
    source = external(tmp_path / "source" / "m.onnx")
    out, data = tmp_path / "out.onnx", tmp_path / "w.data"
    with Model.open(source) as model:
        save(model, None, out, check=lambda _: data.write_bytes((source.parent / "w.data").read_bytes()) and None)
        assert out.exists()
        out.unlink()
        data.unlink()

        def spoil(_: Path) -> None:
            data.write_bytes(b"other")

        if force:
            save(model, None, out, check=spoil, force=True)
            assert data.stat().st_size == 20004
        else:
            with pytest.raises(ModelFileError, match="other content"):
                save(model, None, out, check=spoil)
            assert data.read_bytes() == b"other"
            assert files_in(tmp_path) == {"w.data", "source/m.onnx", "source/w.data"}


def test_a_rename_that_fails_puts_the_old_data_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data files are in place, the model cannot be: as if nothing had been."""
    source = external(tmp_path / "source" / "m.onnx", "sub/w.data")
    out = tmp_path / "out.onnx"
    replace = os.replace

    def fail(one: Path, other: Path) -> None:
        if Path(other) == out:
            raise OSError(errno.EIO, "broken")
        replace(one, other)

    for old in (None, b"old data"):
        if old:
            (tmp_path / "sub").mkdir()
            (tmp_path / "sub" / "w.data").write_bytes(old)
        with monkeypatch.context() as patched, Model.open(source) as model:
            patched.setattr(os, "replace", fail)
            with pytest.raises(ModelFileError, match="broken"):
                save(model, None, out, force=True)
        assert (tmp_path / "sub").exists() == bool(old)
        assert files_in(tmp_path) == {"source/m.onnx", "source/sub/w.data", *(["sub/w.data"] if old else [])}
    assert (tmp_path / "sub" / "w.data").read_bytes() == b"old data"


def test_memory_does_not_grow_with_the_weights(tmp_path: Path) -> None:
    """A model of 200 MB is opened, edited and saved in 60 MB beyond what the imports take."""
    big = TensorProto(name="w", data_type=1, dims=[50_000_000])
    head = b"\x4a" + varint(200_000_000)
    body = big.SerializeToString() + head
    graph = b"\x12\x01g\x2a" + varint(len(body) + 200_000_000) + body
    with open(tmp_path / "m.onnx", "wb") as file:
        file.write(b"\x08\x08\x3a" + varint(len(graph) + 200_000_000) + graph)
        file.truncate(file.tell() + 200_000_000)
    code = (
        "import resource, sys; from surgeon.file.model import Model; from surgeon.file.patch import Patch\n"
        "from surgeon.file.save import save\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; before = peak()\n"
        "model = Model.open(sys.argv[1]); patch = Patch(model); patch.replace(((7, 0),), 2, 0, [b'renamed'])\n"
        "save(model, patch, sys.argv[2]); print(peak() - before)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "m.onnx", tmp_path / "out.onnx"], capture_output=True, check=True
    )
    assert int(run.stdout) < 60_000
    assert os.stat(tmp_path / "out.onnx").st_size > 200_000_000
