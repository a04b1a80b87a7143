"""The one function: open, match, rewrite, check, save."""

import gc
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

import onnx
import onnx_graphsurgeon as gs

from surgeon.errors import UsageError
from surgeon.file.model import Model
from surgeon.file.save import save
from surgeon.indexing.index import Index
from surgeon.matching.match import Match
from surgeon.rewriting.catalogue import flat, resolve
from surgeon.rewriting.checking import Check, CheckOptions, Clock, check_expected, check_rewritten
from surgeon.rewriting.driver import Choice, Driver, Progress
from surgeon.rewriting.result import Report, Site, regions
from surgeon.rewriting.rule import TARGETS, Rule
from surgeon.rewriting.write import patch_of

DataMode = Literal["auto", "share", "copy", "link", "inline"]
Rules: TypeAlias = str | Rule | Iterable[str | Rule]
Source: TypeAlias = "str | os.PathLike[str] | onnx.ModelProto | gs.Graph"


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
    expect: Mapping[str, int] | None = None,
    options: CheckOptions | None = None,
    progress: Progress | None = None,
) -> tuple[Any, Report]:
    """Replace what the rules recognise, check the result under ONNX Runtime, and write it.

    source: a path (then `output` says where to write; it may be the same path), a ModelProto or a gs.Graph.
    rules: rule objects, or names as at the command line.  target: "ort", "onnx", "contrib" or "decomposed".
    check: "model" runs both whole models side by side; "none" does not.  only, skip: shell patterns of node names.
    require_proof: treat an unproved result as a failed one.  dry_run: say what would happen, write nothing.
    expect: how often rules must fire, by name, for the model to be written.  external_data: what becomes of data files,
    "auto", "share", "copy", "link" or "inline"; force: overwrite a data file of other content.
    progress: called with the rule's name and the number of rewrites so far, and with "check".

    Returns the model in the kind it was given (a path: the path written) and a Report.  Raises CheckFailed, with the
    report, when the check fails, ExpectationUnmet when `expect` is not met; nothing is written then.  Raises SurgeonError for bad input.
    """
    if target not in TARGETS:
        raise UsageError(f"There is no target {target!r}; choose one of {', '.join(TARGETS)}.")
    if check not in ("model", "none"):
        raise UsageError(f"There is no check {check!r}; choose model or none.")
    if require_proof and check == "none" and not dry_run:
        raise UsageError("A proof is required but the check is off; leave out check='none' or the required proof.")
    if output is not None and isinstance(source, (gs.Graph, onnx.ModelProto)):
        raise UsageError("A model in memory comes back as it was given; save it yourself, or pass the path of a file.")
    if isinstance(source, gs.Graph):
        return _rewrite_graph(source, rules, target=target, check=check, only=only, skip=skip,
                              require_proof=require_proof, dry_run=dry_run, expect=expect, options=options,
                              progress=progress)
    if output is None and not dry_run and not isinstance(source, onnx.ModelProto):
        raise UsageError("Say where to write the model: output='out.onnx' (it may be the path of the input).")
    with paused_collector():
        return _rewrite(source, rules, output, target, check, Choice(_names(only), _names(skip)), require_proof, dry_run,
                        external_data, force, expect or {}, options or CheckOptions(), progress)


def _rewrite(
    source: Any, rules: Rules, output: Any, target: str, check: Check, choice: Choice, require_proof: bool, dry_run: bool,
    external_data: DataMode, force: bool, expect: Mapping[str, int], options: CheckOptions, progress: Progress | None,
) -> tuple[Any, Report]:
    clock = Clock()
    with clock.phase("read"):
        selection = resolve(rules)
        model = Model.open(source)
        index = Index(model)
        index.check()
    names = {name: tuple(rule.name for rule in found) for name, found in selection.items()}
    is_file = not isinstance(source, onnx.ModelProto)
    report = Report(str(source) if is_file else "", str(output or ""), target, names, seconds=clock.seconds)
    with clock.phase("match"):
        report.nodes_before = index.count_nodes()
        driver = Driver(index, flat(selection), target, choice, progress)
        driver.run()
        report.nodes_after = index.count_nodes()
        report.sites = [Site(region) for region in regions(driver.log)]
        report.misses = driver.misses
    check_expected(report, expect)
    if dry_run:
        return source, report
    wants_check = check == "model" and bool(report.sites)

    def inspect(rewritten: Any) -> None:
        if progress is not None:
            progress("check", len(driver.log))
        with clock.phase("check"):
            original = Path(os.fspath(source)) if is_file else source
            check_rewritten(report, model, original, rewritten, options, require_proof)

    with clock.phase("write"):
        patch = patch_of(index)
        if is_file:
            out = Path(os.fspath(output))
            save(model, patch, out, external_data=external_data, force=force, check=inspect if wants_check else None)
            return out, report
        result = patch.to_proto()
        if wants_check:
            inspect(result)
        return result, report


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


def _names(given: str | Sequence[str]) -> Sequence[str]:
    return (given,) if isinstance(given, str) else given
