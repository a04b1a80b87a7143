"""surgeon: graph surgery for exported ONNX models.

Every change you asked for, nothing else, and each one proved.

    import surgeon
    path, report = surgeon.rewrite("in.onnx", "gelu", output="out.onnx")

A name is imported on first use: the command line starts fast, and only standard library modules have been imported when
it takes the working directory off Python's path.
"""

from surgeon.ops.builder.helper_registration import register_lazily

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from surgeon import edits as edits
    from surgeon import integrations as integrations
    from surgeon import searches as searches
    from surgeon.authoring.capture import CapturedRule as CapturedRule
    from surgeon.authoring.capture import capture as capture
    from surgeon.authoring.try_rule import TriedRule as TriedRule
    from surgeon.authoring.try_rule import try_rule as try_rule
    from surgeon.automation.fleet.fleet import Fleet as Fleet
    from surgeon.automation.fleet.fleet_row import FleetRow as FleetRow
    from surgeon.automation.fleet.run_many import run_many as run_many
    from surgeon.automation.gate.gate_result import GateResult as GateResult
    from surgeon.automation.gate.run_gate import gate as gate
    from surgeon.automation.recipes.recipe import Recipe as Recipe
    from surgeon.automation.recipes.recipe import Rules as Rules
    from surgeon.automation.recipes.recipe_file import load_recipe as load_recipe
    from surgeon.automation.recipes.recipe_report import RecipeReport as RecipeReport
    from surgeon.automation.recipes.run_recipe import run as run
    from surgeon.diagnostics.explanation import explain as explain
    from surgeon.diagnostics.target_check import check as check
    from surgeon.display.diff.diff_models import diff as diff
    from surgeon.display.diff.model_diff import ModelChange as ModelChange
    from surgeon.display.diff.model_diff import ModelDiff as ModelDiff
    from surgeon.display.html.page import Page as Page
    from surgeon.display.html.render import page as page
    from surgeon.display.pictures.draw import draw as draw
    from surgeon.display.viewer.view import view as view
    from surgeon.edits.decoders.decoder_folder import decoder as decoder
    from surgeon.edits.extract_insert import extract as extract
    from surgeon.edits.extract_insert import insert as insert
    from surgeon.edits.merge_split.merge import merge as merge
    from surgeon.edits.merge_split.split import SplitReport as SplitReport
    from surgeon.edits.merge_split.split import split as split
    from surgeon.edits.selection import Selection as Selection
    from surgeon.errors import CheckFailed as CheckFailed
    from surgeon.errors import ExpectationUnmet as ExpectationUnmet
    from surgeon.errors import GraphError as GraphError
    from surgeon.errors import ModelFileError as ModelFileError
    from surgeon.errors import OpsetError as OpsetError
    from surgeon.errors import RewriteError as RewriteError
    from surgeon.errors import RuleError as RuleError
    from surgeon.errors import SurgeonError as SurgeonError
    from surgeon.errors import UsageError as UsageError
    from surgeon.errors import require as require
    from surgeon.ops.builder.graph import Constant as Constant
    from surgeon.ops.builder.graph import Graph as Graph
    from surgeon.ops.builder.graph import Tensor as Tensor
    from surgeon.ops.plugins.plugin_declaration import declare_plugin as declare_plugin
    from surgeon.ops.schemas.declared_ops import OwnOps as OwnOps
    from surgeon.ops.torch_schema import torch_schema as torch_schema
    from surgeon.pipeline.editing.edit_group import edit as edit
    from surgeon.pipeline.reports.edit_report import EditReport as EditReport
    from surgeon.pipeline.reports.report import Report as Report
    from surgeon.pipeline.reports.rewrite_report import RewriteReport as RewriteReport
    from surgeon.pipeline.reports.site import Site as Site
    from surgeon.pipeline.rewriting.rewrite import find as find
    from surgeon.pipeline.rewriting.rewrite import rewrite as rewrite
    from surgeon.pipeline.upgrading.upgrade import upgrade as upgrade
    from surgeon.precision.convert import convert as convert
    from surgeon.precision.convert_report import ConvertReport as ConvertReport
    from surgeon.precision.weights.quantize_report import QuantizeReport as QuantizeReport
    from surgeon.proof.check_options import CheckOptions as CheckOptions
    from surgeon.proof.compare import compare as compare
    from surgeon.rules.functions.call_expansion import emit_body as emit_body
    from surgeon.rules.functions.function_definition import LocalFunction as LocalFunction
    from surgeon.rules.functions.function_definition import function as function
    from surgeon.rules.lowering import lowering as lowering
    from surgeon.rules.matching.match import Match as Match
    from surgeon.rules.mismatches.mismatch import Mismatch as Mismatch
    from surgeon.rules.plugin_rule import plugin_rule as plugin_rule
    from surgeon.rules.rule import Rule as Rule
    from surgeon.rules.rule import rule as rule
    from surgeon.rules.tracing.axis_layouts import dims as dims
    from surgeon.rules.tracing.declared_captures import Captures as Captures
    from surgeon.runtime.implementations.implementation import implements as implements
    from surgeon.runtime.timing.bench import bench as bench
    from surgeon.target_registry import Provider as Provider
    from surgeon.targets.inspection.model_summary import inspect as inspect
    from surgeon.targets.op_limits import NodeFacts as NodeFacts
    from surgeon.targets.target import Target as Target

    __version__: str

