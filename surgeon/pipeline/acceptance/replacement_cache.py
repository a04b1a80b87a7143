"""Caches decisions of a rule about matches of equal structure, bindings, dtypes and shapes."""

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from typing import Any, TypeVar

import onnx

from surgeon.errors import ConditionFailed, RuleError
from surgeon.ir.index import Index
from surgeon.ir.scope import Scope
from surgeon.ir.structure import Structure
from surgeon.ops.schemas import dtype_number, infer_output_dtypes, schema
from surgeon.ops.schemas.node_check import check_node
from surgeon.pipeline.acceptance.kernel_support import MissingKernel, missing_kernel
from surgeon.rules.matching.compiler import CompiledPattern
from surgeon.rules.matching.match import Match
from surgeon.rules.matching.match_state import VariadicBinding
from surgeon.rules.mismatches.mismatch import FailureKind
from surgeon.rules.replacing.recreated_nodes import recreated_nodes
from surgeon.rules.replacing.replacement import Replacement, TensorRef
from surgeon.rules.replacing.replacement_builder import build_replacement
from surgeon.rules.replacing.rule_functions import run_condition
from surgeon.rules.replacing.splicer import opset_to_import
from surgeon.rules.rule import RulePlan
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.scope_inputs import ShapesByCall
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.target_registry import Provider

T = TypeVar("T")
DTYPES, SHAPES = range(2)
PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal of a rule, for all sites of one class; a report describes it for one of them."""

    kind: FailureKind
    """The source of the refusal: a condition, a schema, or an opset."""
    why: str
    """The reason."""
    asked_last: tuple[str, tuple[str, int]] | None
    """The property of a capture that was read last."""
    is_of_form: bool
    """Whether another form of the rule might be accepted."""


Decision = Refusal | tuple[Replacement | None, MissingKernel | None]
"""The decision of a rule and the schemas about a match: a refusal, or a replacement and a node without a kernel.

