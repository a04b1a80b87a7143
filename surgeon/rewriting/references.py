"""A rule's reference pattern as a local function: what a new node means where ONNX Runtime has no kernel for it."""

from collections.abc import Callable, Iterable, Sequence

from onnx import FunctionProto, helper

from surgeon.edit.fragment import Ref, build
from surgeon.edit.splice import Step, import_version
from surgeon.errors import Refused, RuleError
from surgeon.indexing.scope import Node, split_op
from surgeon.matching.match import Match
from surgeon.matching.pattern import captured
from surgeon.rules.embedding import first_forms
from surgeon.rules.rule import Rule
from surgeon.running.inlining import PRIVATE_DOMAIN


def reference_functions(steps: Sequence[Step], rules: Iterable[Rule]) -> Callable[[Node], FunctionProto | None]:
    """A function from nodes to bodies; None for a node that is not all that a rule wrote, or took out.

    The body is the rule's first pattern, built for the match, as a function of the node's own inputs.
    """
    by_name = {rule.name: rule for rule in rules}
    wrote = {node: step for step in steps for node in step.added}
    taken: dict[Node, Step] = {step.removed[0]: step for step in steps if len(step.removed) == 1}

    def body_of(node: Node) -> FunctionProto | None:
        step = wrote.get(node) or taken.get(node)
        rule = by_name.get(step.rule) if step is not None else None
        if step is None or rule is None or not rule.patterns:
            return None
        names = _captures_written(node, step) if node in wrote else _captures_read(node, step)
        return None if names is None else _body(node, names, step, rule)

    return body_of


def _captures_written(node: Node, step: Step) -> list[Ref | None] | None:
    """The captures that a new node reads, by input; None unless it is all that its step wrote."""
    nodes = step.fragment.nodes
    if len(nodes) != 1 or nodes[0].qualified != node.op:
        return None
    return [ref if ref.kind == "capture" else None for ref in nodes[0].inputs]


def _captures_read(node: Node, step: Step) -> list[Ref | None]:
    """The captures that a node taken out read, by input."""
    keys = {held: Ref("capture", (name, 0)) for name, held in step.match.bound.items() if isinstance(held, str)}
    return [keys.get(name) for name in node.inputs]


def _lacks_captures(rule: Rule, match: Match) -> bool:
    """Whether the reference is a pattern that reads what the match does not bind: a record has None for that."""
    traced = rule.compiled(rule.reference)[:1] if rule.reference in rule.patterns else ()
    for pattern in (compiled.pattern for compiled in traced):
        fields = pattern.record.fields() if pattern.record is not None else ()
        absent = {field.name for field in fields if field.default is None} - match.bound.keys()
        return not absent.isdisjoint(captured(first_forms(pattern)))
    return False


def _body(node: Node, captures: list[Ref | None], step: Step, rule: Rule) -> FunctionProto | None:
    if _lacks_captures(rule, step.match):
        return None
    try:
        reference = build(rule.reference, step.match)
    except (Refused, RuleError):
        return None  # the pattern that matched binds other captures than the reference needs
    if any(item.qualified == node.op for item in reference.nodes):
        return None  # the reference is the op itself
    inputs = [f"in{place}" for place in range(len(captures))]
    given = {ref: name for ref, name in zip(captures, inputs, strict=True) if ref is not None}
    needed = {ref for item in reference.nodes for ref in item.inputs} | set(reference.outputs)
    if any(ref.kind == "capture" and ref not in given for ref in needed):
        return None
    nodes, outputs = reference.as_body(given)
    versions = step.scope.versions
    domains = {item.domain for item in nodes} | {""}
    imports = [helper.make_opsetid(name, versions.get(name) or import_version(name, "")) for name in sorted(domains)]
    return helper.make_function(PRIVATE_DOMAIN, split_op(node.op)[1], inputs, outputs, nodes, imports)
