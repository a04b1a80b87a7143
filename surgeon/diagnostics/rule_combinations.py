"""Sets of rules that together fix nodes which a target does not run; each set is tried in memory."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from surgeon.connected_components import reachable
from surgeon.errors import SurgeonError
from surgeon.file.model import Model
from surgeon.ir.edges import Edges, Tensor
from surgeon.ir.index import Index
from surgeon.ir.scope import Node
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.pipeline.rewriting.driver_settings import DriverSettings
from surgeon.pipeline.rewriting.rule_run import RuleRun, open_index
from surgeon.printed_commands import command, placed
from surgeon.rules.catalogue import groups, resolve, unique_rules
from surgeon.shapes.index_shapes import shapes_of
from surgeon.target_registry import DECOMPOSED
from surgeon.targets.lint.finding import CONSTANT, Diagnostic
from surgeon.targets.target import Target

FOLDING = "constant_folding"
OF_ORT = "com.microsoft::"


def add_sets(
    uncured: Sequence[tuple[Diagnostic, list[str]]], index: Index, model: Model, target: Target, ep: str | None
) -> None:
    """Put the first set of rules that fixes nodes of a finding first among its helps; replace CONSTANT by a command.

    uncured: findings that no single rule fixes, with the rules that look for their nodes.
    """
    trial = _Trial(index, model, target, ep)
    for found, near in uncured:
        wants_constant = CONSTANT in found.helps
        for one in _sets(found, near, target, ep):
            count = trial.cured(one, found.where)
            if count:
                many = "" if count == len(found.where) else f" at {count} of {len(found.where)} nodes"
                what = "constant folding helps" if one.names == FOLDING else "these rules together help"
                found.helps.insert(0, f"{what}{many}: {one.command}")
                break
        fixing = _input_fixing_command(index, found.where) if wants_constant else None
        found.helps = [
            fixing or text if text == CONSTANT else text for text in found.helps if text != CONSTANT or fixing
        ]


@dataclass(frozen=True, slots=True)
class _Set:
    """Rules that run together, and the target that they write for."""

    names: str
    """Names of rules, separated by commas."""
    target: str
    """Name of the target."""
    ep: str | None
    """Execution provider; None for the default."""

    @property
    def command(self) -> str:
        """The command that runs them."""
        return command("rewrite", "IN", "OUT", "--rules", self.names, *placed(self.target, self.ep))


def _sets(found: Diagnostic, near: Iterable[str], target: Target, ep: str | None) -> Iterator[_Set]:
    """Sets that may help: constant folding, also before a rule; the target's group; decomposition of ops."""
    if CONSTANT in found.helps:
        yield _Set(FOLDING, target.name, ep)
    yield from (_Set(f"{FOLDING},{name}", target.name, ep) for name in near)
    if target.name in groups():
        yield _Set(target.name, target.name, ep)
    if any(node.op.startswith(OF_ORT) for node in found.where) and "ort" not in target.runs:
        yield _Set("ort", DECOMPOSED, None)


class _Trial:
    """Runs each set once over a model in memory, and examines the result at nodes."""

    def __init__(self, index: Index, model: Model, target: Target, ep: str | None) -> None:
        """index: contains the nodes; it is not edited."""
        self._model, self._target, self._ep = model, target, ep
        self._limits = target.limits_of(index, shapes_of(index), ep)
        self._runs: dict[_Set, RuleRun | None] = {}

    def cured(self, one: _Set, nodes: Sequence[Node]) -> int:
        """Number of these nodes that a set fixes: they are removed, or no longer violate a limit of the target."""
        if one not in self._runs:
            self._runs[one] = self._run(one)
        run = self._runs[one]
        if run is None:
            return 0
        left = {_key(node): node for scope in run.index.scopes for node in scope.live_nodes()}
        limits = self._target.limits_of(run.index, shapes_of(run.index), self._ep)

        def is_cured(node: Node) -> bool:
            now = left.get(_key(node))
            return now is None or (any(self._limits.of(node)) and not any(limits.of(now)))

        return sum(map(is_cured, nodes))

    def _run(self, one: _Set) -> RuleRun | None:
        """The run of a set; None if it cannot run (`surgeon rewrite` explains why), or writes ops that cannot run."""
        try:
            rules = unique_rules(resolve(one.names, approximate=False))
            run = RuleRun(self._model, open_index(self._model), DriverSettings(rules, one.target, one.ep))
        except SurgeonError:
            return None
        added = (node for step in run.driver.log for node in step.added if node.alive)
        reads = self._target.reads
        return run if reads is None or all(reads(node.proto) for node in added) else None


def _key(node: Node) -> tuple[str, str, tuple[str, ...]]:
    """A key of a node in other indices of its model."""
    return node.scope.label, node.op, tuple(node.outputs)


def _input_fixing_command(index: Index, nodes: Iterable[Node]) -> str | None:
    """The command that fixes the integer and boolean inputs that nodes depend on; None without any."""
    graph, shapes = index.main.proto, shapes_of(index)
    given = {value.name for value in graph.input} - index.main.all_initializers.keys()
    edges = Edges(index)

    def read(node: Node) -> list[Tensor]:
        return [edges.tensor(node.scope, name) for name in node.inputs if name]

    starts = [tensor for node in nodes for tensor in read(node)]
    found = reachable(starts, lambda tensor: [item for node in edges.makers(tensor) for item in read(node)])
    names = [name for scope, name, _ in found if scope is index.main and name in given]
    dtypes = {name: dtype_name(shapes.dtype(index.main, name) or 0) for name in names}
    chosen = [name for name in sorted(dtypes) if dtypes[name].startswith(("int", "uint", "bool"))]
    options = [word for name in chosen for word in ("--hold", f"{name}=VALUE")]
    return f"{CONSTANT}: {command('edit', 'IN', 'OUT', *options)}" if chosen else None
