"""Runs one recipe over many models."""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from surgeon.automation.fleet.baseline import changes, load_baseline
from surgeon.automation.fleet.execution.fleet_engine import EngineDisconnected, FleetEngine, SequentialEngine
from surgeon.automation.fleet.fleet import Fleet
from surgeon.automation.fleet.fleet_row import FleetRow
from surgeon.automation.fleet.job import MODEL_TIME, FleetSettings, ModelJob, ModelLimits
from surgeon.automation.fleet.model_sources import FoundModels, Sources, find_models
from surgeon.automation.fleet.run_database import PlannedModel, RunDatabase
from surgeon.automation.fleet.run_history import RunHistory, up_to_date_row
from surgeon.automation.fleet.storage.storage import TransientStorageError, storage_of
from surgeon.automation.fleet.table_files import append_rows, require_table, write_parquet
from surgeon.automation.recipes.recipe import Recipe
from surgeon.automation.recipes.recipe_file import load_recipe
from surgeon.errors import ModelFileError, UsageError
from surgeon.proof.check_options import CheckOptions, resolve_options

_SCHEDULER = re.compile(r"(dask|tcp|tls|ucx|wss?)://.+")
OnRow = Callable[[FleetRow, int, int], None]
OnStart = Callable[[str], None]


def run_many(
    recipe: Recipe | str | os.PathLike[str],
    sources: Sources,
    *,
    to: str | os.PathLike[str],
    variables: Mapping[str, str | int | float] | None = None,
    engine: str = "local",
    jobs: int = 1,
    client: Any = None,
    resume: bool = False,
    baseline: str | os.PathLike[str] | None = None,
    rows: str | os.PathLike[str] | None = None,
    own_proofs: bool = False,
    model_time: float = MODEL_TIME,
    model_memory: int | None = None,
    check: Literal["auto", "none"] = "auto",
    require_proof: bool = False,
    external_data: Literal["auto", "copy", "inline"] = "auto",
    dry_run: bool = False,
    options: CheckOptions | None = None,
    progress: OnRow | None = None,
    begins: OnStart | None = None,
    dashboard: OnStart | None = None,
) -> Fleet:
    """Run a recipe on many models, each in its own process with limits, and report the outcome of each.

    If a model fails, its row says why, and the other models continue.

    Args:
        recipe: the recipe, or the path of its file.
        sources: a pattern ("zoo/**/*.onnx", "s3://zoo/*.onnx"), a table of models (.txt, .jsonl, .parquet), a model, or
            several of these.
        to: folder or store for the results; each has the path of its source below the fixed part of the pattern.
        variables: value of `${name}` in the recipe.
        engine: where the models are processed: "local", "dask" (the configured scheduler) or "dask://HOST:PORT".
        jobs: number of models to process in parallel on this machine.
        client: a Dask client, instead of an engine.
        resume: skip models that are done and unchanged.
        baseline: file of an earlier run to compare with: rows that `run` wrote (.jsonl, .parquet), or facts that `gate`
            wrote (surgeon-baseline.json).
        rows: write one row per model: .jsonl is appended during the run, .parquet is written at the end.
        own_proofs: repeat proofs that another model of this run already has.
        model_time: wall-clock limit for one model, in seconds.
        model_memory: memory limit for the process of one model, for example 4GB.  In Python, bytes.  Default: none.
        check: "auto" proves each rewritten site and each edit; "none" checks nothing.
        require_proof: treat unproved results as failures.
        external_data: how data files are written: "auto", "copy" or "inline".
        dry_run: report the changes, but write nothing.
        options: seeds, sizes, tolerances and limits of the checks.
        progress: called with each row, the number of finished models and the number of all models.
        begins: called with the name of each model that starts.
        dashboard: called before the first model with the address of Dask's dashboard, if it has one.

    Returns:
        A Fleet, which is iterable: a FleetRow for each model.

    Raises:
        SurgeonError: the run cannot start; nothing was done.

    Examples:
        >>> import surgeon
        >>> recipe = surgeon.Recipe([surgeon.Rules("gelu")])
        >>> fleet = surgeon.run_many(recipe, "notebooks/models/*.onnx", to="fused")
        >>> [(row.model, row.outcome, row.counts) for row in fleet]
        [('tiny_distilbert.onnx', 'proved', {'gelu': 4})]
    """
    loaded = recipe if isinstance(recipe, Recipe) else load_recipe(recipe, variables)
    if isinstance(recipe, Recipe) and variables:
        raise UsageError("variables are only for a recipe file. Create the Recipe with the values themselves.")
    options = resolve_options(options)
    if options.jobs is None and (client is not None or engine != "local" or jobs > 1):
        options = replace(options, jobs=1)  # other models have the other cores
    if own_proofs:
        options = replace(options, cache=False)
    settings = FleetSettings(
        loaded,
        _target_url(to),
        check=check,
        require_proof=require_proof,
        external_data=external_data,
        options=options,
        limits=ModelLimits(model_time, model_memory),
        dry_run=dry_run,
        shares_proofs=not own_proofs,
    )
    settings.require()
    table = None if rows is None else os.fspath(rows)
    sources = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    if table is not None:
        require_table(table, sources)
    started = time.perf_counter()
    run = _FleetRun(settings.with_cache_key(), table, progress)
    baseline_rows = None if baseline is None else load_baseline(os.fspath(baseline))
    found = find_models(sources, settings.to, run.database)
    worker = _engine(engine, jobs, client, on_start=begins, files=run.settings.files())
    has_baseline, has_rows = baseline_rows is not None, rows is not None
    fleet = Fleet(settings.to, run.database, has_baseline=has_baseline, is_dry=dry_run, has_rows=has_rows)
    try:
        if dashboard is not None and worker.dashboard is not None:
            dashboard(worker.dashboard)
        fleet.ended = run.run(found, worker, resume=resume)
    finally:
        worker.close()
    if baseline_rows is not None:
        fleet.changes = changes(run.database, baseline_rows)
        baseline_rows.close()
    fleet.seconds = time.perf_counter() - started
    return fleet


