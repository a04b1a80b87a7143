"""Suggests edits to a user's rule that make it fire; each suggestion is tried."""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from surgeon.diagnostics.folded_constants import FOLDED, left_out
from surgeon.diagnostics.pattern_source import PatternSource, TextEdit, helper_name_of
from surgeon.diagnostics.word_recognition import matching_words
from surgeon.errors import SurgeonError
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, split_op
from surgeon.ops.builder.composites import find_composite
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.ops.schemas.helper_names import helper_name
from surgeon.ops.traits.trait_lookup import CAST_OPS
from surgeon.pipeline.acceptance.match_acceptance import MatchAcceptance, MatchDeclined
from surgeon.pipeline.acceptance.near_misses import accept_by, rule_plans
from surgeon.rules.catalogue import packs
from surgeon.rules.matching.match import Match
from surgeon.rules.matching.match_state import plain
from surgeon.rules.matching.matcher import match_at
from surgeon.rules.mismatches.mismatch import Mismatch, RuleFix
from surgeon.rules.rule import Rule

MAX_EDITS, TRIALS = 3, 48  # edits that are reported for a mismatch, and tried
NUMBERS = ("alpha", "beta", "gamma", "scale")
OTHERS = ("y", "z", "other")
ANNOTATIONS = {float: "float", int: "int", str: "str", list: "list"}
QUOTED = re.compile(r"\('(\w+)'\)")
JOINS = {"add": "add", "mul": "multiply by"}
Candidate = tuple[str, list[TextEdit]]  # what an edit does, and the changes to the file


def is_user_rule(rule: Rule) -> bool:
    """Whether the user can edit a rule: it has a pattern, and is not from an installed package."""
    return rule.search is None and not any(rule.module in modules for modules in packs().values())


def with_rule_fixes(index: Index, rule: Rule, target: str, acceptance: MatchAcceptance, miss: Mismatch) -> Mismatch:
    """A mismatch with edits of its pattern that make the rule fire there; each was tried."""
    function = next((item for item in rule.patterns if item.__name__ == miss.pattern), None)
    source = PatternSource.of(function) if function is not None else None
    roots = [node for scope in index.scopes for node in scope.live_nodes() if _is_root(node, miss)]
    if source is None or not roots:
        return miss

    def fires(changes: list[TextEdit], rule: Rule = rule) -> bool:
        with suppress(SurgeonError, SyntaxError, NameError):  # an edit that breaks the rule is not suggested
            made = source.function_with(changes)
            patterns = tuple(made if item is function else item for item in rule.patterns)
            known = {item: held for item, held in rule._compiled.items() if item is not function}
            return _fires(
                index, replace(rule, patterns=patterns, _compiled=known), target, acceptance=acceptance, roots=roots
            )
        return False

    folded = [one for one in left_out(source, rule) if fires(one.changes, one.rule)] if miss.kind in FOLDED else []
    first = (RuleFix(one.what, source.lines_with([*one.changes, *one.defaults])) for one in folded)
    tried = islice(_candidates(source, miss, roots), TRIALS)
    found = (RuleFix(what, source.lines_with(changes)) for what, changes in tried if fires(changes))
    return replace(miss, edits=tuple(islice(chain(first, found), MAX_EDITS)))


def _is_root(node: Node, miss: Mismatch) -> bool:
    return bool(miss.node) and node.label == miss.node and node.scope.label == miss.scope


def _fires(index: Index, rule: Rule, target: str, acceptance: MatchAcceptance, roots: Sequence[Node]) -> bool:
    """Whether a rule fires at one of some nodes."""
    for scope, plan in rule_plans(index, rule, target):
        for compiled in plan.sources:
            accept = accept_by(acceptance, rule, plan, compiled)

            def is_accepted(match: Match, accept: Callable[[Match], object] = accept) -> bool:
                with suppress(MatchDeclined):
                    accept(match)
                    return True
                return False

            for root in roots:
                if root.scope is scope and match_at(index, compiled, root, is_accepted) is not None:
                    return True
    return False


def _candidates(source: PatternSource, miss: Mismatch, roots: Sequence[Node]) -> Iterator[Candidate]:
    """Edits that might fix a mismatch, the likeliest first."""
    makers = {
        "attribute": _attributes,
        "value": _numbers,
        "operand": _operands,
        "op": _other_steps,
        "domain": _domains,
        "escape": _shared,
        "graph output": _shared,
        "missing optional": _inputs,
    }
    if miss.kind in makers:
        yield from makers[miss.kind](_MissedPattern(source, miss, roots[0]))


