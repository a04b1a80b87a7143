"""Runs recipes: their steps as transforms in one run, and a lock that says what they did."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

from surgeon.automation.recipes.recipe import Recipe, Rules
from surgeon.automation.recipes.recipe_file import load_recipe
from surgeon.automation.recipes.recipe_report import RecipeReport
from surgeon.errors import CheckFailed, ExpectationUnmet, ModelFileError, SurgeonError, UsageError
from surgeon.file.io.atomic_file import write_text
from surgeon.file.model_like import is_in_memory, model_name
from surgeon.file.save import ExternalDataMode
from surgeon.pipeline import driver
from surgeon.pipeline.checks import Checks, Saving
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit
from surgeon.pipeline.editing.edit_group import edit_groups
from surgeon.pipeline.reports.edit_report import EditReport
from surgeon.pipeline.reports.rewrite_report import Report
from surgeon.pipeline.rewriting.rollback import rollback_message
from surgeon.pipeline.rewriting.rule_set import RuleSet
from surgeon.pipeline.transform import Claim, Compound, Transform
from surgeon.proof.check_options import CheckOptions, require_output
from surgeon.result_base import ModelAndReport
from surgeon.rules.catalogue import resolve_with_edits, unique_rules

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
        lock: write the steps that were taken to a file beside the recipe, with the suffix `.lock`.
        expect_same: write the model only if the steps are those of that file.
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
    require_output(is_in_memory(source), output, dry_run)
    checks = Checks.named(check, ("auto", "none"), require_proof, options, dry_run=dry_run)
    started = time.perf_counter()
    report = RecipeReport(model_name(source), str(output or ""))
    try:
        parts = list(_parts(loaded))
        if expect_same:
            _lock(parts, _read_lock(loaded), report)
        steps = [(part, transform) for part in parts for transform in part.transforms]
        with _naming(loaded, steps, report):
            transforms = [transform for _, transform in steps]
            made, _ = driver.run(source, transforms, checks, Saving(output, external_data, force))
    finally:
        report.seconds = time.perf_counter() - started
    report.parts = [part.report for part in parts]
    report.written = output is not None and not dry_run
    failed = [rollback_message(part) for part in report.parts if isinstance(part, Report) and part.rolled_back]
    if failed:
        raise CheckFailed(failed[0], report, made)
    if lock and not dry_run:
        _write_lock(loaded, report)
    return ModelAndReport((made, report))


def rule_set(recipe: Recipe, step: Rules) -> RuleSet:
    """A step of rules as a transform."""
    given = {item.name: getattr(step, item.name) for item in fields(step)}
    return RuleSet(**given, target=recipe.target, ep=recipe.ep, for_many=True)


@dataclass(slots=True)
class _Part:
    """Consecutive edits of a recipe, or one step of rules."""

    first: int
    """The number of its first step."""
    steps: Sequence[Edit | Rules]
    """Its steps."""
    transforms: Sequence[Transform | Compound]
    """The same as transforms."""
    report: EditReport | Report
    """What they did."""


def _parts(recipe: Recipe) -> Iterator[_Part]:
    """The parts of a recipe.  Raises UsageError for an edit with invalid fields."""
    for number, step in enumerate(recipe.steps):
        if isinstance(step, Rules):
            asked = rule_set(recipe, step)
            yield _Part(number, [step], [asked], asked.report)
        elif number == 0 or isinstance(recipe.steps[number - 1], Rules):
            rest = takewhile(lambda item: isinstance(item, Edit), recipe.steps[number:])
            edits = [item for item in rest if isinstance(item, Edit)]
            part = _Part(number, edits, (), EditReport("", ""))
            with _naming(recipe, [(part, edits)]):
                groups = edit_groups(edits)
            part.transforms, part.report = groups, groups[0].report
            yield part


@contextmanager
def _naming(recipe: Recipe, steps: Sequence[tuple[_Part, Any]], report: RecipeReport | None = None) -> Iterator[None]:
    """Add the place in the recipe to errors, and the parts so far to their report."""
    try:
        yield
    except SurgeonError as error:
        part = steps[error.step][0]
        if report is not None:
            report.parts = [known.report for known in {id(one): one for one, _ in steps[: error.step + 1]}.values()]
        if isinstance(error, (CheckFailed, ExpectationUnmet)):
            error.report = report
        else:
            place = next((place for place, step in enumerate(part.steps) if step is error.edit), 0)
            error.args = (f"{recipe.at(part.first + place)}{error}",)
        raise


def _lock(parts: Sequence[_Part], locked: Sequence[Any], report: RecipeReport) -> None:
    """Let parts raise ExpectationUnmet where they do otherwise than a lock says."""
    if len(locked) != len(parts):
        raise ExpectationUnmet(
            f"The recipe has {len(parts)} parts, and {len(locked)} the last time; nothing was written.", report
        )
    for part, before in zip(parts, locked, strict=True):
        if isinstance(part.report, EditReport):
            done = before.get("edits", [])
            part.transforms = [_LockedEdits(group, done, len(part.steps)) for group in part.transforms]
        else:
            part.transforms = [_LockedRules(item, before.get("rules", {})) for item in part.transforms]


@dataclass(frozen=True, slots=True)
class _LockedEdits:
    """A group of edits that has to do what the lock says."""

    group: Any
    """The edits."""
    before: Sequence[Any]
    """For each edit of the part, its name and what it did."""
    count: int
    """Number of edits of the part."""

    def apply(self, draft: ModelDraft, checks: Checks) -> Claim:
        """Apply the edits.  Raises ExpectationUnmet if they do otherwise."""
        claim: Claim = self.group.apply(draft, checks)
        now = [[done.edit.flag, list(done.said)] for done in self.group.report.edits]
        for one, then in zip(now, self.before, strict=False):
            if one != then:
                texts = ["; ".join(item) or "nothing" for _, item in (one, then)]
                raise ExpectationUnmet(
                    f"{one[0]} does otherwise than the last time ({texts[0]}; it was: {texts[1]}); nothing was written."
                )
        if self.count != len(self.before):
            raise ExpectationUnmet("The recipe has other edits than the last time; nothing was written.")
        return claim


@dataclass(frozen=True, slots=True)
class _LockedRules:
    """A rule set that has to fire as often as the lock says."""

    rules: Any
    """The rule set."""
    counts: Mapping[str, int]
    """How often each rule fired."""

    def expand(self, draft: ModelDraft, checks: Checks) -> Sequence[Transform | Compound]:
        """The rules, expected to fire as often.  Raises ExpectationUnmet if the recipe expects another number."""
        found, tails = resolve_with_edits(self.rules.rules, approximate=self.rules.approximate)
        before = {name: self.counts.get(name, 0) for name in (*tails, *(rule.name for rule in unique_rules(found)))}
        for name, count in self.rules.expect.items():
            if before.get(name, count) != count:
                raise ExpectationUnmet(
                    f"{name} fired {before[name]} times the last time, and the recipe expects {count}; "
                    "nothing was written."
                )
        return [replace(self.rules, expect={**before, **self.rules.expect})]


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
