"""The result of the proof of one region, as a value that the console and the report share."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from surgeon.errors import SurgeonError
from surgeon.proof.check_result import Outcome
from surgeon.proof.counterexample import with_names
from surgeon.result_base import JsonRecord
from surgeon.runtime.numerics.tensor_judge import TensorError


class CannotSlice(SurgeonError):
    """A region cannot be cut out of its model.  The message gives the reason, without a full stop."""


@dataclass(frozen=True, slots=True)
class SiteProof(JsonRecord):
    """The outcome for one region.  Its fields are the keys of the report, so they are many."""

    JSON = (
        "outcome reason oracle not_on_target? independent reference errors runs kinds sizes unseen? tolerance seconds "
        "remembered?"
    )

    outcome: Outcome
    """Proved, failed or unproved."""
    reason: str = ""
    """A clause if the outcome is not plainly proved; else ""."""
    oracle: str = ""
    """The runtime of the replacement."""
    not_on_target: str = ""
    """Why the target's runtime, which is here, did not run the replacement on all inputs, as a clause."""
    independent: bool = True
    """Whether it was more than the rule's own pattern."""
    reference: str = ""
    """The reference of both sides."""
    errors: tuple[TensorError, ...] = ()
    """The worst error of each output over all runs."""
    runs: int = 0
    """Sets of inputs compared."""
    tolerance: Mapping[str, float] = field(default_factory=dict)
    """The rtol and atol in force, by dtype."""
    seconds: float = 0.0
    """Time that the proof took."""
    depends_on_weights: bool = False
    """Whether it fails only for some generated weights, not for the usual ones."""
    kinds: tuple[str, ...] = ()
    """Kinds of inputs on which both sides agree."""
    sizes: tuple[str, ...] = ()
    """Sizes of dynamic dims at which both sides agree, in words."""
    unseen: tuple[str, ...] = ()
    """Sides of decisions in the original nodes that no input reached, if the options ask for them."""
    key: object = field(default_factory=object, repr=False, compare=False)
    """The same object for all regions that share a proof."""
    remembered: bool = field(default=False, compare=False)
    """Whether an earlier run on this machine proved it."""

    def at(self, names: Mapping[str, str]) -> "SiteProof":
        """The same proof for an equal region; `names` maps names of inputs and outputs to those of that region."""
        reason = with_names(self.reason, names)
        for old, new in names.items():
            if reason.startswith(f"'{old}' "):
                reason = f"'{new}' {reason[len(old) + 3 :]}"
                break
        errors = tuple(replace(error, name=names.get(error.name, error.name)) for error in self.errors)
        quoted = {repr(old): repr(new) for old, new in names.items()}
        unseen = tuple(re.sub(r"'[^']*'", lambda found: quoted.get(found[0], found[0]), text) for text in self.unseen)
        return replace(self, reason=reason, errors=errors, unseen=unseen)

    @property
    def worst(self) -> TensorError | None:
        """The output nearest to its tolerance, or furthest beyond it; None if nothing was compared."""
        return max(self.errors, key=lambda error: (not error.ok, error.severity), default=None)


def weakest_proof(proofs: "list[SiteProof]") -> SiteProof:
    """The weakest proof: failed before unproved before proved, then the one with the largest error.

    It is remembered if all are.
    """
    order = (Outcome.PROVED, Outcome.UNPROVED, Outcome.FAILED)
    found = max(proofs, key=lambda proof: (order.index(proof.outcome), proof.worst.severity if proof.worst else 0.0))
    is_new = found.remembered and not all(proof.remembered for proof in proofs)
    return replace(found, remembered=False) if is_new else found
