"""New weights of a model that keeps its weights in data files: where they go, whole or not at all."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import surgeon
from surgeon.errors import ModelFileError
from surgeon.file.model import Model
from surgeon.file.patch import Patch
from surgeon.file.save import save
from tests.model_samples import GRAPH, WEIGHTS, external, files_in

BIG, SMALL, HALF = (np.arange(count, dtype=dtype) for count, dtype in ((300_000, "f4"), (300, "f4"), (600_000, "f2")))
NEW = {"big": BIG, "small": SMALL, "half": HALF}


def with_new(model: Model, arrays: dict[str, Any] = NEW) -> Patch:
    """A patch that adds initializers."""
    patch = Patch(model)
    tensors = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    patch.insert_tensors(GRAPH, 5, model.count(GRAPH, 5), tensors)
    return patch


def places(path: Path) -> dict[str, str]:
    """The file that each initializer lies in, "" for the model's own."""
    found = onnx.load(path, load_external_data=False).graph.initializer
    return {item.name: {entry.key: entry.value for entry in item.external_data}.get("location", "") for item in found}


def check_values(path: Path) -> None:
    """What onnx itself reads is what was written."""
    found = {item.name: numpy_helper.to_array(item) for item in onnx.load(path).graph.initializer}
    for name, array in {"w": WEIGHTS, **NEW}.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("mode", ["auto", "share", "copy"])
def test_large_ones_go_to_a_file_beside_the_model(mode: Any, tmp_path: Path) -> None:
    """In the folder of the source, whose data file is shared."""
    with Model.open(external(tmp_path / "m.onnx")) as model:
        seen: list[dict[str, str]] = []

        def check(path: Path) -> None:
            check_values(path)
            seen.append(places(path))

        save(model, with_new(model), tmp_path / "out.onnx", external_data=mode, check=check)
    check_values(tmp_path / "out.onnx")
    wanted = {"w": "w.data", "s": "w.data", "big": "out.onnx.data", "small": "", "half": "out.onnx.data"}
    assert places(tmp_path / "out.onnx") == wanted == seen[0]
    assert files_in(tmp_path) == {"m.onnx", "w.data", "out.onnx", "out.onnx.data"}


@pytest.mark.parametrize("mode", ["auto", "copy"])
def test_in_another_folder_they_lie_beside_what_was_copied(mode: Any, tmp_path: Path) -> None:
    """Once with the data still to be copied, once with them there."""
    source = external(tmp_path / "source" / "m.onnx")
    with Model.open(source) as model:
        for _ in range(2):
            save(model, with_new(model), tmp_path / "out.onnx", external_data=mode, check=check_values)
            check_values(tmp_path / "out.onnx")
            assert files_in(tmp_path) == {"source/m.onnx", "source/w.data", "w.data", "out.onnx", "out.onnx.data"}


def test_each_tensor_begins_where_it_can_be_mapped(tmp_path: Path) -> None:
    with Model.open(external(tmp_path / "m.onnx")) as model:
        save(model, with_new(model), tmp_path / "out.onnx")
    with Model.open(tmp_path / "out.onnx") as model:
        extents = {item.name: model.extent(item) for item in model.external_tensors}
    assert [extents[name].offset for name in ("big", "half")] == [0, 293 * 4096]


def test_a_model_without_data_files_holds_them_itself(tmp_path: Path) -> None:
    """So does one whose data are put into it, and one in memory."""
    graph = helper.make_graph([], "g", [], [], [numpy_helper.from_array(WEIGHTS, "w")])
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    with Model.open(tmp_path / "m.onnx") as model:
        save(model, with_new(model), tmp_path / "out.onnx")
        assert [item.name for item in with_new(model).to_proto().graph.initializer] == ["w", *NEW]
    with Model.open(external(tmp_path / "e.onnx")) as model:
        save(model, with_new(model), tmp_path / "inline.onnx", external_data="inline")
    for name in ("out.onnx", "inline.onnx"):
        check_values(tmp_path / name)
        assert set(places(tmp_path / name).values()) == {""}
    assert not [name for name in files_in(tmp_path) if name.endswith(".onnx.data")]


def test_what_no_model_can_hold_goes_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Smaller ones too then.  The limit is protobuf's 2 GiB, here less."""
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [], [])), tmp_path / "m.onnx")
    with Model.open(tmp_path / "m.onnx") as model:
        for name in ("surgeon.file.patch.MAX_SIZE", "surgeon.file.protobuf.byte_edits.MAX_SIZE"):
            monkeypatch.setattr(name, 10_000)
        save(model, with_new(model), tmp_path / "out.onnx")
        with pytest.raises(ModelFileError, match="2 GiB"):
            save(model, with_new(model), tmp_path / "inline.onnx", external_data="inline")
    assert places(tmp_path / "out.onnx") == dict.fromkeys(NEW, "out.onnx.data")


def test_a_name_that_the_model_uses_is_passed_by(tmp_path: Path) -> None:
    """As when a model is rewritten in its place, twice."""
    path = external(tmp_path / "m.onnx", "m.onnx.data")
    for number, name in enumerate(("m.onnx.2.data", "m.onnx.3.data")):
        with Model.open(path) as model:
            save(model, with_new(model, {f"big{number}": BIG}), path)
        assert places(path)[f"big{number}"] == name
    found = {item.name: numpy_helper.to_array(item) for item in onnx.load(path).graph.initializer}
    np.testing.assert_array_equal(found["w"], WEIGHTS)
    np.testing.assert_array_equal(found["big0"], BIG)
    np.testing.assert_array_equal(found["big1"], BIG)


