"""Rounding perturbation of models without float inputs perturbs their lookup tables."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from surgeon.proof.model.output_noise import measure_noise
from surgeon.runtime.sessions.isolated_session import IsolatedRuntime
from surgeon.testing import parse

TABLE = (np.arange(12, dtype=np.float32).reshape(3, 4) / 7 + 3).astype(np.float32)
NODES = {
    "Gather": "r = Gather(t, i)",
    "GatherND": "e = Unsqueeze(i, last) r = GatherND(t, e)",
    "another stored table": "w = Add(s, s) o = Gather(w, i) n = Gather(t, i) r = Add(o, n)",
    "in a branch": (
        "c = Constant<value = bool {1}>() r = If(c) <then_branch = a () => (p) { p = Gather(t, i) }, "
        "else_branch = b () => (q) { q = Gather(t, i) }>"
    ),
}


def model(nodes, inputs="int64[2] i"):
    """Rows of a table, less about as much: what rounding leaves of three is large beside the rest."""
    constants = "int64[1] last = {-1}, float[4] three = {3, 3.125, 3.25, 3.375}"
    made = parse(f"({inputs}) => (float[2, 4] y) <{constants}> {{ {nodes} y = Sub(r, three) }}")
    made.graph.initializer.extend(numpy_helper.from_array(TABLE, name) for name in "ts")
    return made


def moved(source, given):
    """How far the output moves where the model is run on these inputs."""
    with IsolatedRuntime().open(source) as session:
        outputs = session.run(given)
    return measure_noise(source, IsolatedRuntime(), [(given, outputs)])[0]["y"]


@pytest.mark.parametrize("nodes", NODES.values(), ids=NODES)
def test_a_table_moves_where_all_inputs_are_integers(nodes):
    assert 0 < moved(model(nodes), {"i": np.array([0, 2])}) < 1e-5


@pytest.mark.parametrize("is_external", [False, True], ids=["in the file", "in another file"])
def test_the_tables_of_a_file_move_too(tmp_path, is_external):
    path = tmp_path / "model.onnx"
    onnx.save(model(NODES["Gather"]), path, save_as_external_data=is_external, size_threshold=0)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert 0 < moved(path, {"i": np.array([0, 2])}) < 1e-5
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_table_stays_where_an_input_is_a_float():
    """The inputs are what moves, and zeros among them stay."""
    whole = model("n = Gather(t, i) r = Add(n, x)", "int64[2] i, float[4] x")
    assert moved(whole, {"i": np.array([0, 2]), "x": np.zeros(4, np.float32)}) == 0


def test_a_table_of_whole_numbers_stays():
    """They are meant, as counts and masks are."""
    whole = model(NODES["Gather"])
    whole.graph.initializer[-2].CopyFrom(numpy_helper.from_array(np.round(TABLE), "t"))
    assert moved(whole, {"i": np.array([0, 2])}) == 0
