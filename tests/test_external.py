"""External data files: read when asked for, shared, copied, linked or put inside; never trusted, never overwritten."""

import hashlib
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from surgeon.errors import ModelFileError, UsageError
from surgeon.file.io import file_copy
from surgeon.file.model import Model
from surgeon.file.save import save
from surgeon.file.tensors.content_equality import TensorContents
from tests.command_line import one_sentence, run, with_data_file
from tests.model_samples import GRAPH, WEIGHTS, everywhere, external, files_in, open_files, renamed
from tests.versions import ONNX_LOADS_WITH_CARE


def values(path: Path) -> list[Any]:
    """What onnx itself reads."""
    return [numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer]


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
     ("link", "link out of"), ("linked/w.data", "link out of"), ("none.data", "cannot be opened"),
     ("", "has no file"), ("folder", "regular file"), ("short.data", "truncated")],
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


@pytest.mark.parametrize(
    "entries",
    [{key: value} for key in ("offset", "length") for value in
     (-4, "x", "", "१२", "1_000", " 12 ", "+3", "0x10", "3.0", "9" * 5000)] + [{"length": 3}],
)  # fmt: skip
def test_extents_that_make_no_sense(entries: dict[str, Any], tmp_path: Path) -> None:
    """Offsets and lengths are numbers, and as large as the tensor."""
    model = Model.open(external(tmp_path / "m.onnx", **entries))
    with pytest.raises(ModelFileError, match=r"Expected a number of bytes|needs 20000 bytes"):
        model.value(model.skeleton.graph.initializer[0])


def test_the_same_folder_shares(tmp_path: Path) -> None:
    """Nothing happens to the data file."""
    path = external(tmp_path / "m.onnx")
    before = (tmp_path / "w.data").stat()
    for mode in ("auto", "share", "copy"):
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
        with pytest.raises(ModelFileError, match=r"other content.*force"):
            save(model, None, out / "again.onnx")
        assert (out / "sub/w.data").read_bytes() == bytes(20004)
        save(model, None, out / "again.onnx", force=True)
    np.testing.assert_array_equal(values(out / "again.onnx")[0], WEIGHTS)
    assert files_in(out) == {"m.onnx", "again.onnx", "sub/w.data"}


def test_only_data_files_that_the_written_model_uses_come_along(tmp_path: Path) -> None:
    """Those of a tensor that the patch took out stay behind."""
    path = external(tmp_path / "source" / "m.onnx")
    proto = onnx.load(path, load_external_data=False)
    proto.graph.initializer[0].external_data[0].value = "gone.data"
    onnx.save(proto, path)
    (path.parent / "gone.data").write_bytes(WEIGHTS.tobytes())
    out = tmp_path / "out"
    out.mkdir()
    with Model.open(path) as model:
        patch = renamed(model)
        patch.delete(GRAPH, 5, 0)
        save(model, patch, out / "m.onnx")
    assert files_in(out) == {"m.onnx", "w.data"}


def test_one_data_file_there_and_one_missing(tmp_path: Path) -> None:
    """The check sees both beside the model; the one that is there stays as it is."""
    path = external(tmp_path / "source" / "m.onnx")
    proto = onnx.load(path, load_external_data=False)
    proto.graph.initializer[0].external_data[0].value = "./sub/other.data"
    onnx.save(proto, path)
    (path.parent / "sub").mkdir()
    (path.parent / "sub" / "other.data").write_bytes(WEIGHTS.tobytes())
    out = tmp_path / "out"
    out.mkdir()
    (out / "w.data").write_bytes((path.parent / "w.data").read_bytes())
    inode = (out / "w.data").stat().st_ino
    with Model.open(path) as model:
        save(model, None, out / "m.onnx", check=lambda path: np.testing.assert_array_equal(values(path)[0], WEIGHTS))
    assert (out / "w.data").stat().st_ino == inode
    assert files_in(out) == {"m.onnx", "w.data", "sub/other.data"}


def test_a_link_away_from_its_data_is_refused(tmp_path: Path) -> None:
    """Data files would come beside the link, the model beside what the link means."""
    path = external(tmp_path / "source" / "m.onnx")
    for name in ("real", "links"):
        (tmp_path / name).mkdir()
    (tmp_path / "links" / "m.onnx").symlink_to(tmp_path / "real" / "m.onnx")
    with Model.open(path) as model, pytest.raises(ModelFileError, match="link into another folder"):
        save(model, None, tmp_path / "links" / "m.onnx")
    assert files_in(tmp_path) == {"source/m.onnx", "source/w.data"}


