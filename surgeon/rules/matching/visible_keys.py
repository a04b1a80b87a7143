"""The keys that an attention mask hides in sequences without padding, found by running the nodes of the mask.

A mask is computed from sizes, and from an input of ones.  Exporters spell this in many ways, so no pattern describes
it: the nodes run for several numbers of past and new tokens, and the results are compared with the masks that attention
ops know.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from onnx import ModelProto, TensorProto, helper

from surgeon.analysis.assumptions.assumed_facts import follows
from surgeon.analysis.assumptions.assumption import NO_PADDING, Assumption
from surgeon.errors import ConditionFailed, require
from surgeon.file.tensors.decoding import encode
from surgeon.ir.index import Index
from surgeon.ir.scope import Node
from surgeon.ops.traits.trait_lookup import RANDOM, traits_of
from surgeon.ops.traversal import GRAPHS
from surgeon.shapes.algebra.size_expressions import Size, SizeError, evaluate, symbols
from surgeon.shapes.index_shapes import shapes_of

SHORT = ((1, 0), (2, 0), (7, 3), (1, 8))
"""New and past tokens of the first runs, at which a mask has to run."""
LONG = ((40, 0), (300, 0), (1, 300), (5, 290))
"""Those of longer runs.  A mask may end before, with a buffer that it reads."""
FEW = 3  # new tokens of further runs
MAX_NODES = 300  # of a mask; exporters write 16 to 105
MAX_ELEMENTS = 1 << 26  # of a tensor of a run: a mask of 8,192 rows and keys
LONGEST = 1 << 31  # larger integers are ends of slices, not lengths
BATCH = 2  # of each run: a mask that differs between sequences shows
IR_VERSION = 8  # of the models that run; the nodes decide about opsets
HIDING = -1e4  # a number that is added to a score and hides its key is at most this
_ONES = Assumption.of((NO_PADDING,))


class DependsOnValues(ConditionFailed):
    """A mask depends on the values of a tensor, of which nothing is assumed.

    name: the tensor.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"the mask depends on the values of {name!r}, which may hide any key")
        self.name = name


class DoesNotRun(ConditionFailed):
    """The nodes of a mask do not run at some lengths, or give it no row for each query or column for each key."""


class VisibleKeys(NamedTuple):
    """The keys that masks leave to a row of a sequence without padding: up to its own, perhaps from a window on."""

    window: int | None
    """How many keys a row sees at most, its own included; None for all before it."""
    padding: str | None
    """The input that has a one for each token; None if no mask depends on one."""
    made: tuple[str, ...]
    """The tensors that are computed for the masks."""


def visible_keys(index: Index, masks: Sequence[str], rows: Size, past: Size, *, shows: bool = True) -> VisibleKeys:
    """The keys that masks of the main graph together leave to queries of `rows` new tokens after `past` others.

    masks: each is added to the scores, or a condition that is `shows` for scores that count.  Raises ConditionFailed if
    they hide more than later keys and those before a window, or depend on more than sizes and an input of ones.
    """
    computed, windows = [ComputedTensor(index, mask) for mask in masks], set[int]()

    def read(values: Sequence[np.ndarray], new: int, old: int) -> None:
        shown = [_shown(value, (new, old + new), shows) for value in values]
        windows.update(_windows(np.logical_and.reduce(shown), old))

    _run(computed, rows, past, read)
    require(len(windows) < 2, f"the mask has several windows: {', '.join(map(str, sorted(windows)))}")
    padding = sorted({name for mask in computed for name in mask.ones})
    require(len(padding) < 2, f"the mask depends on the values of {' and '.join(padding)}")
    made = tuple(dict.fromkeys(name for mask in computed for name in mask.made))
    return VisibleKeys(next(iter(windows), None), next(iter(padding), None), made)


def is_always(index: Index, name: str, *, value: object, rows: Size, past: Size) -> tuple[str, ...] | None:
    """The tensors computed for a tensor of the main graph that has one value for such sequences; None if it has others.

    Raises ConditionFailed if it depends on more than sizes and an input of ones.
    """
    nodes, equal = ComputedTensor(index, name), list[bool]()
    _run([nodes], rows, past, lambda values, _new, _old: equal.append(bool((values[0] == value).all())))
    return nodes.made if all(equal) else None


