"""A second, tolerant walk over a pattern's tree, at a node where the matcher found nothing: the only thing that is
wrong.

Each partial match may have one fault: the walk records it, and continues as if it matched.  Parts of the pattern
without faults are left to the matcher.  If no partial match has a single fault, the furthest failure is reported.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice, permutations

from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import RANDOM, TRANSPARENT
from surgeon.ops.traversal import without_absent_end
from surgeon.rules.matching.associative.chain import Chain, find_producer, operands_of
from surgeon.rules.matching.associative.chain_matcher import (
    Constants,
    ConstantTotal,
    Leaves,
    candidates,
    captured_number,
    chain_faults,
    drop_operand,
    negation_constants,
    with_constants_as_operands,
)
from surgeon.rules.matching.compiler import CompiledPattern, is_output, op_predicate
from surgeon.rules.matching.match import Match
from surgeon.rules.matching.match_state import VariadicBinding
from surgeon.rules.matching.matcher import build_match, candidate_outputs, first_output
from surgeon.rules.matching.node_matchers import (
    InputOrder,
    input_matcher,
    node_differences,
    qualified_op,
    raised_rank,
)
from surgeon.rules.matching.pattern import AnyOf, LiteralValue, NamedValue, NodeOutput, NodePattern, Value, Var
from surgeon.rules.matching.value_matchers import constant_number
from surgeon.rules.mismatches import node_failures
from surgeon.rules.mismatches.chain_failures import (
    chain_splits,
    fault_failure,
    is_same_op_other_domain,
    namesake,
    no_operand,
    not_a_chain,
    not_fixed,
    number_of_operands,
)
from surgeon.rules.mismatches.mismatch import MatchFailure
from surgeon.rules.mismatches.model_fixes import suggest_constant
from surgeon.rules.mismatches.partial_match import (
    FailureTracker,
    FurthestFailure,
    PartialMatch,
    PatternLine,
    with_pattern_line,
)

CUTS = 256  # maximum number of ways to cut a sum or product of the model
LOOKS = 4000  # maximum number of tensors that are compared with a value of the pattern

Refuse = Callable[[Match, bool], MatchFailure | None]  # why a match is refused; the flag: whether it has a fault


def furthest_failure(index: Index, compiled: CompiledPattern, root: Node, refuse: Refuse) -> FurthestFailure | None:
    """Why a pattern does not match at a node; None if it does, or if the node lacks the output."""
    name = first_output(compiled, root)
    return TolerantMatcher(index, root.scope, compiled, refuse).from_output(name) if name is not None else None


class TolerantMatcher(FailureTracker):
    def __init__(self, index: Index, scope: Scope, compiled: CompiledPattern, refuse: Refuse) -> None:
        super().__init__(compiled.chain_lengths)
        self.compiled, self.compiler, self.refuse = compiled, compiled.compiler, refuse
        self.start = PartialMatch(index, scope)
        self.looks = 0

    def from_output(self, name: str) -> FurthestFailure | None:
        """The furthest failure if the first output is this tensor."""
        self._outputs((), [name], self.start)
        return self.best

    def _outputs(self, names: tuple[str, ...], nexts: Sequence[str], fit: PartialMatch) -> None:
        """Match the next output with each of some tensors, then the further ones."""
        place, line = len(names), PatternLine(self.compiled.pattern.where, "", 0)
        if not nexts:
            self.failed([fit], node_failures.no_output(self.compiled, place), line)
        for name in nexts:
            for grown in self._value(self.compiled.pattern.outputs[place], name, [fit], line):
                found = (*names, name)
                if len(found) == len(self.compiled.outputs):
                    self._conclude(grown, found, line)
                else:
                    self._outputs(found, candidate_outputs(grown, self.compiled, found), grown)

    def _conclude(self, fit: PartialMatch, names: tuple[str, ...], line: PatternLine) -> None:
        """All nodes matched: check the match as a whole."""
        match, passed, is_free = build_match(fit, self.compiled, names)
        blocked = node_failures.removal_failures(fit, self.compiled, match, passed=passed, is_free=is_free)
        against = [fit.fault, *blocked, self.refuse(match, fit.fault is not None)]
        self.refused(fit, [with_pattern_line(finding, line) for finding in against if finding is not None])

    def _value(self, value: Value, name: str, fits: Sequence[PartialMatch], line: PatternLine) -> list[PartialMatch]:
        """Match a tensor with a value of the pattern.  line: its reader."""
        found: list[PartialMatch] = []
        matcher = self.compiler.matcher(value)
        for fit in fits:
            exact = self.exact_matches(fit, lambda state, then: matcher(state, name, then), line)
            found += exact or self._nearly(value, name, fit, line)
        return self.kept(found)

    def _nearly(self, value: Value, name: str, fit: PartialMatch, line: PatternLine) -> list[PartialMatch]:
        """Continue from a tensor that does not match."""
        self.looks += 1
        if self.looks > LOOKS:
            return []
        if isinstance(value, Var):
            return self._variable(value, name, fit, line)
        if isinstance(value, LiteralValue):
            finding, is_alike = node_failures.another_value(fit, fit.nodes, value, name)
            return (self.tolerated if is_alike else self.failed)([fit], finding, line)
        if isinstance(value, NamedValue):
            held = fit.bindings.get(value.name)
            if held is not None and not fit.same_values(held, name):
                fits = self.tolerated(
                    [fit], node_failures.another(fit, value.name, held, name=name, reader=fit.reader), line
                )
            else:
                fits = [fit.copy()]
                fits[0].bindings[value.name] = name
            return self._value(value.value, name, fits, line)
        if isinstance(value, AnyOf):
            return self._any_of(value, name, fit, line)
        chain = self.compiler.chain(value)
        return self._operation(value, name, fit) if chain is None else self._chain(value, chain, name, fit)

    def _variable(self, var: Var, name: str, fit: PartialMatch, line: PatternLine) -> list[PartialMatch]:
        key, reader = var.name, fit.reader
        if var.kind in ("scalar", "list"):
            number = constant_number(fit, var, name)
            if number is None:
                return self.failed([fit], node_failures.no_constant(fit, key, name, reader), line)
            return self.tolerated([fit], node_failures.another_number(key, fit.bindings[key], number, reader), line)
        if key in fit.bindings:
            return self.tolerated(
                [fit], node_failures.another(fit, key, fit.bindings[key], name=name, reader=reader), line
            )
        fits = self.tolerated([fit], node_failures.no_constant(fit, key, name, reader), line)
        for grown in fits:
            grown.bindings[key] = name
        return fits

    def _any_of(self, value: AnyOf, name: str, fit: PartialMatch, line: PatternLine) -> list[PartialMatch]:
        node = fit.producers.get(fit.canonical(name))
        heads = [self.compiler.heads(form) for form in value.forms]
        op = "" if node is None else node.op
        forms = [form for form, ops in zip(value.forms, heads, strict=True) if ops is None or op in ops]
        if not forms:
            label = node_failures.value_label(value)
            what, seen = node_failures.describe_tensor_parts(fit, name)
            self.failed([fit], MatchFailure("op", label, what, seen, where=value.where, op=label), line)
        return self.kept([grown for form in forms or value.forms for grown in self._value(form, name, [fit], line)])

    def _operation(self, value: NodeOutput, name: str, fit: PartialMatch) -> list[PartialMatch]:
        operation, position = value.operation, value.position
        line = PatternLine(operation.where, qualified_op(operation), id(operation))
        accepts, passed, behind = op_predicate(operation), list[Node](), name
        node = fit.producers.get(name)
        while node is not None and not accepts(node.op) and node.op in TRANSPARENT and fit.is_passthrough(node, behind):
            passed.append(node)
            behind = node.inputs[0]
            node = fit.producers.get(behind)
        if node is None or not accepts(node.op):
            node = fit.producers.get(name)
            finding = node_failures.wrong_op(fit, operation, name)
            if node is None or not _can_stand_in(node, operation, position, name):
                return self.failed([fit], finding, line)
            fits = [grown.with_node(line.key, node) for grown in self.tolerated([fit], finding, line)]
        else:
            is_other = operation.op in RANDOM and fit.node_of_pattern.get(line.key) not in (None, node)
            if is_other or not is_output(node, position, behind):
                return self.failed([fit], node_failures.other_output(fit, operation, position, behind), line)
            grown = fit.with_node(line.key, node, passed)
            differ = node_differences(operation)(grown, node)
            found = [
                node_failures.different(grown, operation, node, found=item, reader=grown.reader) for item in differ
            ]
            fits = [grown] if not found else self.tolerated([grown], _together(found), line)
        return self._inputs(operation, node, fits, line)

    def _inputs(
        self, operation: NodePattern, node: Node, fits: list[PartialMatch], line: PatternLine
    ) -> list[PartialMatch]:
        plan, inputs, rest = InputOrder.of(operation), without_absent_end(node.inputs), operation.rest
        count = len(operation.inputs)
        has_constant = any(isinstance(value, LiteralValue) for value in operation.inputs)
        if has_constant and len(inputs) > len(set(inputs)) == 1 and not op_predicate(operation)(node.op):
            return self._of_one_tensor(operation, inputs[0], fits, line)
        if rest is not None:
            held = [
                fit.bindings.setdefault(rest.name, VariadicBinding(inputs[count:])) == inputs[count:] for fit in fits
            ]
            others = [fit for fit, is_held in zip(fits, held, strict=True) if not is_held]
            fits = [fit for fit in fits if fit not in others]
            self.failed(others, node_failures.other_rest(node, rest.name), line)
        elif len(inputs) > count:
            return self.failed(fits, node_failures.too_many(operation, node, inputs), line)
        elif plan.checks_rank and (rank := raised_rank(self.start, inputs, plan.literals)):
            return self.failed(fits, node_failures.raises(operation, rank), line)
        orders = permutations(inputs) if plan.is_free and len(inputs) == count else [inputs]
        found: list[PartialMatch] = []
        for order in orders:
            grown = fits
            for place in plan.order:
                name = order[place] if place < len(order) else ""
                grown = self._input(operation, plan, place, node=node, name=name, fits=grown, line=line)
            found += grown
        return self.kept(found)

    def _of_one_tensor(
        self, operation: NodePattern, name: str, fits: list[PartialMatch], line: PatternLine
    ) -> list[PartialMatch]:
        """The operands of another op are one tensor, as in r · r for r²: match it with all but the constants."""
        for value in operation.inputs:
            if value is not None and not isinstance(value, LiteralValue):
                fits = self._value(value, name, fits, line)
        return fits

    def _input(
        self,
        operation: NodePattern,
        plan: InputOrder,
        place: int,
        node: Node,
        name: str,
        fits: list[PartialMatch],
        line: PatternLine,
    ) -> list[PartialMatch]:
        value = operation.inputs[place]
        matcher = input_matcher(operation, plan, place, None if value is None else self.compiler.matcher(value))
        parameter, found = plan.parameters.get(place, ""), list[PartialMatch]()
        for fit in fits:
            exact = self.exact_matches(fit, lambda state, then: matcher(state, node, name, then), line)
            if exact:
                found += exact
            elif value is None:
                found += self.tolerated([fit], node_failures.one_too_many(fit, operation, node, place), line)
            elif parameter and (not name or node.attribute(parameter) is not None):
                found += self._parameter(node, parameter, value, fit=fit, line=line)
            elif name:
                found += self._nearly(value, name, fit, line)
            elif isinstance(value, Var) and value.optional:
                self.failed(
                    [fit],
                    node_failures.another(fit, value.name, fit.bindings[value.name], name="", reader=fit.reader),
                    line,
                )
            else:
                self.failed([fit], node_failures.left_out(operation, node, place), line)
        return self.kept(found)

    def _parameter(
        self, node: Node, name: str, value: Value, fit: PartialMatch, line: PatternLine
    ) -> list[PartialMatch]:
        """A parameter that this opset stores in an attribute, with another value."""
        known, found = fit.attribute_value(node, name)
        if not known:
            return self.failed([fit], node_failures.referred(node, name), line)
        if isinstance(value, LiteralValue):
            finding = node_failures.other_parameter(fit, node, name, wanted=value.value.tolist(), found=found)
            return self.tolerated([fit], replace(finding, where=value.where), line)
        if isinstance(value, Var) and value.kind in ("scalar", "list"):
            finding = node_failures.another_number(value.name, fit.bindings[value.name], found, fit.reader)
            return self.tolerated([fit], finding, line)
        return self.failed([fit], node_failures.other_parameter(fit, node, name, wanted=None, found=found), line)

    def _chain(self, value: NodeOutput, chain: Chain, name: str, fit: PartialMatch) -> list[PartialMatch]:
        """A sum or product: the tensor is one, or its producer takes the place of the last node."""
        line, passed = PatternLine(value.operation.where, value.operation.op, chain.key), list[Node]()
        node = find_producer(fit, name, chain.family, passed)
        if node is not None:
            return self._tree(chain, node, [fit.with_node(chain.key, node, passed)], line)
        node = fit.producers.get(fit.canonical(name))
        if node is not None and is_same_op_other_domain(chain, node):
            fits = [grown.with_node(chain.key, node) for grown in self.tolerated([fit], namesake(chain, node), line)]
            return self._tree(chain, node, fits, line)
        operands = [item for item in (() if node is None else node.inputs) if item and fit.scalar(item) is None]
        if len(operands) == 1 and len({id(term.value) for term in chain.terms}) == 1:
            operands *= len(chain.terms)  # r² for r · r
        is_alike = len(operands) == len(chain.terms) and chain.capture is None
        if node is None or node.op == "Constant" or not is_alike:
            return self.failed([fit], not_a_chain(fit, chain, name), line)
        fits = [
            grown.with_node(chain.key, node) for grown in self.tolerated([fit], not_a_chain(fit, chain, name), line)
        ]
        signs = sorted((term.sign for term in chain.terms), reverse=True)
        return self._operands(chain, 0, tuple(zip(operands, signs, strict=True)), fits=fits, line=line)

    def _tree(self, chain: Chain, node: Node, fits: list[PartialMatch], line: PatternLine) -> list[PartialMatch]:
        """Cut the tree of the model above its operands in each way."""
        found: list[PartialMatch] = []
        pending = operands_of(node, 1, chain.family)
        every = (
            chain_splits(self.start, chain, pending, leaves=(), constants=negation_constants(chain, node), nodes=())
            if fits
            else iter(())
        )
        for leaves, constants, nodes in islice(every, CUTS):
            strange = [namesake(chain, item) for item in nodes if is_same_op_other_domain(chain, item)]
            ways = [fit.copy() for fit in fits]
            for way in ways:
                way.nodes += nodes
            for finding in strange:
                ways = self.tolerated(ways, finding, line)
            for way in ways:
                found += self._settled(chain, leaves, constants, fit=way, line=line)
        return self.kept(found)

    def _settled(
        self, chain: Chain, leaves: Leaves, constants: Constants, fit: PartialMatch, line: PatternLine
    ) -> list[PartialMatch]:
        """As many leaves as operands, with constants among them, or one leaf in the place of the constant."""
        splits = list(with_constants_as_operands(chain, leaves, constants))
        found = [grown for split in splits for grown in self._compared(chain, *split, fit, line)]
        if splits:
            return found
        self.failed([fit], number_of_operands(fit, chain, leaves), line)
        has_number = any(item.name for item in constants) or chain.capture is not None or chain.number == chain.neutral
        if len(leaves) != len(chain.terms) + 1 or has_number:
            return []

        def order(place: int) -> tuple[bool, bool]:
            """Sort key: the likeliest first."""
            return not suggest_constant(fit, leaves[place][0]), leaves[place][0] in fit.producers

        for place in sorted(range(len(leaves)), key=order):
            for grown in self.tolerated([fit], not_fixed(fit, chain, leaves[place][0]), line):
                found += self._compared(chain, drop_operand(leaves, place), (), fit=grown, line=line, is_reported=True)
        return found

    def _compared(
        self,
        chain: Chain,
        leaves: Leaves,
        constants: Constants,
        fit: PartialMatch,
        line: PatternLine,
        *,
        is_reported: bool = False,
    ) -> list[PartialMatch]:
        """Compare the constants, then the operands.  is_reported: the number was reported already."""
        total, fits = ConstantTotal.of(chain, constants), [fit]
        for wrong in chain_faults(fit, chain, leaves, constants=constants, total=total):
            if not (is_reported and wrong == "number"):
                finding = fault_failure(
                    wrong, fit, fit.nodes, chain=chain, leaves=leaves, constants=constants, total=total
                )
                go_on = self.tolerated if wrong in ("number", "dtype", "rank") else self.failed
                fits = go_on(fits, finding, line)
        if chain.capture is not None:
            for grown in fits:
                grown.bindings.setdefault(chain.capture, (captured_number(chain, total),))
        return self._operands(chain, 0, leaves, fits=fits, line=line)

    def _operands(
        self, chain: Chain, position: int, leaves: Leaves, fits: list[PartialMatch], line: PatternLine
    ) -> list[PartialMatch]:
        """Assign leaves to operands one by one; if no leaf has the right op, any produced leaf."""
        if position == len(chain.terms) or not fits:
            return fits
        term, found = chain.terms[position], list[PartialMatch]()
        places = list(candidates(self.start, term, leaves))
        wanted = node_failures.value_label(term.value)
        finding = None if places else no_operand(self.start, chain, wanted, sign=term.sign, leaves=leaves)
        if finding is not None:
            if len(leaves) > 1 or leaves[0][1] != term.sign:
                self.failed(fits, finding, line)
            made = self.start.producers
            places = [(at, name) for at, (name, sign) in enumerate(leaves) if sign == term.sign and name in made]
        for place, name in places:
            grown = self._value(term.value, name, fits, line)
            found += self._operands(chain, position + 1, drop_operand(leaves, place), fits=grown, line=line)
        if finding is not None and not found:
            self.failed(fits, finding, line)
        return self.kept(found)


def _can_stand_in(node: Node, operation: NodePattern, position: int, name: str) -> bool:
    """Whether the inputs of a node of another op can be matched in its place."""
    binds = operation.others is not None or any(isinstance(item, Var) for item in operation.attributes.values())
    return is_output(node, position, name) and not binds and bool(node.inputs) and node.op != "Constant"


def _together(found: list[MatchFailure]) -> MatchFailure:
    """The differences of one node as one failure."""
    first, *more = found
    return replace(first, message="; ".join(item.sentence for item in found), change="") if more else first