class _MissedPattern:
    """A mismatch and the source of its pattern."""

    def __init__(self, source: PatternSource, miss: Mismatch, root: Node) -> None:
        """root: node at which the pattern starts."""
        self.source, self.miss, self.root = source, miss, root
        line = int(miss.where.rpartition(":")[2])
        self.here = [call for call in source.helpers if call.lineno <= line <= (call.end_lineno or line)]
        # helper calls on the line of the mismatch, those of its op first
        self.helpers = sorted(self.here, key=lambda call: (not self.is_asked(call), -call.lineno))

    def is_asked(self, call: ast.Call) -> bool:
        """Whether a call is of the op of the mismatch."""
        domain, op = split_op(self.miss.op)
        name = helper_name_of(call)
        given = getattr(call.args[0], "value", None) if name == "op" and call.args else None
        return given == self.miss.op or (bool(op.isidentifier()) and name == helper_name(domain, op))

    def node(self, label: str) -> Node | None:
        """The node of this name in the scope."""
        return next((node for node in self.root.scope.live_nodes() if node.label == label), None)

    def casts(self) -> Iterator[str]:
        """Dtypes of the Casts in the mismatch."""
        for node in self.root.scope.live_nodes():
            to = node.attribute("to") if node.op in CAST_OPS else None
            if to is not None and repr(node.label) in f"{self.miss.reason} {self.miss.at!r}":
                yield dtype_name(to.i)


def _attributes(missed: _MissedPattern) -> Iterator[Candidate]:
    """Capture an attribute with another value, or all other attributes."""
    source, node = missed.source, missed.node(missed.miss.at)
    calls = [call for call in missed.helpers if missed.is_asked(call) and source.is_in_pattern(call)]
    if node is None:
        return
    for call in calls:
        given = {item.arg: item.value for item in call.keywords}
        values = {item.name: plain(item) for item in node.proto.attribute if not item.ref_attr_name}
        reason = f"{missed.miss.wanted}; {missed.miss.reason}"
        others = {name: value for name, value in values.items() if re.search(rf"\b{name} = |^{name} ", reason)}
        changes: list[TextEdit] = []
        for name, value in others.items():
            kind = ANNOTATIONS.get(type(value))
            if kind is None or not name.isidentifier():
                break
            free, change = source.captured([name], kind)
            text = f"{name}={free}"
            changes.append(source.replaced(given[name], free) if name in given else source.argument(call, text))
            changes.append(change)
        else:
            if others:
                yield f"capture {' and '.join(others)} from the node", changes
        takes_all = source.record is not None or source.pattern.args.kwarg is not None or None in given
        if not takes_all and not others.keys() & given.keys():
            object_or_any = "Any" if source.function.__globals__.get("Any") is Any else "object"
            free = source.free_name("attributes")
            last = source.parameter(f"**{free}", object_or_any)
            end = max(source.span(item)[1] for item in _parameters(source))
            yield "capture all other attributes", [source.argument(call, f"**{free}"), TextEdit(end, end, last.text)]
        for name, value in others.items():
            if name in given and isinstance(value, (int, float, str)) and len(others) == 1:
                yield _instead(value, source.text_of(given[name])), [source.replaced(given[name], repr(value))]


def _parameters(source: PatternSource) -> list[Any]:
    arguments = source.pattern.args
    found = [*arguments.args, *arguments.defaults, arguments.vararg, arguments.kwarg]
    return [item for item in found if item is not None]


def _instead(new: Any, old: str) -> str:
    return f"write {new} instead of {old}"


def _numbers(missed: _MissedPattern) -> Iterator[Candidate]:
    """Write the number of the model, or capture it; else add a number that the pattern lacks."""
    source, added = missed.source, list[Candidate]()
    free, change = source.captured(NUMBERS, "float")
    for call in dict.fromkeys([*missed.helpers, *source.helpers]):  # the number may be on another line
        is_here = call in missed.helpers and helper_name_of(call) in JOINS
        if is_here and not any(source.number(item) is not None for item in call.args):
            what = JOINS[helper_name_of(call)]
            added.append((f"also {what} {missed.miss.found}", [source.argument(call, missed.miss.found)]))
            if source.is_in_pattern(call):
                added.append((f"also {what} a number, captured as {free}", [source.argument(call, free), change]))
        for item in call.args:
            number = source.number(item)
            if number is None:
                continue
            with suppress(ValueError):
                found = float(missed.miss.found)
                text = repr(int(found) if isinstance(number, int) and found.is_integer() else found)
                yield _instead(text, source.text_of(item)), [source.replaced(item, text)]
            if source.is_in_pattern(item):
                changes = [source.replaced(item, free), change]
                yield f"capture the number as {free} instead of {source.text_of(item)}", changes
    yield from added


def _operands(missed: _MissedPattern) -> Iterator[Candidate]:
    """Accept any tensor or a Cast as an operand, remove a number, or use a composite helper."""
    source = missed.source
    free, capture = source.captured(OTHERS, "Tensor")
    yield from _without_numbers(missed)
    yield from _casts(missed)
    yield from _other_spellings(missed, with_casts=False)
    for argument in source.pattern.args.args:
        if repr(argument.arg) in missed.miss.wanted and getattr(argument.annotation, "id", "") == "Constant":
            assert argument.annotation is not None
            change = source.replaced(argument.annotation, "Tensor")
            yield f"let {argument.arg} be any tensor", [change]
    for call in missed.helpers:
        for item in call.args:
            if source.is_in_pattern(item) and source.number(item) is not None:
                changes = [source.replaced(item, free), capture]
                yield f"capture any tensor as {free} instead of {source.text_of(item)}", changes


