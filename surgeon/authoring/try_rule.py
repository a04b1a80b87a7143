"""Tries a rule on a model: its sites with their proofs, and its near misses with the reasons."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from surgeon.diagnostics.explanation import MAX_PER_RULE, Explanation, explanations
from surgeon.errors import CheckFailed, UsageError
from surgeon.file.model_like import ModelLike, is_in_memory, resolve_model
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.pipeline.rewriting.rewrite import rewrite
from surgeon.proof.check_options import CheckOptions, resolve_options
from surgeon.result_base import JsonRecord, ResultBase
from surgeon.rules.catalogue import resolve, unique_rules
from surgeon.rules.rule import Rule
from surgeon.text import join_first


@dataclass(slots=True)
class TriedRule(JsonRecord, ResultBase):
    """The result of trying a rule.

    Examples:
        >>> import surgeon
        >>> found = surgeon.try_rule("skip_layer_norm", "notebooks/models/tiny_distilbert.onnx")
        >>> found.outcome, found.count, found.explanation.misses[0].node
        ('proved', 6, 'node_layer_norm')
    """

    JSON = "rule report explanation"

    rule: str
    """The name of the rule."""
    report: RewriteReport
    """The report of a dry run: the sites, each with its proof."""
    explanation: Explanation
    """The sites, and the near misses with the first difference of each."""

    @property
    def count(self) -> int:
        """Sites at which the rule fires, including those whose proof fails."""
        return len(self.report.sites) + len(self.report.rolled_back)

    @property
    def outcome(self) -> str:
        """proved, failed, unproved, or unchanged if the rule fires nowhere."""
        return self.report.outcome

    def __repr__(self) -> str:
        misses = len(self.explanation.misses)
        return f"<TriedRule {self.rule}: {self.count} sites, {self.outcome}; {misses} near misses>"


def try_rule(
    rule: Rule | str,
    model: ModelLike,
    *,
    target: str = "ort",
    top: int = MAX_PER_RULE,
    options: CheckOptions | None = None,
) -> TriedRule:
    """Try a rule on a model and write nothing: its sites with their proofs, and its nearest misses.

    Args:
        rule: a rule, or the name of one: gelu, ./my_rules.py:name.
        model: a path, or a model in memory: a ModelProto, gs.Graph, onnx_ir.Model or ONNXProgram.
        target: as for `rewrite`.
        top: how many different misses to show.
        options: of the proofs.

    Returns:
        The result; a notebook shows it with images.

    Raises:
        UsageError: several rules are named.
        SurgeonError: bad input.

    Examples:
        >>> import surgeon
        >>> surgeon.try_rule("quick_gelu", "notebooks/models/tiny_distilbert.onnx")
        <TriedRule quick_gelu: 0 sites, unchanged; 1 near misses>
    """
    found = unique_rules(resolve(rule))
    if len(found) != 1:
        names = join_first([item.name for item in found], 3)
        raise UsageError(f"Expected one rule, but {rule!r} names {len(found)}: {names}. Choose one of them.")
    source = resolve_model(model)
    with TemporaryDirectory() as folder:  # a file is rewritten to a temporary one
        output = None if is_in_memory(source) else Path(folder) / "tried.onnx"
        try:
            _, report = rewrite(source, found, target=target, output=output, options=resolve_options(options))
        except CheckFailed as failed:
            if not isinstance(failed.report, RewriteReport):
                raise
            report = failed.report
    report.output, report.written = "", False
    (explanation,) = explanations(source, found, target=target, top=top)
    return TriedRule(found[0].name, report, explanation)
