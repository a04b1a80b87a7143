"""What looking for patterns has cost, in counts that are the same on every machine and under any load."""

from dataclasses import astuple, dataclass

from surgeon.indexing.index import Index


@dataclass(slots=True)
class Work:
    """Counts over all searches of one index.

    attempts: roots at which a pattern was tried.  visited: readers passed on the way up to these roots, and tensors
    that were held against an op of a pattern.  steps: operands of sums and products that were opened or given a place.
    """

    attempts: int = 0
    visited: int = 0
    steps: int = 0

    @classmethod
    def of(cls, index: Index) -> "Work":
        """The counts of an index, which go on with every search."""
        return index.noted(cls, cls)

    @property
    def total(self) -> int:
        """All counts together: each stands for a small piece of work of about the same size."""
        return sum(astuple(self))
