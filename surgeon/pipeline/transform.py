"""Transforms: changes of models, and their claims about the result."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, runtime_checkable

from surgeon.file.save import OutputModel
from surgeon.pipeline.checks import Checks
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.reports.report import Report
from surgeon.pipeline.snapshot import Snapshot
from surgeon.proof.check_options import CheckOptions
from surgeon.proof.check_result import CheckResult
from surgeon.proof.model.load_check import FOREIGN_OPS

if TYPE_CHECKING:
    from surgeon.proof.model.model_check import ModelCheck
    from surgeon.runtime.sessions.ort_session import Lack

Relation = Callable[[Snapshot, OutputModel, CheckOptions], CheckResult]
"""Compares the model after a change with the model before it; never raises for an error of a model."""


class Failure(NamedTuple):
    """Why a claim does not hold."""

    reason: str
    """A clause."""
    message: str = ""
    """The sentence for the user."""
    result: CheckResult | None = None
    """The comparison that failed; None if nothing was compared."""
    sites: Sequence[Any] = ()
    """Sites to blame; none for the whole model."""
    is_wrong: "Callable[[ModelDraft], bool]" = lambda _: True
    """Whether another result of the same transform is wrong too."""
    is_doubt: bool = False
    """Whether nothing is wrong, but a required proof is missing."""
    is_invalid: bool = False
    """Whether the result breaks ONNX's rules."""

    @classmethod
    def of(cls, reason: str, how: str, result: CheckResult | None = None) -> Self:
        """A failure of the whole model.  how: how messages speak of it, as a clause."""
        found = cls(reason.rstrip("."), result=result)
        return found._replace(message=f"{how}: {found.description}" if how else found.description)

    @property
    def description(self) -> str:
        """The reason and, if inner tensors were compared, the first tensor that differs."""
        first = "" if self.result is None else self.result.first_different
        return f"{self.reason}; the first tensor outside the tolerance is {first!r}" if first else self.reason


class Words(NamedTuple):
    """Descriptions of a result in messages, as clauses."""

    differs: str
    """It does not satisfy its claim."""
    doubted: str
    """It lacks a required proof."""
    invalid: str
    """It violates ONNX's rules."""
    unloadable: str
    """ONNX Runtime loads only the original."""

    @classmethod
    def of(cls, made: str, original: str = "the original") -> Self:
        """The words for a model.  made: its origin, such as "edited".  original: the model that it is compared with."""
        model = f"The {made} model"
        return cls(
            f"{model} differs from {original}",
            f"{model} is not proved",
            f"{model} would be invalid",
            f"{model} does not load",
        )


@dataclass(slots=True)
class Claim:
    """The effect of a transform on a draft, and the relation that the driver has to establish."""

    report: Report
    """Report of the transform; several may share one."""
    words: Words
    """How messages speak of the result."""
    relation: Relation
    """How the model after the change is compared with the model before it."""
    structure: bool = False
    """Whether the relation follows from the nodes, so that nothing has to run."""
    changed: bool = True
    """Whether the draft was changed."""
    sites: Sequence[Any] = ()
    """Regions that `prove` proves one by one."""
    prove: Callable[[Snapshot], Failure | None] | None = None
    """Proves the sites that have no proof yet."""
    inspect: Callable[[Snapshot], Failure | None] | None = None
    """Examines the written result first."""
    runs_before: bool = False
    """Whether runs decide the change, so that a dry run needs them too."""
    confirm: Callable[[], None] | None = None
    """Raises if the change is not the expected one; called before the result is written."""
    less: "Callable[[Failure, ModelDraft], Claim | None] | None" = None
    """Repeats the change in a fresh draft with a smaller claim; None if that is impossible."""
    tolerated: "Collection[Lack]" = field(default=FOREIGN_OPS)
    """Lacks of ONNX Runtime that do not matter for the result."""
    originals: Sequence[Callable[[], OutputModel]] = ()
    """Models besides the source of the run from which the change started."""

    @classmethod
    def unchanged(cls, report: Report) -> Self:
        """The claim that nothing was changed."""
        return cls(report, Words.of("changed"), EqualModels(), structure=True, changed=False)


class Transform(Protocol):
    """One change of a model, as a value: its fields are its options, its docstring is its manual."""

    def apply(self, draft: ModelDraft, checks: Checks) -> Claim:
        """Change a draft; opens and saves nothing."""
        ...


@runtime_checkable
class Compound(Protocol):
    """Several transforms in order, which depend on the model; it may not be the last with none."""

    @property
    def report(self) -> Report:
        """Their common report; the run has no steps for single ones."""
        ...

    def expand(self, draft: ModelDraft, checks: Checks) -> "Sequence[Transform | Compound]":
        """The transforms for a model, which is not changed."""
        ...


@dataclass(slots=True)
class EqualModels:
    """The relation of models that have equal outputs for equal inputs.  The model before runs once for all others."""

    _check: "tuple[Snapshot, ModelCheck] | None" = None

    def __call__(self, before: Snapshot, made: OutputModel, options: CheckOptions) -> CheckResult:
        """Run both models and compare their outputs."""
        from surgeon.proof.model.final_check import model_check  # not at the top: most rewrites compare no models

        if self._check is None or self._check[0] is not before:
            self._check = before, model_check(before.model, before.runnable(), options)
        return self._check[1].check(made, layers=options.layers)
