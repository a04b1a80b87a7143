"""surgeon: graph surgery for exported ONNX models.

Every change you asked for, nothing else, and each one proved.

    import surgeon
    path, report = surgeon.rewrite("in.onnx", "gelu", output="out.onnx")
"""

from surgeon import searches
from surgeon.benching.bench import bench
from surgeon.comparing import compare
from surgeon.diagnosis.check import check
from surgeon.drawing.draw import draw
from surgeon.errors import (
    CheckFailed,
    ExpectationUnmet,
    GraphError,
    ModelFileError,
    OpsetError,
    RewriteError,
    RuleError,
    SurgeonError,
    UsageError,
    require,
)
from surgeon.graph import Constant, Graph, Tensor, register_helpers
from surgeon.implementations import implements
from surgeon.matching.match import Match, Mismatch
from surgeon.ops.torch_schemas import torch_schema
from surgeon.rewriting.expansion import emit_body
from surgeon.rewriting.explain import explain
from surgeon.rewriting.functions import LocalFunction, function
from surgeon.rewriting.options import CheckOptions
from surgeon.rewriting.result import Report, Site
from surgeon.rewriting.rewrite import find, rewrite
from surgeon.rewriting.rule import Rule, rule
from surgeon.upgrading.upgrade import upgrade

register_helpers()

__all__ = [
    "CheckFailed",
    "CheckOptions",
    "Constant",
    "ExpectationUnmet",
    "Graph",
    "GraphError",
    "LocalFunction",
    "Match",
    "Mismatch",
    "ModelFileError",
    "OpsetError",
    "Report",
    "RewriteError",
    "Rule",
    "RuleError",
    "Site",
    "SurgeonError",
    "Tensor",
    "UsageError",
    "bench",
    "check",
    "compare",
    "draw",
    "emit_body",
    "explain",
    "find",
    "function",
    "implements",
    "require",
    "rewrite",
    "rule",
    "searches",
    "torch_schema",
    "upgrade",
]