def _run(
    tensors: Sequence["ComputedTensor"],
    rows: Size,
    past: Size,
    read: Callable[[Sequence[np.ndarray], int, int], None],
) -> None:
    """Read the values of tensors at several numbers of new and past tokens.

    Raises ConditionFailed if they do not run, unless a buffer or a limit that they read ends there.
    """
    olds = symbols(past)
    news = symbols(rows) - olds  # the rows may be those of a buffer from the past on
    require(max(len(olds), len(news)) < 2, "the numbers of new and of past tokens are not sizes of inputs")
    ends = {end for tensor in tensors for end in tensor.ends if end > max(map(sum, SHORT))}
    ran, refused = 0, list[tuple[int, DoesNotRun]]()
    for new, old in _lengths(rows, past, ends):
        sizes = dict.fromkeys(news, new) | dict.fromkeys(olds, old)
        try:
            if _evaluated(rows, sizes) != new:
                raise DoesNotRun(f"there are {_evaluated(rows, sizes)} rows of {new} new tokens")
            read([tensor.value(sizes, old + new) for tensor in tensors], new, old)
            ran = max(ran, old + new)
        except DoesNotRun as why:
            refused.append((old + new, why))
    for total, reason in refused:
        if total <= ran or ran not in ends:
            raise reason


def _lengths(rows: Size, past: Size, ends: Collection[int]) -> Iterator[tuple[int, int]]:
    """The numbers of new and past tokens of each run; fixed ones stay as they are.

    ends: a window may be any of them, or lie in a buffer that ends there.
    """
    for new, old in (*SHORT, *LONG):
        yield rows if isinstance(rows, int) else new, past if isinstance(past, int) else old
    for total in sorted({end + by for end in ends for by in (0, 1, 8)}):
        new = rows if isinstance(rows, int) else total - past if isinstance(past, int) else FEW
        if 0 < new <= total:
            yield new, past if isinstance(past, int) else total - new


def _shown(mask: np.ndarray, shape: tuple[int, int], shows: bool) -> np.ndarray:
    """Whether each score counts, [rows, keys]."""
    is_shown = mask == shows if mask.dtype == np.bool_ else mask == 0
    is_hidden = ~is_shown if mask.dtype == np.bool_ else mask <= HIDING
    require(bool((is_shown | is_hidden).all()), "the mask also adds numbers to scores that count")
    if mask.ndim < 2 or mask.shape[-2] not in (1, shape[0]) or mask.shape[-1] != shape[1]:
        raise DoesNotRun(f"the mask of {shape[0]} rows and {shape[1]} keys has the shape {list(mask.shape)}")
    each = is_shown.reshape(-1, *mask.shape[-2:])
    require(bool((each == each[:1]).all()), "the mask differs between heads or sequences")
    return np.broadcast_to(each[0], shape)


def _windows(shown: np.ndarray, past: int) -> set[int]:
    """The window of a mask; empty if it hides only later keys.  shown: [rows, keys]."""
    row, key = np.arange(past, shown.shape[1])[:, None], np.arange(shown.shape[1])
    window = int(shown[-1].sum())
    expected = (key <= row) & (key > row - window)
    require(bool((shown == expected).all()), "the mask hides more than later keys and those before a window")
    return {window} if window < shown.shape[1] else set()


