"""A model in which every rounded number is moved by units in its last place, like another order of steps might do.

The response shows how far rounding moves results, and which of them jump: a comparison or rounding of a rounded number
may go either way.  A number that is exact in its dtype stays.
"""

from collections.abc import Callable, Iterator

import ml_dtypes
import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from surgeon.errors import GraphError
from surgeon.ops.traits.trait_lookup import ops_with
from surgeon.ops.traversal import subgraphs
from surgeon.runtime.function_inlining import inline_functions
from surgeon.shapes.tensor_types import FLOATS

AMPLITUDE_INPUT, SEED_INPUT = "surgeon:amount", "surgeon:turn"
"""Inputs of a perturbed model: the number of units (float64, 0-d), and the seed of the directions (int64, 0-d)."""

MIN_OPSET = 11
"""The first opset of ai.onnx at which numbers can be perturbed: it has Range, and Equal for doubles."""
_SIGNS = "surgeon:signs"
_COUNT = 4099  # random directions, repeated; a prime, so that the rows of an axis have different ones
_STRIDE, _STEP = 1009, 37  # between turns and between tensors: other primes, so that no two share directions
# Ops that move or select numbers, or produce integers: they do not round exact inputs.
_EXACT = ops_with("exact") | ops_with("copies_elements")
_Change = Callable[[str, str, int, int], Iterator[NodeProto]]


def perturb_rounding(narrow: ModelProto, wide: ModelProto, *, bodies: bool = False) -> ModelProto | None:
    """Return `wide` with the numbers moved that `narrow` rounds; None if its opset is too old, or if no node rounds.

    wide: `narrow` in float64, with local functions inlined and the same names.  The result has two more inputs.
    bodies: also move tensors of bodies, in the same direction in each iteration of a loop, so that the moves add up.
    """
    imports = {item.domain: item.version for item in wide.opset_import}
    if imports.get("", 0) < MIN_OPSET:
        return None
    found, count = _changed(narrow, wide, _perturbing_nodes, bodies)
    if not count:
        return None
    found.graph.input.append(helper.make_tensor_value_info(AMPLITUDE_INPUT, TensorProto.DOUBLE, []))
    found.graph.input.append(helper.make_tensor_value_info(SEED_INPUT, TensorProto.INT64, []))
    signs = np.random.default_rng(0).choice((-1.0, 1.0), _COUNT)
    found.graph.initializer.append(numpy_helper.from_array(signs, _SIGNS))
    return found


def round_to_narrow(narrow: ModelProto, wide: ModelProto, *, bodies: bool = False) -> ModelProto:
    """Return `wide` with a rounding to the dtype of `narrow` after each node that rounds; see `perturb_rounding`."""
    return _changed(narrow, wide, _rounding, bodies)[0]


def _changed(narrow: ModelProto, wide: ModelProto, change: _Change, bodies: bool) -> tuple[ModelProto, int]:
    """A copy of `wide` with nodes after each tensor that `narrow` rounds, and the number of these tensors.

    change: returns the nodes, given the name of the computed tensor, the name of the result, its dtype in `narrow`, and
    its number.
    """
    typed = _typed_graph(narrow)
    found = ModelProto()
    found.CopyFrom(wide)
    return found, 0 if typed is None else _change(found.graph, typed, change, bodies=bodies, count=0)


def _change(graph: GraphProto, narrow: GraphProto, change: _Change, bodies: bool, count: int) -> int:
    """Insert nodes into a graph; return the number of tensors so far.  narrow: the same graph, with inferred dtypes."""
    ports = (*narrow.value_info, *narrow.output)
    dtypes = {port.name: port.type.tensor_type.elem_type for port in ports if port.type.HasField("tensor_type")}
    nodes: list[NodeProto] = []
    for node, typed_node in zip(graph.node, narrow.node, strict=True):
        kept = NodeProto()
        kept.CopyFrom(node)
        nodes.append(kept)
        for body, typed in zip(subgraphs(kept), subgraphs(typed_node), strict=True) if bodies else ():
            count = _change(body, typed, change, bodies=bodies, count=count)
        if node.op_type in _EXACT:
            continue
        for place, name in enumerate(node.output):
            if dtypes.get(name) in FLOATS:
                kept.output[place] = f"{name}:made"
                nodes += change(f"{name}:made", name, dtypes[name], count)
                count += 1
    del graph.node[:]
    graph.node.extend(nodes)
    return count


