"""DropPath (Huang et al., arXiv:1603.09382), exported as in training: whole samples dropped at random."""

from surgeon import Captures, Graph, Tensor, require, rule


class Path(Captures):
    x: Tensor
    keep: float
    kept: Tensor
    attributes: dict[str, object]


def by_uniform(g: Graph, m: Path) -> Tensor:
    """x / keep · floor(keep + u), u uniform in [0, 1)."""
    m.kept = g.floor(g.add(g.op("RandomUniformLike", g.any_tensor(), **m.attributes), m.keep))
    return g.any_of(g.mul(g.div(m.x, m.keep), m.kept), g.mul(m.x, g.div(m.kept, m.keep)))


def by_bernoulli(g: Graph, m: Path) -> Tensor:
    """x · b / keep, where b is 1 with the probability keep."""
    m.kept = g.bernoulli(g.any_tensor(), **m.attributes)
    return g.mul(m.x, g.div(m.kept, m.keep))


def drops_whole_samples(m: Path) -> None:
    """One random number for each sample: more of them would be Dropout."""
    require(m.kept.shape is not None and m.x.shape is not None, "the shapes are unknown")
    require(m.kept.shape == (m.x.shape[0], *[1] * (m.x.rank - 1)), "it is not whole samples that are dropped")


@rule(patterns=[by_uniform, by_bernoulli], conditions=[drops_whole_samples], target="any")
def drop_path(g: Graph, m: Path) -> Tensor:
    """Drop nothing, as at inference."""
    return g.identity(m.x)
