"""One model, inside the process that is given for it: read, run the recipe, publish, and say what came of it."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from surgeon.automation.fleet.execution.fetch import FetchedModel, take
from surgeon.automation.fleet.execution.publish import Publisher
from surgeon.automation.fleet.fleet_row import FleetRow
from surgeon.automation.fleet.job import ModelJob
from surgeon.automation.fleet.proof_store import FleetProofStore
from surgeon.automation.fleet.storage.storage import Storage, StoredFile, TransientStorageError, sibling_url, storage_of
from surgeon.automation.recipes.recipe import Recipe, Rules
from surgeon.automation.recipes.recipe_report import RecipeReport
from surgeon.automation.recipes.run_recipe import rule_settings, run
from surgeon.errors import CheckFailed, ExpectationUnmet, ModelFileError, SurgeonError
from surgeon.file.external_data import locations
from surgeon.file.io.file_copy import same_content
from surgeon.file.model import Model
from surgeon.pipeline.reports.edit_report import EditReport
from surgeon.pipeline.rewriting.rewrite import rewrite_with
from surgeon.pipeline.rewriting.unknown_names import unmatched
from surgeon.proof.cache.proof_key import use_proof_store
from surgeon.runtime.processes.worker_main import ReportProgress


def ready(_: None, note: ReportProgress) -> tuple[dict[str, Any], Sequence[Any]]:
    """Load what work needs, which importing this module does."""
    note({})
    return {}, []


def work(job: ModelJob, note: ReportProgress) -> tuple[dict[str, Any], Sequence[Any]]:
    """Work on one model; its row, or `busy` where a store did not do what it was asked and another try may help."""
    _keep_limit(job.memory)
    row = job.row()
    try:
        _ModelWork(job, row, note).go()
    except TransientStorageError as error:
        return {"busy": True, "why": str(error)}, []
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - one model cannot end the run: its row says what a defect came to
        row.outcome, row.why = "crashed", f"This is a defect of surgeon: {type(error).__name__}: {error}."
    return row.to_dict(), []


def _keep_limit(size: int) -> None:
    """Hold the processes that this one starts to the same limit."""
    try:
        import resource
    except ImportError:  # on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard < 0 or size < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (min(soft, size) if soft >= 0 else size, size))


class _ModelWork:
    """The way of one model."""

    def __init__(self, job: ModelJob, row: FleetRow, note: ReportProgress) -> None:
        self.job, self.row, self._note = job, row, note
        self._to, root = storage_of(job.orders.to)
        self._publishing = Publisher(self._to, root, job.name, source=job.source, made=job.previous_data_files)
        shares = job.orders.shares_proofs and not job.orders.dry_run
        self._proofs = FleetProofStore(self._to, root, job.name) if shares else None

    def go(self) -> None:
        row = self.row
        self._note({"at": "it was read"})
        with ExitStack() as stack:
            try:
                taken = stack.enter_context(take(self.job))
                clash = self._clash(taken)
            except TransientStorageError:
                raise
            except SurgeonError as error:
                row.outcome, row.why = "refused", str(error)
                return
            if clash:
                row.outcome, row.why = "unwritten", clash
            else:
                self._do(taken)

    def _clash(self, taken: FetchedModel) -> str:
        """Why its data cannot be written: those of a model from elsewhere would have one name with them, "" where none.

        Both models are told so, whichever comes first; it may be otherwise in another run, over other models.
        """
        if self.job.orders.external_data == "inline":
            return ""
        for location, data in taken.data.items():
            for home in self.job.sibling_folders:
                url = sibling_url(home, location)
                storage, path = storage_of(url)
                other = storage.stored(path)
                if other is not None and not _is_one(taken.storage, data, storage, other):
                    return (
                        f"Its data file {location} and {url} would have one name in the target: give the results "
                        "folders of their own, as by the column model of a table, or use --external-data inline."
                    )
        return ""

    def _do(self, taken: FetchedModel) -> None:
        row = self.row
        # beside what was fetched, whose data files it then shares; never beside a source
        out = (self.job.stage / "out" if taken.storage.is_local else taken.path.parent) / Path(self.job.name).name
        out.parent.mkdir(exist_ok=True)
        self._note({"at": "the recipe ran"})
        row.files, row.size = taken.files, taken.size
        try:
            report = self._run(taken, out)
            taken.require_brought()
            if report is not None:
                self._tell(report)
            if row.outcome not in ("refused", "unexpected") and not self.job.orders.dry_run:
                self._note({"at": "its result was written"})
                row.read = taken.read
                row.proved_in = dict(self._proofs.used) if self._proofs is not None else {}
                self._publish(taken, out)
        finally:
            row.read = taken.read

    def _run(self, taken: FetchedModel, out: Path) -> RecipeReport | None:
        """Run the recipe; what it refuses is in the row."""
        row, orders = self.row, self.job.orders
        try:
            row.graph = graph_of(taken.path)
            if taken.is_partial:
                report = without_sites(orders.recipe, taken)
                if report is not None:
                    row.outcome = report.outcome
                    return report
                taken.complete(taken.path)  # what is written holds it
            with use_proof_store(self._proofs):
                _, report = run(
                    orders.recipe,
                    taken.path,
                    None if orders.dry_run else out,
                    check="none" if orders.check == "none" else "auto",
                    require_proof=orders.require_proof,
                    dry_run=orders.dry_run,
                    external_data="inline" if orders.external_data == "inline" else "auto",
                    options=orders.options,
                )
        except TransientStorageError:
            raise
        except CheckFailed as error:
            row.outcome, row.why = "failed", taken.named(str(error))
            return error.report if isinstance(error.report, RecipeReport) else None
        except ExpectationUnmet as error:
            row.outcome, row.why = "unexpected", taken.named(str(error))
            return error.report if isinstance(error.report, RecipeReport) else None
        except SurgeonError as error:
            if isinstance(error.__cause__ or error.__context__, MemoryError):  # in a rule's own code
                raise MemoryError from error
            row.outcome, row.why = "refused", taken.named(str(error))
            return None
        row.outcome = report.outcome
        return report

    def _tell(self, report: RecipeReport) -> None:
        """Put what the recipe did into the row."""
        row = self.row
        row.counts = report.counts
        proofs: Counter[str] = Counter()
        for part in report.parts:
            if isinstance(part, EditReport):
                row.edits += [sentence for done in part.edits for sentence in done.said]
                before, after = part.nodes
            else:
                before, after = part.nodes_before, part.nodes_after
                proofs.update(site.outcome for site in part.sites)
                row.rolled_back += len(part.rolled_back)
            row.nodes = (row.nodes[0] or before, after)
        row.proofs = dict(proofs)
        rewritten = [part for part in report.parts if not isinstance(part, EditReport)]
        if not row.why and row.outcome == "unproved":
            row.why = next((doubt for part in report.parts for doubt in part.doubts), "")
        unused = [unmatched(pattern, near) for part in rewritten for pattern, near in part.unused.items()]
        row.why = row.why or next(iter(unused), "")

    def _publish(self, taken: FetchedModel, out: Path) -> None:
        """Put the result where it is to be, and the row with it; a store that does not take it is told in the row."""
        row = self.row
        try:
            if not out.exists() and self._to.is_same(taken.storage):
                row.made, row.written = self._publishing.copy(taken)
            else:
                if not out.exists():
                    out = taken.path
                row.made, row.written = self._publishing.publish(out, taken)
            self._publishing.note(row)
        except TransientStorageError:
            raise
        except (ModelFileError, OSError) as error:
            row.outcome, row.why, row.made = "unwritten", str(error), {}


def _is_one(storage: Storage, data: StoredFile, other_storage: Storage, other: StoredFile) -> bool:
    """Whether two files are one, or hold the same."""
    if storage.is_local and other_storage.is_local:
        return same_content(Path(data.path), Path(other.path))
    return storage.is_same(other_storage) and data.token == other.token


def without_sites(recipe: Recipe, taken: FetchedModel) -> RecipeReport | None:
    """What a recipe of rules comes to where none of them would fire; None where one would.

    Raises what the recipe raises.
    """
    report = RecipeReport(taken.source, "")
    for step in recipe.steps:
        if not isinstance(step, Rules):
            return None
        settings = rule_settings(recipe, step, output=None, check="sites", expect=step.expect, dry_run=True)
        _, done = rewrite_with(taken.path, step.rules, settings)
        if done.sites:
            return None
        report.parts.append(done)
    return report


def graph_of(path: Path) -> str:
    """What tells one export from another: all of a model's bytes but the data of its tensors.

    Raises ModelFileError for a file that is no model.
    """
    with Model.open(path) as model:
        found = hashlib.sha256(model.skeleton.SerializeToString(deterministic=True))
        for tensor in model.external_tensors:
            extent = locations.extent_of(tensor)
            found.update(f"{extent.offset}+{extent.size}".encode())
    return found.hexdigest()[: 2 * 8]

