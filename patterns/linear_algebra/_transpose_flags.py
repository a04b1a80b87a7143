"""The factors of a product of matrices: their dtypes, and their transposes."""

from surgeon import Graph, Tensor, require

FLOATS = ("float16", "float32", "float64", "bfloat16")


def perm_of_flags(rank: int, last: int, batch: int) -> list[int]:
    """Return the axes after transA (last) and transBatchA (batch): the first follows the batch, the last two swap."""
    axes = [*range(1, rank - 1), 0, rank - 1] if batch else [*range(rank)]
    return [*axes[:-2], axes[-1], axes[-2]] if last else axes


def flags_of_perm(x: Tensor, perm: list[int] | None, last: int, batch: int) -> tuple[int, int]:
    """Return (last, batch) of FusedMatMul that replace the Transpose.  Refuse what only a Transpose can do."""
    perm = perm or [*reversed(range(x.rank))]
    require(len(perm) == x.rank, "the Transpose must have the rank of the factor")
    wanted = [perm[axis] for axis in perm_of_flags(x.rank, last, batch)]
    found = [pair for pair in ((0, 0), (1, 0), (0, 1), (1, 1)) if perm_of_flags(x.rank, *pair) == wanted]
    require(bool(found), "FusedMatMul can only swap the last two axes and move the first axis after the batch")
    return found[0]


def apply_flags(g: Graph, x: Tensor, last: int, batch: int) -> Tensor:
    """Return a factor as FusedMatMul reads it."""
    if not last and not batch:
        return x
    require(x.shape is not None, "the rank of a factor is unknown")
    return g.transpose(x, perm=perm_of_flags(x.rank, last, batch)) if x.rank > 1 else x
