"""surgeon: graph surgery for exported ONNX models.

Every change you asked for, nothing else, and each one proved.

    import surgeon
    path, report = surgeon.rewrite("in.onnx", "gelu", output="out.onnx")

A name is imported when it is first asked for: the command line starts fast, and nothing but Python's own has been
imported when it takes the working directory off Python's path.
"""

from surgeon.lending import lend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from surgeon import edits as edits
    from surgeon import searches as searches
    from surgeon.benching.bench import bench as bench
    from surgeon.capturing import CapturedRule as CapturedRule
    from surgeon.capturing import capture as capture
    from surgeon.checking.check import check as check
    from surgeon.comparing import compare as compare
    from surgeon.diagnosis.inspection import inspect as inspect
    from surgeon.diagnosis.limits import NodeFacts as NodeFacts
    from surgeon.differing.diff import diff as diff
    from surgeon.differing.result import ModelChange as ModelChange
    from surgeon.differing.result import ModelDiff as ModelDiff
    from surgeon.drawing.draw import draw as draw
    from surgeon.editing.merging import merge as merge
    from surgeon.editing.result import EditReport as EditReport
    from surgeon.editing.run import edit as edit
    from surgeon.editing.selecting import Selection as Selection
    from surgeon.editing.splitting import SplitReport as SplitReport
    from surgeon.editing.splitting import split as split
    from surgeon.edits.cuts import extract as extract
    from surgeon.edits.cuts import insert as insert
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
    from surgeon.explaining.explain import explain as explain
    from surgeon.fleet.result import Fleet as Fleet
    from surgeon.fleet.rows import FleetRow as FleetRow
    from surgeon.fleet.run import run_many as run_many
    from surgeon.graph import Constant as Constant
    from surgeon.graph import Graph as Graph
    from surgeon.graph import Tensor as Tensor
    from surgeon.implementations import implements as implements
    from surgeon.matching.match import Match as Match
    from surgeon.matching.records import Captures as Captures
    from surgeon.matching.records import dims as dims
    from surgeon.misses.findings import Mismatch as Mismatch
    from surgeon.models.options import CheckOptions as CheckOptions
    from surgeon.ops.own_ops import OwnOps as OwnOps
    from surgeon.ops.torch_schemas import torch_schema as torch_schema
    from surgeon.pages.page import Page as Page
    from surgeon.pages.showing import page as page
    from surgeon.plugins import declare_plugin as declare_plugin
    from surgeon.precision.convert import convert as convert
    from surgeon.precision.result import ConvertReport as ConvertReport
    from surgeon.recipes.reading import load_recipe as load_recipe
    from surgeon.recipes.recipe import Recipe as Recipe
    from surgeon.recipes.recipe import Rules as Rules
    from surgeon.recipes.result import RecipeReport as RecipeReport
    from surgeon.recipes.run import run as run
    from surgeon.rewriting.result import Report as Report
    from surgeon.rewriting.result import Site as Site
    from surgeon.rewriting.rewrite import find as find
    from surgeon.rewriting.rewrite import rewrite as rewrite
    from surgeon.rules.expansion import emit_body as emit_body
    from surgeon.rules.functions import LocalFunction as LocalFunction
    from surgeon.rules.functions import function as function
    from surgeon.rules.lowering import lowering as lowering
    from surgeon.rules.plugin import plugin_rule as plugin_rule
    from surgeon.rules.rule import Rule as Rule
    from surgeon.rules.rule import rule as rule
    from surgeon.target import Provider as Provider
    from surgeon.targets.target import Target as Target
    from surgeon.trying import TriedRule as TriedRule
    from surgeon.trying import try_rule as try_rule
    from surgeon.upgrading.upgrade import upgrade as upgrade
    from surgeon.viewing.view import view as view

    __version__: str

# The same for Python itself: public names by the module that has them; `edits` and `searches` are such.
_HOMES = {
    "benching.bench": ("bench",),
    "comparing": ("compare",),
    "capturing": ("CapturedRule", "capture"),
    "checking.check": ("check",),
    "diagnosis.inspection": ("inspect",),
    "diagnosis.limits": ("NodeFacts",),
    "differing.diff": ("diff",),
    "differing.result": ("ModelChange", "ModelDiff"),
    "drawing.draw": ("draw",),
    "editing.merging": ("merge",),
    "editing.result": ("EditReport",),
    "editing.run": ("edit",),
    "editing.selecting": ("Selection",),
    "editing.splitting": ("SplitReport", "split"),
    "edits": ("edits",),
    "edits.cuts": ("extract", "insert"),
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
    "fleet.result": ("Fleet",),
    "fleet.rows": ("FleetRow",),
    "fleet.run": ("run_many",),
    "graph": ("Constant", "Graph", "Tensor"),
    "implementations": ("implements",),
    "matching.match": ("Match",),
    "matching.records": ("Captures", "dims"),
    "misses.findings": ("Mismatch",),
    "ops.own_ops": ("OwnOps",),
    "ops.torch_schemas": ("torch_schema",),
    "pages.page": ("Page",),
    "pages.showing": ("page",),
    "plugins": ("declare_plugin",),
    "precision.convert": ("convert",),
    "precision.result": ("ConvertReport",),
    "rules.expansion": ("emit_body",),
    "explaining.explain": ("explain",),
    "rules.functions": ("LocalFunction", "function"),
    "models.options": ("CheckOptions",),
    "recipes.reading": ("load_recipe",),
    "recipes.recipe": ("Recipe", "Rules"),
    "recipes.result": ("RecipeReport",),
    "recipes.run": ("run",),
    "rewriting.result": ("Report", "Site"),
    "rewriting.rewrite": ("find", "rewrite"),
    "rules.lowering": ("lowering",),
    "rules.plugin": ("plugin_rule",),
    "rules.rule": ("Rule", "rule"),
    "searches": ("searches",),
    "target": ("Provider",),
    "targets.target": ("Target",),
    "trying": ("TriedRule", "try_rule"),
    "upgrading.upgrade": ("upgrade",),
    "viewing.view": ("view",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)

lend()


def __getattr__(name: str) -> "Any":
    if name == "__version__":  # not read before somebody asks: metadata takes long to import
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
