"""One run of rules over a model, and its repetition without some of its sites."""

import gc
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from surgeon.errors import GraphError
from surgeon.file.model import Model
from surgeon.ir.index import Index
from surgeon.pipeline.checks import Progress
from surgeon.pipeline.reports.site import Site, group_dependent_steps
from surgeon.pipeline.rewriting.driver_settings import DriverSettings
from surgeon.pipeline.rewriting.greedy_driver import GreedyDriver
from surgeon.pipeline.rewriting.step_replay import NOT_AGAIN, Replay
from surgeon.printed_commands import command


def open_index(model: Model) -> Index:
    """The index of a model.  Raises GraphError or ModelFileError for an unsound model."""
    try:
        index = Index(model)
        index.check()
    except (AttributeError, TypeError, ValueError):
        model.check_names()  # protobuf returns a name that is not UTF-8 as bytes
        raise
    return index


def _require_outputs(index: Index) -> None:
    """Raise GraphError for a model without outputs: none of its nodes is needed, and none can be compared."""
    if not index.main.output_names and (made := [name for node in index.main.nodes for name in node.outputs if name]):
        how = command("edit", "IN", "OUT", "--add-output", made[-1])
        raise GraphError(f"The model declares no outputs, so none of its nodes is needed. Add one: {how}")


@contextmanager
def gc_paused() -> Iterator[None]:
    """Disable the cyclic garbage collector: an index has many small objects and no garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@dataclass(slots=True)
class RuleRun:
    """One run of rules over a model."""

    model: Model
    """The model, opened."""
    index: Index
    """Its graph, which the run rewrites."""
    settings: DriverSettings
    """Rules, target and nodes."""
    progress: Progress | None = None
    """Called after each rewrite."""
    replay: Replay = field(default_factory=Replay)
    """Steps that a repeated run may apply."""
    driver: GreedyDriver = field(init=False)
    """Driver after the run."""
    sites: list[Site] = field(init=False)
    """Sites, in the order of the log."""

    def __post_init__(self) -> None:
        _require_outputs(self.index)
        self.driver = GreedyDriver(self.index, self.settings, self.progress, self.replay)
        self.driver.run()
        while unfinished := self._unfinished():
            self.index, self.replay = open_index(self.model), self.replay.without(unfinished)
            self.driver = GreedyDriver(self.index, self.settings, replay=self.replay)
            self.driver.run()
        self.sites = [Site(steps) for steps in group_dependent_steps(self.driver.log)]

    def _unfinished(self) -> dict[int, str]:
        """By the key of a step whose op another rule had to replace, and none did, the reason to leave it out."""
        rules = {rule.name: rule.unfinished for rule in self.settings.rules if rule.unfinished is not None}
        return {
            self.replay.key(step): f"no rule after it replaced {node.op}, which no runtime has; add the rule that does"
            for step in (self.driver.log if rules else ())
            for node in step.added
            if node.alive and step.rule in rules and rules[step.rule](node.op)
        }

    def rerun_without(self, sites: Collection[Site]) -> tuple["RuleRun", list[Site]]:
        """Run again without the step at fault of each of these sites, so that other rules may fire there.

        Proofs and checks of all other sites are kept.  Also returns those of them that are not reached again.
        """
        denied = {self.replay.key(site.step_at_fault): NOT_AGAIN for site in sites}
        run = RuleRun(self.model, open_index(self.model), self.settings, replay=self.replay.without(denied))
        reached = {frozenset(run.replay.keys(site.steps)): site for site in run.sites}
        roots = {step.root.label for step in run.driver.log}
        lost: list[Site] = []
        for site in (site for site in self.sites if site not in sites):
            again = reached.get(frozenset(self.replay.keys(site.steps)))
            if again is not None:
                again.inherit(site)
            elif site.steps[-1].root.label not in roots:
                lost.append(site)
        return run, lost

    def rerun_with(self, sites: Iterable[Site]) -> tuple["RuleRun", list[Site]]:
        """Run again over the source with only these sites; also return those of them that cannot be repeated.

        Proofs and checks of the sites are kept.  A site cannot be repeated without another that it builds on.  A chain
        of such sites takes one run each.  Progress is not reported.
        """
        wanted = {frozenset(self.replay.keys(site.steps)): site for site in sites}
        lost: list[Site] = []
        while True:
            replay = Replay(key for keys in wanted for key in keys)
            run = RuleRun(self.model, open_index(self.model), self.settings, replay=replay)
            reached = {frozenset(replay.keys(site.steps)): site for site in run.sites}
            if reached.keys() == wanted.keys():
                for keys, site in reached.items():
                    site.inherit(wanted[keys])
                return run, lost
            lost += [site for keys, site in wanted.items() if keys not in reached]
            wanted = {keys: site for keys, site in wanted.items() if keys in reached}
