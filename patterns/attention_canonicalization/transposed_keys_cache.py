"""Keys that are appended to a past in transposed form, as GPT-2 keeps them for its scores."""

from surgeon import Captures, Graph, Tensor, dims, require, rule

KEYS_LAST = [0, 1, 3, 2]


class TransposedKeys(Captures):
    """Keys of the past, and new keys with their axes in any order."""

    past: Tensor = dims("_ _ _ _")
    new: Tensor = dims("_ _ _ _")
    perm: list[int]


def appended(g: Graph, m: TransposedKeys) -> tuple[Tensor, Tensor]:
    """The keys for the next step, and the transposed keys that the scores read."""
    keys = g.concat(g.transpose(m.past, perm=KEYS_LAST), g.transpose(m.new, perm=m.perm), axis=-1)
    return g.transpose(keys, perm=KEYS_LAST), keys


@rule(patterns=[appended], target="any")
def transposed_keys_cache(g: Graph, m: TransposedKeys) -> tuple[Tensor, Tensor]:
    """Append keys to a past before they are transposed for the scores, so that the rules for a past match.

    What: Concat of transposed past keys and transposed new keys, which is transposed back for the next step (GPT-2).
    Numerics: none.
    """
    require(len(m.perm) == 4, "the new keys must have four axes")
    perm = [m.perm[axis] for axis in KEYS_LAST]
    keys = g.concat(m.past, m.new if perm == [0, 1, 2, 3] else g.transpose(m.new, perm=perm), axis=2)
    return keys, g.transpose(keys, perm=KEYS_LAST)