# The same at run time: public names by their module; `edits`, `integrations` and `searches` are modules.
_HOMES = {
    "runtime.timing.bench": ("bench",),
    "proof.compare": ("compare",),
    "authoring.capture": ("CapturedRule", "capture"),
    "diagnostics.target_check": ("check",),
    "targets.inspection.model_summary": ("inspect",),
    "targets.op_limits": ("NodeFacts",),
    "display.diff.diff_models": ("diff",),
    "display.diff.model_diff": ("ModelChange", "ModelDiff"),
    "display.pictures.draw": ("draw",),
    "edits.merge_split.merge": ("merge",),
    "pipeline.reports.edit_report": ("EditReport",),
    "pipeline.editing.edit_group": ("edit",),
    "edits.selection": ("Selection",),
    "edits.merge_split.split": ("SplitReport", "split"),
    "edits": ("edits",),
    "edits.decoders.decoder_folder": ("decoder",),
    "edits.extract_insert": ("extract", "insert"),
    "errors": (
        "CheckFailed",
        "ExpectationUnmet",
        "GraphError",
        "ModelFileError",
        "OpsetError",
        "RewriteError",
        "RuleError",
        "SurgeonError",
        "UsageError",
        "require",
    ),
    "automation.fleet.fleet": ("Fleet",),
    "automation.fleet.fleet_row": ("FleetRow",),
    "automation.fleet.run_many": ("run_many",),
    "automation.gate.gate_result": ("GateResult",),
    "automation.gate.run_gate": ("gate",),
    "ops.builder.graph": ("Constant", "Graph", "Tensor"),
    "runtime.implementations.implementation": ("implements",),
    "integrations": ("integrations",),
    "rules.matching.match": ("Match",),
    "rules.tracing.axis_layouts": ("dims",),
    "rules.tracing.declared_captures": ("Captures",),
    "rules.mismatches.mismatch": ("Mismatch",),
    "ops.schemas.declared_ops": ("OwnOps",),
    "ops.torch_schema": ("torch_schema",),
    "display.html.page": ("Page",),
    "display.html.render": ("page",),
    "ops.plugins.plugin_declaration": ("declare_plugin",),
    "precision.convert": ("convert",),
    "precision.convert_report": ("ConvertReport",),
    "precision.weights.quantize_report": ("QuantizeReport",),
    "rules.functions.call_expansion": ("emit_body",),
    "diagnostics.explanation": ("explain",),
    "rules.functions.function_definition": ("LocalFunction", "function"),
    "proof.check_options": ("CheckOptions",),
    "automation.recipes.recipe_file": ("load_recipe",),
    "automation.recipes.recipe": ("Recipe", "Rules"),
    "automation.recipes.recipe_report": ("RecipeReport",),
    "automation.recipes.run_recipe": ("run",),
    "pipeline.reports.report": ("Report",),
    "pipeline.reports.rewrite_report": ("RewriteReport",),
    "pipeline.reports.site": ("Site",),
    "pipeline.rewriting.rewrite": ("find", "rewrite"),
    "rules.lowering": ("lowering",),
    "rules.plugin_rule": ("plugin_rule",),
    "rules.rule": ("Rule", "rule"),
    "searches": ("searches",),
    "target_registry": ("Provider",),
    "targets.target": ("Target",),
    "authoring.try_rule": ("TriedRule", "try_rule"),
    "pipeline.upgrading.upgrade": ("upgrade",),
    "display.viewer.view": ("view",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)

register_lazily()


def __getattr__(name: str) -> "Any":
    if name == "__version__":  # read on first use: metadata is slow to import
        from surgeon.versions import own_version

        return globals().setdefault(name, own_version())
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"{__name__}.{_HOME[name]}")
    value = globals()[name] = module if _HOME[name] == name else getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
