"""Declared shapes that contradict the shapes which nodes produce.

ONNX Runtime warns and uses the produced shapes, onnx.checker rejects the model, and other readers are misled.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import onnx

from surgeon.ir.index import Index
from surgeon.ir.original_model import OriginalModel
from surgeon.ir.scope import Node, Scope, split_op
from surgeon.shapes.algebra.size_expressions import Size, SizeError, evaluate, symbol, symbols
from surgeon.shapes.declared_types import DeclaredTypes
from surgeon.shapes.onnx_inference import REFUSALS, infer
from surgeon.shapes.op_rules.control_flow import loop_carried
from surgeon.shapes.op_rules.rule_table import RULES, by_rule
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import NeedsOperands, PartialShape, PartialType, TensorType, run_rule, sanitized
from surgeon.text import and_more

Differ: TypeAlias = Callable[[Size | None, Size | None], bool]
_FIRST_SIZES = (3, 48, 131)
"""Sizes tried for dynamic dims: these for the first, and larger by steps of two for the others."""


class Misstatement(NamedTuple):
    """A node whose output has another shape than the graph declares."""

    node: Node
    """The node."""
    stated: str
    """The declared shape, as text."""
    made: str
    """The inferred shape, as text."""


def find_contradictions(index: Index, shapes: ShapeInference, doubtful: Collection[str] = ()) -> Iterator[Misstatement]:
    """The nodes of the main graph whose outputs have another size or rank than the graph declares.

    Symbolic sizes never contradict.  Consumers of a tensor with a wrong declaration are skipped, since their outputs
    follow from it; so are consumers of `doubtful` tensors.
    """
    return _in_scopes(index, [index.main], shapes, doubtful=doubtful, differ=_are_two_numbers)


def _in_scopes(
    index: Index,
    scopes: Iterable[Scope],
    shapes: ShapeInference,
    doubtful: Collection[str],
    differ: Differ,
    settled: Collection[str] = (),
) -> Iterator[Misstatement]:
    """As `find_contradictions`, for these scopes, without `settled` tensors of the main graph."""
    doubted = set(doubtful)
    undeclared = ShapeInference(shapes.origin, stated=DeclaredTypes(shapes.origin, distrusted=True))
    for scope in scopes:
        graph: Any = scope.proto
        passed = settled if scope.parent is None else ()
        stated = {value.name: value for value in (*graph.value_info, *graph.output) if value.name not in passed}
        holders = {body.owner for body in scope.bodies}
        for node in scope.nodes:
            if doubted.intersection(node.inputs):
                doubted.update(node.outputs)
                continue
            if doubted.intersection(node.outputs) or stated.keys().isdisjoint(node.outputs):
                continue
            if node in holders or index.called(node) is not None:  # nor do declarations inside count
                every: Sequence[PartialType | TensorType] = [undeclared.facts(scope, name) for name in node.outputs]
            else:
                every = _inferred_types(shapes, node)
            for name, made in zip(node.outputs, every, strict=False):
                wanted = _sizes(stated[name].type) if name in stated else None
                if wanted is None or made.shape is None or not _contradict(wanted, made.shape, differ):
                    continue
                doubted.add(name)
                yield Misstatement(node, _text(stated[name].type.tensor_type.shape.dim), _text(made.shape))


def _in_loops(scopes: Iterable[Scope], shapes: ShapeInference, differ: Differ) -> Iterator[Misstatement]:
    """Loops with a carried tensor whose shape differs from the one that the body declares."""
    for body in scopes:
        owner, around = body.owner, body.parent
        if owner is None or around is None:
            continue
        for given, first, last in loop_carried(owner, body):
            wanted = _sizes(given.type)
            for home, name in ((around, first), (body, last)):
                made = None if wanted is None else shapes.facts(home, name).shape
                if wanted is not None and made is not None and _contradict(wanted, made, differ):
                    yield Misstatement(owner, _text(given.type.tensor_type.shape.dim), _text(made))


@dataclass(frozen=True, slots=True)
class DeclaredShapeCheck:
    """Whether a model's declared shapes are those that its nodes produce."""

    contradiction: str
    """The first contradiction as a clause; "" for none."""
    is_verified: bool = True
    """The nodes were compared with the declarations."""


BELIEVED = DeclaredShapeCheck("")
UNVERIFIED = DeclaredShapeCheck("", is_verified=False)


def check_declared_shapes(index: Index, known: DeclaredShapeCheck | None = None) -> DeclaredShapeCheck:
    """Check once whether a graph declares other shapes than its nodes produce; if so, distrust all declarations.

    Rules and proofs depend on declared shapes: a slice over the whole declared axis is an identity.  Only nodes for
    which onnx's own inference, five times faster, does not produce the declared shape are checked; none if the result
    is `known`.  With UNVERIFIED no node is checked, and a declaration is used only for ops without a rule and without
    inference.
    """

    def look() -> DeclaredShapeCheck:
        stated = DeclaredTypes.of(OriginalModel(index))
        found = known if known is not None else _check(index, stated)
        if found.contradiction:
            stated.distrust()
        elif not found.is_verified:
            stated.trust_only(lambda node: not _is_inferred(index, node))
        return found

    return index.cached_analysis(DeclaredShapeCheck, look)


def _is_inferred(index: Index, node: Node) -> bool:
    """Whether a node's outputs have shapes without declarations: by a rule, onnx's inference, or a function."""
    return node.op in RULES or index.called(node) is not None or _is_known_to_onnx(node.op)


