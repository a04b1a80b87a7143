"""The one function: open, match, rewrite, check, save."""

import gc
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import onnx
import onnx_graphsurgeon as gs

from surgeon.catalogue import flat, resolve
from surgeon.driver import Choice, Driver, Progress
from surgeon.errors import CheckFailed, GraphError, UsageError
from surgeon.index import Index
from surgeon.match import Match
from surgeon.model import Model
from surgeon.prove import CheckResult, Outcome, check_model, check_structure
from surgeon.result import Report, Site, regions
from surgeon.rule import TARGETS, Rule
from surgeon.save import save
from surgeon.write import patch_of

Check = Literal["model", "none"]
DataMode = Literal["auto", "share", "copy", "link", "inline"]
Rules: TypeAlias = str | Rule | Iterable[str | Rule]
Source: TypeAlias = "str | os.PathLike[str] | onnx.ModelProto | gs.Graph"


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How the numeric check runs.

    dims: sizes of symbolic dims by name.  seed: of the random inputs.  custom_ops: libraries that ORT registers.
    rtol, atol: tolerances in place of those by dtype.
    """

    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    custom_ops: Sequence[str | Path] = ()
    rtol: float | None = None
    atol: float | None = None


def rewrite(
    source: Source,
    rules: Rules,
    *,
    output: str | os.PathLike[str] | None = None,
    target: str = "ort",
    check: Check = "model",
    only: str | Sequence[str] = (),
    skip: str | Sequence[str] = (),
    require_proof: bool = False,
    dry_run: bool = False,
    external_data: DataMode = "auto",
    force: bool = False,
    options: CheckOptions | None = None,
    progress: Progress | None = None,
) -> tuple[Any, Report]:
    """Replace what the rules recognise, check the result under ONNX Runtime, and write it.

    source: a path (then `output` says where to write; it may be the same path), a ModelProto or a gs.Graph.
    rules: rule objects, or names as at the command line.  target: "ort", "onnx", "contrib" or "decomposed".
    check: "model" runs both whole models side by side; "none" does not.  only, skip: shell patterns of node names.
    require_proof: treat an unproved result as a failed one.  dry_run: say what would happen, write nothing.

    Returns the model in the kind it was given (a path: the path written) and a Report.  Raises CheckFailed, with the
    report, when the check fails; nothing is written then.  Raises SurgeonError for bad input.
    """
    if target not in TARGETS:
        raise UsageError(f"There is no target {target!r}; choose one of {', '.join(TARGETS)}.")
    if isinstance(source, gs.Graph):
        return _rewrite_graph(source, rules, target=target, check=check, only=only, skip=skip,
                              require_proof=require_proof, dry_run=dry_run, options=options, progress=progress)
    is_file = not isinstance(source, onnx.ModelProto)
    if is_file and output is None and not dry_run:
        raise UsageError("Say where to write the model: output='out.onnx' (it may be the path of the input).")
    run = _Run(check, require_proof, options or CheckOptions())
    with run.phase("read"), paused_collector():
        selection = resolve(rules)
        model = Model.open(source)
        index = Index(model)
        index.check()
    report = Report(
        str(source) if is_file else "", str(output or ""), target,
        {name: tuple(rule.name for rule in found) for name, found in selection.items()},
    )
    run.report = report
    with run.phase("match"), paused_collector():
        report.nodes_before = _count(index)
        choice = Choice((only,) if isinstance(only, str) else only, (skip,) if isinstance(skip, str) else skip)
        driver = Driver(index, flat(selection), target, choice, progress)
        driver.run()
        report.nodes_after = _count(index)
        report.sites = [Site(region) for region in regions(driver.log)]
        report.misses = driver.misses
    patch = patch_of(index)
    if dry_run:
        return source, report
    if not is_file:
        return _finish_in_memory(run, model, source, patch), report

    def inspect(path: Path) -> None:
        run.check(model, source, path)

    with run.phase("write"):
        out = Path(os.fspath(output or ""))
        save(model, patch, out, external_data=external_data, force=force, check=inspect if report.sites else None)
    return out, report


def find(source: Source, rules: Rules, *, target: str = "ort") -> Iterable[Match]:
    """Yield the places where rules would fire, one by one, without rewriting; a node belongs to one match.

    The order is that of the rules, then of the scopes, then of the nodes in the file.
    """
    if target not in TARGETS:
        raise UsageError(f"There is no target {target!r}; choose one of {', '.join(TARGETS)}.")
    proto = gs.export_onnx(source) if isinstance(source, gs.Graph) else source
    index = Index(Model.open(proto))
    taken: set[Any] = set()
    for rule in flat(resolve(rules)):
        driver = Driver(index, [rule], target)
        for scope in index.scopes:
            for match in driver.matches(rule, scope):
                if not taken.intersection(match.nodes):
                    taken.update(match.nodes)
                    yield match


@contextmanager
def paused_collector() -> Iterator[None]:
    """Keep the cyclic garbage collector out: an index is many small objects and no garbage, so its passes only cost."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@dataclass(slots=True)