class ComputedTensor:
    """A tensor of the main graph that depends only on sizes, on inputs of ones, and on given values.

    nodes: those that compute it, in topological order.  ones: the inputs of ones.  given: the values of other inputs.
    Raises ConditionFailed if it depends on more.
    """

    def __init__(self, index: Index, name: str, given: Mapping[str, np.ndarray] = MappingProxyType({})) -> None:
        self._given = given
        self._index, self._main, self._shapes, self._name = index, index.main, shapes_of(index), name
        self.nodes: list[Node] = []
        self.ones: set[str] = set()
        self._constants: dict[str, np.ndarray] = {}
        self._inputs: dict[str, np.ndarray | None] = {}
        found: set[Node] = set()
        pending = [(name, False)]
        seen = set(pending)
        while pending:
            node = self._begin(*pending.pop())
            if node is None or node in found:
                continue
            found.add(node)
            bare = traits_of(node.op).shape.reads_only_shape
            reads = [(read, slot < bare) for slot, read in enumerate(node.inputs) if read]
            pending += [read for read in reads if read not in seen]
            seen.update(reads)
            require(len(found) <= MAX_NODES, f"more than {MAX_NODES} nodes compute it")
        self.nodes = sorted(found, key=lambda node: node.slot)

    def _begin(self, name: str, is_bare: bool) -> Node | None:
        """The node to run for a tensor; None if the run begins at it.  is_bare: only its shape is read."""
        constants, value = self._index.constants, self._shapes.value(self._main, name)
        size = constants.shape(self._main, name)
        if size is not None and prod(size) > MAX_ELEMENTS and not is_bare:
            raise DependsOnValues(name)
        array = None if size is None or prod(size) > MAX_ELEMENTS else constants.array(self._main, name)
        if name in self._given:
            array = self._given[name].astype(self._dtype(name))
        if array is not None:
            self._constants[name] = array
        elif value is not None:
            self._inputs[name] = value
        elif is_bare:
            self._inputs.setdefault(name, None)
        elif name not in self._main.producers and follows(self._index, self._main, name, _ONES):
            self.ones.add(name)
        else:
            node = self._main.producers.get(name)
            is_plain = node is not None and not any(item.type in GRAPHS for item in node.proto.attribute)
            if not is_plain or node is None or node.op in RANDOM:
                raise DependsOnValues(name)
            return node
        return None

    @property
    def made(self) -> tuple[str, ...]:
        """The outputs of the nodes."""
        return tuple(name for node in self.nodes for name in node.outputs if name)

    @property
    def ends(self) -> set[int]:
        """The integers that the nodes read, and the sizes of their buffers."""
        constants = self._constants.values()
        small = [array for array in constants if array.dtype.kind in "iuf" and array.size < 8]
        # A negative float is what is added to a score; larger ones do not count exactly.
        floats = [array[(array > 0) & (array < 1 << 24)] for array in small if array.dtype.kind == "f"]
        read = [*floats, *(array for array in small if array.dtype.kind != "f")]
        numbers = {abs(float(number)) for array in read for number in array.reshape(-1)}
        found = {int(number) for number in numbers if number < LONGEST and number.is_integer()}
        return found | {size for array in constants for size in array.shape}

    def value(self, sizes: Mapping[str, int], keys: int = 0) -> np.ndarray:
        """The tensor.  sizes: of symbols; those that it lacks count sequences.  keys: columns of an input of ones.

        Raises ConditionFailed if the nodes do not run.
        """
        for name in (*self._inputs, *self.ones, *self.made):
            elements = prod(_evaluated(dim, sizes) for dim in self._shapes.shape(self._main, name) or ())
            require(elements <= MAX_ELEMENTS, f"{name!r} is too large to compute, {elements:,} elements")
        begin = {name: self._value(name, value, sizes) for name, value in self._inputs.items()}
        for name in self.ones:
            dims = self._sizes(name, sizes)
            require(bool(dims) and dims[-1] == keys, f"{name!r} may have more or fewer columns than there are keys")
            begin[name] = np.ones(dims, self._dtype(name))
        return _computed(self._model(begin).SerializeToString(deterministic=True), self._name)

    def _value(self, name: str, value: np.ndarray | None, sizes: Mapping[str, int]) -> np.ndarray:
        """A tensor at which the nodes begin."""
        if value is None:
            return np.zeros(self._sizes(name, sizes), self._dtype(name))
        flat = [_evaluated(item, sizes) for item in value.reshape(-1)]
        return np.asarray(flat, self._dtype(name)).reshape(value.shape)

    def _dtype(self, name: str) -> np.dtype:
        return np.dtype(helper.tensor_dtype_to_np_dtype(self._shapes.dtype(self._main, name) or TensorProto.FLOAT))

    def _sizes(self, name: str, sizes: Mapping[str, int]) -> list[int]:
        dims = self._shapes.shape(self._main, name)
        if dims is None:
            raise ConditionFailed(f"it depends on the shape of {name!r}, which is unknown")
        return [_evaluated(dim, sizes) for dim in dims]

    def _model(self, begin: Mapping[str, np.ndarray]) -> ModelProto:
        """A model of the nodes, without inputs."""
        model = ModelProto(ir_version=IR_VERSION, opset_import=self._index.model.skeleton.opset_import)
        model.graph.name = "mask"
        for node in self.nodes:
            model.graph.node.add().CopyFrom(node.proto)
            model.graph.node[-1].input[:] = node.inputs
        for name, array in sorted({**self._constants, **begin}.items()):
            model.graph.initializer.append(encode(array, name))
        model.graph.output.add(name=self._name)
        return model


def _evaluated(size: Size, sizes: Mapping[str, int]) -> int:
    try:
        return evaluate(size, {**dict.fromkeys(symbols(size), BATCH), **sizes})
    except SizeError:
        raise ConditionFailed(f"it depends on a size that is unknown, {size}") from None


@lru_cache(maxsize=64)
def _computed(model: bytes, output: str) -> np.ndarray:
    """The mask that a model without inputs computes; layers share it.  Raises ConditionFailed if it does not run."""
    from surgeon.runtime.sessions.ort_session import SessionError  # not at the top: few rules read masks
    from surgeon.runtime.sessions.reference_evaluator import EvaluatorSession

    try:
        with EvaluatorSession(ModelProto.FromString(model)) as session:
            return session.run({})[output]
    except SessionError as refused:
        raise DoesNotRun(f"its nodes do not run: {refused.message.rstrip('.')}") from None