def _rounding(made: str, name: str, dtype: int, _: int) -> Iterator[NodeProto]:
    yield helper.make_node("Cast", [made], [f"{name}:narrow"], to=dtype)
    yield helper.make_node("Cast", [f"{name}:narrow"], [name], to=TensorProto.DOUBLE)


def _typed_graph(narrow: ModelProto) -> GraphProto | None:
    """The graph with all dtypes that inference finds; None if it fails."""
    try:
        return onnx.shape_inference.infer_shapes(inline_functions(narrow)).graph
    except (onnx.shape_inference.InferenceError, GraphError):
        return None


def _perturbing_nodes(made: str, name: str, dtype: int, number: int) -> Iterator[NodeProto]:
    """Nodes that move one float64 tensor: made + sign * amount * unit for numbers that are not exact in `dtype`."""

    def at(step: str) -> str:
        return f"{name}:{step}"

    def node(op: str, inputs: list[str], step: str) -> NodeProto:
        return helper.make_node(op, inputs, [at(step)])

    def constant(value: np.ndarray, step: str) -> NodeProto:
        return helper.make_node("Constant", [], [at(step)], value=numpy_helper.from_array(value))

    limits = ml_dtypes.finfo(helper.tensor_dtype_to_np_dtype(dtype))
    if dtype == TensorProto.DOUBLE:  # no wider dtype shows which of its numbers were rounded
        yield node("Round", [made], "held")
    else:
        yield helper.make_node("Cast", [made], [at("narrow")], to=dtype)
        yield helper.make_node("Cast", [at("narrow")], [at("held")], to=TensorProto.DOUBLE)
    yield node("Equal", [made, at("held")], "exact")
    yield constant(np.asarray(float(limits.eps)), "eps")
    yield constant(np.asarray(float(limits.smallest_subnormal)), "least")
    yield constant(np.asarray(0.0), "still")
    yield node("Abs", [made], "magnitude")
    yield node("Mul", [at("magnitude"), at("eps")], "unit")
    yield node("Max", [at("unit"), at("least")], "step")
    yield from _directions(made, name, number)
    yield node("Mul", [at("step"), at("signs")], "signed")
    yield node("Mul", [at("signed"), AMPLITUDE_INPUT], "moved")
    yield node("Where", [at("exact"), at("still"), at("moved")], "noise")
    yield helper.make_node("Add", [made, at("noise")], [name])


def _directions(made: str, name: str, number: int) -> Iterator[NodeProto]:
    """Nodes that compute a random sign for each element; equal turns give equal signs."""

    def node(op: str, inputs: list[str], step: str) -> NodeProto:
        return helper.make_node(op, inputs, [f"{name}:{step}"])

    numbers = {"stride": _STRIDE, "start": _STEP * number, "count": _COUNT, "one": 1}
    for step, value in numbers.items():
        yield helper.make_node("Constant", [], [f"{name}:{step}"], value=numpy_helper.from_array(np.asarray(value)))
    yield node("Size", [made], "size")
    yield node("Shape", [made], "shape")
    yield node("Mul", [SEED_INPUT, f"{name}:stride"], "turned")
    yield node("Add", [f"{name}:turned", f"{name}:start"], "first")
    yield node("Add", [f"{name}:first", f"{name}:size"], "last")
    yield node("Range", [f"{name}:first", f"{name}:last", f"{name}:one"], "places")
    yield node("Mod", [f"{name}:places", f"{name}:count"], "place")
    yield node("Gather", [_SIGNS, f"{name}:place"], "flat")
    yield node("Reshape", [f"{name}:flat", f"{name}:shape"], "signs")