The replacement is None if the conditions hold and the form of the rule needs a newer opset.
"""


@dataclass(slots=True)
class SiteClass:
    """Matches of one pattern with the same nodes, wiring and bindings, and the decisions of one form about them.

    If the rule reads more facts than before, earlier decisions are ignored.
    """

    asks: int = DTYPES
    """Most facts that any decision read: DTYPES or SHAPES."""
    decisions: dict[Hashable, Decision] = field(default_factory=dict)
    """Decisions by those facts."""
    is_settled: bool = False
    """Whether only these decisions can refuse a match: no limit of the target, and nothing around the match."""


class ReplacementCache:
    """The decisions about the matches of one run.

    Matches share a decision if they are of one class and have the same dtypes and shapes, as far as the rule reads
    these.  A decision for which the rule read more, such as the values of a weight, is not kept.
    """

    def __init__(
        self,
        index: Index,
        provider: str | None = None,
        among: Collection[Provider] | None = None,
        loader: str | None = None,
    ) -> None:
        """provider: execution provider that must run the replacements; None for any.  among: others of the target.

        loader: provider that must load the replacements if `provider` is None, at least by their function bodies.
        """
        self._index, self._provider, self._among, self._loader = index, provider, among, loader
        self._structure = index.cached_analysis(Structure, Structure)
        self._classes: dict[Hashable, SiteClass] = {}
        self._unsupported_by_nodes: dict[Any, MissingKernel | None] = {}

    @cached_property
    def _shapes(self) -> ShapeInference:
        return shapes_of(self._index)

    @cached_property
    def _shapes_by_call(self) -> ShapesByCall:
        return ShapesByCall(self._index, self._shapes)

    def site_class(self, plan: RulePlan, compiled: CompiledPattern, match: Match) -> SiteClass:
        """The class of a match for a form of a rule: that of its template, else by its nodes and bindings."""
        of_template = None if match.template is None else (plan.form.function, match.template)
        found = None if of_template is None else self._classes.get(of_template)
        if found is None:
            found = self._classes.setdefault(self._class_key(plan, compiled, match), SiteClass())
            if of_template is not None:
                self._classes[of_template] = found
        return found

    def _class_key(self, plan: RulePlan, compiled: CompiledPattern, match: Match) -> Hashable:
        nodes = (*match.nodes, *match.kept)
        names = [name for node in nodes for name in (*node.inputs, *node.outputs)]
        kinds = len(match.nodes), *map(self._structure.stated, nodes)
        number, names_in_order = self._structure.form(kinds, (*names, *match.outputs))
        places = dict(zip(names_in_order, count(), strict=False))
        bound = tuple([(name, _binding_key(held, places)) for name, held in match.bound.items()])
        rule = plan.form.function, *plan.conditions, plan.needs
        return rule, compiled, match.scope.opset, id(match.scope.versions), len(match.outputs), number, bound

    def known(self, kind: SiteClass, match: Match) -> Decision | None:
        """The decision about an earlier match of this class with the same facts; None without one."""
        return kind.decisions.get(self._facts(match, kind.asks)) if kind.decisions else None

    def keep(self, kind: SiteClass, match: Match, decision: Decision) -> None:
        """Keep a decision, unless the rule read more than facts."""
        if not match.inspected and all(map(_is_plain, match.bound.values())):
            kind.asks = max(kind.asks, SHAPES if match.asked_shape else DTYPES)
            kind.decisions[self._facts(match, kind.asks)] = decision

    def _facts(self, match: Match, asks: int) -> Hashable:
        """The dtypes of the outputs, and the facts of the captured tensors.  asks: DTYPES or SHAPES."""
        scope, names = match.scope, list[str]()
        for held in match.bound.values():
            if isinstance(held, str):
                names.append(held)
            elif isinstance(held, VariadicBinding):
                names += held
        found: list[Hashable] = [self._shapes.dtype(scope, name) for name in match.outputs]
        for shapes in (self._shapes, *self._calls(match)):
            ask = shapes.facts if asks == SHAPES else shapes.dtype
            found += [ask(scope, name) for name in names]
        return tuple(found)

    def require(self, condition: Callable[..., Any], match: Match) -> None:
        """Check a condition of a rule, in a local function for each of its calls.  Raises ConditionFailed if it does
        not hold.
        """
        self._in_each_call(match, partial(run_condition, condition))

    def build(self, function: Callable[..., Any], match: Match) -> Replacement:
        """The replacement of a match.  Raises the exceptions of the rule's code, such as ConditionFailed.

        In a local function all calls share the replacement; if the rule refuses one of them, it is refused.
        """
        return self._in_each_call(match, partial(build_replacement, function))[0]

    def _in_each_call(self, match: Match, ask: Callable[[Match], T]) -> list[T]:
        """The results of a function for a match: first for any call of its local function, then for each call."""
        found = [ask(match)]
        try:
            for shapes in self._calls(match):
                match.call = shapes
                found.append(ask(match))
        finally:
            match.call = None
        return found

    def _calls(self, match: Match) -> list[ShapeInference]:
        """Shapes in each call of the local function that contains a match; empty outside functions."""
        scope = match.scope
        is_outside = scope.parent is None and not scope.is_function  # quicker to see than that of a body
        return [] if is_outside or scope.function is None else self._shapes_by_call.for_scope(scope)

    def require_valid(self, match: Match, fragment: Replacement) -> MissingKernel | None:
        """Check a replacement against schemas before anything is edited.

        Returns the node that the execution provider cannot run, in a local function for any of its calls; None without
        one.  Raises ConditionFailed if it does not fit this model, RuleError if it would fit no model.
        """
        ways = (self._shapes, *self._calls(match))
        return next(filter(None, [self._unsupported_with(match, fragment, shapes) for shapes in ways]), None)

    def _unsupported_with(self, match: Match, fragment: Replacement, shapes: ShapeInference) -> MissingKernel | None:
        """The same for the dtypes from these shapes."""
        scope = match.scope
        dtypes = {key: shapes.dtype(scope, match.tensor(key)) for key in fragment.captures}
        made = tuple([shapes.dtype(scope, name) for name in match.outputs])
        known = {str(TensorRef("capture", key)): dtype for key, dtype in dtypes.items()}
        for place, constant in enumerate(fragment.constants):
            if constant.like is None and constant.values.dtype.kind != "S":
                known[str(TensorRef("constant", place))] = dtype_number(constant.values.dtype)
        for ref, dtype in zip(fragment.outputs, made, strict=True):
            known.setdefault(str(ref), dtype)
        again, nodes = recreated_nodes(match, fragment), list(fragment.as_protos())
        for number, node in enumerate(nodes):
            opset = scope.versions.get(node.domain) or opset_to_import(node.domain, node.op_type)
            complaints = check_node(node, opset, known.get, scope.function is not None)
            if complaints and number not in again:
                _refuse_invalid_rule(node, scope.function is not None)
                raise ConditionFailed(f"the replacement violates a schema: {complaints[0]}")
            infer_output_dtypes(node, opset, known)
        made_anew = [node for number, node in enumerate(nodes) if number not in again]
        return self._unsupported(fragment, made_anew, known, scope)

    def _unsupported(
        self, fragment: Replacement, nodes: list[onnx.NodeProto], known: dict[str, int | None], scope: Scope
    ) -> MissingKernel | None:
        """The node that the provider cannot run; cached by nodes and dtypes."""
        provider = self._provider or self._loader
        if provider is None or not nodes:
            return None
        wired = tuple([(node.kind, node.inputs) for node in fragment.nodes])
        key = (wired, len(nodes), tuple(known.values()), scope.opset, id(scope.versions))
        if key not in self._unsupported_by_nodes:
            loads = self._provider is None
            among = () if loads else self._among
            self._unsupported_by_nodes[key] = missing_kernel(
                provider, nodes, known, scope.versions, among=among, is_there=loads
            )
        return self._unsupported_by_nodes[key]


def _binding_key(held: Any, places: Mapping[str, int]) -> Hashable:
    """A binding as a cache key, tensors by their places in the class."""
    if isinstance(held, str):
        return places.get(held, "")
    if isinstance(held, VariadicBinding):
        return tuple([places.get(name, "") for name in held])
    return repr(held)


def _is_plain(held: Any) -> bool:
    """Whether the text of a binding identifies it; not so for a dict of tensors."""
    if isinstance(held, tuple) and not isinstance(held, VariadicBinding):
        return all(isinstance(item, PLAIN) for one in held for item in (one if isinstance(one, list) else (one,)))
    return True


def _refuse_invalid_rule(node: onnx.NodeProto, in_function: bool) -> None:
    """Raise RuleError for a node that is invalid in any model."""
    newest = schema(node.domain, node.op_type, None)
    complaints = check_node(node, newest.since_version if newest else 1, lambda _: None, in_function)
    if complaints:
        raise RuleError(f"the replacement violates a schema: {complaints[0].rstrip('.')}; fix the rule.")