class _Run:
    """Clock and checks of one rewrite."""

    mode: Check
    require_proof: bool
    options: CheckOptions
    report: Report | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def phase(self, name: str) -> "_Phase":
        """A context that adds the time spent in it to the report."""
        return _Phase(self, name)

    def check(self, model: Model, before: Any, after: Any) -> None:
        """Compare the rewritten model with the original; raises CheckFailed."""
        report = self.report
        if report is None or self.mode == "none" or not report.sites:
            return
        with self.phase("check"):
            with Model.open(after) as written:
                complaints = check_structure(model.skeleton, written.skeleton)
            if complaints:
                raise GraphError(
                    f"The rewritten model would be invalid ({complaints[0]}); nothing was written. This is a fault of "
                    f"the rules {', '.join(dict.fromkeys(site.rule for site in report.sites))}."
                )
            options = self.options
            original = before if isinstance(before, onnx.ModelProto) else Path(os.fspath(before))
            report.check = check_model(
                original, after, model.skeleton, seed=options.seed, dims=options.dims,
                custom_ops=options.custom_ops, rtol=options.rtol, atol=options.atol,
            )
        for site in report.sites:
            site.outcome = report.check.outcome.value
        self._judge(report, report.check)

    def _judge(self, report: Report, result: CheckResult) -> None:
        if result.outcome is Outcome.FAILED:
            raise CheckFailed(f"The rewritten model differs from the original: {result.reason}.", report)
        if result.outcome is Outcome.UNPROVED and self.require_proof:
            raise CheckFailed(f"The rewritten model is not proved: {result.reason}.", report)


@dataclass(slots=True)
class _Phase:
    run: _Run
    name: str
    start: float = 0.0

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        seconds = self.run.seconds
        seconds[self.name] = seconds.get(self.name, 0.0) + time.perf_counter() - self.start
        if self.run.report is not None:
            self.run.report.seconds = seconds


def _finish_in_memory(run: _Run, model: Model, source: Any, patch: Any) -> onnx.ModelProto:
    with run.phase("write"):
        result: onnx.ModelProto = patch.to_proto()
    run.check(model, source, result)
    return result


def _rewrite_graph(source: gs.Graph, rules: Rules, **settings: Any) -> tuple[gs.Graph, Report]:
    """A gs.Graph goes in and out through gs's own export and import, which keep what gs keeps."""
    try:
        proto = gs.export_onnx(source.copy(), do_type_check=False)
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(
            f"gs cannot export this graph ({error}); give its outputs a dtype and a shape, or pass a path."
        ) from error
    result, report = rewrite(proto, rules, **settings)
    return (source if settings["dry_run"] or not report.sites else gs.import_onnx(result)), report


def _count(index: Index) -> int:
    return sum(1 for scope in index.scopes if not scope.is_gone for _ in scope.live_nodes())
