"""Works on one model inside its process: fetches it, runs the recipe, publishes the result, and fills its row."""

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from surgeon.automation.fleet.execution.fetch import FetchedModel, fetch_model
from surgeon.automation.fleet.execution.model_contents import contents_of, hash_of_file
from surgeon.automation.fleet.execution.publish import Publisher
from surgeon.automation.fleet.fleet_row import FleetRow
from surgeon.automation.fleet.job import ModelJob
from surgeon.automation.fleet.proof_store import FleetProofStore
from surgeon.automation.fleet.storage.storage import Storage, StoredFile, TransientStorageError, sibling_url, storage_of
from surgeon.automation.recipes.recipe import Recipe, Rules
from surgeon.automation.recipes.recipe_report import RecipeReport
from surgeon.automation.recipes.run_recipe import rule_set, run
from surgeon.errors import CheckFailed, ExpectationUnmet, ModelFileError, SurgeonError
from surgeon.file.io.file_copy import same_content
from surgeon.pipeline import driver
from surgeon.pipeline.checks import Checks
from surgeon.pipeline.reports.report import UNCHANGED
from surgeon.pipeline.rewriting.unknown_names import unmatched
from surgeon.proof.cache.proof_key import use_proof_store
from surgeon.runtime.processes.worker_main import ReportProgress


def load(_: None, note: ReportProgress) -> tuple[dict[str, Any], Sequence[Any]]:
    """Import everything that `run_model` needs; importing this module does that."""
    note({})
    return {}, []


def run_model(job: ModelJob, note: ReportProgress) -> tuple[dict[str, Any], Sequence[Any]]:
    """Work on one model; returns its row, or `busy` if a store failed and a retry may help."""
    _limit_child_memory(job.memory)
    row = job.row()
    try:
        _ModelWork(job, row, note).run_all()
    except TransientStorageError as error:
        return {"busy": True, "why": str(error)}, []
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - one model cannot end the run: its row reports a defect
        row.outcome, row.why = "crashed", f"Internal error in surgeon: {type(error).__name__}: {error}"
    return row.to_dict(), []


def _limit_child_memory(size: int) -> None:
    """Apply the memory limit to child processes."""
    try:
        import resource
    except ImportError:  # on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard < 0 or size < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (min(soft, size) if soft >= 0 else size, size))


