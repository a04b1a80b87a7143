"""Any part of a rewrite can be had without the rest: random models, with bodies and functions, and random parts."""

import random
from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper

from surgeon import Graph, Tensor, rule
from surgeon.file.model import Model
from surgeon.ir.index_patch import index_patch
from surgeon.pipeline.rewriting.driver_settings import DriverSettings
from surgeon.pipeline.rewriting.rule_run import RuleRun, open_index
from surgeon.runtime.sessions.ort_session import OrtSession
from tests import sampling

INPUTS = {"x": np.array([[-1.5, 2, 0, 3], [4, -0.25, -7, 1e-3]], np.float32)}


@rule(patterns=[lambda g, x: g.relu(g.relu(x))])
def relu_once(g: Graph, x: Tensor) -> Tensor:
    """Chains with itself."""
    return g.relu(x)


@rule(patterns=[lambda g, x: g.neg(g.neg(x)), lambda g, x: g.identity(x)])
def nothing(g: Graph, x: Tensor) -> Tensor:
    """Lets readers read another tensor."""
    return x


@rule(patterns=[lambda g, x: g.relu(g.abs(x)), lambda g, x: g.abs(g.neg(x))])
def only_abs(g: Graph, x: Tensor) -> Tensor:
    """Chains with the others."""
    return g.abs(x)


@rule(patterns=[lambda g, x: g.mul(x, 2.0)])
def twice(g: Graph, x: Tensor) -> Tensor:
    """Takes a constant away, and in a body or function brings one node more."""
    return g.add(x, x)


@rule(patterns=[lambda g, a, b: (g.add(a, b), g.sub(a, b))])
def both(g: Graph, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Two outputs, so that nodes may have to move; a new constant that sites share."""
    return g.sum(a, b), g.sum(a, g.mul(b, -1.0))


RULES = [relu_once, nothing, only_abs, twice, both]


def nodes_of(chance: random.Random, count: int, seen: Sequence[str], prefix: str, depth: int) -> list[NodeProto]:
    """Nodes that read what was made before them, here or outside; depth 0 is the main graph, 3 a function."""
    ops = ["Relu", "Relu", "Neg", "Neg", "Identity", "Abs", "Add", "Sub"]
    ops += ["Mul"] * (depth < 3) + ["If"] * (depth < 2) + ["F"] * (depth == 0)
    known, made = list(seen), list[NodeProto]()
    for place in range(count):
        op, name = chance.choice(ops), f"{prefix}{place}"
        one, two = (chance.choice(known[-4:]) for _ in range(2))
        inputs, settings = [one], {}
        if op in ("Add", "Sub"):
            inputs = [one, two]
            made.append(helper.make_node({"Add": "Sub", "Sub": "Add"}[op], inputs, [f"{name}b"], name=f"n_{name}b"))
            known.append(f"{name}b")
        elif op == "Mul":
            inputs = [one, "two"]
        elif op == "F":
            settings = {"domain": "local"}
        elif op == "If":
            inputs = ["condition"]
            for branch in ("then_branch", "else_branch"):
                settings[branch] = body_of(chance, known, f"{name}{branch[0]}", depth + 1)
        made.append(helper.make_node(op, inputs, [name], name=f"n_{name}", **settings))
        known.append(name)
    return made


def body_of(chance: random.Random, known: Sequence[str], prefix: str, depth: int) -> onnx.GraphProto:
    """A branch of an If."""
    nodes = nodes_of(chance, chance.randint(1, 6), known, prefix, depth)
    nodes.append(helper.make_node("Identity", [nodes[-1].output[0]], [f"{prefix}out"], name=f"n_{prefix}out"))
    return helper.make_graph(
        nodes, prefix, [], [helper.make_tensor_value_info(f"{prefix}out", TensorProto.FLOAT, None)]
    )


def model_of(chance: random.Random) -> onnx.ModelProto:
    """A model with branches, and a local function that may be called."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    inner = nodes_of(chance, chance.randint(2, 6), ["a"], "f", 3)
    function = helper.make_function("local", "F", ["a"], [inner[-1].output[0]], inner, opsets[:1])
    nodes = nodes_of(chance, chance.randint(6, 24), ["x"], "m", 0)
    outputs = dict.fromkeys([nodes[-1].output[0], chance.choice(nodes).output[0]])
    constants = [
        helper.make_tensor("two", TensorProto.FLOAT, [], [2.0]),
        helper.make_tensor("condition", TensorProto.BOOL, [], [chance.random() < 0.5]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        constants,
    )
    return helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=8)


def answers(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """What the model makes of the inputs."""
    with OrtSession(model) as session:
        return session.run(INPUTS)


def written(run: RuleRun) -> onnx.ModelProto:
    """The model that a run leaves."""
    return index_patch(run.index).to_proto()


@pytest.mark.parametrize("seed", sampling.chosen(lambda: range(8), lambda: range(200)))
def test_any_part_of_a_rewrite_can_be_had_without_the_rest(seed: int) -> None:
    """It computes what the source does; none of it is the source, all of it is the whole, and twice is the same."""
    chance = random.Random(seed)
    source = model_of(chance)
    model = Model.open(source)
    run = RuleRun(model, open_index(model), DriverSettings(RULES, "ort"))
    none, _ = run.rerun_with([])
    assert written(none).SerializeToString() == source.SerializeToString()
    everything, lost = run.rerun_with(run.sites)
    assert not lost
    assert written(everything).SerializeToString() == written(run).SerializeToString()
    wanted = answers(source)
    for _ in range(2):
        some = [site for site in run.sites if chance.random() < 0.6]
        part, lost = run.rerun_with(some)
        assert len(part.sites) + len(lost) == len(some)
        found = answers(written(part))
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5)
        same, lost = part.rerun_with(part.sites)
        assert not lost
        assert written(same).SerializeToString() == written(part).SerializeToString()
