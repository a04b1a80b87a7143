"""Files that are not models: one sentence for each."""

import os
from pathlib import Path

import onnx
import pytest

from surgeon.errors import ModelFileError
from surgeon.file.model import Model
from tests.model_samples import everywhere
from tests.wire_strategies import record, varint


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty"),
        (b"\x89PNG\r\n\x1a\n" + bytes(60), "PNG"),
        (b"PK\x03\x04" + bytes(60), "PyTorch"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"),
        (b'{"irVersion": "8", "graph": {}}', "JSON"),
        (b'ir_version: 8\ngraph {\n  name: "g"\n}\n', "text format"),
        (b'<ir_version: 8, opset_import: ["" : 17]>\ng (float[2] x) => (float[2] y) { y = Relu(x) }', "ONNX text"),
        (b"agraph (float[2] x) => (float[2] y) { y = Relu(x) }", "ONNX text"),
        (b"hello, this is a note", "text file"),
        (b"\x18\x00\x00\x00ORTM" + bytes(40), "ORT format"),
        (b"\x08\x08\x12\x03abc", "no graph"),
        (b"\x0a\x03abc", "no graph|text"),
        (b"\x12\x34\x56\x78\x9a", "damaged"),
        (bytes(100), "is not an ONNX model \\("),
        (b"\x7fELF" + bytes(100), "is not an ONNX model \\("),
    ],
)  # fmt: skip
def test_what_is_no_model_is_refused_in_one_sentence(data: bytes, why: str, tmp_path: Path) -> None:
    """From a file and from memory."""
    path = tmp_path / "x.onnx"
    path.write_bytes(data)
    for source in (path, str(path), data):
        with pytest.raises(ModelFileError, match=why) as caught:
            Model.open(source)
        assert str(caught.value).count(". ") <= 1, "the fault and the remedy"
        assert str(caught.value).endswith(".")


def test_a_cut_off_model_is_refused_at_every_length(tmp_path: Path) -> None:
    """A download that stopped: wherever it did, the error says so."""
    data = everywhere().SerializeToString()
    for size in range(1, len(data) - 1, 997):
        with pytest.raises(ModelFileError, match=r"truncated|no graph"):
            Model.open(data[:size])


def test_paths_that_cannot_be_opened(tmp_path: Path) -> None:
    """A folder, nothing at all, no permission."""
    with pytest.raises(ModelFileError, match="folder"):
        Model.open(tmp_path)
    with pytest.raises(ModelFileError, match="File not found"):
        Model.open(tmp_path / "none.onnx")
    locked = tmp_path / "locked.onnx"
    locked.write_bytes(b"\x08\x08")
    locked.chmod(0)
    if not os.access(locked, os.R_OK):  # root may read everything
        with pytest.raises(ModelFileError, match="permissions"):
            Model.open(locked)


def test_a_model_proto_without_a_graph() -> None:
    """Empty, or with a version alone: it is a ModelProto all the same."""
    for proto in (onnx.ModelProto(), onnx.ModelProto(ir_version=8)):
        with pytest.raises(ModelFileError, match=r"^The ModelProto has no graph"):
            Model.open(proto)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in the file system")
def test_pipes_and_devices_are_not_opened(tmp_path: Path) -> None:
    """Opening a pipe would wait for a writer for ever."""
    os.mkfifo(tmp_path / "pipe.onnx")
    for path in (tmp_path / "pipe.onnx", Path(os.devnull)):
        with pytest.raises(ModelFileError, match="a pipe or a device"):
            Model.open(path)


def test_names_that_are_not_utf8_are_found() -> None:
    """Wherever they are; bytes that are no names may be anything."""
    data = everywhere().SerializeToString()
    Model.open(data).check_names()
    for name in (b"body", b"Odd", b"deep", b"sts0"):
        with pytest.raises(ModelFileError, match="not UTF-8"):
            Model.open(data.replace(name, b"\xff" + name[1:])).check_names()


def test_broken_payload_is_refused_when_asked_for() -> None:
    """A packed chunk that holds a part of an element: the model opens, the value does not."""
    broken = record(2, 0, b"\x01") + record(1, 0, varint(300)) + record(4, 2, bytes(1199))
    model = Model.open(record(7, 2, record(5, 2, broken)))
    with pytest.raises(ModelFileError, match="damaged"):
        model.value(model.skeleton.graph.initializer[0])
