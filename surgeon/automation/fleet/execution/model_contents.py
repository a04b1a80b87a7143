"""The contents of results that runs compare; a row of a fleet has them in `facts`."""

from collections import Counter
from pathlib import Path
from typing import Any

from surgeon.automation.recipes.recipe import Recipe
from surgeon.diagnostics.target_check import check, checkable_targets
from surgeon.file.model import Model
from surgeon.ir.scope import qualified_name
from surgeon.ir.structure_hash import structure_hash
from surgeon.proof.check_options import CheckOptions
from surgeon.shapes.constraints.input_dims import required_inputs
from surgeon.targets.inspection.model_summary import inspect, type_text
from surgeon.targets.inspection.provenance import source_frames


def hash_of_file(path: Path) -> str:
    """The hash of a model's structure.  Raises ModelFileError for a file that is not a model."""
    with Model.open(path) as model:
        return structure_hash(model.skeleton)


def contents_of(result: Path, recipe: Recipe, options: CheckOptions) -> dict[str, Any]:
    """The contents of a result that are compared, as JSON can hold them.

    "inputs", "outputs": types by name, with "?" for each dynamic dim.  "opsets", "producer", "weights" (bytes by dtype)
    as `surgeon.inspect` gives them.  "ops": nodes by qualified op.  "unsupported": the ops that the recipe's target
    lacks, each with the reason, the number of nodes ("count"), the first names ("nodes") and the user's lines
    ("frames").
    """
    found = inspect(result)
    with Model.open(result) as model:
        graph = model.skeleton.graph
        inputs = {name: type_text(value.type, with_names=False) for name, value in required_inputs(graph).items()}
        outputs = {value.name: type_text(value.type, with_names=False) for value in graph.output}
    ops = {qualified_name(domain, op): count for domain, counts in found.ops.items() for op, count in counts.items()}
    return {
        "inputs": inputs,
        "outputs": outputs,
        "opsets": found.opsets,
        "producer": found.producer,
        "weights": dict(sorted((Counter(found.inside) + Counter(found.outside)).items())),
        "ops": dict(sorted(ops.items())),
        "unsupported": _unsupported(result, recipe, options) if recipe.target in checkable_targets() else {},
    }


def _unsupported(result: Path, recipe: Recipe, options: CheckOptions) -> dict[str, Any]:
    findings = check(result, recipe.target, ep=recipe.ep, custom_ops=options.custom_ops, load=False)
    found: dict[str, Any] = {}
    for one in findings:
        if one.stops:
            frames = next(filter(None, (source_frames(node.proto) for node in one.where)), [])
            entry = {"reason": one.reason, "count": one.count, "nodes": one.nodes, "frames": frames}
            found.setdefault(one.op or one.kind, entry)
    return found