def test_a_file_of_other_content_is_overwritten_by_force_alone(tmp_path: Path) -> None:
    with Model.open(external(tmp_path / "m.onnx")) as model:
        (tmp_path / "out.onnx.data").write_bytes(b"other")
        with pytest.raises(ModelFileError, match="other content"):
            save(model, with_new(model), tmp_path / "out.onnx")
        assert files_in(tmp_path) == {"m.onnx", "w.data", "out.onnx.data"}
        save(model, with_new(model), tmp_path / "out.onnx", force=True)
        check_values(tmp_path / "out.onnx")
        save(model, with_new(model), tmp_path / "out.onnx")  # the same content
    assert files_in(tmp_path) == {"m.onnx", "w.data", "out.onnx", "out.onnx.data"}


def failing_check(_: Path) -> None:
    raise RuntimeError("wrong")


@pytest.mark.parametrize("folder", ["", "source"])
@pytest.mark.parametrize("old", [None, b"old"])
@pytest.mark.parametrize("where", ["check", "rename"])
def test_a_save_that_fails_leaves_everything_as_it_was(
    where: str, old: bytes | None, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check says no, or the model cannot be moved to its place; in the source's folder and elsewhere."""
    source = external(tmp_path / folder / "m.onnx")
    out, data = tmp_path / "out.onnx", tmp_path / "out.onnx.data"
    if old:
        data.write_bytes(old)
    before = files_in(tmp_path)
    check: Callable[[Path], None] | None = failing_check if where == "check" else None
    if where == "rename":
        replace = os.replace

        def fail(one: Path, other: Path) -> None:
            if Path(other) == out:
                raise OSError(5, "broken")
            replace(one, other)

        monkeypatch.setattr(os, "replace", fail)
    with Model.open(source) as model, pytest.raises((RuntimeError, ModelFileError), match="wrong|broken"):
        save(model, with_new(model), out, check=check, force=True)
    assert files_in(tmp_path) == before
    assert not old or data.read_bytes() == old


def test_a_killed_run_leaves_what_the_next_one_removes(tmp_path: Path) -> None:
    """New data may stay, whole, under their name; nothing else."""
    path = external(tmp_path / "m.onnx")
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[3])\n"
        "from pathlib import Path; from surgeon.file.model import Model; from surgeon.file.save import save\n"
        "from tests.test_new_data import with_new\n"
        "model = Model.open(sys.argv[1])\n"
        "save(model, with_new(model), sys.argv[2], check=lambda _: os._exit(3))"
    )
    root = Path(__file__).resolve().parent.parent
    run = subprocess.run([sys.executable, "-c", code, path, tmp_path / "out.onnx", root], check=False)
    assert run.returncode == 3
    assert not (tmp_path / "out.onnx").exists()
    with Model.open(path) as model:
        save(model, with_new(model), tmp_path / "out.onnx")
    check_values(tmp_path / "out.onnx")
    assert files_in(tmp_path) == {"m.onnx", "w.data", "out.onnx", "out.onnx.data"}


def test_a_link_away_from_its_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    out = tmp_path / "out.onnx"
    out.symlink_to(tmp_path / "elsewhere" / "real.onnx")
    with Model.open(external(tmp_path / "m.onnx")) as model, pytest.raises(ModelFileError, match="link into another"):
        save(model, with_new(model), out)
    assert files_in(tmp_path) - {"out.onnx"} == {"m.onnx", "w.data"}


def test_new_weights_are_written_piece_by_piece(tmp_path: Path) -> None:
    """200 MB of new weights are saved in 60 MB beyond what they take themselves."""
    code = (
        "import resource, sys; sys.path.insert(0, sys.argv[3]); import numpy as np; from onnx import TensorProto\n"
        "from surgeon.file.model import Model; from surgeon.file.patch import Patch\n"
        "from surgeon.file.save import save\n"
        "model = Model.open(sys.argv[1]); patch = Patch(model)\n"
        "data = [bytes(20_000_000) for _ in range(10)]\n"
        "new = [TensorProto(name=f'n{i}', data_type=1, dims=[5_000_000], raw_data=raw) for i, raw in enumerate(data)]\n"
        "patch.insert_tensors(((7, 0),), 5, 2, new)\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; before = peak()\n"
        "save(model, patch, sys.argv[2]); print(peak() - before)"
    )
    root = Path(__file__).resolve().parent.parent
    command = [sys.executable, "-c", code, external(tmp_path / "m.onnx"), tmp_path / "out.onnx", root]
    run = subprocess.run(command, capture_output=True, check=True)
    assert int(run.stdout) < 60_000
    assert os.stat(tmp_path / "out.onnx.data").st_size > 200_000_000


def test_a_rule_that_computes_weights_writes_them_beside_those_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rewritten model runs, and the weights that are still read stay where they were."""
    monkeypatch.setattr("surgeon.file.save.LARGE", 1024)
    random = np.random.default_rng(0)
    arrays = {"w": random.standard_normal((16, 8, 3, 3)), "k": random.standard_normal((4, 16, 3, 3))}
    arrays |= {name: random.random(16) + 0.5 for name in ("scale", "shift", "mean", "variance")}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"]),
        helper.make_node("Conv", ["n", "k"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in
            (("x", ["b", 8, 9, 9]), ("y", ["b", 4, 5, 5]))]  # fmt: skip
    tensors = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    proto = helper.make_model(
        helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.data", size_threshold=512)
    _, report = surgeon.rewrite(tmp_path / "m.onnx", "conv_batch_norm", output=tmp_path / "out.onnx", check="both")
    assert len(report.sites) == 1
    found = places(tmp_path / "out.onnx")
    assert found.pop("k") == "w.data"
    assert sorted(found.values()) == ["", "out.onnx.data"]
