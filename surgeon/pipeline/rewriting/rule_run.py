"""One run of rules over a model, and the same run again with some of its sites left out."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from surgeon.file.model import Model
from surgeon.ir.index import Index
from surgeon.pipeline.reports.rewrite_report import Site, group_dependent_steps
from surgeon.pipeline.rewriting.greedy_driver import GreedyDriver, NodeFilter, Progress
from surgeon.pipeline.rewriting.step_replay import Replay
from surgeon.rules.rule import Rule
from surgeon.shapes.contradictions import DeclaredShapeCheck, check_declared_shapes


class PhaseTimer:
    """Seconds by phase; a phase inside another does not count for the outer one."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner = [0.0]

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what runs inside."""
        start = time.perf_counter()
        self._inner.append(0.0)
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent - self._inner.pop()
            self._inner[-1] += spent


def open_index(model: Model, known: DeclaredShapeCheck | None = None) -> Index:
    """The index of a model, shapes that it states wrong left out, as far as is `known` where that was looked for.

    Raises GraphError or ModelFileError for one that cannot be rewritten.
    """
    try:
        index = Index(model)
        index.check()
    except (AttributeError, TypeError, ValueError):
        model.check_names()  # protobuf hands out a name that is not UTF-8 as bytes
        raise
    check_declared_shapes(index, known)
    return index


@dataclass(slots=True)
class RuleRun:
    """Rules run over a model.  sites: what they did, in order; index: the model as it is then.

    first: those of the rules that run before the others.  ep: the execution provider that is to run it, None for that
    of the target.
    """

    model: Model
    rules: Sequence[Rule]
    target: str
    choice: NodeFilter
    progress: Progress | None
    index: Index
    replay: Replay = field(default_factory=Replay)
    ep: str | None = None
    first: Sequence[Rule] = ()
    driver: GreedyDriver = field(init=False)
    sites: list[Site] = field(init=False)

    def __post_init__(self) -> None:
        settings = self.target, self.choice, self.progress, self.replay, self.ep, self.first
        self.driver = GreedyDriver(self.index, self.rules, *settings)
        self.driver.run()
        self.sites = [Site(steps) for steps in group_dependent_steps(self.driver.log)]

    def rerun_with(self, sites: Iterable[Site]) -> tuple["RuleRun", list[Site]]:
        """The same run over the source with these sites of it alone, and those that could not be reached so.

        What is known of a site goes along; of the progress nothing is said.  A site is out of reach without others that
        it builds on: what it replaced is still used where they were, say.  Where such sites hang on one another in a
        row, each costs a run of its own.
        """
        wanted = {frozenset(self.replay.keys(site.steps)): site for site in sites}
        lost: list[Site] = []
        while True:
            replay = Replay(key for keys in wanted for key in keys)
            index = open_index(self.model, check_declared_shapes(self.index))
            settings = self.target, self.choice, None, index, replay, self.ep, self.first
            run = RuleRun(self.model, self.rules, *settings)
            reached = {frozenset(replay.keys(site.steps)): site for site in run.sites}
            if reached.keys() == wanted.keys():
                for keys, site in reached.items():
                    site.inherit(wanted[keys])
                return run, lost
            lost += [site for keys, site in wanted.items() if keys not in reached]
            wanted = {keys: site for keys, site in wanted.items() if keys in reached}
