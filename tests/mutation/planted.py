"""Wrong rules written by hand: one for each class of input that a proof may fail to look at.

This is the public half: the proof engine is developed with it, so that it is no evidence of how good the engine is.
The other half is `sealed`, which nobody who develops the engine reads.

`planted.txt` says what the proofs make of each today (see `recorded`); one that is called proved is a known hole.
"""

from tests.mutation import (
    wrong_counts,
    wrong_integers,
    wrong_numbers,
    wrong_pairs,
    wrong_places,
    wrong_rows,
    wrong_sizes,
)
from tests.mutation.planting import PLANTED, Planted, outcome

MODULES = (wrong_counts, wrong_integers, wrong_numbers, wrong_pairs, wrong_places, wrong_rows, wrong_sizes)

__all__ = ["MODULES", "PLANTED", "Planted", "outcome"]
