"""Where operators are named: in their records, in what runs them, in what knows targets, and else where it says why."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from surgeon.ops.schemas import domains, operators

ROOT = Path(__file__).resolve().parent.parent / "surgeon"
AT_HOME = ("ops.", "runtime.", "targets.", "shapes.op_rules.")
WORDS = {"Constant"}  # how a file states a value, as it does by an initializer

# Modules of functions by operator: each computes, infers, judges or writes for the operators that it is keyed by.
REGISTRIES = {
    "authoring.learning.learn",
    "edits.dynamic_dims.op_constraints",
    "ir.folding_kernels",
}
BUILT = "nodes that it writes"
RULE = "how shapes, sizes or values go through these, as in a registry"
LAWS = "laws of algebra that hold between these alone"
FOUND = "what this one search looks for"
SAID = "operators with words of their own"
FORMAT = "how exporters and files write things down"
# Elsewhere, exactly these.
LISTED = {
    "edits.detection.nms": (BUILT, "EfficientNMS_TRT"),
    "edits.detection.find_head": (FOUND, "NonMaxSuppression Pow"),
    "edits.detection.head_columns": (FOUND, "Concat ReduceMax Slice Split TopK"),
    "edits.strip_qdq": (FOUND, "Clip Identity"),
    "edits.decoders.genai_config": (FOUND, "GroupQueryAttention"),
    "precision.weights.quantized_model": (BUILT, "GatherBlockQuantized MatMulNBits Reshape"),
    "edits.model_io.retype": (BUILT, "Cast"),
    "pipeline.editing.node_insertion": (BUILT, "Cast"),
    "pipeline.editing.inline_branch": (FOUND, "Identity If"),
    "edits.dynamic_dims.dim_edits": (SAID, "If"),
    "authoring.learning.learn": (
        SAID,
        "Add Cast Concat Div Expand Gather Gemm Greater MatMul Mul Neg Pow Reciprocal Relu Reshape Shape Slice Split "
        "Sqrt Squeeze Sub Transpose Unsqueeze Where",
    ),
    "rules.matching.associative.identities": (LAWS, "Add Div Mul Sigmoid Sub Tanh"),
    "rules.tracing.tracer": (BUILT, "CastLike"),
    "rules.matching.match_state": (RULE, "Transpose"),
    "rules.searches.redundant_qdq": (FOUND, "GlobalMaxPool MaxPool Relu"),
    "rules.searches.moved_layouts": (BUILT, "Transpose"),
    "proof.region.region_models": (BUILT, "Identity"),
    "proof.region.inferred_sizes": (RULE, "Concat"),
    "rules.functions.function_body": (BUILT, "CastLike"),
    "rules.functions.call_expansion": (BUILT, "CastLike"),
    "rules.replacing.replacement": (BUILT, "CastLike Identity"),
    "rules.replacing.insertion_point": (BUILT, "Shape"),
    "rules.replacing.splicer": (BUILT, "CastLike Identity"),
    "edits.dynamic_dims.materialize": (
        BUILT,
        "Add Cast Concat Div Expand Gather Max Min Mul Range Reshape Shape Squeeze",
    ),
    "authoring.rule_proof.instances": (BUILT, "Abs"),
    "authoring.rule_proof.opset_range": (BUILT, "Identity"),
    "authoring.rule_proof.shape_solver": (RULE, "Slice Split"),
    "rules.searches.constant_conditions": (FOUND, "And Or Where"),
    "rules.searches.counted_loops": (FOUND, "And Identity"),
    "rules.searches.positional_arguments": (FORMAT, "SequenceConstruct"),
    "shapes.shape_inference": (RULE, "Cast If Loop"),
    "torch.exporters.torchscript": (FORMAT, "Cast"),
    "precision.writing.apply_plan": (BUILT, "Cast"),
    "precision.segments.selected_rows": (BUILT, "GatherElements Identity"),
    "precision.segments.matmul_blocks": (FORMAT, "Transpose"),
    "precision.measuring.range_instrumentation": (
        BUILT,
        "Abs Cast Concat Flatten Gather Greater Less Mul Neg ReduceMax ReduceMean Reshape Scan Shape Where",
    ),
    "precision.planning.dtype_plan": (FORMAT, "MatMul Transpose"),
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module that operators are not at home in, by its name within surgeon."""
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if not name.startswith(AT_HOME):
            yield name, ast.parse(path.read_text(encoding="utf-8"))


@cache
def known() -> frozenset[str]:
    """The names of all operators, also of those that an older onnx does not have and this file lists."""
    listed = {name for _, names in LISTED.values() for name in names.split()}
    return frozenset({name for domain in domains() for name in operators(domain)} | listed) - WORDS


def operators_in(tree: ast.Module) -> tuple[set[str], set[str]]:
    """The operators that strings of a module name: as the keys of its tables, and anywhere else.

    Annotations, and what the module exports, are names of Python's.
    """
    apart: set[int] = set()
    keys: set[int] = set()
    for node in ast.walk(tree):
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            apart.update(map(id, ast.walk(part) if isinstance(part, ast.AST) else ()))
    for node in tree.body:
        value = getattr(node, "value", None)
        targets = getattr(node, "targets", ())
        if any(isinstance(item, ast.Name) and item.id == "__all__" for item in targets):
            apart.update(map(id, ast.walk(node)))
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(value, ast.Dict):
            tables = (rule if key is None else key for key, rule in zip(value.keys, value.values, strict=True))
            keys.update(id(part) for table in tables for part in ast.walk(table))
    found: tuple[set[str], set[str]] = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in apart:
            words = [word.rpartition("::")[2] for word in node.value.split()]
            if known().issuperset(words):
                found[id(node) not in keys].update(words)
    return found


def test_the_engine_names_no_operators_but_those_listed() -> None:
    """What is to be known of an operator belongs into its record: a name here is a fact that a next one lacks."""
    named = {name: operators_in(tree) for name, tree in modules()}
    assert {name for name, (keys, _) in named.items() if keys} == REGISTRIES
    assert {name: " ".join(sorted(other)) for name, (_, other) in named.items() if other} == {
        name: names for name, (_, names) in LISTED.items()
    }


@pytest.mark.parametrize(
    ("text", "keys", "others"),
    [
        ('if node.op in ("Add", "Relu"): pass', set(), {"Add", "Relu"}),
        ('UNARY = """Abs\\n Ceil"""', set(), {"Abs", "Ceil"}),
        ('RULES = {"com.microsoft::Gelu": f, **dict.fromkeys(("Tanh",), f)}', {"Gelu", "Tanh"}, set()),
        ('said = "a Relu"\ndef f(x: "Size") -> "Shape": ...', set(), set()),
        ('__all__ = ["Range"]\nis_constant = op == "Constant"', set(), set()),
    ],
)  # fmt: skip
def test_how_names_are_found(text: str, keys: set[str], others: set[str]) -> None:
    """In strings of one or more names, whatever their domain; not in sentences, annotations and exports."""
    assert operators_in(ast.parse(text)) == (keys, others)
