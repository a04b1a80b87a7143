"""A harness for tests of rules: cases in which a rule fires, and cases in which it does not, with the reason.

    FIRES = [Case(gelu, "half applied first", parse('''...'''))]
    NEGATIVES = [Case(gelu, "0.4 is not one half", parse('''...'''), why="expected the constant 0.5")]

    @pytest.mark.parametrize("case", FIRES, ids=str)
    def test_fires(case):
        check_fires(case)

The failures are AssertionErrors with the expected values.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import onnx
import onnx.parser

from surgeon.ir.verify_rewrite import new_violations
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.pipeline.rewriting.rewrite import rewrite
from surgeon.proof.check_options import Check, CheckOptions
from surgeon.rules.rule import Rule


@dataclass(frozen=True)
class Case:
    """A model, and the expected result of one rule or several."""

    rules: Rule | Sequence[Rule]
    """The rules, in the order in which they run."""
    title: str
    """The name of the test case."""
    model: onnx.ModelProto
    """The source model."""
    sites: int = 1
    """Sites that are rewritten."""
    why: str = ""
    """Part of the reported reason, for a case in which no rule fires."""
    target: str = "ort"
    """As for `rewrite`."""
    check: bool | Literal["sites"] = True
    """Prove the sites and the model; "sites" if ONNX Runtime cannot load the source model; False if nothing runs it."""
    ep: str | None = None
    """The execution provider."""
    assume: Sequence[str] = ()
    """Assumptions on the inputs of a case that fires, as "NAME: WORDS"."""

    def __str__(self) -> str:
        return self.title


def parse(text: str, *, ir_version: int = 8) -> onnx.ModelProto:
    """A model from ONNX text with an optional header: `(float[n, 4] x) => (float[n, 4] y) { ... }`.

    The default header imports opset 17 of ai.onnx and version 1 of com.microsoft.  Raises onnx.parser.ParseError.
    """
    header = f'<ir_version: {ir_version}, opset_import: ["" : 17, "com.microsoft" : 1]>\nagraph '
    return onnx.parser.parse_model(text if text.lstrip().startswith("<") else header + text.lstrip())


def check_fires(case: Case) -> RewriteReport:
    """Assert that the rules fire, that nothing else changes, and that the results agree.  Returns the report."""
    before = case.model.SerializeToString()
    after, report = rewrite(
        case.model,
        _rules(case),
        target=case.target,
        ep=case.ep,
        check=_check(case),
        options=CheckOptions(seed=1, assume=case.assume),
    )
    assert case.model.SerializeToString() == before, "the input model was modified"
    reasons = "; ".join(f"{miss.node}: {miss.reason}" if miss.node else miss.reason for miss in report.misses)
    assert len(report.sites) == case.sites, f"{len(report.sites)} sites, expected {case.sites} ({reasons})"
    assert list(after.graph.input) == list(case.model.graph.input) or case.model.ir_version < 4
    assert list(after.graph.output) == list(case.model.graph.output), "the outputs have changed"
    complaints = new_violations(case.model, after)
    assert not complaints, complaints
    if case.check:
        assert report.outcome == "proved", "; ".join(report.doubts)
    _assert_rest_untouched(case.model, after, report)
    again, second = rewrite(after, _rules(case), target=case.target, ep=case.ep, check="none")
    assert not second.sites, "a second run finds more sites"
    assert again.SerializeToString() == after.SerializeToString()
    return report


def check_spares(case: Case) -> RewriteReport:
    """Assert that no rule fires, that no byte changes, and that the report says why.  Returns the report."""
    before = case.model.SerializeToString()
    after, report = rewrite(case.model, _rules(case), target=case.target, ep=case.ep, check="none")
    assert not report.sites, f"fired at {report.sites[0].root}"
    assert after.SerializeToString() == before, "nothing matched, but the bytes differ"
    reasons = [miss.reason for miss in report.misses]
    assert any(case.why in reason for reason in reasons), f"expected a reason with {case.why!r}, found {reasons}"
    return report


def _check(case: Case) -> Check:
    """Check the sites, and the model too, except for rules that change results on purpose."""
    if not case.check:
        return "none"
    if case.check == "sites":
        return "sites"
    return "sites" if any(not rule.is_exact for rule in _rules(case)) else "both"


def _rules(case: Case) -> list[Rule]:
    return [case.rules] if isinstance(case.rules, Rule) else list(case.rules)


def _assert_rest_untouched(before: onnx.ModelProto, after: onnx.ModelProto, report: RewriteReport) -> None:
    """Assert that nodes outside the sites are unchanged and in the same order."""
    gone = {output for site in report.sites for node in (*site.replaced, *site.swept) for output in node.outputs}
    gone.update(name for site in report.sites for name in site.shared)
    made = {output for site in report.sites for node in site.added for output in node.outputs}
    kept = [
        node.SerializeToString(deterministic=True) for node in before.graph.node if not gone.intersection(node.output)
    ]
    left = [
        node.SerializeToString(deterministic=True) for node in after.graph.node if not made.intersection(node.output)
    ]
    bodies = any(site.scope for site in report.sites)
    same = len(kept) == len(left) and all(_differ_by(gone, *pair) for pair in zip(kept, left, strict=True))
    assert bodies or same, "a node outside the sites has changed"


def _differ_by(gone: set[str], before: bytes, after: bytes) -> bool:
    """Whether two nodes are equal apart from inputs that a rule removed."""
    if before == after:
        return True
    one, two = onnx.NodeProto.FromString(before), onnx.NodeProto.FromString(after)
    moved = [old for old, new in zip(one.input, two.input, strict=False) if old != new]
    one.input[:] = two.input
    return gone.issuperset(moved) and one == two
