"""Runs recipes: their steps are the transforms of one run."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from itertools import takewhile
from typing import Any, Literal

from surgeon.automation.recipes.lock_file import read_lock, require_same, write_lock
from surgeon.automation.recipes.recipe import Recipe, Rules
from surgeon.automation.recipes.recipe_file import load_recipe
from surgeon.automation.recipes.recipe_report import RecipeReport
from surgeon.errors import CheckFailed, ExpectationUnmet, SurgeonError, UsageError
from surgeon.file.model_like import is_in_memory, model_name
from surgeon.file.save import ExternalDataMode
from surgeon.pipeline import driver
from surgeon.pipeline.checks import Checks, Saving
from surgeon.pipeline.component_runs import for_each_component
from surgeon.pipeline.editing.edit import Edit
from surgeon.pipeline.editing.edit_group import EditGroup, edit_groups
from surgeon.pipeline.reports.report import Report
from surgeon.pipeline.rewriting.rollback import rollback_message
from surgeon.pipeline.rewriting.rule_set import RuleSet
from surgeon.proof.check_options import CheckOptions, require_output
from surgeon.result_base import ModelAndReport


@for_each_component
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
    """Run a recipe on a model: apply its edits and rules in order, check each one, and write the result once.

    Args:
        recipe: the recipe, or the path of its file.
        source: a path (then `output` says where to write; it may be the same path), or a model in memory.
        output: the path to write, if the source is a path.
        variables: value of `${name}` in the recipe.
        check: "auto" proves each rewritten site and each edit; "none" checks nothing.
        require_proof: treat unproved results as failures.
        lock: write a lock file next to the recipe that records the result of each step.
        expect_same: write the model only if each step does what the lock file records.
        dry_run: report the changes, but write nothing.
        external_data: how data files are written: "auto", "share", "copy", "inline", or a file: "weights/m.data".
        force: overwrite data files even if their contents differ.
        options: seeds, sizes, tolerances and limits of the checks.

    Returns:
        The model, of the same type as `source` (for a path: the path written), and a RecipeReport.

    Raises:
        UsageError: a step does not fit the model; the message has its line in the file.
        CheckFailed: sites were rolled back and the rest is written, or an edit fails its check and nothing is written.
        ExpectationUnmet: `expect_same` is not met; nothing is written.
        SurgeonError: a step fails for another reason; nothing is written.

    Examples:
        >>> import surgeon
        >>> recipe = surgeon.Recipe([surgeon.edits.Rename("input_ids", "tokens"), surgeon.Rules("gelu")])
        >>> path, report = surgeon.run(recipe, "notebooks/models/tiny_distilbert.onnx", "out.onnx")
        >>> report.outcome
        'proved'
    """
    loaded = recipe if isinstance(recipe, Recipe) else load_recipe(recipe, variables)
    if isinstance(recipe, Recipe) and variables:
        raise UsageError("variables are only for a recipe file. Create the Recipe with the values themselves.")
    require_output(is_in_memory(source), output, dry_run)
    checks = Checks.named(check, ("auto", "none"), require_proof, options, dry_run=dry_run)
    report = RecipeReport(model_name(source), str(output or ""))
    with _naming(loaded, [], report):
        steps = list(_transforms(loaded))
    parts = list({id(step.report): step.report for _, step in steps}.values())
    locked = read_lock(loaded, parts, report) if expect_same else {}

    def agree(done: Report) -> None:
        if id(done) in locked:
            require_same(done, locked[id(done)])

    with _naming(loaded, steps, report):
        transforms, saving = [step for _, step in steps], Saving(output, external_data, force)
        made, _ = driver.run(source, transforms, checks, saving, report=report, agree=agree)
    if report.rolled_back:
        raise CheckFailed(rollback_message(report), report, made)
    if lock and not dry_run:
        write_lock(loaded, parts)
    return ModelAndReport((made, report))


def rule_set(recipe: Recipe, step: Rules) -> RuleSet:
    """A step of rules as a transform."""
    given = {item.name: getattr(step, item.name) for item in fields(step)}
    return RuleSet(**given, target=recipe.target, ep=recipe.ep, for_many=True)


def _transforms(recipe: Recipe) -> Iterator[tuple[int, RuleSet | EditGroup]]:
    """Transforms, each with the number of its first step; consecutive edits share a report.

    Raises UsageError for an edit with invalid fields.
    """
    for number, step in enumerate(recipe.steps):
        if isinstance(step, Rules):
            yield number, rule_set(recipe, step)
        elif number == 0 or isinstance(recipe.steps[number - 1], Rules):
            rest = takewhile(lambda item: isinstance(item, Edit), recipe.steps[number:])
            edits = [item for item in rest if isinstance(item, Edit)]
            yield from ((number, group) for group in edit_groups(edits))


@contextmanager
def _naming(recipe: Recipe, steps: Sequence[tuple[int, Any]], report: RecipeReport) -> Iterator[None]:
    """Add the place in the recipe to errors, or the report."""
    try:
        yield
    except (CheckFailed, ExpectationUnmet) as error:
        error.report = report
        raise
    except SurgeonError as error:
        named = (number for number, step in enumerate(recipe.steps) if step is error.edit)
        number = next(named, steps[error.step][0] if steps else 0)
        error.args = (f"{recipe.at(number)}{error}",)
        raise
