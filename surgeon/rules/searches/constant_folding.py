"""Subgraphs of constants, and sizes that do not depend on dynamic dims: their values, in one pass over a scope."""

from collections.abc import Iterator
from functools import partial, update_wrapper
from math import prod

import onnx
from onnx import helper

from surgeon.connected_components import reachable
from surgeon.file.tensors.decoding import Array
from surgeon.ir.folding_kernels import moved
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope, qualified_name
from surgeon.ops.schemas import schema
from surgeon.ops.traits.trait_lookup import EXPANDING, FOLDABLE, IDENTITY_OPS, RANDOM, ops_with, traits_of
from surgeon.printed_commands import command
from surgeon.rules.matching.pattern import Found, Search
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.op_rules.values.integer_values import as_array
from surgeon.text import and_more

MAX_RESULT_BYTES, MAX_ADDED_BYTES, READ = (
    1 << 20,
    1 << 14,
    1 << 24,
)  # maximum bytes of a result, of growth of the file, and of one input
WORK, TIME = 1 << 26, 2.0  # product of the inputs' element counts, and seconds, that one op may take
SIZES = ops_with("returns_sizes")


def constant_subgraphs(most: int = MAX_RESULT_BYTES, growth: int = MAX_ADDED_BYTES) -> Search:
    """A search for nodes whose results are fixed in the file.

    most: bytes of the largest result that is computed.  growth: bytes by which a result may exceed the constants that
    it replaces: a mask expanded from one number, for example, is not folded.  Binds `values`, the arrays of the
    outputs.
    """
    find = partial(_constant_subgraphs, most, growth)
    update_wrapper(find, _constant_subgraphs)
    absent, left = "no node computes only from constants", partial(_left, most, growth)
    return Search(find, absent, left=left, limited=lambda to: constant_subgraphs(to, to))


def _constant_subgraphs(most: int, growth: int, index: Index, scope: Scope) -> Iterator[Found]:
    """Nodes that compute only from constants, up to a size; stored results replace them."""
    folding = ConstantFolder.of(index, scope, most)
    for node, outputs in folding.places(growth)[0]:  # the last first, so that its producers still exist
        values = [folding.values[name] for name in outputs]
        yield Found((node,), outputs, {"values": (values,)}, tuple(folding.below(node)))


def _left(most: int, growth: int, index: Index, scope: Scope) -> str | None:
    """The constants that are not folded, and why; None if all are."""
    folding = ConstantFolder.of(index, scope, most)
    left = folding.places(growth)[1]
    if left:
        name, more = max(left, key=lambda item: item[1])
        which = f"{name!r}{and_more(len(left) - 1)} {'is' if len(left) == 1 else 'are'}"
        message = f"{which} computed only from constants, but the stored result would add {more:,} bytes to the file"
        return f"{message}; the limit is {growth:,} (--fold-limit raises it)"
    for node, why in folding.stays.items():
        which = f"{node.label!r}{and_more(len(folding.stays) - 1)} {'is' if len(folding.stays) == 1 else 'are'}"
        return f"{which} computed only from constants, but not folded: {why}"
    idle = folding.idle()
    if idle:
        which = f"{idle[0].label!r}{and_more(len(idle) - 1)} {'is' if len(idle) == 1 else 'are'}"
        remedy = f"to remove such nodes: {command('rewrite', 'IN', 'OUT', '--rules', 'dead_nodes')}"
        return f"{which} computed only from constants, but no output depends on the result; {remedy}"
    for node in folding.nodes:
        which = f"{node.label!r}{and_more(len(folding.nodes) - 1)}"
        return f"folding copies of constants ({which}) would store the constants twice"
    return None