class _ModelWork:
    """The steps of one model."""

    def __init__(self, job: ModelJob, row: FleetRow, note: ReportProgress) -> None:
        self.job, self.row, self._note = job, row, note
        self._to, root = storage_of(job.settings.to)
        self._publisher = Publisher(
            self._to,
            root,
            job.model.name,
            source=job.model.source,
            previous_data_files=job.previous_data_files,
        )
        shares = job.settings.shares_proofs and not job.settings.dry_run
        self._proofs = FleetProofStore(self._to, root, job.model.name) if shares else None

    def run_all(self) -> None:
        row = self.row
        self._note({"at": "it was read"})
        with ExitStack() as stack:
            try:
                fetched = stack.enter_context(fetch_model(self.job))
                clash = self._clash_reason(fetched)
            except TransientStorageError:
                raise
            except SurgeonError as error:
                row.outcome, row.why = "refused", str(error)
                return
            if clash is not None:
                row.outcome, row.why = "unwritten", clash
            else:
                self._run_and_publish(fetched)

    def _clash_reason(self, fetched: FetchedModel) -> str | None:
        """Why its data files cannot be written: another model has data files of the same name; None if they can.

        The rows of both models say so, in any order; a run over other models may differ.
        """
        if self.job.settings.external_data == "inline":
            return None
        for location, data in fetched.data.items():
            for home in self.job.sibling_folders:
                url = sibling_url(home, location)
                storage, path = storage_of(url)
                other = storage.stored(path)
                if other is not None and not _is_same_file(fetched.storage, data, storage, other):
                    return (
                        f"Its data file {location} and {url} would have the same name in the target. Give the results "
                        "different folders, in the column 'model' of a table, or use --external-data inline."
                    )
        return None

    def _run_and_publish(self, fetched: FetchedModel) -> None:
        row = self.row
        # In the folder of the fetched model, to share its data files, but never in that of a local source.
        folder = self.job.stage / "out" if fetched.storage.is_local else fetched.path.parent
        out = folder / Path(self.job.model.name).name
        out.parent.mkdir(exist_ok=True)
        self._note({"at": "the recipe ran"})
        row.files, row.size = fetched.files, fetched.size
        try:
            report = self._run(fetched, out)
            fetched.require_brought()
            if report is not None:
                self._fill_row(report)
                self._fill_facts(fetched, out, report)
            if row.outcome not in ("refused", "unexpected") and not self.job.settings.dry_run:
                self._note({"at": "its result was written"})
                row.read = fetched.read
                row.proved_in = dict(self._proofs.used) if self._proofs is not None else {}
                self._publish(fetched, out)
        finally:
            row.read = fetched.read

    def _run(self, fetched: FetchedModel, out: Path) -> RecipeReport | None:
        """Run the recipe; a refusal goes into the row."""
        row, settings = self.row, self.job.settings
        try:
            row.graph = hash_of_file(fetched.path)
            if fetched.is_partial:
                report = report_if_unmatched(settings.recipe, fetched)
                if report is not None:
                    row.outcome = report.outcome
                    return report
                fetched.complete(fetched.path)  # the result contains it
            with use_proof_store(self._proofs):
                _, report = run(
                    settings.recipe,
                    fetched.path,
                    None if settings.dry_run else out,
                    check="none" if settings.check == "none" else "auto",
                    require_proof=settings.require_proof,
                    dry_run=settings.dry_run,
                    external_data="inline" if settings.external_data == "inline" else "auto",
                    options=settings.options,
                )
        except TransientStorageError:
            raise
        except (CheckFailed, ExpectationUnmet) as error:
            row.outcome = "failed" if isinstance(error, CheckFailed) else "unexpected"
            row.why = fetched.with_public_names(str(error))
            return error.report if isinstance(error.report, RecipeReport) else None
        except SurgeonError as error:
            if isinstance(error.__cause__ or error.__context__, MemoryError):  # raised in the code of a rule
                raise MemoryError from error
            row.outcome, row.why = "refused", fetched.with_public_names(str(error))
            return None
        row.outcome = report.outcome
        return report

    def _fill_row(self, report: RecipeReport) -> None:
        """Put the results of the recipe into the row."""
        row = self.row
        row.counts, row.nodes, row.rolled_back = report.counts, report.nodes, len(report.rolled_back)
        row.edits = [sentence for done in report.edits for sentence in done.said]
        row.proofs = dict(Counter(site.outcome for site in report.sites))
        if not row.why and row.outcome == "unproved":
            row.why = next(iter(report.doubts), "")
        unused = (unmatched(pattern, near) for pattern, near in report.unused.items())
        row.why = row.why or next(unused, "")

    def _fill_facts(self, fetched: FetchedModel, out: Path, report: RecipeReport) -> None:
        """Put the facts about the result into the row; a dry run that changes the model has none about its ops."""
        row, settings = self.row, self.job.settings
        try:
            found = contents_of(out if out.exists() else fetched.path, settings.recipe, settings.options)
        except TransientStorageError:
            raise
        except SurgeonError as error:
            row.outcome, row.why = "refused", fetched.with_public_names(str(error))
            return
        if settings.dry_run and report.outcome != UNCHANGED:
            found = {key: value for key, value in found.items() if key not in ("ops", "unsupported")}
        row.facts = {**found, "rolled_back": dict(Counter(site.rule for site in report.rolled_back))}

    def _publish(self, fetched: FetchedModel, out: Path) -> None:
        """Publish the result with the row; an error of the store goes into the row."""
        row = self.row
        try:
            if not out.exists() and self._to.is_same(fetched.storage):
                row.made, row.written = self._publisher.copy(fetched)
            else:
                if not out.exists():
                    out = fetched.path
                row.made, row.written = self._publisher.publish(out, fetched)
            self._publisher.write_row(row)
        except TransientStorageError:
            raise
        except (ModelFileError, OSError) as error:
            row.outcome, row.why, row.made = "unwritten", str(error), {}


def _is_same_file(storage: Storage, data: StoredFile, other_storage: Storage, other: StoredFile) -> bool:
    """Whether two files are the same, or have the same content."""
    if storage.is_local and other_storage.is_local:
        return same_content(Path(data.path), Path(other.path))
    return storage.is_same(other_storage) and data.token == other.token


def report_if_unmatched(recipe: Recipe, fetched: FetchedModel) -> RecipeReport | None:
    """The report of a recipe of rules if no rule would fire; None otherwise.

    Raises the errors of the recipe.
    """
    report = RecipeReport("", "")
    for step in recipe.steps:
        if not isinstance(step, Rules):
            return None
        driver.run(fetched.path, [rule_set(recipe, step)], Checks(dry_run=True), report=report)
        if report.sites:
            return None
    return report
