"""Small builders that the tests of the engine share."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnx

from surgeon import Rule, rewrite, rule
from surgeon.file.model import Model
from surgeon.ir.index import Index
from surgeon.pipeline.acceptance.near_misses import misses_of_pattern
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.proof.check_options import CheckOptions
from surgeon.proof.model.model_check import CheckResult, ModelCheck
from surgeon.rules.matching.compiler import compile_pattern
from surgeon.rules.matching.match import Match
from surgeon.rules.matching.matcher import find
from surgeon.rules.tracing.tracer import trace
from surgeon.testing import parse

HEAD = "(float[n, 4] x) => (float[n, 4] y)"


def index_of(model: onnx.ModelProto) -> Index:
    """The index of a model in memory."""
    index = Index(Model.open(model))
    index.check()
    return index


def graph(body: str, head: str = HEAD, constants: str = "", header: str = "", **settings: int) -> onnx.ModelProto:
    """A model from ONNX text: body of the main graph, its inputs and outputs, its initializers."""
    return parse(f"{header}{head} <{constants}> {{ {body} }}", **settings)


def opset(version: int, ir_version: int = 9, **domains: int) -> str:
    """The header of a model in ONNX text."""
    imports = "".join(f', "{name}" : {number}' for name, number in {"com.microsoft": 1, "my": 1, **domains}.items())
    return f'<ir_version: {ir_version}, opset_import: ["" : {version}{imports}]> agraph '


def matches(model: onnx.ModelProto, pattern: Callable[..., Any]) -> list[Match]:
    """All matches of a pattern in all scopes."""
    index = index_of(model)
    compiled = [compile_pattern(item) for item in trace(pattern)]
    return [match for one in compiled for scope in index.scopes for match in find(index, one, scope)]


def reasons(model: onnx.ModelProto, pattern: Callable[..., Any]) -> str:
    """Why a pattern does not match, all reasons in one string."""
    index = index_of(model)
    compiled = [compile_pattern(item) for item in trace(pattern)]
    return "; ".join(
        miss.reason for one in compiled for scope in index.scopes for miss in misses_of_pattern(index, one, scope)
    )


def make(pattern: Callable[..., Any], replacement: Callable[..., Any], **settings: Any) -> Rule:
    """A rule of one pattern."""
    return rule(patterns=[pattern], name=settings.pop("name", replacement.__name__), **settings)(replacement)


def run(model: onnx.ModelProto, rules: Rule | Sequence[Rule], **settings: Any) -> tuple[onnx.ModelProto, RewriteReport]:
    """Rewrite in memory, checked under ONNX Runtime and required to be proved unless told otherwise."""
    settings.setdefault("require_proof", settings.setdefault("check", "model") == "model")
    found: tuple[onnx.ModelProto, RewriteReport] = rewrite(model, rules, **settings)
    return found


def ops(proto: Any) -> list[str]:
    """The ops of a graph or function in order, those of bodies behind their node."""
    found = []
    for node in proto.node:
        found.append(node.op_type)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found += ops(attribute.g)
    return found


def check_model(
    original: Path | onnx.ModelProto, rewritten: Path | onnx.ModelProto, skeleton: onnx.ModelProto, **settings: Any
) -> CheckResult:
    """A ModelCheck for one rewritten model."""
    return ModelCheck(original, skeleton, CheckOptions(**settings)).check(rewritten)
