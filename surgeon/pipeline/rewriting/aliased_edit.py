"""The edit that a rule name represents (detector post-processing), as a transform before the rules."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from surgeon.edits.detection.postprocessing_edits import has_postprocessing, postprocessing_edits
from surgeon.errors import UsageError
from surgeon.pipeline.checks import Checks
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit_group import EditGroup, edit_groups
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.pipeline.transform import Claim, Transform
from surgeon.printed_commands import command
from surgeon.rules.edit_aliases import EDIT_ALIASES


@dataclass(frozen=True, slots=True)
class AliasedEdits:
    """Append post-processing to a detector, whose head is found by structure; nothing if the model already has it."""

    kind: str
    """Kind of post-processing, as in `surgeon append`."""
    report: RewriteReport
    """Report of the rules, to which that of the edits is added."""

    def expand(self, draft: ModelDraft, checks: Checks) -> Sequence[Transform]:
        """The edits for the head of a model."""
        if has_postprocessing(draft, self.kind):
            return ()
        with _naming_options(self.kind):
            groups = edit_groups(postprocessing_edits(draft, self.kind))
        self.report.steps.append(groups[0].report)
        return [_WithOptionsNamed(group, self.kind) for group in groups]


@dataclass(frozen=True, slots=True)
class _WithOptionsNamed:
    """A group of edits whose errors name the command with their options."""

    group: EditGroup
    """The edits."""
    kind: str
    """Kind of post-processing."""

    def apply(self, draft: ModelDraft, checks: Checks) -> Claim:
        """Apply the edits, which examine the head again."""
        with _naming_options(self.kind):
            return self.group.apply(draft, checks)


def aliased_edits(name: str, target: str, report: RewriteReport) -> AliasedEdits:
    """The edits of a name.  Raises UsageError if they are for another target."""
    tail = EDIT_ALIASES[name]
    if tail.target and tail.target != target:
        raise UsageError(f"{name} is a TensorRT plugin and needs --target {tail.target}, but the target is {target}.")
    return AliasedEdits(tail.kind, report)


@contextmanager
def _naming_options(kind: str) -> Iterator[None]:
    """Name the command that has options for the post-processing in errors."""
    try:
        yield
    except UsageError as error:
        how = command("append", "IN", "OUT", kind)
        raise UsageError(f"{str(error).rstrip('.')}. Use the options of: {how}") from None
