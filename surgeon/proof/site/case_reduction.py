"""Cases with reduced dims: the same region with smaller numbers in place of large fixed dims.

`CaseDims` reduces dims that no constant mentions.  For dims that integer constants mention, both sides are rewritten
with another number, and longer constants are shortened.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, numpy_helper

from surgeon.ops.traversal import all_nodes
from surgeon.proof.cases.cache_limit import CacheLimit
from surgeon.proof.cases.dims import COSTLY_WORK, REDUCE_ABOVE_ELEMENTS, REDUCE_ABOVE_WORK, CaseDims
from surgeon.proof.cases.reduced_dims import reduced_dims
from surgeon.proof.node_cost import CostTerm
from surgeon.proof.proof_case import CaseInput, ProofCase, Reduction
from surgeon.proof.region.literals import MAX_UNREDUCED_DIM, dims_encoded_by, matches_literal
from surgeon.shapes.algebra.size_expressions import Size
from surgeon.shapes.op_rules.size_constraints import SizeConstraint
from surgeon.shapes.tensor_types import INTEGERS_AND_BOOL

MAX_VALUES = 64  # elements of a constant up to which it may hold dims
LARGE_SUM = 64  # many smaller numbers are sums by chance
MAX_PRODUCTS = 3  # dims that are products of others and are reduced in turn
Renamed = Mapping[int, int]


def reduce_dims(case: ProofCase) -> Iterator[ProofCase]:
    """The same case with smaller numbers in place of large fixed dims: variants to try in turn.

    None if little is computed, or no dim is large.
    """
    sizes = CaseDims(case, case.options.dims)
    usual = sizes.as_it_is() if _summed(case) else sizes.default()
    if usual is not None and usual.elements <= REDUCE_ABOVE_ELEMENTS and usual.work <= REDUCE_ABOVE_WORK:
        return
    renamed, products = _renamed(case)
    narrow = _with(case, _followed(case, renamed))
    usual = CaseDims(narrow, case.options.dims).default()
    if products and usual is not None and usual.work > COSTLY_WORK:
        for size in sorted(products, reverse=True)[:MAX_PRODUCTS]:
            yield _with(case, _followed(case, {**renamed, size: products[size]}))
    if renamed:
        yield narrow


def _with(case: ProofCase, renamed: Renamed) -> ProofCase:
    """The same case with other numbers wherever a number may be a dim."""

    def name(size: Size) -> Size:
        return renamed.get(size, size) if isinstance(size, int) else size

    def numbers(those: Iterable[int]) -> frozenset[int]:
        return frozenset(renamed.get(number, number) for number in those)

    sides = case.models
    return replace(
        case,
        models=replace(
            sides,
            before=_model(sides.before, renamed),
            after=_model(sides.after, renamed),
            dims={text: name(size) for text, size in sides.dims.items()},
        ),
        inputs=tuple(_input(item, name) for item in case.inputs),
        literals=numbers(case.literals),
        value_literals=numbers(case.value_literals),
        position_literals=None if case.position_literals is None else numbers(case.position_literals),
        size_constraints=tuple(
            SizeConstraint(name(x.one), name(x.other), x.at_least, x.is_soft) for x in case.size_constraints
        ),
        cache_limits=tuple(CacheLimit(name(x.batch), name(x.past), name(x.rows)) for x in case.cache_limits),
        reductions=tuple(Reduction(tuple(map(name, x.given)), tuple(map(name, x.made))) for x in case.reductions),
        costs=tuple(CostTerm(tuple(map(name, x.each)), tuple(map(name, x.others)), x.counts) for x in case.costs),
    )


def _renamed(case: ProofCase) -> tuple[dict[int, int], dict[int, int]]:
    """Reduced numbers by the number that they replace; and the same for dims that are products of others.

    A dim that a float may encode stays; of a dim that is a sum of two, these two are reduced.  A product usually
    follows from its factors, such as the width of all heads; rows times columns of an image may be a dim like others.
    """
    models = (case.models.before, case.models.after)
    constants = [tensor for model in models for tensor in _tensors(model)]
    dims = _fixed_dims(case)
    given = (item.f for model in models for node in all_nodes(model.graph.node) for item in node.attribute)
    floats = set(dims_encoded_by(np.array([*given], np.float32))).union(*map(_floats, constants))
    numbers = {abs(number) for number in (*dims, *case.value_literals)}
    factors, summed = numbers - {0, 1}, _summed(case)
    literals = case.value_literals.union(
        *(tensor.dims for tensor in constants if tensor.data_type in INTEGERS_AND_BOOL)
    )
    parts = {part for size in dims & literals for part in summed.get(size, (size,))}.union(*summed.values())
    multiples = {size for size in dims - case.literals if matches_literal(size, case.literals)}
    large = sorted(size for size in (parts | multiples) - floats if size > MAX_UNREDUCED_DIM)
    # Above the small ones: a Slice of 6 must stay a part.
    smaller = reduced_dims(large, numbers, {number for number in numbers if number <= MAX_UNREDUCED_DIM})
    found = {size: number for size, number in smaller.items() if number != size}
    products = {
        size: found.pop(size)
        for size in large
        if size in found and (size in multiples or any(not size % one and size // one in factors for one in factors))
    }
    return found, products


def _fixed_dims(case: ProofCase) -> set[int]:
    return {size for item in case.inputs for size in item.shape if isinstance(size, int)}


def _summed(case: ProofCase) -> dict[int, tuple[int, int]]:
    """Large literals that are the sum of two dims of the inputs, with these dims."""
    sums = {one + other: (one, other) for one, other in combinations(sorted(_fixed_dims(case)), 2)}
    return {size: sums[size] for size in sums.keys() & case.value_literals if size > LARGE_SUM}


def _followed(case: ProofCase, renamed: Renamed) -> dict[int, int]:
    """The same with numbers that depend on a reduced dim: products and sums with others, and its last index."""
    dims = _fixed_dims(case)
    numbers = dims | case.value_literals
    for model in (case.models.before, case.models.after):
        few = filter(_may_hold_dims, _tensors(model))
        numbers = numbers.union(*(numpy_helper.to_array(tensor).reshape(-1).tolist() for tensor in few))
    found = dict(renamed)
    for number in sorted(numbers - renamed.keys()):
        for one, now in sorted(renamed.items(), reverse=True):
            other, rest = divmod(number, one)
            if not rest and other > 1 and other in numbers:
                found[number] = now * found.get(other, other)
            elif number > one and number - one in dims:
                found[number] = now + found.get(number - one, number - one)
            elif number == one - 1:
                found[number] = now - 1
            else:
                continue
            break
    return found


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    yield from model.graph.initializer
    for node in (*all_nodes(model.graph.node), *(node for item in model.functions for node in item.node)):
        yield from (item.t for item in node.attribute if item.type == AttributeProto.TENSOR)


def _may_hold_dims(tensor: TensorProto) -> bool:
    """Whether a constant holds few integers."""
    return tensor.data_type in INTEGERS_AND_BOOL and bool(np.prod(tensor.dims) <= MAX_VALUES)


def _floats(tensor: TensorProto) -> Iterable[int]:
    """The dims that a float constant may encode."""
    if tensor.data_type in {*INTEGERS_AND_BOOL, TensorProto.STRING} or np.prod(tensor.dims) != 1:
        return ()
    return dims_encoded_by(numpy_helper.to_array(tensor))


def _input(item: CaseInput, name: Callable[[Size], Size]) -> CaseInput:
    value = None if item.value is None else np.vectorize(name, otypes=[object])(item.value)
    return replace(item, shape=tuple(map(name, item.shape)), value=value)


def _model(model: ModelProto, renamed: Renamed) -> ModelProto:
    """The same model with other numbers in attributes and short integer constants; longer constants are cut."""
    made = ModelProto()
    made.CopyFrom(model)
    for tensor in _tensors(made):
        if any(size in renamed for size in tensor.dims) and tensor.data_type != TensorProto.STRING:
            array = numpy_helper.to_array(tensor)[tuple(slice(renamed.get(size)) for size in tensor.dims)]
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
        if _may_hold_dims(tensor):
            array = numpy_helper.to_array(tensor)
            values = [renamed.get(number, number) for number in array.reshape(-1).tolist()]
            tensor.CopyFrom(numpy_helper.from_array(np.asarray(values, array.dtype).reshape(array.shape), tensor.name))
    for node in all_nodes(made.graph.node):
        for item in node.attribute:
            if item.type == AttributeProto.INT:
                item.i = renamed.get(item.i, item.i)
            elif item.type == AttributeProto.INTS:
                item.ints[:] = [renamed.get(number, number) for number in item.ints]
    _untyped(made.graph)
    return made


def _untyped(graph: GraphProto) -> None:
    """Remove the stated types of inner tensors and outputs, which may name a dim."""
    del graph.value_info[:]
    for port in graph.output:
        port.ClearField("type")