def _without_numbers(missed: _MissedPattern) -> Iterator[Candidate]:
    """Remove a number that the model lacks from a sum or product."""
    source = missed.source
    for call in missed.helpers if missed.miss.found == "none" else ():
        for item in call.args if helper_name_of(call) in JOINS else ():
            if source.number(item) is not None:
                rest = [source.text_of(other) for other in call.args if other is not item]
                text = (
                    f"{_graph(source, call)}.{helper_name_of(call)}({', '.join(rest)})" if rest[1:] else "".join(rest)
                )
                yield f"remove {source.text_of(item)}", [source.replaced(call, text)]


def _casts(missed: _MissedPattern) -> Iterator[Candidate]:
    """Allow a Cast at a tensor."""
    source = missed.source
    first = {id(call) for call in missed.helpers}
    for dtype in dict.fromkeys(missed.casts()):
        for item in sorted(source.tensors(), key=lambda item: id(item) not in first):
            text = source.text_of(item)
            wrapped = f'{_graph(source, item)}.optional({_graph(source, item)}.cast({text}, to="{dtype}"))'
            yield f"allow a Cast to {dtype} there", [source.replaced(item, wrapped)]


def _graph(source: PatternSource, item: Any) -> str:
    """Variable name of the graph in the function that contains an expression."""
    owner = next(definition for definition in source.definitions if any(one is item for one in ast.walk(definition)))
    return owner.args.args[0].arg


def _other_spellings(missed: _MissedPattern, *, with_casts: bool = True) -> Iterator[Candidate]:
    """Replace a spelled out form by a composite helper, or allow a Cast."""
    source = missed.source
    for call in dict.fromkeys([*missed.helpers, *source.helpers]):
        for word, given in matching_words(call, source.number):
            text = f"{_graph(source, call)}.{word}({', '.join(map(source.text_of, given))})"
            note = (find_composite(word).__doc__ or "").partition("\n")[0].rstrip(".")
            yield f"use g.{word} ({note})", [source.replaced(call, text)]
    if with_casts:
        yield from _casts(missed)


def _other_steps(missed: _MissedPattern) -> Iterator[Candidate]:
    """Use a composite helper, allow a Cast, or add an operand that the model adds or multiplies there."""
    yield from _other_spellings(missed)
    source, helper = missed.source, missed.miss.found.lower()
    for wanted, kind in ((NUMBERS, "float"), (OTHERS, "Tensor")) if helper in JOINS else ():
        free, capture = source.captured(wanted, kind)
        for item in {id(item): item for item in source.tensors() if source.is_in_pattern(item)}.values():
            text = f"{_graph(source, item)}.{helper}({source.text_of(item)}, {free})"
            what = f"{JOINS[helper]} a {'number' if kind == 'float' else 'tensor'} there, captured as {free}"
            yield what, [source.replaced(item, text), capture]


def _domains(missed: _MissedPattern) -> Iterator[Candidate]:
    """Use the op of the same name in another domain."""
    source = missed.source
    for call in missed.helpers:
        if missed.is_asked(call) and helper_name_of(call) == "op":
            yield f"match {missed.miss.found} instead", [source.replaced(call.args[0], f'"{missed.miss.found}"')]
        elif missed.is_asked(call):
            rest = source.text_of(call)[len(source.text_of(call.func)) + 1 :]
            text = f'{_graph(source, call)}.op("{missed.miss.found}", {rest}'
            yield f"match {missed.miss.found} instead", [source.replaced(call, text)]


def _shared(missed: _MissedPattern) -> Iterator[Candidate]:
    """Allow other consumers of a tensor."""
    source = missed.source
    for call in source.helpers:
        text = source.text_of(call)
        yield "allow other consumers of it", [source.replaced(call, f"{_graph(source, call)}.shared({text})")]


def _inputs(missed: _MissedPattern) -> Iterator[Candidate]:
    """Make an input optional, or capture a further one."""
    source, miss = missed.source, missed.miss
    names = QUOTED.findall(f"{miss.wanted} {miss.reason.rpartition(': ')[2]}")
    for call in missed.helpers:
        if not missed.is_asked(call) or not source.is_in_pattern(call):
            continue
        names = list(dict.fromkeys(names))
        if miss.found == "none":
            for argument in source.pattern.args.args[-1:] if not source.pattern.args.defaults else []:
                text = f"{source.text_of(argument)} | None = None"  # type: ignore[arg-type]  # it has a span too
                yield f"make {argument.arg} optional", [source.replaced(argument, text)]
        elif names:
            given = [source.free_name(name.lower()) for name in names]
            changes = [source.argument(call, ", ".join(f"{a}={b}" for a, b in zip(names, given, strict=True)))]
            parameters = [source.parameter(name, "Tensor | None", "None") for name in given]
            whole = TextEdit(parameters[0].start, parameters[0].end, "".join(item.text for item in parameters))
            yield f"also capture {' and '.join(given)}", [*changes, whole]
