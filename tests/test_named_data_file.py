"""Weights in a data file that the user names: all large ones, whole or not at all, and never outside of the folder."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import surgeon
from surgeon.errors import ModelFileError, UsageError
from surgeon.file.model import Model
from surgeon.file.save import save
from tests.command_line import ROOT, one_sentence, run
from tests.model_samples import WEIGHTS, external, files_in, renamed
from tests.test_new_data import NEW, check_values, failing_check, places, with_new

DISTILBERT = ROOT / "notebooks" / "models" / "tiny_distilbert.onnx"


def sums(path: Path) -> Path:
    """A model that adds a large and a small weight, both inline."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["a"]), helper.make_node("Add", ["a", "s"], ["y"])], "g",
        [helper.make_tensor_value_info("x", 1, [5000])], [helper.make_tensor_value_info("y", 1, [5000])],
        [numpy_helper.from_array(WEIGHTS, "w"), numpy_helper.from_array(np.float32([2.5]), "s")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def check_sum(path: Path) -> None:
    """ONNX Runtime finds the weights."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": np.zeros(5000, np.float32)})
    np.testing.assert_array_equal(found, WEIGHTS + np.float32(2.5))


@pytest.mark.parametrize("name", ["m.data", "weights/deep/m.data", "./weights//m.bin"])
def test_inline_weights_go_to_the_file(name: str, tmp_path: Path) -> None:
    """Small ones stay, as onnx leaves them; without a patch and with one, from a file and from memory."""
    source = sums(tmp_path / "m.onnx")
    location = os.path.normpath(name)
    for number, patched in enumerate((False, True)):
        out = tmp_path / f"{number}" / "out.onnx"
        out.parent.mkdir()
        with Model.open(source) as model:
            save(model, renamed(model) if patched else None, out, external_data=name, check=check_sum)
        assert places(out) == {"w": location, "s": ""}
        assert files_in(out.parent) == {"out.onnx", location}
        check_sum(out)
    with Model.open(onnx.load(source)) as model:
        save(model, renamed(model), tmp_path / "c.onnx", external_data=name, check=check_sum)
    assert places(tmp_path / "c.onnx") == {"w": location, "s": ""}
    check_sum(tmp_path / "c.onnx")


@pytest.mark.parametrize(("least", "outside"), [("0", "ws"), ("4", "ws"), ("20kB", "w"), ("20001", ""), ("1GiB", "")])
def test_a_minimum_size(least: str, outside: str, tmp_path: Path) -> None:
    """Data of fewer bytes are in the model, also those that were outside; without large ones there is no file."""
    for source in (sums(tmp_path / "inline.onnx"), external(tmp_path / "source" / "m.onnx")):
        with Model.open(source) as model:
            save(model, None, tmp_path / "out.onnx", external_data=f"m.data,least={least}", force=True)
        assert places(tmp_path / "out.onnx") == {name: "m.data" * (name in outside) for name in "ws"}
        assert (tmp_path / "m.data").exists() == bool(outside)
        found = [numpy_helper.to_array(item) for item in onnx.load(tmp_path / "out.onnx").graph.initializer]
        np.testing.assert_array_equal(found[0], WEIGHTS)
        assert found[1].item() == 2.5


def test_several_data_files_become_one(tmp_path: Path) -> None:
    """Those of attributes and of bodies too; values of typed fields get a raw form, strings stay."""
    large = np.arange(600, dtype=np.float32)
    body = helper.make_graph(
        [helper.make_node("Constant", [], ["b"], value=numpy_helper.from_array(large, "deep"))], "b", [],
        [helper.make_tensor_value_info("b", 1, [600])],
    )  # fmt: skip
    choice = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    typed = [
        helper.make_tensor("floats", TensorProto.FLOAT, [600], large), helper.make_tensor("halves", 10, [600], large),
        helper.make_tensor("nibbles", TensorProto.INT4, [3000], [1, -2, 7] * 1000),
        helper.make_tensor("words", TensorProto.STRING, [2], ["a" * 2000, "b"]),
    ]  # fmt: skip
    graph = helper.make_graph(
        [choice], "g", [helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", 1, [600])], [numpy_helper.from_array(large, "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    source = tmp_path / "source" / "m.onnx"
    source.parent.mkdir()
    settings = {"all_tensors_to_one_file": False, "convert_attribute": True, "size_threshold": 0}
    onnx.save(model, source, save_as_external_data=True, **settings)
    whole = onnx.load(source)
    held = onnx.load(source, load_external_data=False)
    held.graph.initializer.extend(typed)
    whole.graph.initializer.extend(typed)
    onnx.save(held, source)
    with Model.open(source) as opened:
        save(opened, None, tmp_path / "out.onnx", external_data="one.data")
    assert places(tmp_path / "out.onnx") == dict.fromkeys(("w", "floats", "halves", "nibbles"), "one.data") | {
        "words": ""
    }
    assert {name for name in files_in(tmp_path) if "/" not in name} == {"out.onnx", "one.data"}
    found = onnx.load(tmp_path / "out.onnx")
    for one, other in zip(found.graph.initializer, whole.graph.initializer, strict=True):
        np.testing.assert_array_equal(numpy_helper.to_array(one), numpy_helper.to_array(other))
    branches = [item.g.node[0].attribute[0].t for item in found.graph.node[0].attribute]
    for branch in branches:
        np.testing.assert_array_equal(numpy_helper.to_array(branch), large)


def test_new_weights_go_there_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside those of the source, and where the model could not hold them; the limit is 2 GiB, here less."""
    for source in (external(tmp_path / "source" / "m.onnx"), sums(tmp_path / "m.onnx")):
        with Model.open(source) as model:
            save(model, with_new(model), tmp_path / "out.onnx", external_data="all.data", force=True)
        assert places(tmp_path / "out.onnx") == dict.fromkeys(("w", *NEW), "all.data") | {"s": ""}
        check_values(tmp_path / "out.onnx")
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [], [])), tmp_path / "empty.onnx")
    for name in ("surgeon.file.patch.MAX_SIZE", "surgeon.file.protobuf.byte_edits.MAX_SIZE"):
        monkeypatch.setattr(name, 10_000)
    with Model.open(tmp_path / "empty.onnx") as model:
        save(model, with_new(model), tmp_path / "new.onnx", external_data="new.data")
    assert places(tmp_path / "new.onnx") == dict.fromkeys(NEW, "new.data")