def test_a_file_with_two_names_is_refused_as_onnx_refuses_it(tmp_path: Path) -> None:
    """A hard link may lead to any file of the user's; a copy in its place is taken, and none of ours is a link."""
    path = external(tmp_path / "source" / "m.onnx")
    data, other, out = path.with_name("w.data"), tmp_path / "elsewhere", tmp_path / "out.onnx"
    os.link(data, other)
    if ONNX_LOADS_WITH_CARE:
        with pytest.raises(onnx.checker.ValidationError):
            onnx.load(path)
    with Model.open(path) as model:
        with pytest.raises(ModelFileError, match=r"has 2 hard links.*Replace it with a copy"):
            model.value(model.skeleton.graph.initializer[0])
        for target in (out, path.with_name("out.onnx")):
            with pytest.raises(ModelFileError, match="has 2 hard links"):
                save(model, renamed(model), target)
        assert not out.exists()
        data.unlink()
        data.write_bytes(other.read_bytes())
        for mode in ("auto", "copy"):
            save(model, None, out, external_data=mode)
            assert (tmp_path / "w.data").stat().st_nlink == data.stat().st_nlink == 1


def sums(*numbers: int) -> tuple[str, ...]:
    """The SHA-1 of spans of the data file that `external` writes: (start, end) one after the other."""
    content = WEIGHTS.tobytes() + np.float32(2.5).tobytes()
    ends = zip(numbers[::2], numbers[1::2], strict=True)
    return tuple(hashlib.sha1(content[start:end]).hexdigest() for start, end in ends)


