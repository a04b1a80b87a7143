"""The gate: rewrites models, and reports regressions since a baseline.  It keeps only the baseline."""

import json
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from surgeon.automation.fleet.fleet import Fleet
from surgeon.automation.fleet.fleet_row import FleetRow
from surgeon.automation.fleet.job import MODEL_TIME, dependency_versions
from surgeon.automation.fleet.model_sources import Sources, listed_models
from surgeon.automation.fleet.run_many import OnRow, OnStart, run_many
from surgeon.automation.gate.baseline_file import BASELINE, Baseline, read_baseline
from surgeon.automation.gate.gate_result import FailOn, GateResult
from surgeon.automation.gate.gate_rules import FUSION_LOST, OP_UNSUPPORTED
from surgeon.automation.gate.lost_fusion import with_nearest_mismatches
from surgeon.automation.gate.model_comparison import Difference, compare_facts, joined, version_changes
from surgeon.automation.gate.model_facts import facts_of
from surgeon.automation.recipes.recipe import Recipe, Rules
from surgeon.errors import UsageError
from surgeon.proof.check_options import CheckOptions
from surgeon.rules.catalogue import default_group


def gate(
    sources: Sources,
    *,
    baseline: str | os.PathLike[str] = BASELINE,
    update: bool = False,
    rules: str | None = None,
    target: str = "ort",
    ep: str | None = None,
    tolerance: float = 0.1,
    fail_on: FailOn = "error",
    check: Literal["auto", "none"] = "auto",
    jobs: int = 1,
    model_time: float = MODEL_TIME,
    model_memory: int | None = None,
    options: CheckOptions | None = None,
    progress: OnRow | None = None,
    begins: OnStart | None = None,
) -> GateResult:
    """Rewrite models, and compare facts about the results with those of a baseline.

    The facts are fused ops by family, ops that the target lacks, types and dims of inputs and outputs, proofs, number
    of nodes, and bytes of weights.  Names, metadata, the order of nodes and the size of the file are not compared.
    The models themselves are not changed.

    Args:
        sources: models, or patterns of models ("models/**/*.onnx", "s3://zoo/*.onnx").
        baseline: file of an earlier run to compare with: rows that `run` wrote (.jsonl, .parquet), or facts that `gate`
            wrote (surgeon-baseline.json).
        update: write the facts to the baseline, and list the differences from the previous one.
        rules: as for `rewrite`.
        target: as for `rewrite`.
        ep: as for `rewrite`.
        tolerance: growth of the number of nodes that is accepted, as a share; a tenth of it for bytes of weights.
        fail_on: the least level of a regression for which the gate fails: "error" or "warning".
        check: "auto" proves each rewritten site; "none" checks nothing.
        jobs: number of models to process in parallel on this machine.
        model_time: wall-clock limit for one model, in seconds.
        model_memory: memory limit for the process of one model, for example 4GB.  In Python, bytes.  Default: none.
        options: seeds, sizes, tolerances and limits of the checks.
        progress: called with each row, the number of finished models and the number of all models.
        begins: called with the name of each model that starts.

    Returns:
        A GateResult.  Without a baseline it has facts, but no differences.

    Raises:
        UsageError: no model matches, the baseline is invalid, or it was made with another target, rules or checks.

    Examples:
        >>> import surgeon
        >>> made = surgeon.gate("notebooks/models/*.onnx", update=True)
        >>> surgeon.gate("notebooks/models/*.onnx").differences
        []
    """
    started = time.perf_counter()
    if not 0 <= tolerance < float("inf"):
        raise UsageError(f"Invalid tolerance {tolerance:g}. Give a share of at least 0, for example 0.1.")
    path = Path(baseline)
    known = read_baseline(path)
    settings = {"target": target, "ep": ep, "rules": rules or default_group(target), "check": check}
    if known is not None and not update:
        _require_same(path, known.settings, settings)
    recipe = Recipe([Rules(str(settings["rules"]))], target, ep)
    with tempfile.TemporaryDirectory() as folder:
        names = _named(sources, path)
        table, to = Path(folder) / "models.jsonl", Path(folder) / "results"
        lines = (json.dumps({"source": source, "model": name}) for name, source in names.items())
        table.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

        def done(row: FleetRow, number: int, total: int) -> None:
            if jobs == 1:  # other processes may write the same data files
                _remove(to, row)
            if progress is not None:
                progress(row, number, total)

        limits: dict[str, Any] = {"model_time": model_time, "model_memory": model_memory, "check": check}
        with closing(
            run_many(recipe, table, to=to, jobs=jobs, options=options, progress=done, begins=begins, **limits)
        ) as fleet:
            result = GateResult(str(path), settings, sources=names, has_baseline=known is not None, fail_on=fail_on)
            result.models = {row.model: facts_of(row) for row in fleet}
            result.differences = [] if known is None else _differences(known, result, fleet, tolerance)
    if update:
        Baseline(settings, dict(dependency_versions()), result.models).write(path)
        result.updated = True
    result.seconds = time.perf_counter() - started
    return result