def test_in_place_of_the_source(tmp_path: Path) -> None:
    """Its own data file may be replaced, with force; that of another model may not, and nothing changes."""
    source = external(tmp_path / "m.onnx")
    with Model.open(source) as model:
        with pytest.raises(UsageError, match=r"w\.data has the data of .*m\.onnx\. Choose another name"):
            save(model, None, tmp_path / "out.onnx", external_data="w.data", force=True)
        with pytest.raises(ModelFileError, match="other content"):
            save(model, None, source, external_data="w.data")
        assert places(source) == {"w": "w.data", "s": "w.data"}
        save(model, None, source, external_data="w.data", force=True)
    assert places(source) == {"w": "w.data", "s": ""}
    assert files_in(tmp_path) == {"m.onnx", "w.data"}
    assert (tmp_path / "w.data").read_bytes() == WEIGHTS.tobytes()


@pytest.mark.parametrize("where", ["check", "rename"])
def test_a_save_that_fails_leaves_everything_as_it_was(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check says no, or the model cannot be moved; the folder of the data file goes too."""
    source, out = external(tmp_path / "source" / "m.onnx"), tmp_path / "out.onnx"
    check: Callable[[Path], None] | None = failing_check if where == "check" else None
    if where == "rename":
        replace = os.replace

        def fail(one: Path, other: Path) -> None:
            if Path(other) == out:
                raise OSError(5, "broken")
            replace(one, other)

        monkeypatch.setattr(os, "replace", fail)
    with Model.open(source) as model, pytest.raises((RuntimeError, ModelFileError), match="wrong|broken"):
        save(model, renamed(model), out, check=check, external_data="new/m.data")
    assert files_in(tmp_path) == {"source/m.onnx", "source/w.data"}
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("value", "why"),
    [("../m.data", "is not in the folder"), ("/tmp/m.data", "is not in the folder"),
     ("link/m.data", "is not in the folder"), ("out.onnx", "would overwrite the model"),
     ("inlin", "Choose auto, share, copy or inline, or name a file with a suffix"), ("", "Unknown external_data"),
     ("m.data,least=big", "invalid size 'big'"), ("m.data,most=3", "Unknown external_data")],
)  # fmt: skip
def test_files_that_are_refused(value: str, why: str, tmp_path: Path) -> None:
    """Before any work, in one sentence of the command and in Python; nothing is written."""
    (tmp_path / "elsewhere").mkdir()
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    out = folder / "out.onnx"
    with pytest.raises(UsageError, match=why):
        surgeon.rewrite(DISTILBERT, "gelu", output=out, external_data=value, dry_run=True)
    done = run("edit", DISTILBERT, out, "--metadata", "a=b", "--external-data", value)
    assert why in one_sentence(done, 2)
    assert files_in(tmp_path) == set()


def test_the_commands(tmp_path: Path) -> None:
    """A result that only differs by its data file is not called identical; several models cannot share one file."""
    out = tmp_path / "out.onnx"
    done = run("rewrite", DISTILBERT, out, "--rules", "gelu", "--external-data", "weights/m.data", "--check", "both")
    assert done.exit_code == 0, done.output
    assert files_in(tmp_path) == {"out.onnx", "weights/m.data"}
    assert run("compare", DISTILBERT, out).exit_code == 0
    again = run("rewrite", out, tmp_path / "again.onnx", "--rules", "gelu", "--external-data", "again.data")
    assert "identical" not in again.output
    assert "identical" in run("rewrite", out, tmp_path / "same.onnx", "--rules", "gelu").output
    options = ("--external-data", "half.data,least=100", "--check", "none")
    half = run("convert", DISTILBERT, tmp_path / "half.onnx", *options)
    assert half.exit_code == 0, half.output
    assert set(places(tmp_path / "half.onnx").values()) == {"half.data", ""}
    parts = run("split", DISTILBERT, tmp_path / "parts", "--parts", "2", "--external-data", "m.data")
    assert "Several parts cannot have one data file" in one_sentence(parts, 2)
    surgeon.Recipe([surgeon.Rules("gelu")]).save(tmp_path / "r.toml")
    fleet = run("run", tmp_path / "r.toml", "--over", DISTILBERT, "--to", tmp_path / "to", "--external-data", "m.data")
    assert "cannot have one data file" in one_sentence(fleet, 2)
