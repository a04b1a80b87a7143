"""The weights of a part: those that it uses come along, from wherever they lie, and nothing is loaded whole."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import surgeon
from surgeon.edits import Extract

LAYERS, WIDTH = 4, 64
ROOT = Path(__file__).resolve().parents[2]


def chain(layers=LAYERS, width=WIDTH, prefix="", seed=0):
    """MatMuls one behind the other, each with a weight of its own."""
    rng = np.random.default_rng(seed)
    weights = [
        numpy_helper.from_array(rng.normal(size=(width, width)).astype(np.float32) / width, f"{prefix}w{place}")
        for place in range(layers)
    ]
    names = [f"{prefix}t{place}" for place in range(layers + 1)]
    nodes = [
        helper.make_node("MatMul", [names[place], f"{prefix}w{place}"], [names[place + 1]], name=f"{prefix}n{place}")
        for place in range(layers)
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", width]) for name in (names[0], names[-1])]
    return helper.make_model(
        helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights),
        ir_version=9,
        opset_imports=[helper.make_opsetid("", 17)],
    )


def external(path, model, location="weights.data"):
    """Write a model whose weights lie in a data file."""
    onnx.save(model, path, save_as_external_data=True, location=location, size_threshold=0)
    return path


def weights(path):
    return {item.name: numpy_helper.to_array(item) for item in onnx.load(path).graph.initializer}


def same_weights(path, model):
    held = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    found = weights(path)
    assert found
    for name, array in found.items():
        np.testing.assert_array_equal(array, held[name])
    return set(found)


def test_in_its_folder_a_part_shares_the_data_file(tmp_path):
    model = chain()
    path = external(tmp_path / "m.onnx", chain())
    before = path.with_name("weights.data").read_bytes()
    _, report = surgeon.edit(path, Extract(("t1",), ("t2",)), output=tmp_path / "part.onnx", check="model")
    assert report.outcome == "proved"
    assert same_weights(tmp_path / "part.onnx", model) == {"w1"}
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "part.onnx", "weights.data"]
    assert path.with_name("weights.data").read_bytes() == before


@pytest.mark.parametrize("mode", ["auto", "copy"])
def test_elsewhere_only_the_bytes_of_the_part_come_along(tmp_path, mode):
    model, home = chain(), tmp_path / "home"
    for folder in (home, tmp_path / "out"):
        folder.mkdir()
    path, out = external(home / "m.onnx", chain()), tmp_path / "out" / "part.onnx"
    _, report = surgeon.edit(path, Extract(("t1",), ("t3",)), output=out, check="model", external_data=mode)
    assert report.outcome == "proved"
    assert same_weights(out, model) == {"w1", "w2"}
    assert sorted(os.listdir(out.parent)) == ["part.onnx", "part.onnx.data"]
    assert os.path.getsize(out.parent / "part.onnx.data") == 2 * WIDTH * WIDTH * 4


def test_elsewhere_all_of_a_data_file_comes_as_it_is(tmp_path):
    (tmp_path / "out").mkdir()
    path, out = external(tmp_path / "m.onnx", chain()), tmp_path / "out" / "m.onnx"
    surgeon.edit(path, surgeon.edits.Rename("t1", "first"), output=out)
    assert sorted(os.listdir(out.parent)) == ["m.onnx", "weights.data"]
    assert same_weights(out, chain()) == {"w0", "w1", "w2", "w3"}


def test_a_part_can_hold_its_weights_itself(tmp_path):
    path, out = external(tmp_path / "m.onnx", chain()), tmp_path / "part.onnx"
    surgeon.edit(path, Extract(("t1",), ("t2",)), output=out, external_data="inline")
    assert same_weights(out, chain()) == {"w1"}
    assert out.stat().st_size > WIDTH * WIDTH * 4


def test_what_fails_leaves_nothing_behind(tmp_path):
    (tmp_path / "out").mkdir()
    path, out = external(tmp_path / "m.onnx", chain()), tmp_path / "out" / "m.onnx"
    os.truncate(tmp_path / "weights.data", 3 * WIDTH * WIDTH * 4)
    with pytest.raises(surgeon.ModelFileError, match="truncated"):
        surgeon.edit(path, Extract(("t2",), ("t4",)), output=out)
    assert not os.listdir(tmp_path / "out")


def test_a_block_of_a_huge_model_takes_no_memory(tmp_path):
    """Twenty gigabytes of weights that are holes: one block of it by itself, its bytes alone."""
    layers, width = 20, 16_384
    nodes = [helper.make_node("MatMul", [f"t{i}", f"w{i}"], [f"t{i + 1}"]) for i in range(layers)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", width]) for name in ("t0", f"t{layers}")]
    model = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:]), ir_version=9)
    for place in range(layers):
        tensor = model.graph.initializer.add(name=f"w{place}", data_type=1, dims=[width, width], data_location=1)
        for key, value in (("location", "w.data"), ("offset", place * width**2 * 4), ("length", width**2 * 4)):
            tensor.external_data.add(key=key, value=str(value))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with open(tmp_path / "w.data", "wb") as data:
        data.truncate(layers * width**2 * 4)
        data.seek(7 * width**2 * 4)
        data.write(b"block")
    (tmp_path / "out").mkdir()
    code = (
        "import resource, sys; import surgeon; from surgeon.edits import Extract, Rename\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "surgeon.edit(sys.argv[1], Rename('t1', 'q'), output=sys.argv[2] + '/n.onnx', dry_run=True); before = peak()\n"
        "surgeon.edit(sys.argv[1], Extract(('t7',), ('t8',)), output=sys.argv[2] + '/p.onnx', check='none')\n"
        "print(peak() - before)"
    )
    command = [sys.executable, "-c", code, tmp_path / "m.onnx", tmp_path / "out"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert int(run.stdout) < 50_000  # KiB
    written = tmp_path / "out" / "p.onnx.data"
    assert written.stat().st_size == width**2 * 4
    assert written.stat().st_blocks * 512 < 1 << 20  # holes are left as holes
    with open(written, "rb") as data:
        assert data.read(5) == b"block"
