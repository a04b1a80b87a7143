"""What the proof of one region found, as a value that the console and the report share."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from surgeon.errors import SurgeonError
from surgeon.proof.check_result import Outcome
from surgeon.runtime.numerics.array_comparison import jsonable
from surgeon.runtime.numerics.tensor_judge import TensorError


class CannotSlice(SurgeonError):
    """A region cannot be cut out of its model; the message says why, without an end mark."""


@dataclass(frozen=True, slots=True)
class SiteProof:
    """The outcome for one region, with a reason where it is not plainly proved.

    oracle: what computed the replacement.  independent: whether that was more than the rule's own pattern.  reference:
    what both sides are held against.  errors: of each output the worst over all `runs`, the sets of inputs compared.
    depends_on_weights: it fails for some weights that were made up, and not for the usual ones.  kinds: of inputs, and
    sizes: of free dims, on which both sides agree.
    tolerance: the rtol and atol in force by dtype.  seconds: what the proof took.  key: the same
    object for all regions that share a proof.
    """

    outcome: Outcome
    reason: str = ""
    oracle: str = ""
    independent: bool = True
    reference: str = ""
    errors: tuple[TensorError, ...] = ()
    runs: int = 0
    tolerance: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    depends_on_weights: bool = False
    kinds: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    key: object = field(default_factory=object, repr=False, compare=False)

    def at(self, names: Mapping[str, str]) -> "SiteProof":
        """The same of an equal region; `names` gives the outputs that are called otherwise there."""
        reason = self.reason
        for old, new in names.items():
            if reason.startswith(f"'{old}' "):
                reason = f"'{new}' {reason[len(old) + 3 :]}"
                break
        errors = tuple(replace(error, name=names.get(error.name, error.name)) for error in self.errors)
        return replace(self, reason=reason, errors=errors)

    @property
    def worst(self) -> TensorError | None:
        """The output that comes nearest to what is allowed, or lies furthest beyond; None if nothing was compared."""
        return max(self.errors, key=lambda error: (not error.ok, error.severity), default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {
            "outcome": self.outcome.value,
            "reason": self.reason,
            "oracle": self.oracle,
            "independent": self.independent,
            "reference": self.reference,
            "errors": [error.to_dict() for error in self.errors],
            "runs": self.runs,
            "kinds": list(self.kinds),
            "sizes": list(self.sizes),
            "tolerance": {name: jsonable(number) for name, number in self.tolerance.items()},
            "seconds": round(self.seconds, 4),
        }


def weakest_proof(proofs: "list[SiteProof]") -> SiteProof:
    """The proof that promises least: failed before unproved before proved, then the one with the largest error."""
    order = (Outcome.PROVED, Outcome.UNPROVED, Outcome.FAILED)
    return max(proofs, key=lambda proof: (order.index(proof.outcome), proof.worst.severity if proof.worst else 0.0))