@pytest.mark.parametrize("checksum", [*sums(0, 20004, 0, 20000), sums(0, 20004)[0].upper()])
def test_a_checksum_that_fits_is_checked_once(checksum: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the file, as ONNX means it, or that of the tensor; what gives none is not read for one."""
    read: list[int] = []
    sha1 = hashlib.sha1
    monkeypatch.setattr(hashlib, "sha1", lambda **settings: (read.append(1), sha1(**settings))[1])
    source = external(tmp_path / "source" / "m.onnx")
    with Model.open(source) as model:
        np.testing.assert_array_equal(model.value(model.skeleton.graph.initializer[0]), WEIGHTS)
        save(model, None, tmp_path / "out.onnx")
    assert not read
    proto = onnx.load(source, load_external_data=False)
    proto.graph.initializer[0].external_data.add(key="checksum", value=checksum)
    onnx.save(proto, source)
    with Model.open(source) as model:
        for _ in range(3):
            np.testing.assert_array_equal(model.value(model.skeleton.graph.initializer[0]), WEIGHTS)
        save(model, renamed(model), tmp_path / "other.onnx")
        save(model, None, tmp_path / "inlined.onnx", external_data="inline")
        model.check_data(sums=True)
    assert len(read) <= 2  # the tensor, and the file


@pytest.mark.parametrize("checksum", ["0" * 40, "nonsense", *sums(0, 19999)])
def test_a_checksum_that_does_not_fit(checksum: str, tmp_path: Path) -> None:
    """One sentence with the tensor and the file, where data are read or copied; sharing the file does neither."""
    path = external(tmp_path / "source" / "m.onnx", checksum=checksum)
    with Model.open(path) as model:
        first, again = model.skeleton.graph.initializer[0], TensorProto()
        again.CopyFrom(first)
        again.external_data[1].value = "4"
        again.external_data[2].value = "20000"
        actions: list[Any] = [
            lambda: model.value(first), lambda: model.check_data(sums=True),
            lambda: TensorContents(model).same(first, again),
            lambda: save(model, renamed(model), tmp_path / "out.onnx"),
            lambda: save(model, None, path.with_name("out.onnx"), external_data="inline"),
        ]  # fmt: skip
        for action in actions:
            with pytest.raises(ModelFileError, match=r"'w' has the checksum .* SHA-1 of its data in .*w\.data"):
                action()
        assert files_in(tmp_path) == {"source/m.onnx", "source/w.data"}
        save(model, renamed(model), path.with_name("out.onnx"))


def test_a_checksum_is_that_of_the_file_as_it_is_now(tmp_path: Path) -> None:
    """What was found of a file is forgotten when it changes."""
    path = external(tmp_path / "m.onnx", checksum=sums(0, 20004)[0])
    data = path.with_name("w.data")
    with Model.open(path) as model:
        assert model.value(model.skeleton.graph.initializer[1]).item() == 2.5
        content = bytearray(data.read_bytes())
        content[0] ^= 1
        data.write_bytes(content)
        with pytest.raises(ModelFileError, match="'s' has the checksum"):
            model.value(model.skeleton.graph.initializer[1])


def test_whole_models_are_not_run_on_other_data(tmp_path: Path) -> None:
    """ONNX Runtime asks for no checksum, so whoever has it read the data does."""
    path = with_data_file(tmp_path / "source")
    proto = onnx.load(path, load_external_data=False)
    proto.graph.initializer[-1].external_data.add(key="checksum", value="0" * 40)
    path.write_bytes(proto.SerializeToString())
    out = path.with_name("out.onnx")
    for arguments in (
        ("compare", path, path), ("bench", path, path), ("check", path), ("upgrade", path, out, "--opset", 18),
        ("rewrite", path, out, "--rules", "gelu", "--check", "model"),
    ):  # fmt: skip
        assert "'weight' has the checksum" in one_sentence(run(*arguments), 2)
    assert not out.exists()
    assert run("rewrite", path, out, "--rules", "gelu").exit_code == 0


def test_a_model_that_was_closed_opens_its_files_again(tmp_path: Path) -> None:
    """Inline, typed and external data, records and edits; not where the file is another by then."""
    typed = helper.make_tensor("typed", TensorProto.FLOAT, [1000], np.arange(1000))
    external(tmp_path / "e.onnx")
    proto = onnx.load(tmp_path / "e.onnx", load_external_data=False)
    proto.graph.initializer.extend([typed, numpy_helper.from_array(WEIGHTS, "inline")])
    onnx.save(proto, tmp_path / "e.onnx")
    model = Model.open(tmp_path / "e.onnx")
    before = [np.array(model.value(tensor)) for tensor in model.skeleton.graph.initializer]
    edited = renamed(model).apply()
    for _ in range(2):
        model.close()
        model.close()
        assert open_files(tmp_path) == []
        for tensor, value in zip(model.skeleton.graph.initializer, before, strict=True):
            np.testing.assert_array_equal(model.value(tensor), value)
        assert renamed(model).apply() == edited
    model.close()
    with open(tmp_path / "e.onnx", "ab") as file:
        file.write(b"\x0a\x00")
    with pytest.raises(ModelFileError, match="changed on disk"):
        model.value(model.skeleton.graph.initializer[-1])


@pytest.mark.skipif(not ONNX_LOADS_WITH_CARE, reason="this onnx.load leaves data out")
def test_a_whole_model_is_what_onnx_loads(scattered: Path) -> None:
    """Data of every kind of tensor, with what stands beside them in the files; nothing stays open."""
    with Model.open(scattered) as model:
        whole = model.whole()
    assert whole == onnx.load(scattered)
    assert open_files(scattered.parent) == []


@pytest.fixture
def scattered(tmp_path: Path) -> Path:
    """Tensors in data files: an initializer, one without elements, those of a node, of a body and of a function."""
    model = everywhere()
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((0, 3), np.float32), "empty"))
    del model.graph.sparse_initializer[:], model.training_info[:]
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0, convert_attribute=True)
    return tmp_path / "m.onnx"


def test_inline_puts_the_data_into_the_model(tmp_path: Path) -> None:
    """With and without a patch, in place too; what else the tensor says stays."""
    path = external(tmp_path / "source" / "m.onnx", checksum=sums(0, 20004)[0])
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
            (memory, path, "copy"), (memory, path, "inline"), (model, path, "link"),
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


def test_holes_stay_holes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file of 8 GB takes no room when it is copied, and only what is no hole is copied and compared."""
    copied, read = [], []
    copy_span, read_at = file_copy.copy_span, file_copy.read_at
    monkeypatch.setattr(file_copy, "copy_span", lambda *args: (copied.append(args[2]), copy_span(*args)))
    monkeypatch.setattr(file_copy, "read_at", lambda *args: (read.append(args[2]), read_at(*args))[1])
    with open(tmp_path / "a", "wb") as file:
        file.truncate(8 << 30)
        file.seek(4 << 30)
        file.write(b"data")
    source, target = file_copy.open_read(tmp_path / "a"), os.open(tmp_path / "b", os.O_RDWR | os.O_CREAT)
    file_copy.copy_file(source, target)
    os.close(source)
    assert file_copy.same_content(tmp_path / "a", tmp_path / "b")
    if os.stat(tmp_path / "a").st_blocks < 1000:  # a file system that has holes
        assert os.stat(tmp_path / "b").st_blocks < 1000
        assert max(sum(copied), sum(read)) < 100 << 20
    os.pwrite(target, b"x", 7 << 30)
    os.close(target)
    assert not file_copy.same_content(tmp_path / "a", tmp_path / "b")


def test_reflinks_are_tried_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file system shares extents, nothing is copied."""
    asked: list[int] = []
    shares = SimpleNamespace(ioctl=lambda target, request, source: asked.append(request))
    monkeypatch.setitem(sys.modules, "fcntl", shares)
    monkeypatch.setattr(sys, "platform", "linux")
    (tmp_path / "a").write_bytes(b"data")
    source, target = file_copy.open_read(tmp_path / "a"), os.open(tmp_path / "b", os.O_RDWR | os.O_CREAT)
    file_copy.copy_file(source, target)
    assert (asked, os.fstat(target).st_size) == ([0x40049409], 0)
    os.close(source)
    os.close(target)
