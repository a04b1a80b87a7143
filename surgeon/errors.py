"""One tree of exceptions.  A message describes the problem, its location and the next step.

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

    edit: the rejected edit, if there are several.  step: number of the transform that raised it, if there are
    several.  exit_code: exit code of a command that ends with it.  where: the file that it concerns, if the message
    does not name it.  detail: the full text of an error of a runtime or another library.
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
        """The traceback in a notebook: only the message; %tb still shows the frames."""
        return [f"{type(self).__name__}: {self}"]


class ModelFileError(SurgeonError):
    """A model or data file cannot be read, trusted or written."""


class GraphError(SurgeonError):
    """The graph breaks ONNX's own rules."""


class RuleError(SurgeonError):
    """A rule or pattern is invalid, or a rule name is unknown."""


class MissingInputError(RuleError):
    """A node would read None as a required input."""


class OpsetError(RuleError):
    """An op does not exist at the opset of the model.

    Attributes:
        needs: the first opset of ai.onnx that has it, None if unknown.
    """

    def __init__(self, message: str, needs: int | None = None) -> None:
        super().__init__(message)
        self.needs = needs


class RewriteError(SurgeonError):
    """A rewrite cannot continue."""


class UsageError(SurgeonError):
    """Arguments that contradict each other."""


class CheckFailed(SurgeonError):
    """A rewrite is wrong, or a required proof failed.

    Attributes:
        report: the Report of the run, with the sites and the measured errors.
        result: the model that `rewrite` would have returned, with the wrong sites rolled back (a path: it was written);
            None without a model, because bisection finds no site to blame.
    """

    exit_code = 1

    def __init__(self, message: str, report: object = None, result: object = None) -> None:
        super().__init__(message)
        self.report, self.result = report, result


class ExportError(UsageError):
    """An exporter of torch cannot export the module as requested; its own error is the cause."""


class ExpectationUnmet(SurgeonError):
    """A rule fired more or less often than expected; nothing was written.

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
    """Represents a result that is not available."""

    reason: str
    """Why, as a clause."""


def require(condition: object, why: str) -> None:
    """State what a match must satisfy, in the conditions and replacements of a rule.

    Args:
        condition: the condition.
        why: the requirement, as a clause: "x must have three axes".

    Raises:
        ConditionFailed: the condition is false.  The rule does not match, and the report gives the reason.
        TypeError: `why` is not a string, for example because the two are swapped.

    Examples:
        >>> from surgeon import require
        >>> require(3 > 2, "three is more than two")
    """
    if not isinstance(why, str):
        raise TypeError('require needs a condition, then a message: require(x.rank == 2, "x must be a matrix")')
    if not condition:
        raise ConditionFailed(why)


def lacks_temporary(error: BaseException) -> bool:
    """Whether Python found no folder for temporary files, as tempfile reports it."""
    return isinstance(error, OSError) and error.filename is None and "temporary directory" in str(error)


NO_TEMPORARY = "No folder for temporary files. Set TMPDIR to a writable folder."
