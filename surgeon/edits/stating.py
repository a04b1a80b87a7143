"""What a model states of itself: the shapes of its inner tensors, and its opset."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Self

from surgeon.editing.dims import restate
from surgeon.editing.draft import ModelDraft, holders
from surgeon.editing.edit import Edit
from surgeon.errors import UsageError
from surgeon.upgrading.upgrade import raise_skeleton, require_opset


@dataclass(frozen=True, slots=True)
class ShapesOf(Edit):
    """State the shapes of all inner tensors anew, or drop what is stated of them.

    Attributes:
        how: "infer" has them follow from the inputs, for any size of the free dimensions; "drop" drops them, in bodies
            and functions too.

    Raises:
        UsageError: it is neither of the two.

    Examples:
        >>> import surgeon
        >>> _, report = surgeon.edit("models/tiny_distilbert.onnx", surgeon.edits.ShapesOf("drop"), output="bare.onnx")
        >>> report.outcome
        'proved'
    """

    how: Literal["infer", "drop"]
    flag = "shapes"
    metavar = "infer|drop"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read which of the two."""
        return cls(text)  # type: ignore[arg-type]  # what it is not is refused when it is applied

    @property
    def spelling(self) -> str:
        """Which of the two."""
        return self.how

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """State or drop them."""
        if self.how not in ("infer", "drop"):
            raise UsageError(f"{self.how!r} is nothing to do with shapes; write infer or drop.")
        before = [value.SerializeToString() for value in draft.graph.value_info]
        if self.how == "infer":
            stated = restate(draft)
            after = [value.SerializeToString() for value in draft.graph.value_info]
            return (f"the shapes of {stated:,} inner tensors are stated",) if after != before else ()
        dropped = 0
        for holder in holders(draft.skeleton):
            dropped += len(holder.value_info)
            del holder.value_info[:]
        draft.changed()
        return (f"what was stated of {dropped:,} inner tensors is dropped",) if dropped else ()


@dataclass(frozen=True, slots=True)
class RaiseOpset(Edit):
    """Raise ai.onnx to an opset, every node meaning what it meant; attributes that became inputs become such.

    Attributes:
        version: the opset.

    Raises:
        UsageError: it is older than the model's, or unknown.
        GraphError: nodes would change their meaning; it names them.

    Examples:
        >>> import surgeon
        >>> _, report = surgeon.edit("models/tiny_distilbert.onnx", surgeon.edits.RaiseOpset(21), output="newer.onnx")
        >>> report.edits[0].said[0], report.outcome
        ('ai.onnx is at opset 21, from 18', 'proved')
    """

    version: int
    flag = "opset"
    metavar = "N"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the number."""
        if not text.strip().isdigit():
            raise UsageError(f"{text!r} is no opset; write a number, as in 21.")
        return cls(int(text))

    @property
    def spelling(self) -> str:
        """The number."""
        return str(self.version)

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Raise it."""
        require_opset(self.version)
        done = raise_skeleton(draft, self.version, "The model")
        if done.opset[0] == done.opset[1]:
            return ()
        draft.claim.by_structure = False
        draft.changed()
        said = [f"ai.onnx is at opset {done.opset[1]}, from {done.opset[0]}"]
        return [*said, *(f"{count:,} times {sentence}" for sentence, count in done.edited.items())]