@cache
def _is_known_to_onnx(op: str) -> bool:
    domain, name = split_op(op)
    return onnx.defs.has(name, domain)


def _check(index: Index, stated: DeclaredTypes) -> DeclaredShapeCheck:
    scopes = [scope for scope in index.scopes if scope.function is None]
    differ = _SizeComparison(stated.symbols)
    settled = _settled(index.model.skeleton, differ)
    shapes = ShapeInference(OriginalModel(index))
    found = [
        *_in_scopes(index, scopes, shapes, doubtful=(), differ=differ.differs, settled=settled),
        *_in_loops(scopes, shapes, differ.differs),
    ]
    if not found:
        return BELIEVED
    node, before, after = found[0]
    difference = f"the graph states the shape {before}, and the node makes {after}"
    where = f"{node.op} at {node.label}{and_more(len(found) - 1)}"
    return DeclaredShapeCheck(f"{where}: {difference}; no shape that the file states of inner tensors is believed")


class _SizeComparison:
    """Compares sizes that depend only on dynamic dims of the inputs, by evaluating them."""

    def __init__(self, free: Collection[str]) -> None:
        self._free = frozenset(free)
        names = sorted(self._free)
        self._tried = [{name: least + 2 * place for place, name in enumerate(names)} for least in _FIRST_SIZES]

    def are_settled(self, stated: PartialShape | None, made: PartialShape | None) -> bool:
        """Whether a produced shape cannot contradict the declared one: sizes are equal, or depend on no dynamic dim."""
        if not stated:
            return True
        if made is None or len(stated) != len(made):
            return False
        pairs = zip(stated, made, strict=True)
        return all(one == other or one is None or not symbols(one) <= self._free for one, other in pairs)

    def differs(self, one: Size | None, other: Size | None) -> bool:
        """Whether two sizes differ for all tried sizes."""
        if one is None or other is None or not symbols(one) | symbols(other) <= self._free:
            return False
        if _may_be_total(one, other) or _may_be_total(other, one):
            return False
        try:
            return all(evaluate(one, sizes) != evaluate(other, sizes) for sizes in self._tried)
        except SizeError:
            return False


def _may_be_total(one: Size, other: Size) -> bool:
    """Whether a size is a new name, which may stand for a sum or product of others: a total of past and new."""
    mine, others = symbols(one), symbols(other)
    is_name = any(symbol(name) == one for name in mine)
    return is_name and bool(others) and mine.isdisjoint(others) and all(symbol(name) != other for name in others)


def _settled(model: onnx.ModelProto, differ: _SizeComparison) -> set[str]:
    """Tensors for which onnx, given only the inputs, infers the declared shape, or too little to judge."""
    stripped = onnx.ModelProto()
    stripped.CopyFrom(model)
    del stripped.graph.value_info[:]
    for value in stripped.graph.output:
        value.type.tensor_type.ClearField("shape")
    try:
        inferred = onnx.shape_inference.infer_shapes(stripped).graph
    except REFUSALS:
        return set()
    made = {value.name: value.type.SerializeToString() for value in (*inferred.value_info, *inferred.output)}
    stated = ((one.name, one.type.SerializeToString()) for one in (*model.graph.value_info, *model.graph.output))

    @cache  # thousands of tensors have few types
    def are_settled(one: bytes, other: bytes) -> bool:
        return one == other or differ.are_settled(*(_sizes(onnx.TypeProto.FromString(item)) for item in (one, other)))

    return {name for name, wanted in stated if are_settled(wanted, made.get(name, b""))}


def _inferred_types(shapes: ShapeInference, node: Node) -> Sequence[PartialType | TensorType]:
    """The output types of a node, regardless of declarations; empty without a rule and inference."""
    site = shapes.site(node)
    try:
        drafts = [sanitized(draft) for draft in run_rule(by_rule, site) or ()]
    except NeedsOperands:
        return ()  # the rule needs more than its inputs
    return drafts if any(draft.shape is not None for draft in drafts) else [sanitized(draft) for draft in infer(site)]


def _sizes(type_: onnx.TypeProto) -> PartialShape | None:
    """The declared dims, None for unknown ones; None without a declared shape."""
    tensor = type_.tensor_type
    if not type_.HasField("tensor_type") or not tensor.HasField("shape"):
        return None
    return [_size(dim) for dim in tensor.shape.dim]


def _size(dim: onnx.TensorShapeProto.Dimension) -> Size | None:
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    name = dim.dim_param.strip()
    return symbol(name) if name.isidentifier() else None


def _named(size: Size | onnx.TensorShapeProto.Dimension | None) -> str:
    """A size as text; "?" for an unknown one."""
    if isinstance(size, onnx.TensorShapeProto.Dimension):
        return str(size.dim_value) if size.HasField("dim_value") else size.dim_param or "?"
    return "?" if size is None or "?" in str(size) else str(size)


def _text(sizes: Sequence[Size | onnx.TensorShapeProto.Dimension | None]) -> str:
    return f"[{', '.join(map(_named, sizes))}]"


def _contradict(stated: PartialShape, made: PartialShape, differ: Differ) -> bool:
    """Whether shapes differ in rank or in a size.  An empty declared shape can also mean "any shape"."""
    if len(stated) != len(made):
        return bool(stated)
    return any(map(differ, stated, made))


def _are_two_numbers(one: Size | None, other: Size | None) -> bool:
    return isinstance(one, int) and isinstance(other, int) and one != other