def _target_url(to: str | os.PathLike[str]) -> str:
    storage, path = storage_of(to)
    return storage.url(path).rstrip("/")


def _engine(
    engine: str, jobs: int, client: Any, *, on_start: OnStart | None, files: Iterable[Path]
) -> FleetEngine:
    if jobs < 1:
        raise UsageError(f"The number of jobs must be at least 1, not {jobs}.")
    if client is None and engine == "local" and jobs == 1:
        return SequentialEngine(on_start)
    if client is None and engine != "local" and engine != "dask" and not _SCHEDULER.match(engine):
        raise UsageError(f"Unknown engine {engine!r}. Choose local, dask or dask://HOST:PORT.")
    from surgeon.automation.fleet.execution.dask_engine import DaskEngine, connect, start_local  # Dask is an extra

    paths = [str(path) for path in files]
    if client is not None:
        found = DaskEngine(client, on_start)
        found.require(paths)
        return found
    return start_local(jobs, on_start) if engine == "local" else connect(engine, on_start, paths)


@dataclass
class _FleetRun:
    """One run over many models."""

    settings: FleetSettings
    """The settings of the run."""
    table: str | None
    """The path of a table for the rows; None for no table."""
    progress: OnRow | None
    """Called with each row, the number of finished models and the number of models."""

    def __post_init__(self) -> None:
        self.database = RunDatabase()
        self._storage, self._root = storage_of(self.settings.to)
        self._history = RunHistory(self._storage, self._root, self.settings)

    def run(self, found: FoundModels, worker: FleetEngine, *, resume: bool) -> str:
        """Work on all models that are not up to date; returns why the run ended early, empty if it did not."""
        if not self.settings.dry_run:
            self._history.begin()
        try:
            return self._run_models(found, worker, resume=resume)
        finally:
            self._history.close()

    def _run_models(self, found: FoundModels, worker: FleetEngine, *, resume: bool) -> str:
        ended = ""
        self.database.add_previous_rows(self._history.previous_rows())
        if resume:
            self._list_files(found)
        total, done = self.database.count, 0
        is_growing = self.table is not None and self.table.endswith(".jsonl")
        with append_rows(self.table if is_growing else None) as append:
            try:
                for row in self._rows(worker, resume=resume):
                    done += 1
                    self.database.add(row)
                    append(row)
                    if self.progress is not None:
                        self.progress(row, done, total)
            except EngineDisconnected as error:
                left = f"{total - done:,} of {total:,} models are left"
                ended = f"{str(error).capitalize()}, and {left}. Run it again with --resume."
        if not self.settings.dry_run:
            try:
                self._history.end(self.database)
            except ModelFileError as error:
                ended = ended or f"The rows could not be merged into one file: {error}"
        if self.table is not None and not is_growing:
            write_parquet(self.database.rows(), self.table)
        return ended

    def _list_files(self, found: FoundModels) -> None:
        """List the files of the sources and of the target."""
        for storage, folder in (*found.folders, (self._storage, self._root)):
            self.database.add_files((storage.url(file.path), file.token) for file in storage.find(folder))

    def _rows(self, worker: FleetEngine, *, resume: bool) -> Iterator[FleetRow]:
        pending: list[str] = []
        for model in self.database.planned():
            job = ModelJob(model, self.settings)
            row = up_to_date_row(job, self.database, storage_of(model.source)[0], self._storage) if resume else None
            if row is None:
                pending.append(model.name)
            else:
                self._note_stale_result(row)
                yield row
        for row in worker.rows(self._jobs(pending)):
            self._note_stale_result(row)
            if not self.settings.dry_run:
                self._history.add(row)
            yield row

    def _note_stale_result(self, row: FleetRow) -> None:
        """Mark the row of a model without a result if a file of an earlier run is at its target; that file stays."""
        row.stale = False
        if row.is_wrong and not row.made:
            with suppress(ModelFileError, TransientStorageError):  # the row reports a store that does not answer
                row.stale = self._storage.stored(self._storage.join(self._root, row.model)) is not None

    def _jobs(self, pending: list[str]) -> Iterator[ModelJob]:
        names = set(pending)
        for model in self.database.planned(largest_first=True):
            if model.name in names:
                yield self._job(model)


    def _job(self, model: PlannedModel) -> ModelJob:
        previous = self.database.previous_row(model.name)
        return ModelJob(
            model,
            self.settings,
            nodes=0 if previous is None else previous.nodes[0],
            sibling_folders=self.database.sibling_folders(model),
            previous_data_files=() if previous is None else tuple(filter(None, previous.made)),
        )