class ConstantFolder:
    """The constants of one scope, computed in node order.

    nodes: those with constant results, in order.  values: of their outputs and constant inputs.  of_sizes: tensors
    computed from sizes.  stays: nodes that read only constants and are not computed, and why.
    """

    def __init__(self, index: Index, scope: Scope, most: int) -> None:
        self.index, self.scope, self.most, self.read = index, scope, most, max(most, READ)
        self.nodes: list[Node] = []
        self.values: dict[str, Array] = {}
        self._made: set[Node] = set()
        self.of_sizes: set[str] = set()
        self.stays: dict[Node, str] = {}
        self._owners = {body.owner for body in scope.bodies}
        self._calls = {qualified_name(item.domain, item.name) for item in index.model.skeleton.functions}

    @classmethod
    def of(cls, index: Index, scope: Scope, most: int) -> "ConstantFolder":
        """The constants of a scope."""
        folding = cls(index, scope, most)
        for node in scope.live_nodes():
            folding.visit(node)
        return folding

    def places(self, growth: int) -> tuple[list[tuple[Node, tuple[str, ...]]], list[tuple[str, int]]]:
        """Nodes to fold, with their used outputs, the last first; and outputs that would add too many bytes.

        The latter as the name of an output and the number of bytes.
        """
        scope, absorbed = self.scope, set[Node]()
        found: list[tuple[Node, tuple[str, ...]]] = []
        left: list[tuple[str, int]] = []
        for node in reversed(self.nodes):
            used = [name for name in node.outputs if name and scope.is_needed(name)]
            outside = [name for name in used if name in scope.protected or not absorbed.issuperset(scope.readers(name))]
            if outside and node.op in IDENTITY_OPS:
                continue  # of a weight, which folding would store twice
            added = self.added(node, used) if outside else 0
            if added > growth:
                left.append((outside[0], added))
                continue
            absorbed.add(node)
            if outside:
                found.append((node, tuple(used)))
        return found, left

    def idle(self) -> list[Node]:
        """Nodes with constant results that no output depends on, in order."""
        found: set[Node] = set()
        for node in reversed(self.nodes):
            names = [name for name in node.outputs if name]
            if all(name not in self.scope.protected and found.issuperset(self.scope.readers(name)) for name in names):
                found.add(node)
        return [node for node in self.nodes if node in found]

    def visit(self, node: Node) -> None:
        """Add one node if its results are constant and small enough."""
        if node.op in self._calls or not node.inputs:
            return
        is_size = node.op in SIZES or not self.of_sizes.isdisjoint(node.inputs)
        if is_size:
            self.of_sizes.update(node.outputs)
        found = self._by_shapes(node) if is_size and node.op in FOLDABLE else None
        if found is None and node.op not in SIZES and not self._reads_data(node):
            why = self._refusal(node)
            found = None if why else self._computed(node)
            if found is None:
                self.stays[node] = why or "it is too expensive, or no runtime here computes it"
        if found is not None:
            self.nodes.append(node)
            self._made.add(node)
            self.values.update(found)

    def _refusal(self, node: Node) -> str | None:
        """Why a node that reads only constants is not computed; None if it may be."""
        if node.op in RANDOM or node in self._owners:
            return "it is random" if node.op in RANDOM else "it contains a body"
        if traits_of(node.op).dtype.is_qdq:
            return "its stored result would no longer be quantized"
        if "::" in node.op or schema("", node.op, self.scope.opset) is None:
            return "its domain is not ai.onnx"
        if self._adds_up_halves(node):
            return "runtimes round sums in its dtype differently"
        if not all(self._is_small(node, name) for name in node.outputs if name):
            return f"its result may have more than {self.most:,} bytes (--fold-limit raises this limit)"
        return None

    def below(self, node: Node) -> list[Node]:
        """The producers of a node's constant inputs, transitively, in order."""

        def sources(reader: Node) -> list[Node]:
            makers = (self.scope.producers.get(name) for name in reader.inputs)
            # An earlier folded constant replaces its nodes.
            return [maker for maker in makers if maker is not None and (maker in self._made or not maker.original)]

        return sorted(reachable(sources(node), sources), key=lambda item: item.slot)

    def makers(self, name: str) -> list[Node]:
        """The nodes that compute a constant tensor, in order."""
        source = self.scope.producers.get(name)
        return [] if source is None else [*self.below(source), source]

    def added(self, node: Node, used: list[str]) -> int:
        """The bytes of results beyond those of the constants that would be removed."""
        gone = {node, *self.below(node)}
        leaves = {name for item in gone for name in item.inputs if self.scope.producers.get(name) not in gone}
        read = (name for name in leaves if name in self.values and gone.issuperset(self.scope.readers(name)))
        return sum(self.values[name].nbytes for name in used) - sum(self.values[name].nbytes for name in read)

    def _reads_data(self, node: Node) -> bool:
        """Whether a node reads a tensor that is not constant, or is too large; known if its producer was not folded."""
        values, makers = self.values, self.scope.producers
        for name in node.inputs:
            if name and name not in values and name in makers and makers[name].op != "Constant":
                return True
        return not all(self._is_constant(name) for name in node.inputs if name)

    def _is_constant(self, name: str) -> bool:
        """Whether a tensor is constant and small enough to be read; if so, `values` has it."""
        if name in self.values:
            return True
        source = self.scope.producers.get(name)
        constants = self.index.constants
        shape = constants.shape(self.scope, name) if constants.is_constant(self.scope, name) else None
        if shape is None and source is None:
            return False
        if shape is not None and prod(shape) > self.read:
            return False
        array = constants.array(self.scope, name)
        if array is None or array.nbytes > self.read or array.dtype.kind in "OSU":
            return False
        self.values[name] = array
        return True

    def _by_shapes(self, node: Node) -> dict[str, Array] | None:
        """Results that are sizes without dynamic dims."""
        shapes, found = shapes_of(self.index), {}
        for name in filter(None, node.outputs):
            array = as_array(shapes.value(self.scope, name), shapes.facts(self.scope, name).dtype)
            if array is None:
                return None
            found[name] = array
        return found

    def _computed(self, node: Node) -> dict[str, Array] | None:
        """Results computed from constants; None if they are too expensive, or nothing computes them."""
        names = [name for name in node.outputs if name]
        if node.op not in FOLDABLE and prod(self.values[name].size or 1 for name in node.inputs if name) > WORK:
            return None
        exact = {name: self.index.constants.get(self.scope, name) for name in names}
        made = {name: value.array for name, value in exact.items() if value is not None}
        if len(made) < len(names) == 1:
            array = moved(node, [self.values[name] if name else None for name in node.inputs])
            made = {} if array is None else {names[0]: array}
        if len(made) < len(names):
            # Not at the top: few models have something to fold.
            from surgeon.runtime.sessions.isolated_session import IsolatedRuntime
            from surgeon.runtime.sessions.ort_session import SessionError
            from surgeon.runtime.sessions.reference_evaluator import EvaluatorSession

            model = self._alone(node, names)
            try:
                with (
                    EvaluatorSession(model)
                    if node.op in FOLDABLE
                    else IsolatedRuntime(run_time=TIME).open(model) as one
                ):
                    made = one.run({name: self.values[name] for name in node.inputs if name})
            except SessionError:
                return None
        right = all(self._has_stated_type(name, made[name]) for name in names)
        return made if right and sum(array.nbytes for array in made.values()) <= self.most else None

    def _adds_up_halves(self, node: Node) -> bool:
        """Whether a node sums numbers of 16 bits or less, or their products, which runtimes round differently.

        Ops of floats count too, unless they are known not to.
        """
        is_sum = bool(traits_of(node.op).products.kind) or traits_of(node.op).numerics.accumulates
        read = [self.values[name] for name in node.inputs if name and self.values[name].itemsize < 4]
        return bool(read) if is_sum else node.op not in FOLDABLE and any(array.dtype.kind in "fV" for array in read)

    def _is_small(self, node: Node, name: str) -> bool:
        """Whether a result is known to be small enough."""
        facts = shapes_of(self.index).facts(self.scope, name)
        shape = facts.shape
        sizes = [size for size in shape or () if isinstance(size, int)]
        if shape is not None and len(sizes) == len(shape):
            width = 1 if facts.dtype is None else helper.tensor_dtype_to_np_dtype(facts.dtype).itemsize
            return prod(sizes) * width <= self.most
        given = [self.values[item] for item in node.inputs if item]
        is_bounded = node.op not in EXPANDING and (node.op in FOLDABLE or facts.dtype is not None)  # not a sequence
        return is_bounded and prod(array.size or 1 for array in given) <= self.most

    def _has_stated_type(self, name: str, array: Array) -> bool:
        dtype = shapes_of(self.index).dtype(self.scope, name)
        return dtype is None or helper.tensor_dtype_to_np_dtype(dtype) == array.dtype

    def _alone(self, node: Node, outputs: list[str]) -> onnx.ModelProto:
        """A model of one node, whose inputs are those of the graph."""
        inputs = dict.fromkeys(name for name in node.inputs if name)
        infos = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(self.values[name].dtype), self.values[name].shape
            )
            for name in inputs
        ]
        proto = onnx.NodeProto()
        proto.CopyFrom(node.proto)
        proto.input[:] = node.inputs  # its inputs may have been redirected
        graph = helper.make_graph([proto], "node", infos, [onnx.ValueInfoProto(name=name) for name in outputs])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.scope.opset or 1)])
