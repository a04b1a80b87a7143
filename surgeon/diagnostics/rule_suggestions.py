"""Finds rules that fix the findings of a target check."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from surgeon.diagnostics.explanation import mismatches_at
from surgeon.errors import SurgeonError
from surgeon.ir.index import Index
from surgeon.ir.scope import Node
from surgeon.pipeline.rewriting.driver_settings import DriverSettings
from surgeon.pipeline.rewriting.greedy_driver import GreedyDriver
from surgeon.printed_commands import command, placed, upgrade_to
from surgeon.rules.catalogue import all_rules
from surgeon.rules.matching.pattern import ops_of
from surgeon.rules.mismatches.mismatch import Mismatch
from surgeon.rules.rule import Rule, RulePlan
from surgeon.rules.searches.positional_arguments import unnamed_arguments
from surgeon.targets.lint.finding import FOR_THIS, Diagnostic
from surgeon.targets.target import Target

FIXABLE_KINDS = frozenset({"mapping", "opset", "kernel", "plugin", "restriction"})


@dataclass(slots=True)
class _Help:
    """The effects of rules on one finding, best first."""

    fires: list[str] = field(default_factory=list)
    """Lines on rules that fire."""
    may: dict[str, str] = field(default_factory=dict)
    """By line on a rule that does not fire, its name."""
    is_whole: bool = False
    """Whether an exact rule fires at all nodes of the finding."""


def suggest_rules(
    findings: Iterable[Diagnostic], index: Index, target: Target, ep: str | None
) -> list[tuple[Diagnostic, list[str]]]:
    """Put rules that help first among the helps of findings, those that fire first.  The index must be valid.

    If a rule fires at all nodes of a placeholder, other helps are omitted.

    Returns:
        The findings that no rule fixes by itself, each with the names of the rules that look for its nodes.
    """
    wanted = [(found, _Help()) for found in findings if found.kind in FIXABLE_KINDS and found.where]
    ops = {node.op for found, _ in wanted for node in found.where}
    for rule in sorted((rule for _, _, rule in all_rules()), key=lambda rule: not rule.is_exact) if ops else ():
        for chosen in (target.name, *target.also):
            plan = _plan_or_none(rule, chosen, index.main.opset)
            found_ops = set() if plan is None else _ops_of_patterns(plan, ops)
            if plan is None or not found_ops:
                continue
            fires = _replaced_nodes(rule, index, chosen, target=target, ep=ep)
            for found, help_ in wanted:
                nodes = [node for node in found.where if node.op in found_ops]
                if nodes:
                    _RuleForTarget(rule, chosen, chosen != target.name, ep=ep, index=index).add(
                        found, help_, nodes, fires=fires, needs=plan.needs
                    )
            if fires:
                break
    for found, help_ in wanted:
        rest = [] if help_.is_whole and found.kind == "mapping" else found.helps
        best = [text for text in rest if text.startswith(FOR_THIS)]
        rest = [text for text in rest if text not in best]
        found.helps = [*(best if help_.fires else []), *help_.fires, *([] if help_.is_whole else help_.may), *rest]
    return [(found, list(help_.may.values())) for found, help_ in wanted if not help_.is_whole]


@dataclass(frozen=True, slots=True)
class _RuleForTarget:
    """One rule for one target."""

    rule: Rule
    """The rule."""
    target: str
    """Target that it writes for."""
    is_other_target: bool
    """Whether that is not the requested target, but one whose forms it runs too."""
    ep: str | None
    """Execution provider; None for any."""
    index: Index
    """The model."""

    def add(self, found: Diagnostic, help_: _Help, nodes: list[Node], fires: set[Node], needs: int | None) -> None:
        """Add a line on the effect of the rule for a finding.  needs: opset that it would need."""
        count = len(fires.intersection(nodes))
        if count:
            if help_.is_whole and not self.rule.is_exact:
                return  # an exact rule fixes all nodes
            many = "" if count == found.count else f" at {count} of {found.count} nodes"
            many += "" if self.rule.is_exact else " (it changes numbers beyond rounding)"
            help_.fires.append(f"rule {self.rule.name} fires{many}: {self._command('rewrite', 'IN', 'OUT')}")
            help_.is_whole = help_.is_whole or (count == found.count and self.rule.is_exact)
        elif needs is not None or found.kind == "mapping" or self.rule.lacking:
            hint = self._hint(nodes[0], found.kind == "mapping")
            help_.may |= {hint: self.rule.name} if hint is not None and self.rule.is_exact else {}

    def _hint(self, node: Node, is_placeholder: bool) -> str | None:
        """A line on a rule that does not fire at a node; None if it is not near a match."""
        if self.rule.search is not None:
            return None
        miss = next(iter(mismatches_at(self.index, self.rule, self.target, ep=self.ep, node=node)), None)
        if miss is not None and miss.opset:
            return f"rule {self.rule.name} may replace it from opset {miss.opset} on: {upgrade_to(miss.opset)}"
        if miss is not None and self.rule.lacking and _is_of_node(miss):
            return f"rule {self.rule.name} replaces such nodes, but not this one: {miss.reason}"
        if miss is None or not miss.near or not is_placeholder or self.is_other_target:
            return None
        why = f"but does not fire ({miss.reason})"
        return f"rule {self.rule.name} matches such nodes, {why}: {self._command('explain', 'IN')}"

    def _command(self, *words: str) -> str:
        return command(*words, "--rules", self.rule.name, *placed(self.target, self.ep))


def _is_of_node(miss: Mismatch) -> bool:
    """Whether a mismatch concerns only the node itself."""
    is_whole = miss.matched == miss.total and miss.kind != "escape"
    return not miss.also and (is_whole or (miss.total == 1 and miss.kind == "operand"))


def _plan_or_none(rule: Rule, target: str, opset: int | None) -> RulePlan | None:
    try:
        plan = rule.plan(target, opset)
    except SurgeonError:  # a user's rule that cannot be traced is not a fault of the model
        return None
    return plan if isinstance(plan, RulePlan) else None


def _ops_of_patterns(plan: RulePlan, wanted: set[str]) -> set[str]:
    """Those of these ops that a rule's patterns contain; for a search, the placeholders that it may replace."""
    found: set[str] = set()
    for compiled in plan.sources:
        if compiled.search is unnamed_arguments:
            found.update(op for op in wanted if "::" in op)
        if compiled.search is not None and compiled.search.replaces is not None:
            found.update(filter(compiled.search.replaces, wanted))
        own = ops_of(compiled.pattern)
        wild = [name for name in own if "*" in name]
        found.update(op for op in wanted if op in own or any(fnmatchcase(op, name) for name in wild))
    return found


def _replaced_nodes(rule: Rule, index: Index, chosen: str, target: Target, ep: str | None) -> set[Node]:
    """The nodes that a rule replaces by ops that the target runs.  chosen: target that the rule writes for."""
    driver = GreedyDriver(index, DriverSettings([rule], chosen, ep))
    found: set[Node] = set()
    for scope in index.scopes:
        for match, fragment in driver.proposed_replacements(rule, scope):
            if target.reads is not None:
                runs = all(map(target.reads, fragment.as_protos()))
            else:
                runs = driver.acceptance.cache.require_valid(match, fragment) is None
            found.update(match.nodes if runs else ())
    return found
