"""What helps a node that a target does not run: the rules that find it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import onnx

from surgeon.diagnosis.finding import Finding
from surgeon.errors import SurgeonError
from surgeon.indexing.index import Index
from surgeon.indexing.scope import Node, qualified
from surgeon.matching.compile import Compiled
from surgeon.matching.pattern import Output, walk
from surgeon.rewriting.catalogue import all_rules
from surgeon.rewriting.driver import Driver
from surgeon.rewriting.explain import explanations
from surgeon.rewriting.rule import Plan, Rule
from surgeon.searches.placeholders import unnamed_arguments

TARGETS = {"ort": ("ort", "contrib")}  # what the same runtime runs too
HELPED = frozenset({"mapping", "opset", "kernel", "plugin", "restriction"})


@dataclass(slots=True)
class _Help:
    """What rules do for one finding, best first."""

    fires: list[str] = field(default_factory=list)
    may: list[str] = field(default_factory=list)
    is_whole: bool = False


def add_rules(findings: Iterable[Finding], index: Index, target: str, ep: str | None) -> None:
    """Put the rules that help before the findings' helps, first those that fire.  The index must be a sound one.

    Where one fires at all places of a placeholder, what else could be done about it is left out.
    """
    wanted = [(found, _Help()) for found in findings if found.kind in HELPED and found.where]
    ops = {node.op for found, _ in wanted for node in found.where}
    for rule in sorted((rule for _, _, rule in all_rules()), key=lambda rule: not rule.is_exact) if ops else ():
        for chosen in TARGETS.get(target, (target,)):
            plan = _plan(rule, chosen, index.main.opset)
            spoken = set() if plan is None else _ops(plan, ops)
            if plan is None or not spoken:
                continue
            fires = _places(rule, index, chosen, ep)
            for found, help_ in wanted:
                nodes = [node for node in found.where if node.op in spoken]
                if nodes:
                    _Told(rule, chosen, ep, index).add(found, help_, nodes, fires, plan.needs)
            if fires:
                break
    for found, help_ in wanted:
        rest = [] if help_.is_whole and found.kind == "mapping" else found.helps
        found.helps = [*help_.fires, *([] if help_.is_whole else help_.may), *rest]


@dataclass(frozen=True, slots=True)
class _Told:
    """One rule for one target."""

    rule: Rule
    target: str
    ep: str | None
    index: Index

    def add(self, found: Finding, help_: _Help, nodes: list[Node], fires: set[Node], needs: int | None) -> None:
        """Tell what the rule does for a finding.  needs: the opset that it would need."""
        count = len(fires.intersection(nodes))
        if count:
            many = "" if count == found.count else f" at {count} of {found.count} places"
            many += "" if self.rule.is_exact else " (it changes numbers beyond rounding)"
            help_.fires.append(f"rule {self.rule.name} fires{many}: {self._command('rewrite IN OUT')}")
            help_.is_whole = help_.is_whole or (count == found.count and self.rule.is_exact)
        elif needs is not None:
            told = f"rule {self.rule.name} may do from opset {needs} on: surgeon upgrade IN OUT --opset {needs} first"
            help_.may += [told] if self.rule.is_exact else []
        elif found.kind == "mapping" and self.rule.search is None and self.target != "contrib":
            why = self._why(nodes[0])
            told = f"rule {self.rule.name} looks for it and does not fire{why}: {self._command('explain IN')}"
            help_.may.append(told)

    def _command(self, words: str) -> str:
        target = "" if self.target == "ort" else f" --target {self.target}"
        return f"surgeon {words} --rules {self.rule.name}{target}"

    def _why(self, node: Node) -> str:
        """Why the rule does not fire at a node, in brackets."""
        model = self.index.model
        source = model.path or onnx.ModelProto.FromString(bytes(model.data))
        try:
            (told,) = explanations(source, [self.rule], target=self.target, ep=self.ep, node=node.label, top=1)
        except SurgeonError:  # the name is not one that a person could give
            return ""
        return f" ({told.misses[0].reason})" if told.misses else ""


def _plan(rule: Rule, target: str, opset: int | None) -> Plan | None:
    try:
        plan = rule.plan(target, opset)
    except SurgeonError:  # a pack of the user's own may hold a rule that cannot be traced: no fault of the model
        return None
    return None if isinstance(plan, str) else plan


def _ops(plan: Plan, wanted: set[str]) -> set[str]:
    """Which of these ops a rule's patterns speak of; of a search, the placeholders that it may name."""
    found: set[str] = set()
    for compiled in plan.sources:
        if compiled.search is unnamed_arguments:
            found.update(op for op in wanted if "::" in op)
        said = {qualified(value.operation.domain, value.operation.op) for value in _outputs(compiled)}
        wild = [name for name in said if "*" in name]
        found.update(op for op in wanted if op in said or any(fnmatchcase(op, name) for name in wild))
    return found


def _outputs(compiled: Compiled) -> list[Output]:
    return [value for value in walk(compiled.pattern.outputs) if isinstance(value, Output)]


def _places(rule: Rule, index: Index, target: str, ep: str | None) -> set[Node]:
    driver = Driver(index, [rule], target, ep=ep)
    return {node for scope in index.scopes for match in driver.matches(rule, scope) for node in match.nodes}
