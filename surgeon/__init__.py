"""surgeon: graph surgery for exported ONNX models.

Every change you asked for, nothing else, and each one proved.

    import surgeon
    path, report = surgeon.rewrite("in.onnx", "gelu", output="out.onnx")
"""

from surgeon import searches
from surgeon.comparing import compare
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
from surgeon.rewriting.explain import explain
from surgeon.rewriting.options import CheckOptions
from surgeon.rewriting.result import Report, Site
from surgeon.rewriting.rewrite import find, rewrite
from surgeon.rewriting.rule import Rule, rule

register_helpers()

__all__ = [
    "CheckFailed",
    "CheckOptions",
    "Constant",
    "ExpectationUnmet",
    "Graph",
    "GraphError",
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
    "compare",
    "explain",
    "find",
    "implements",
    "require",
    "rewrite",
    "rule",
    "searches",
]