def _require_same(path: Path, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise UsageError for settings that differ from the baseline's."""
    other = next((name for name in now if then.get(name) != now[name]), None)
    if other is not None:
        raise UsageError(
            f"The baseline {path} was made with {other} {then.get(other) or 'not given'}, and this run has "
            f"{now[other] or 'none'}. Give the same, or write a new baseline with --update."
        )


def _named(sources: Sources, baseline: Path) -> dict[str, str]:
    """The models by name: their path below the folder of the baseline or, elsewhere, below that of the pattern.

    Raises UsageError for two models of one name.
    """
    home = Path(os.path.abspath(baseline)).parent
    found: dict[str, str] = {}
    for model in listed_models(sources):
        path = Path(os.path.abspath(model.source))
        is_below = "://" not in model.source and path.is_relative_to(home)
        name = path.relative_to(home).as_posix() if is_below else model.name
        if found.setdefault(name, model.source) != model.source:
            both = f"{found[name]} and {model.source}"
            raise UsageError(f"{both} would have the same name {name}. Put the baseline into a common folder of both.")
    return found


def _remove(to: Path, row: FleetRow) -> None:
    """Remove a result, whose facts the row has: results together may be too large for the disk."""
    for location in row.made:
        (to / row.model).parent.joinpath(location or Path(row.model).name).unlink(missing_ok=True)


def _differences(known: Baseline, result: GateResult, fleet: Fleet, tolerance: float) -> list[Difference]:
    """All differences from a baseline, regressions first, with the nodes that they concern."""
    found: list[Difference] = []
    versions = version_changes(known.versions, dependency_versions())
    for name in sorted(known.models.keys() | result.models.keys()):
        then, now = known.models.get(name), result.models.get(name)
        row = None if now is None else fleet[name]
        why = "" if row is None else row.why
        changes = compare_facts(name, then, now, tolerance=tolerance, why=why, versions=versions)
        if row is not None:
            changes = [_located(one, row.facts.get("unsupported", {})) for one in changes]
        if then is not None and any(one.rule is FUSION_LOST for one in changes):
            changes = with_nearest_mismatches(changes, result.sources[name], result.settings, then.rules)
        found += changes
    return sorted(found, key=lambda one: (not one.is_regression, one.model))


def _located(one: Difference, unsupported: Mapping[str, Any]) -> Difference:
    """The difference with the reason, the nodes and the lines of an op that the target lacks."""
    if one.rule is not OP_UNSUPPORTED:
        return one
    entry = unsupported[one.subject]
    frames = tuple((str(file), int(line)) for file, line in entry["frames"])
    return replace(one, cause=joined(entry["reason"], one.cause), nodes=tuple(entry["nodes"]), frames=frames)
