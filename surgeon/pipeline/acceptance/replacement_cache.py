"""Caches conditions and replacements for matches with equal bindings, dtypes and shapes."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeVar

import onnx

from surgeon.errors import ConditionFailed, RuleError
from surgeon.ir.index import Index
from surgeon.ir.scope import Scope
from surgeon.ops.schemas import dtype_number, infer_output_dtypes, schema
from surgeon.ops.schemas.node_check import check_node
from surgeon.pipeline.acceptance.kernel_support import MissingKernel, missing_kernel
from surgeon.rules.matching.compiler import CompiledPattern
from surgeon.rules.matching.match import Match
from surgeon.rules.matching.match_state import VariadicBinding
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
NOTHING, DTYPES, SHAPES = range(3)
PLAIN = (bool, int, float, str, type(None))


@dataclass(slots=True)
class _CachedResults:
    """Cached results of a function of a rule, by the facts that it read.

    If the function reads more facts than before, earlier results are ignored.
    """

    asks: int = NOTHING
    """Most facts that any call read: NOTHING, DTYPES or SHAPES."""
    by_facts: dict[Any, Any] = field(default_factory=dict)
    """Results by those facts."""


class ReplacementCache:
    """The replacements of one run.

    Matches share the result of a rule's function if they bind the same numbers and have the same dtypes and shapes, as
    far as the function reads these.  A function that reads more, such as the values of a weight, is not cached.
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
        self._by_function: dict[Any, _CachedResults] = {}
        self._by_template: dict[object, _CachedResults] = {}  # by the template of a match
        self._unsupported_by_nodes: dict[Any, MissingKernel | None] = {}
        self._checked: dict[Any, tuple[Replacement, MissingKernel | None]] = {}  # keeps alive the ids in its keys

    @cached_property
    def _shapes(self) -> ShapeInference:
        return shapes_of(self._index)

    @cached_property
    def _shapes_by_call(self) -> ShapesByCall:
        return ShapesByCall(self._index, self._shapes)

    def known(self, match: Match) -> Replacement | None:
        """The replacement of an earlier match of the same template and facts; None without one."""
        said = self._by_template.get(match.template)
        found: Replacement | None = (
            None if said is None else said.by_facts.get(self._facts_and_dtypes(match, said.asks))
        )
        return found

    def keep(
        self, functions: Sequence[Callable[..., Any]], compiled: CompiledPattern, match: Match, fragment: Replacement
    ) -> None:
        """Keep the replacement for the matches of a template, unless a function of the rule reads more than facts."""
        asks = NOTHING
        for function in functions:
            said = self._by_function.get(self._kind(function, compiled, match))
            if said is None or self._facts(match, said.asks) not in said.by_facts:
                return
            asks = max(asks, said.asks)
        if not compiled.pattern.claims and compiled.pattern.captures_class is None:
            alike = self._by_template.setdefault(match.template, _CachedResults())
            alike.asks = max(alike.asks, asks)
            alike.by_facts[self._facts_and_dtypes(match, alike.asks)] = fragment

    def _facts_and_dtypes(self, match: Match, asks: int) -> tuple[Any, ...]:
        """The facts of the captures, and the dtypes of captures and outputs, which the schema check needs."""
        made = [self._shapes.dtype(match.scope, name) for name in match.outputs]
        return (*made, *self._facts(match, max(asks, DTYPES)))

    def require(self, condition: Callable[..., Any], compiled: CompiledPattern, match: Match) -> None:
        """Check a condition of a rule.  Raises ConditionFailed if it does not hold."""
        why = self._cached(condition, compiled, match, lambda: self._refusal(condition, match))
        if why is not None:
            raise ConditionFailed(why)

    def build(self, plan: RulePlan, compiled: CompiledPattern, match: Match) -> Replacement:
        """The replacement of a match.  Raises what the rule's code raises, such as ConditionFailed.

        In a local function all calls share the replacement; if the rule refuses one of them, it is refused.
        """
        function = plan.form.function
        return self._cached(
            function, compiled, match, lambda: self._in_each_call(match, partial(build_replacement, function))[0]
        )

    def _refusal(self, condition: Callable[..., Any], match: Match) -> str | None:
        """Why a condition refuses a match, in a local function for any of its calls; None if it does not."""
        return next(filter(None, self._in_each_call(match, partial(_refused, condition))), None)

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
        return [] if match.scope.function is None else self._shapes_by_call.for_scope(match.scope)

    def _cached(
        self, function: Callable[..., Any], compiled: CompiledPattern, match: Match, call: Callable[[], T]
    ) -> T:
        """The result of a rule's function for a match; it is called only if no equal match is cached."""
        kind = self._kind(function, compiled, match)
        said = self._by_function.get(kind)
        known = None if said is None else said.by_facts.get(self._facts(match, said.asks))
        if known is not None:
            match.asked_last = known[1] or match.asked_last
            found: T = known[0]
            return found
        before, match.asked_last = match.asked_last, None
        match.inspected = match.asked_dtype = match.asked_shape = False
        try:
            found = call()
        finally:
            asked, match.asked_last = match.asked_last, match.asked_last or before
        if not match.inspected and all(_is_plain(held) for held in match.bound.values()):
            said = self._by_function.setdefault(kind, _CachedResults())
            said.asks = max(said.asks, SHAPES if match.asked_shape else DTYPES if match.asked_dtype else NOTHING)
            said.by_facts[self._facts(match, said.asks)] = found, asked
        return found

    def _kind(self, function: Callable[..., Any], compiled: CompiledPattern, match: Match) -> tuple[Any, ...]:
        """The cache key of a call, apart from the facts that the function may read."""
        bound = tuple([(name, _binding_key(held)) for name, held in match.bound.items()])
        return function, compiled, match.scope.opset, id(match.scope.versions), len(match.outputs), bound

    def _facts(self, match: Match, asks: int) -> tuple[Any, ...]:
        """The facts of the captured tensors.  asks: NOTHING, DTYPES or SHAPES."""
        if asks == NOTHING:
            return ()
        held = [item if isinstance(item, VariadicBinding) else (item,) for item in match.bound.values()]
        names = [name for items in held for name in items if isinstance(name, str)]
        seen = [shapes.facts if asks == SHAPES else shapes.dtype for shapes in (self._shapes, *self._calls(match))]
        return tuple([ask(match.scope, name) for ask in seen for name in names])

    def require_valid(self, match: Match, fragment: Replacement) -> MissingKernel | None:
        """Check a replacement against schemas before anything is edited.

        Returns the node that the execution provider cannot run, in a local function for any of its calls; None without
        one.  Raises ConditionFailed if it does not fit this model, RuleError if it would fit no model.
        """
        ways = (self._shapes, *self._calls(match))
        return next(filter(None, [self._unsupported_with(match, fragment, shapes) for shapes in ways]), None)

    def _unsupported_with(self, match: Match, fragment: Replacement, shapes: ShapeInference) -> MissingKernel | None:
        """The same for the dtypes that these shapes give."""
        scope = match.scope
        dtypes = {key: shapes.dtype(scope, match.tensor(key)) for key in fragment.captures}
        made = tuple([shapes.dtype(scope, name) for name in match.outputs])
        key = (id(fragment), tuple(dtypes.values()), made, scope.opset)
        if key in self._checked:
            return self._checked[key][1]
        known = {str(TensorRef("capture", key)): dtype for key, dtype in dtypes.items()}
        for place, constant in enumerate(fragment.constants):
            if constant.like is None and constant.values.dtype.kind != "S":
                known[str(TensorRef("constant", place))] = dtype_number(constant.values.dtype)
        for ref, dtype in zip(fragment.outputs, made, strict=True):
            known.setdefault(str(ref), dtype)
        nodes = list(fragment.as_protos())
        for node in nodes:
            opset = scope.versions.get(node.domain) or opset_to_import(node.domain, node.op_type)
            complaints = check_node(node, opset, known.get, scope.function is not None)
            if complaints:
                _refuse_invalid_rule(node, scope.function is not None)
                raise ConditionFailed(f"what would be written breaks its schema: {complaints[0]}")
            infer_output_dtypes(node, opset, known)
        lacking = self._unsupported(fragment, nodes, known, scope)
        self._checked[key] = fragment, lacking
        return lacking

    def _unsupported(
        self, fragment: Replacement, nodes: list[onnx.NodeProto], known: dict[str, int | None], scope: Scope
    ) -> MissingKernel | None:
        """The node that the provider cannot run; cached by nodes and dtypes."""
        provider = self._provider or self._loader
        if provider is None:
            return None
        wired = tuple([(node.kind, node.inputs) for node in fragment.nodes])
        key = (wired, tuple(known.values()), scope.opset, id(scope.versions))
        if key not in self._unsupported_by_nodes:
            loads = self._provider is None
            among = () if loads else self._among
            self._unsupported_by_nodes[key] = missing_kernel(
                provider, nodes, known, scope.versions, among=among, is_there=loads
            )
        return self._unsupported_by_nodes[key]


def _refused(condition: Callable[..., Any], match: Match) -> str | None:
    """Why a condition refuses a match; None if it does not."""
    try:
        run_condition(condition, match)
    except ConditionFailed as refusal:
        return str(refusal)
    return None


def _binding_key(held: Any) -> Any:
    """A binding as a cache key, without names of tensors."""
    if isinstance(held, str):
        return ""
    return len(held) if isinstance(held, VariadicBinding) else repr(held)


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
        raise RuleError(f"What the rule writes breaks its schema: {complaints[0].rstrip('.')}; mend the rule.")
