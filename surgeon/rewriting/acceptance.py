"""Whether a match may be rewritten: by the rule's conditions, the form at this opset, the schemas, and the names.

The rewrite and its explanation accept by this one function.
"""

from dataclasses import dataclass, replace

from onnx import TensorProto

from surgeon.errors import OpsetError, Refused, RewriteError, RuleError, SurgeonError
from surgeon.indexing.index import Index
from surgeon.matching.compile import Compiled
from surgeon.matching.match import Match
from surgeon.matching.trace import Finding, Kind
from surgeon.ops.node_check import check_node
from surgeon.rewriting.fragment import Fragment, call_with_captures
from surgeon.rewriting.rule import Plan, Rule, broken
from surgeon.rewriting.splice import Splicer, import_version
from surgeon.rewriting.workshop import Workshop

KINDS: dict[str, Kind] = {"dtype": "dtype", "shape": "shape condition"}


class Declined(Exception):
    """A match may not be rewritten.  finding: why; advice: what to do, for a sentence that has no room elsewhere."""

    def __init__(self, finding: Finding, advice: str = "") -> None:
        super().__init__(finding.sentence + advice)
        self.finding = finding


@dataclass(slots=True)
class Acceptance:
    """Accepts matches of one model by building their replacements; edits nothing."""

    index: Index
    target: str
    workshop: Workshop
    splicer: Splicer

    @classmethod
    def over(cls, index: Index, target: str) -> "Acceptance":
        """One with a workshop and a splicer of its own."""
        return cls(index, target, Workshop(index.types), Splicer(index))

    def replacement(self, rule: Rule, plan: Plan, compiled: Compiled, match: Match) -> Fragment:
        """What to write in place of a match.

        Raises Declined where it must stay as it is, RuleError or RewriteError where the rule itself is wrong.
        """
        match.asked_last = None
        step: Kind = "condition"
        fragment: Fragment | None = None
        try:
            for condition in rule.conditions:
                call_with_captures(condition, match)
            if plan.needs is not None:
                raise self._too_old(match, plan.needs)
            fragment = self.workshop.build(plan, compiled, match)
            step = "schema"
            self.workshop.require_valid(match, fragment)
            step = "target"
            self.splicer.require_writable(match, fragment)
        except OpsetError as error:
            needs = error.needs if match.scope.function is None else None
            change = f"raise the opset: surgeon upgrade IN OUT --opset {needs}" if needs else ""
            finding = replace(_finding("opset", compiled, match, str(error).rstrip(".")), change=change)
            raise Declined(finding) from error
        except Refused as refusal:
            if step == "schema" and fragment is not None and _is_about_dtypes(match, fragment):
                step = "dtype"
            raise Declined(_finding(step, compiled, match, str(refusal))) from refusal
        except RuleError as error:
            raise RuleError(f"Rule {rule.name} ({rule.where}): {error}") from error
        except (Declined, SurgeonError):
            raise
        except Exception as error:
            raise RewriteError(f"{broken(rule, error)} at node {match.root.label!r}; mend the rule.") from error
        return fragment

    def _too_old(self, match: Match, needs: int) -> Declined:
        scope = match.scope
        wants = f"the form for target {self.target} needs opset {needs}"
        if scope.function is not None:
            told, change = f"{wants} and {scope.function.label} has {scope.opset}, its own", ""
            advice = "; export it at a newer one"
        else:
            upgrade = f"surgeon upgrade IN OUT --opset {needs}"
            told, change = f"{wants} and the model has {scope.opset}", f"raise the opset: {upgrade}"
            advice = f"; raise it with: {upgrade}"
        found, at = f"opset {scope.opset}", match.root.label
        return Declined(
            Finding("opset", match.pattern.where, f"opset {needs}", found, "", told, change, "", at), advice
        )


def _finding(kind: Kind, compiled: Compiled, match: Match, why: str) -> Finding:
    """A refusal in fields.  What a condition looked at last is what it is about."""
    asked, found, at = match.asked_last, "", match.root.label
    if asked is not None and kind == "condition":
        kind = KINDS.get(asked[0], kind)
        found, at = _type_text(match, asked[1]), asked[1]
    return Finding(kind, compiled.pattern.where, why, found, f"for {at!r}" if found else "", why, at=at)


def _type_text(match: Match, name: str) -> str:
    """dtype and shape of a tensor: float[n, 4]."""
    types = match.index.types
    dtype, shape = types.dtype(match.scope, name), types.shape(match.scope, name)
    text = TensorProto.DataType.Name(dtype).lower() if dtype is not None else "unknown dtype"
    if shape is None:
        return f"{text}, rank unknown"
    return f"{text}[{', '.join('?' if dim is None else str(dim) for dim in shape)}]"


def _is_about_dtypes(match: Match, fragment: Fragment) -> bool:
    """Whether a replacement would suit its schemas if nothing were known of dtypes."""
    scope = match.scope
    for node in fragment.as_protos():
        opset = scope.versions.get(node.domain) or import_version(node.domain, node.op_type)
        if check_node(node, opset, lambda _: None, scope.function is not None):
            return False
    return True
