"""Experiments made narrow: a large fixed dim that reshapes and slices speak of becomes small, and they with it.

`Sizes` makes dims smaller that nothing speaks of.  Where constants of integers do, both sides are written anew with
another number in its place.  What is proved so is run once more as it is: a dim may mean more than its size.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, numpy_helper

from surgeon.models.loads import Load
from surgeon.ops.walking import all_nodes
from surgeon.shapes.facts import WHOLE
from surgeon.shapes.symbols import Size
from surgeon.sites.experiment import Experiment, Input, Sum, Wish
from surgeon.sites.sizes import KEPT, MUCH, PLENTY, SHRUNK, Sizes, meant

MOST_VALUES = 64  # elements of a constant up to which it may hold dims
Renamed = Mapping[int, int]


def narrowed(experiment: Experiment) -> Experiment | None:
    """The same with smaller numbers in the place of large fixed dims; None where little is computed, or none is large.

    A dim stays that a float may stand for, that is a dim of a constant, or the product of two other numbers, as the
    width of all heads is.
    """
    usual = Sizes(experiment, experiment.options.dims).usual()
    if usual is not None and usual.elements <= PLENTY and usual.work <= MUCH:
        return None
    renamed = _renamed(experiment)
    if not renamed:
        return None

    def name(size: Size) -> Size:
        return renamed.get(size, size) if isinstance(size, int) else size

    minis = experiment.minis
    return replace(
        experiment,
        minis=replace(
            minis,
            before=_model(minis.before, renamed),
            after=_model(minis.after, renamed),
            dims={text: name(size) for text, size in minis.dims.items()},
        ),
        inputs=tuple(_input(item, name) for item in experiment.inputs),
        pinned=frozenset(renamed.get(size, size) for size in experiment.pinned),
        values=frozenset(renamed.get(size, size) for size in experiment.values),
        wishes=tuple(Wish(name(x.one), name(x.other), x.at_least, x.likely) for x in experiment.wishes),
        sums=tuple(Sum(tuple(map(name, x.given)), tuple(map(name, x.made))) for x in experiment.sums),
        loads=tuple(Load(tuple(map(name, x.each)), tuple(map(name, x.others)), x.counts) for x in experiment.loads),
    )


def _renamed(experiment: Experiment) -> dict[int, int]:
    """Smaller numbers by those whose place they take."""
    models = (experiment.minis.before, experiment.minis.after)
    constants = [tensor for model in models for tensor in _tensors(model)]
    dims = {size for item in experiment.inputs for size in item.shape if isinstance(size, int)}
    floats = {number for tensor in constants if tensor.data_type not in WHOLE for number in _floats(tensor)}
    stay = floats.union(*(tensor.dims for tensor in constants))
    numbers = {abs(number) for number in (*dims, *experiment.values)}
    least = max((number for number in numbers if number <= KEPT), default=0)  # a Slice of 6 must not become all
    found: dict[int, int] = {}
    taken = set(numbers)
    for size in sorted(dims & experiment.values):
        is_product = any(size % one == 0 and size // one in numbers - {1} for one in numbers - {0, 1})
        if size <= KEPT or size in stay or is_product:
            continue
        smaller = (number for number in (*SHRUNK, *range(KEPT + 1, size)) if number > least and number not in taken)
        found[size] = next(smaller, size)
        taken.add(found[size])
    return {size: number for size, number in found.items() if number != size}


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    """All constants of a mini-model."""
    yield from model.graph.initializer
    for node in (*all_nodes(model.graph.node), *(node for item in model.functions for node in item.node)):
        yield from (item.t for item in node.attribute if item.type == AttributeProto.TENSOR)


def _floats(tensor: TensorProto) -> Iterable[int]:
    """The dims that a number may stand for."""
    if tensor.data_type == TensorProto.STRING or np.prod(tensor.dims) != 1:
        return ()
    return meant(numpy_helper.to_array(tensor))


def _input(item: Input, name: Callable[[Size], Size]) -> Input:
    value = item.value
    if value is not None:
        flat = np.empty(value.size, object)
        flat[:] = [name(size) for size in value.reshape(-1)]
        value = flat.reshape(value.shape)
    return replace(item, shape=tuple(map(name, item.shape)), value=value)


def _model(model: ModelProto, renamed: Renamed) -> ModelProto:
    """The same with other numbers in constants of few integers and in attributes."""
    made = ModelProto()
    made.CopyFrom(model)
    for tensor in _tensors(made):
        if tensor.data_type in WHOLE and np.prod(tensor.dims) <= MOST_VALUES:
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
    """Without what is stated of inner tensors and of outputs, which may name a dim."""
    del graph.value_info[:]
    for port in graph.output:
        port.ClearField("type")
