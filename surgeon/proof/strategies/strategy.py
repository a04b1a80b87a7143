"""Strategies: named proposals of cases, each with the mistake that it finds, and the engine that takes turns.

A strategy is a generator of cases.  It yields the most effective case first, and may read the sent value: whether the
original nodes ran on the case before (`taken = yield case`).  So it delegates (`yield from`) only to generators.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias, TypeVar

from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.runtime.inputs.fill import Fills

T = TypeVar("T")
# A strategy yields cases and may be sent whether the original ran on the last one.
Cases: TypeAlias = Iterator["InputCase"] | Generator["InputCase", bool | None, None]
# Several cases, and whether the original ran on one of them; None without a case.
AnsweredCases: TypeAlias = Generator["InputCase", bool | None, bool | None]

# Work in multiplications, as `CostTerm` counts them; a core does about 2**30 of them in a second.
LEAST_WORK = 1 << 12
"""Counted for each case at least: opening, feeding and judging a run cost about as much as so many multiplications."""
BUDGET = 1 << 32
"""For all cases of a region: some seconds on one core, of the ten that a proof may take by default."""


class InputCase(NamedTuple):
    """One run: sizes, and values of the inputs."""

    dims: DimAssignment
    """A size for each dynamic dim, and for each fixed dim that is reduced."""
    fills: Fills
    """Fills of whole inputs."""
    strategy: str
    """Name of the strategy that proposes the case."""
    rows: tuple[Fills, ...] = ()
    """Other fills for each row, repeated over the rows; only if rows do not mix."""
    row_count: int = 0
    """Rows of each input that `rows` fills; 0 without such."""


class Rows(NamedTuple):
    """The leading axes along which each output depends only on its own row of the inputs."""

    number: int
    """Rows at `dims`; 1 if rows mix."""
    inputs: frozenset[str]
    """The inputs that have these rows; others are shared by all rows."""
    dims: DimAssignment
    """Sizes with enough rows for a packed case, which the original accepts."""


class Strategy(NamedTuple):
    """A named proposal of cases."""

    name: str
    """A description, for reports and the table of the documentation."""
    because: str
    """The mistake of a rewrite that it finds, in one sentence."""
    propose: Callable[[Any], Cases]
    """From a `CaseRegion` or a `ModelRegion` to its cases; the most effective one comes first."""
    for_members: bool = False
    """Whether it also runs on regions whose class is proved in full."""
    models: bool = False
    """Whether it proposes inputs of whole models."""
    informs: bool = False
    """Whether a difference of whole models on its cases is only reported: few models are given such inputs."""


STRATEGIES: dict[str, Strategy] = {}
"""All strategies by name, in the order of the modules that define them."""


def strategy(
    name: str, *, because: str, for_members: bool = False, models: bool = False, informs: bool = False
) -> Callable[[Callable[[Any], Cases]], Callable[[Any], Cases]]:
    """Add a strategy: a function from facts of a region to an iterator of cases."""

    def add(propose: Callable[[Any], Cases]) -> Callable[[Any], Cases]:
        if name in STRATEGIES:
            raise ValueError(f"two strategies have the name {name!r}")
        STRATEGIES[name] = Strategy(name, because, propose, for_members=for_members, models=models, informs=informs)
        return propose

    return add


def cases(region: Any, strategies: Iterable[Strategy], budget: int = BUDGET) -> Generator[InputCase, bool | None, None]:
    """The first case of each strategy, then the second of each, until the work is spent.

    The first cases run at any cost, so that each kind of mistake is tried at least once.  Send
    whether the original ran on the case; the strategy that proposed it may read that.
    """
    waiting = [(item, item.propose(region)) for item in strategies]
    answers: dict[str, bool | None] = {}
    spent, is_first = 0, True
    while waiting:
        left: list[tuple[Strategy, Cases]] = []
        for item, proposed in waiting:
            case = next_proposed(proposed, answers.get(item.name))
            if case is None:
                continue
            spent += max(case.dims.work, LEAST_WORK)
            if spent > budget and not is_first:
                return
            answers[item.name] = yield case._replace(strategy=item.name)
            left.append((item, proposed))
        waiting, is_first = left, False


def next_proposed(proposed: Iterator[T] | Generator[T, bool | None, None], answer: bool | None) -> T | None:
    """The next item, after the answer to the last; None at the end."""
    if isinstance(proposed, Generator):
        try:
            return proposed.send(answer)
        except StopIteration:
            return None
    return next(proposed, None)
