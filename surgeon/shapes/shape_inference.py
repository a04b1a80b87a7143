"""Types and values of a model's tensors, inferred on demand and cached.

Order of trust: inputs and initializers; types observed in a run; the op's rule; onnx's inference of the node; the types
that the file declares of inner tensors.  An unknown dim is a new symbol, `?name[axis]`.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from math import prod
from typing import Any, TypeAlias

from onnx import AttributeProto

from surgeon.ir.original_model import OriginalModel
from surgeon.ir.scope import Node, Scope
from surgeon.shapes.algebra.integer_width import drop_overflows
from surgeon.shapes.algebra.size_expressions import Expr, symbol
from surgeon.shapes.declared_types import DeclaredTypes
from surgeon.shapes.dtype_inference import Dtypes
from surgeon.shapes.inference_cache import InferenceCache
from surgeon.shapes.onnx_inference import infer
from surgeon.shapes.op_rules import control_flow
from surgeon.shapes.op_rules.rule_table import by_rule
from surgeon.shapes.op_rules.values import integer_values
from surgeon.shapes.tensor_types import (
    FLOATS,
    INTEGERS_AND_BOOL,
    UNKNOWN,
    CallContext,
    NeedsOperands,
    NodeView,
    PartialShape,
    PartialType,
    Shape,
    TensorType,
    ValueArray,
    complete_type,
    completed,
    is_sum,
    run_rule,
    sanitized,
)

DEEPEST_CALLS = 32  # nested calls; ONNX forbids recursion, but an invalid file may have it
MAX_CALLS = 1 << 14  # of functions, each examined separately: forty that each call the last twice are 2^40
MAX_ROUNDS = 8  # inferences of the body of a Loop; each makes at least one dim unknown, so few Loops need three
MAX_LOOP_DEPTH = 4  # Loops inside Loops whose bodies are inferred more than once
Key: TypeAlias = tuple[Scope, str]
Task: TypeAlias = tuple[bool, Scope, str]  # whether the value is needed, the scope that produces the tensor, its name


@dataclass(frozen=True, slots=True)
class _CommonState:
    """State that the instance for the main graph shares with those for calls of functions."""

    functions: control_flow.Functions
    """Local functions by qualified op and overload."""
    repeats: InferenceCache
    """Types of nodes that occur repeatedly."""
    calls: Iterator[int]
    """Counts the calls that were entered."""

    @classmethod
    def of(cls, origin: OriginalModel) -> "_CommonState":
        functions = control_flow.functions_of(origin)
        return cls(functions, InferenceCache(functions), count())


class ShapeInference:
    """Dtypes, shapes and values of tensors, by scope of the index or the origin.  Invalid graphs do not raise."""

    def __init__(
        self,
        origin: OriginalModel,
        frame: CallContext | None = None,
        outer: "ShapeInference | None" = None,
        stated: DeclaredTypes | None = None,
    ) -> None:
        self.origin = origin
        self._frame, self._outer = frame, outer
        self._stated: DeclaredTypes = stated or (DeclaredTypes.of(origin) if outer is None else outer._stated)
        self._dtypes = Dtypes(self._stated, lambda scope, name: self.facts(scope, name).dtype)
        self._facts: dict[Key, TensorType] = {}
        self._values: dict[Key, ValueArray | None] = {}
        self._learned: dict[Key, TensorType] = {}
        self._insides: dict[Node, ShapeInference] = {}
        self._open_loops: int = 0 if outer is None else outer._open_loops
        self._learned_inside: dict[Node, dict[Key, TensorType]] = {}
        self._common: _CommonState = _CommonState.of(origin) if outer is None else outer._common

    def facts(self, scope: Scope, name: str) -> TensorType:
        """The dtype and shape of a tensor that is visible in a scope."""
        home = self.origin.scope(scope).defining_scope(name)
        return UNKNOWN if home is None else self.facts_at(home, name)

    def facts_at(self, home: Scope, name: str) -> TensorType:
        """The dtype and shape of a tensor that this scope defines."""
        found = self._facts.get((home, name)) or self._at_hand(home, name)
        if found is None:
            self._solve((False, home, name))
            found = self._facts[home, name]
        return found

    def shape(self, scope: Scope, name: str) -> Shape | None:
        """The shape of a tensor; None if the rank is unknown."""
        return self.facts(scope, name).shape

    def dtype(self, scope: Scope, name: str) -> int | None:
        """The dtype of a tensor, without shape inference if possible."""
        return self._dtypes.find(scope, name) or self.facts(scope, name).dtype

    def is_float(self, scope: Scope, name: str) -> bool:
        """Whether a tensor is known to contain floats; the exact type may be unknown, as in a function."""
        found = self._dtypes.is_float(scope, name)
        return self.facts(scope, name).dtype in FLOATS if found is None else found

    def value(self, scope: Scope, name: str) -> ValueArray | None:
        """An object array of ints, bools and `Expr`, of the tensor's shape; None for an unknown element.

        Only for integers and booleans of at most `integer_values.LIMIT` elements.
        """
        home = self.origin.scope(scope).defining_scope(name)
        if home is None:
            return None
        found = self._solved_value(home, name)
        if found is None or not all(isinstance(item, (int, Expr)) for item in found.flat):
            return None  # a tensor with a ratio must be of floats
        return None if self.facts(scope, name).dtype in FLOATS else found.copy()

    def for_call(self, call: Node) -> "ShapeInference | None":
        """The evaluator of the function that a node calls, for this one call; None if it calls none.

        Use it with the function's scope and the bodies in it.  Its inputs have the facts and values of the call's.
        """
        scope = self._called(call)
        if scope is None:
            return None
        return self._inside(self.site(call).scope, call, scope)

    def site(self, node: Node) -> NodeView:
        """A node as rules see it."""
        home, inputs = self.origin.scope(node.scope), self.origin.inputs(node)
        for name in filter(None, inputs):
            self.facts(home, name)
            self.value(home, name)
        return NodeView(self, home, node, inputs)

    def attribute(self, node: Node, name: str) -> AttributeProto | None:
        """An attribute of a node; a reference to an attribute of the function is resolved by the call."""
        item = node.attribute(name)
        return item if item is None or not item.ref_attr_name else self.given(item.ref_attr_name)

    def given(self, name: str) -> AttributeProto | None:
        """The value of an attribute of the function in the call; None outside of functions."""
        return None if self._frame is None else self._frame.attributes.get(name)

    @cached_property
    def call(self) -> Hashable:
        """The arguments of the function's call; calls with equal arguments have equal types inside."""
        return None if self._frame is None else self._frame.key()

    def add_observed(self, scope: Scope, name: str, dtype: int | None, shape: tuple[int, ...]) -> None:
        """Add a type that was observed in a run; only inputs and initializers have precedence over it."""
        home = self.origin.scope(scope).defining_scope(name)
        if home is not None:
            self._learned[home, name] = TensorType(dtype, tuple(shape))
            self._forget()

    def _forget(self) -> None:
        """Drop results that may depend on less than is known now; also in the callers."""
        self._facts.clear()
        self._values.clear()
        self._insides.clear()
        if self._outer is not None:
            self._outer._forget()

    # Interface for rules

    def need_facts(self, scope: Scope, name: str) -> TensorType:
        """The facts of a tensor for a rule; interrupts the rule if they are still unknown."""
        found = self._facts.get((scope, name))
        if found is not None:
            return found
        home = scope.defining_scope(name)
        if home is None:
            return UNKNOWN
        found = self._at_hand(home, name)
        if found is None:
            raise NeedsOperands((False, home, name))
        return found

    def need_value(self, scope: Scope, name: str) -> ValueArray | None:
        """The value of a tensor for a rule, perhaps with elements of None; as `need_facts`."""
        if (scope, name) in self._values:
            return self._values[scope, name]
        home = scope.defining_scope(name)
        if home is None:
            return None
        if (home, name) not in self._values:
            raise NeedsOperands((True, home, name))
        return self._values[home, name]

    def floats(self, scope: Scope, name: str) -> list[float] | None:
        """The elements of a numeric constant, in order."""
        found = self.origin.constants.get(scope, name)
        return None if found is None or found.array.dtype.kind in "OSU" else [float(x) for x in found.array.flat]

    # Evaluation without recursion: a rule that misses a result runs again once that is known

    def _solve(self, task: Task) -> None:
        waiting, begun = [task], set[Task]()
        while waiting:
            task = waiting[-1]
            is_value, home, name = task
            if (home, name) in (self._values if is_value else self._facts):
                waiting.pop()
                continue
            try:
                missing = self._find_value(home, name) if is_value else self._find_facts(home, name)
            except NeedsOperands as stopped:
                missing = stopped.tasks
            if missing:
                begun.add(task)
                waiting.extend(missing)
                for other in begun.intersection(missing):
                    self._give_up(other)

    def _give_up(self, task: Task) -> None:
        """A tensor that depends on itself: a cycle in an invalid graph."""
        is_value, home, name = task
        known: dict[Key, Any] = self._values if is_value else self._facts
        known[home, name] = None if is_value else UNKNOWN

    def _at_hand(self, home: Scope, name: str) -> TensorType | None:
        """Facts that are cached, stored or observed, without looking at the nodes before."""
        found = self._facts.get((home, name))
        if found is None:
            found = self._given(home, name)
            if found is not None:
                self._facts[home, name] = found
        return found

    def _given(self, home: Scope, name: str) -> TensorType | None:
        if name in home.inputs:
            given = self._given_input(home, name)
            if given is not None and given.shape is not None:
                return given
        else:
            stored: Any = home.initializers.get(name)
            if stored is None and name in home.sparse:
                stored = home.sparse[name]
                return TensorType(stored.values.data_type, tuple(stored.dims))
            if stored is not None:
                return self._common.repeats.one(TensorType(stored.data_type, tuple(stored.dims)))
        if self._learned and (home, name) in self._learned:
            return self._learned[home, name]
        return None

    def _given_input(self, home: Scope, name: str) -> TensorType | None:
        if self._frame is not None and home is self._frame.scope:
            return self._frame.facts.get(name, UNKNOWN)
        return self._stated.inputs.get(name) if home.parent is None and not home.is_function else None

    def _find_facts(self, home: Scope, name: str) -> Sequence[Task]:
        """Infer the facts of a tensor that are not known yet; returns the tasks that must come first, if any."""
        node = home.producers.get(name)
        if node is None:
            self._find_inputs(home, name)
            return ()
        inputs = self.origin.inputs(node)
        given, missing = self._facts_of(home, inputs)
        if missing:
            return missing
        found = self._common.repeats.find(home, node, given)
        if found is None or self._may_be_simpler(home, name, found):
            self._apply(NodeView(self, home, node, inputs), given)
        else:
            self._facts[home, name] = found
        return ()

    def _facts_of(self, home: Scope, names: Sequence[str]) -> tuple[list[TensorType], list[Task]]:
        """The types of a node's inputs, and the tasks for those that are still unknown."""
        given, missing = [], []
        for name in names:
            found = self._facts.get((home, name))
            if found is None:
                source = home.defining_scope(name) if name else None
                found = UNKNOWN if source is None else self._at_hand(source, name)
                if found is None and source is not None:
                    missing.append((False, source, name))
                    continue
            given.append(found or UNKNOWN)
        return given, missing

    def _apply(self, site: NodeView, given: Sequence[TensorType]) -> None:
        """Infer the types of a node's outputs from those of its inputs."""
        home, node = site.scope, site.node
        drafts = run_rule(self._by_rule, site) or ()
        inferred: Sequence[PartialType] = ()
        for place, output in enumerate(node.outputs):
            if not output or self._at_hand(home, output) is not None:
                continue
            draft = sanitized(drafts[place]) if place < len(drafts) else PartialType(*UNKNOWN)
            if draft.shape is None or not draft.dtype:
                inferred = inferred or infer(site)
                draft = completed(draft, sanitized(inferred[place]))
            found = complete_type(draft)
            if found is None or self._may_be_simpler(home, output, found):
                self._facts[home, output] = self._completed(home, output, draft)
            else:
                self._facts[home, output] = self._common.repeats.keep(home, node, given, found)

    def _by_rule(self, site: NodeView) -> Sequence[PartialType | TensorType]:
        called = self._called(site.node)
        if called is not None:
            inner = self._inside(site.scope, site.node, called)
            outputs: Any = called.proto.output
            return [] if inner is None else [inner.facts(called, name) for name in outputs]
        if site.node.op in control_flow.BODY_OPS and self.origin.bodies(site.node):
            return control_flow.output_drafts(site, self, control_flow.bodies_of(self.origin, site.node))
        return by_rule(site)

    def _may_be_simpler(self, home: Scope, name: str, found: TensorType) -> bool:
        """Whether the file declares a shape, and the node computes a size of it: a sum, or with a floor, min or max."""
        if not any(isinstance(size, Expr) and (size.calls or is_sum(size)) for size in found.shape or ()):
            return False
        return self._stated.draft(home, name).shape is not None

    def _completed(self, home: Scope, name: str, ruled: PartialType | TensorType) -> TensorType:
        """The type that the node implies, completed by the file."""
        return self._named(home, name, *completed(ruled, self._stated.draft(home, name)))

    def _named(self, home: Scope, name: str, dtype: int | None, shape: PartialShape | None) -> TensorType:
        """A type in which unknown dims have a name."""
        if shape is None:
            return TensorType(dtype, None)
        where = "" if self._frame is None else f"{self._frame.label}/"
        where += "" if home.parent is None else f"{home.label}/"
        named = [symbol(f"?{where}{name}[{axis}]") if size is None else size for axis, size in enumerate(shape)]
        return TensorType(dtype, tuple(named))

    # Inputs of bodies

    def _find_inputs(self, home: Scope, name: str) -> None:
        """Infer the type of an input of a body from the node that contains the body; for a Loop's body, all inputs
        together.
        """
        owner, types = home.owner, dict[str, PartialType]()
        if owner is not None and home.parent is not None:
            site = NodeView(self, home.parent, owner, self.origin.inputs(owner))
            types = run_rule(control_flow.input_types, site, home) or {}
        if types and owner is not None and owner.op == "Loop":
            self._find_carried(home, types)
        else:
            self._facts[home, name] = self._completed(home, name, types.get(name, PartialType(*UNKNOWN)))

    def _find_carried(self, body: Scope, types: dict[str, PartialType]) -> None:
        """Infer the types of the carried tensors of a Loop, by induction.  types: those of the first iteration.

        A dim is known if an iteration does not change it, provided that all such dims are unchanged at its start.  The
        declarations in the file are ignored, because an iteration may change the declared dims.
        """
        self._open_loops += 1
        rounds = MAX_ROUNDS if self._open_loops <= MAX_LOOP_DEPTH else 0
        types = types if rounds else control_flow.with_open_dims(types)
        while True:
            self._facts.update({(body, name): self._named(body, name, *types[name]) for name in types})
            if not rounds:
                break
            kept = self._types_after_iteration(body, types)
            if kept == types:
                break
            rounds -= 1
            types = kept if rounds else control_flow.with_open_dims(types)
            self._forget_inside(body)
        self._open_loops -= 1

    def _types_after_iteration(self, body: Scope, types: Mapping[str, PartialType]) -> dict[str, PartialType]:
        return control_flow.types_after_iteration(body, types, self.facts)

    def _forget_inside(self, body: Scope) -> None:
        """Drop the inferred types inside a body."""
        waiting = [body]
        while waiting:
            scope = waiting.pop()
            for name in (*scope.inputs, *scope.producers):
                self._facts.pop((scope, name), None)
                self._values.pop((scope, name), None)
            for node in scope.nodes:
                self._insides.pop(node, None)
                waiting += self.origin.bodies(node)

    # Local functions

    def _called(self, node: Node) -> Scope | None:
        overloads = self._common.functions.get(node.op)
        if overloads is None or (self._frame is not None and self._frame.depth >= DEEPEST_CALLS):
            return None
        return overloads.get(node.proto.overload)

    def _inside(self, home: Scope, call: Node, scope: Scope) -> "ShapeInference | None":
        """The shapes inside a call; interrupts the rule while types of the call's inputs are unknown."""
        if call not in self._insides:
            if next(self._common.calls) >= MAX_CALLS:
                return None
            proto: Any = scope.proto
            pairs = zip(proto.input, self.origin.inputs(call), strict=False)
            named = [(formal, name) for formal, name in pairs if name]
            facts = {formal: self.need_facts(home, name) for formal, name in named}
            found = {formal: self.need_value(home, name) for formal, name in named}
            attributes = {item.name: item for item in proto.attribute_proto}
            given = [(item.name, self.attribute(call, item.name)) for item in call.proto.attribute]
            attributes.update({name: item for name, item in given if item is not None})
            outer, depth = ("", 0) if self._frame is None else (f"{self._frame.label}/", self._frame.depth)
            made = ShapeInference(
                self.origin,
                CallContext(scope, facts, found, attributes=attributes, label=outer + call.label, depth=depth + 1),
                self,
            )
            made._learned = self._learned_inside.setdefault(call, {})
            self._insides[call] = made
        return self._insides[call]

    # Values

    def _solved_value(self, home: Scope, name: str) -> ValueArray | None:
        if (home, name) not in self._values:
            self._solve((True, home, name))
        return self._values[home, name]

    def _find_value(self, home: Scope, name: str) -> Sequence[Task]:
        dtype, shape = self.need_facts(home, name)
        numbers = [size for size in shape or () if isinstance(size, int)]
        fixed = shape is not None and len(numbers) == len(shape)
        is_whole = dtype is None or dtype in INTEGERS_AND_BOOL
        # Small floats may be intermediate sizes; tracing all others would traverse the model.
        if not (is_whole or (dtype in FLOATS and fixed)) or (fixed and prod(numbers) > integer_values.LIMIT):
            self._values[home, name] = None
            return ()
        blank = integer_values.unknown_value(dtype, numbers) if fixed else None
        node = home.producers.get(name)
        if node is None or name in home.inputs:
            found = self._value_of_input(home, name)
            self._values[home, name] = found if found is not None else blank
            return ()
        site = NodeView(self, home, node, self.origin.inputs(node))
        results = run_rule(self._by_value_rule, site) or ()
        for place, output in enumerate(node.outputs):
            if output == name:
                found = results[place] if place < len(results) else None
                if found is None and node.op in ("Constant", "Cast"):
                    found = self._constant(home, name)
                is_large = found is not None and found.size > integer_values.LIMIT
                is_odd = found is not None and (is_large or (fixed and found.shape != tuple(numbers)))
                self._values[home, name] = blank if found is None or is_odd else drop_overflows(found, dtype)
        return ()

    def _by_value_rule(self, site: NodeView) -> Sequence[ValueArray | None]:
        called = self._called(site.node)
        if called is not None:
            inner, outputs = self._inside(site.scope, site.node, called), list(map(str, called.proto.output))
            if inner is None:
                return []
            return [inner._solved_value(home, x) if (home := called.defining_scope(x)) else None for x in outputs]
        if site.node.op == "If":
            chosen = control_flow.bodies_of(self.origin, site.node).get(control_flow.taken_branch(site) or "")
            proto: Any = None if chosen is None else chosen.proto
            return [] if chosen is None else [self.need_value(chosen, value.name) for value in proto.output]
        rule = integer_values.RULES.get(site.node.op)
        return [] if rule is None or site.is_misread else rule(site)

    def _value_of_input(self, home: Scope, name: str) -> ValueArray | None:
        if self._frame is not None and home is self._frame.scope:
            return self._frame.values.get(name)
        return self._constant(home, name)

    def _constant(self, home: Scope, name: str) -> ValueArray | None:
        found = run_rule(self.origin.constants.get, home, name)
        return None if found is None else integer_values.of_array(found.array)
