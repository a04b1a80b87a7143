"""One tree of exceptions.  Every message is one sentence that says what is wrong and what to do.

SurgeonError               exit code 2 at the command line
├── ModelFileError         a file that cannot be read, trusted or written
├── GraphError             a graph that breaks ONNX's own rules (a cycle, a dangling tensor, a duplicate name)
├── RuleError              an invalid rule or pattern, or an unknown rule name
│   └── OpsetError         an op that the model's opset does not have
├── RewriteError           a rewrite that cannot continue (rules that undo each other, a replacement that raises)
├── UsageError             contradictory or invalid arguments
│   └── ExportError        a module that an exporter of torch cannot export as requested
├── ExpectationUnmet       exit code 3: a rule fired more or less often than expected
└── CheckFailed            exit code 1: a check found the rewritten model wrong, or could not prove what it had to

Modules define further subclasses for outcomes that never reach a user: CannotSlice, InputsUnknown, SessionError and
SizeError.  MatchDeclined and CannotInstantiate are not errors: they say that a match or a generated case is skipped.
"""

import re
from dataclasses import dataclass
from typing import ClassVar

BEFORE_REMEDY = [re.compile(mark) for mark in (r"(?<=[.?!]) (?=[A-Z])", r"; (?=[^;]*$)", r": (?=\S+ [^:]*$)")]


class SurgeonError(Exception):
    """Base of all errors that surgeon raises on purpose.

    edit: the edit that was refused, if it was one of several.
    step: the number of the transform that raised it, in a run of several.
    exit_code: of a command that ends with it.
    where: the file that it is about, where that is known apart from the message.
    detail: the raw text of a runtime, or of another library, in full.
    """

    edit: object = None
    step: int = 0
    exit_code: ClassVar[int] = 2
    where, detail = "", ""

    @property
    def what(self) -> str:
        """The problem: the message without `next`."""
        return self._parts()[0]

    @property
    def next(self) -> str:
        """The remedy: the sentences after the first or, in one sentence, the part after its last semicolon or colon."""
        return self._parts()[1]

    def _parts(self) -> tuple[str, str]:
        text = str(self)
        marks = BEFORE_REMEDY if self.exit_code == SurgeonError.exit_code else ()  # a failed check has no remedy
        found = next(filter(None, (mark.search(text) for mark in marks)), None)
        return (text[: found.start()], text[found.end() :]) if found else (text, "")

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the message without the frames, which %tb still has."""
        return [f"{type(self).__name__}: {self}"]


class ModelFileError(SurgeonError):
    """A model or data file cannot be read, trusted or written."""


class GraphError(SurgeonError):
    """The graph breaks ONNX's own rules."""


class RuleError(SurgeonError):
    """A rule or pattern is wrong in itself, or a rule name leads nowhere."""


class MissingInputError(RuleError):
    """A node would read None as an input that its op requires."""


class OpsetError(RuleError):
    """An op is not there at the opset in force.

    Attributes:
        needs: the opset of ai.onnx at which it is, None if none is known.
    """

    def __init__(self, message: str, needs: int | None = None) -> None:
        super().__init__(message)
        self.needs = needs


class RewriteError(SurgeonError):
    """A rewrite cannot go on."""


class UsageError(SurgeonError):
    """Arguments that do not fit together."""


class CheckFailed(SurgeonError):
    """A rewrite is wrong, or not proved where proof was asked for.

    Attributes:
        report: the Report of the run, with the sites and the errors measured.
        result: what `rewrite` would have returned as the model, with the sites at fault rolled back (a path: it was
            written); None where nothing was made, for the fault could not be pinned to a site.
    """

    exit_code = 1

    def __init__(self, message: str, report: object = None, result: object = None) -> None:
        super().__init__(message)
        self.report, self.result = report, result


class ExportError(UsageError):
    """An exporter of torch cannot export the module as requested; its own error is the cause."""


class ExpectationUnmet(SurgeonError):
    """A rule fired more or less often than was asked for; nothing was written.

    Attributes:
        report: the Report of the run.
    """

    exit_code = 3

    def __init__(self, message: str, report: object = None) -> None:
        super().__init__(message)
        self.report = report


class ConditionFailed(Exception):
    """Raised by `require`: the match does not meet a condition.  The rewrite continues without it."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Stands for a result that is not available."""

    reason: str
    """Why, as a clause."""


def require(condition: object, why: str) -> None:
    """State what a match must satisfy, in the conditions and replacements of a rule.

    Args:
        condition: what must hold.
        why: what is missing otherwise, as a clause: "x must have three axes".

    Raises:
        ConditionFailed: it does not hold; there is no match, and the report gives the reason.
        TypeError: `why` is no text, as where the two are given the other way round, which would always hold.

    Examples:
        >>> from surgeon import require
        >>> require(3 > 2, "three is more than two")
    """
    if not isinstance(why, str):
        raise TypeError('require wants a condition, then the sentence: require(x.rank == 2, "x must be a matrix")')
    if not condition:
        raise ConditionFailed(why)


def lacks_temporary(error: BaseException) -> bool:
    """Whether Python found no folder for temporary files, as tempfile reports it."""
    return isinstance(error, OSError) and error.filename is None and "temporary directory" in str(error)


NO_TEMPORARY = "There is no folder for temporary files: set TMPDIR to one that can be written."
