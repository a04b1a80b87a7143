"""Runs recipes: applies one step after another to a model, and writes the last result to the output."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from surgeon.automation.recipes.recipe import Recipe, Rules
from surgeon.automation.recipes.recipe_file import load_recipe
from surgeon.automation.recipes.recipe_report import RecipeReport
from surgeon.errors import CheckFailed, ExpectationUnmet, ModelFileError, SurgeonError, UsageError
from surgeon.file.external_data import locations
from surgeon.file.external_data.new_file import NAMED_AFTER
from surgeon.file.io.atomic_file import write_text
from surgeon.file.model import Model
from surgeon.file.model_like import is_in_memory, model_name
from surgeon.file.save import ExternalDataMode
from surgeon.file.temporary_model import temporary_folder, temporary_path
from surgeon.pipeline.editing.edit import Edit
from surgeon.pipeline.editing.edit_group import edit
from surgeon.pipeline.reports.edit_report import EditReport
from surgeon.pipeline.reports.rewrite_report import Report
from surgeon.pipeline.rewriting.driver_settings import NodeFilter
from surgeon.pipeline.rewriting.rewrite import rewrite_with
from surgeon.pipeline.rewriting.rewrite_settings import RewriteSettings
from surgeon.pipeline.rewriting.verification import rollback_message
from surgeon.proof.check_options import CheckOptions, require_output, resolve_options, resolve_output
from surgeon.result_base import ModelAndReport
from surgeon.rules.catalogue import resolve_with_edits, unique_rules

Part: TypeAlias = "list[Edit] | Rules"
LOCK = ".lock"  # suffix of a recipe's name


def run(
    recipe: Recipe | str | os.PathLike[str],
    source: Any,
    output: str | os.PathLike[str] | None = None,
    *,
    variables: Mapping[str, str | int | float] | None = None,
    check: Literal["auto", "none"] = "auto",
    require_proof: bool = False,
    lock: bool = False,
    expect_same: bool = False,
    dry_run: bool = False,
    external_data: ExternalDataMode = "auto",
    force: bool = False,
    options: CheckOptions | None = None,
) -> tuple[Any, RecipeReport]:
    """Run a recipe on a model: edits and rules in order, each proved, the result written once.

    Args:
        recipe: the recipe, or the path of its file.
        source: a path (then `output` says where to write; it may be the same path), a ModelProto or a gs.Graph.
        output: the path to write, for a source that is a path.
        variables: values for `${name}` in the recipe's file.
        check: "auto" proves every site of rules and what edits claim, "none" nothing.
        require_proof: treat what cannot be proved as failed.
        lock: note in a file beside the recipe, its name with `.lock` behind it, what was done.
        expect_same: write only if all is done as that file has it.
        dry_run: say what would be done, write nothing.
        external_data: what becomes of data files: "auto", "share", "copy" or "inline".
        force: overwrite a data file of other content.
        options: seeds, sizes, tolerances and limits of the checks.

    Returns:
        The model in the kind it was given (a path: the path written), and a RecipeReport.

    Raises:
        UsageError: a step names what the model has not; the sentence names its line in the file.
        CheckFailed: sites were rolled back; the rest is written.  Or an edit fails its check; nothing is.
        ExpectationUnmet: `expect_same` is not met; nothing is written.
        SurgeonError: whatever else a step refuses; nothing is written.

    Examples:
        >>> import surgeon
        >>> recipe = surgeon.Recipe([surgeon.edits.Rename("input_ids", "tokens"), surgeon.Rules("gelu")])
        >>> path, report = surgeon.run(recipe, "notebooks/models/tiny_distilbert.onnx", "out.onnx")
        >>> report.outcome
        'proved'
    """
    loaded = recipe if isinstance(recipe, Recipe) else load_recipe(recipe, variables)
    if isinstance(recipe, Recipe) and variables:
        raise UsageError("Variables are of a recipe's file; make the Recipe of the values themselves.")
    in_memory = is_in_memory(source)
    require_output(in_memory, output, dry_run)
    started = time.perf_counter()
    report = RecipeReport(model_name(source), str(output or ""))
    recipe_run = _RecipeRun(
        loaded,
        check=check,
        require_proof=require_proof,
        external_data=external_data,
        force=force,
        options=resolve_options(options),
        report=report,
    )
    recipe_run.locked = _read_lock(loaded) if expect_same else None
    out = None if dry_run else resolve_output(output)
    try:
        with ExitStack() as stack:
            made = recipe_run.run_all(source, out, stack, dry_run=dry_run)
    finally:
        report.seconds = time.perf_counter() - started
    report.written = out is not None
    failed = [rollback_message(part) for part in report.parts if isinstance(part, Report) and part.rolled_back]
    if failed:
        raise CheckFailed(failed[0], report, made)
    if lock and not dry_run:
        _write_lock(loaded, report)
    return ModelAndReport((source if dry_run else made, report))


def rule_settings(recipe: Recipe, step: Rules, **other: Any) -> RewriteSettings:
    """The settings of a step of rules.  other: further settings by field, which recipes do not have."""
    return RewriteSettings(
        target=recipe.target,
        ep=recipe.ep,
        node_filter=NodeFilter(step.only, step.skip),
        inline=step.inline,
        approximate=step.approximate,
        upgrade=step.upgrade,
        for_many=True,
        **other,
    )


@dataclass
class _RecipeRun:
    """One run of a recipe."""

    recipe: Recipe
    """The recipe."""
    check: str
    """Either "auto" or "none"."""
    require_proof: bool
    """Whether a site without a proof is a failure."""
    external_data: ExternalDataMode
    """How data files of the output are written."""
    force: bool
    """Whether a data file of other content is overwritten."""
    options: CheckOptions
    """Seeds, sizes, tolerances and limits of the checks."""
    report: RecipeReport
    """The report, which grows part by part."""
    locked: Sequence[Any] | None = None
    """The parts of the lock file that must be reproduced; None without a lock."""

    def run_all(self, source: Any, out: Path | None, stack: ExitStack, *, dry_run: bool) -> Any:
        """Run all parts in order."""
        parts = list(_parts(self.recipe))
        if self.locked is not None and len(self.locked) != len(parts):
            raise ExpectationUnmet(
                f"The recipe has {len(parts)} parts, and {len(self.locked)} the last time; nothing was written.",
                self.report,
            )
        intermediate = None
        if not is_in_memory(source):
            intermediate = stack.enter_context(_intermediate_files(Path(os.fspath(source)), out))
        for number, (step, part) in enumerate(parts):
            is_last = number == len(parts) - 1
            to = None if intermediate is None else out if is_last else intermediate.next()
            with self._naming_step(step, part), _data_named_after(None if is_last else out):
                source = self._run_part(number, part, source, to, is_last=is_last, dry_run=dry_run and is_last)
        return source

    def _run_part(self, number: int, part: Part, source: Any, to: Path | None, *, is_last: bool, dry_run: bool) -> Any:
        data: ExternalDataMode = self.external_data if is_last else "auto"
        common: dict[str, Any] = {
            "output": to,
            "require_proof": self.require_proof,
            "dry_run": dry_run or (to is None and not is_in_memory(source)),
            "external_data": data,
            "force": self.force,
            "options": self.options,
        }
        if isinstance(part, Rules):
            return self._rewrite(number, part, source, common)
        if self.locked is not None:
            _, tried = edit(source, part, check="none", dry_run=True, external_data=data)
            self._require_same(number, [[done.edit.flag, list(done.said)] for done in tried.edits])
        made, done = edit(source, part, check="none" if self.check == "none" else "auto", **common)
        self.report.parts.append(done)
        return made

    def _rewrite(self, number: int, part: Rules, source: Any, common: dict[str, Any]) -> Any:
        expect = dict(part.expect)
        if self.locked is not None:
            counts = self.locked[number].get("rules", {})
            rules, tails = resolve_with_edits(part.rules, approximate=part.approximate)
            names = [*tails, *(rule.name for rule in unique_rules(rules))]
            before = {name: counts.get(name, 0) for name in names}
            changed = next((name for name, count in expect.items() if before.get(name, count) != count), None)
            if changed is not None:
                raise ExpectationUnmet(
                    f"{changed} fired {before[changed]} times the last time, and the recipe expects {expect[changed]}; "
                    "nothing was written.",
                    self.report,
                )
            expect = before | expect
        check = "none" if self.check == "none" else "sites"
        settings = rule_settings(self.recipe, part, check=check, expect=expect, keep_going=True, **common)
        made, done = rewrite_with(source, part.rules, settings)
        self.report.parts.append(done)
        return made

    def _require_same(self, number: int, sentences: Sequence[Any]) -> None:
        assert self.locked is not None
        before = self.locked[number].get("edits", [])
        for now, then in zip(sentences, before, strict=False):
            if now != then:
                texts = ["; ".join(item) or "nothing" for _, item in (now, then)]
                raise ExpectationUnmet(
                    f"{now[0]} does otherwise than the last time ({texts[0]}; it was: {texts[1]}); "
                    "nothing was written.",
                    self.report,
                )
        if len(sentences) != len(before):
            raise ExpectationUnmet("The recipe has other edits than the last time; nothing was written.", self.report)

    @contextmanager
    def _naming_step(self, step: int, part: Part) -> Iterator[None]:
        """Add the position of the step in the recipe to its errors."""
        try:
            yield
        except (CheckFailed, ExpectationUnmet) as error:
            if isinstance(error.report, (Report, EditReport)):
                self.report.parts.append(error.report)
                error.report = self.report
            raise
        except SurgeonError as error:
            steps = [] if isinstance(part, Rules) else part
            step += next((place for place, one in enumerate(steps) if one is error.edit), 0)
            error.args = (f"{self.recipe.at(step)}{error}",)
            raise


class _IntermediateFiles:
    """The files between the steps of a recipe, which are removed at the end together with their own data files."""

    def __init__(self, folder: Path, source: Path) -> None:
        self._folder, self._source = folder, source
        self._paths: list[Path] = []

    def next(self) -> Path:
        """The path of the next file."""
        self._paths.append(temporary_path(self._folder, self._source))
        return self._paths[-1]

    def remove(self, keep: Sequence[Path]) -> None:
        """Remove the files, and the data files that no model in `keep` uses."""
        made = [path for path in self._paths if path.exists()]
        kept = {file for path in keep if path.exists() for file in _data_of(path)}
        own = {file for path in made for file in _data_of(path)} - kept
        for path in (*made, *own):
            path.unlink(missing_ok=True)


@contextmanager
def _intermediate_files(source: Path, out: Path | None) -> Iterator[_IntermediateFiles]:
    """The intermediate files: beside the source, whose data files they share, or in a temporary folder."""
    with temporary_folder(source, out) as (folder, _):
        found = _IntermediateFiles(folder, source)
        try:
            yield found
        finally:
            found.remove([path for path in (source, out) if path is not None])


def _data_of(path: Path) -> set[Path]:
    with Model.open(path) as model:
        return {Path(os.path.realpath(file)) for file in locations.files(path.parent, model.external_tensors).values()}


@contextmanager
def _data_named_after(out: Path | None) -> Iterator[None]:
    """Name new data files after the final output."""
    token = NAMED_AFTER.set(out)
    try:
        yield
    finally:
        NAMED_AFTER.reset(token)


def _parts(recipe: Recipe) -> Iterator[tuple[int, Part]]:
    """Consecutive edits as one part, and each step of rules, with the number of the part's first step."""
    edits: list[Edit] = []
    begins = 0
    for number, step in enumerate(recipe.steps):
        if isinstance(step, Rules):
            if edits:
                yield begins, edits
            yield number, step
            edits = []
        else:
            begins = begins if edits else number
            edits.append(step)
    if edits:
        yield begins, edits


def lock_of(recipe: Recipe) -> Path:
    """The path of a recipe's lock file.  Raises UsageError for a recipe without a file."""
    if recipe.path is None:
        raise UsageError("Only a recipe that is a file has a lock beside it; save it and load it first.")
    return recipe.path.with_name(recipe.path.name + LOCK)


def _read_lock(recipe: Recipe) -> Sequence[Any]:
    path = lock_of(recipe)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["parts"]
    except FileNotFoundError:
        raise UsageError(f"There is no {path}: run the recipe once with --lock to say what it does.") from None
    except (OSError, ValueError, KeyError, TypeError):
        found = None
    if not isinstance(found, list) or not all(isinstance(part, dict) for part in found):
        raise ModelFileError(f"{path} is no lock of a recipe: run the recipe once with --lock to write it anew.")
    return found


def _write_lock(recipe: Recipe, report: RecipeReport) -> None:
    path = lock_of(recipe)
    text = json.dumps({"parts": report.locked()}, indent=1, ensure_ascii=False) + "\n"
    try:
        write_text(path, text)
    except OSError as error:
        raise ModelFileError(f"The lock {path} cannot be written: {error.strerror}.") from None
