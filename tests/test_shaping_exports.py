"""Real exports: every tensor's evaluated dtype, shape and value is what ONNX Runtime makes, at several sizes."""

from __future__ import annotations

import contextlib
import io
import math
import warnings
from pathlib import Path
from typing import Any

import onnx
import pytest

from surgeon.shapes.algebra.size_expressions import symbols
from surgeon.shapes.declared_types import DeclaredTypes
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import TensorType, complete_type
from tests import exports, make_shipped_model, sampling
from tests.shaping_run import Compared, compare, free_sizes, shapes_of

NAMES = (
    "bert-ts12-fp32",
    "bert-dynamo18-fp32",
    "gpt2-ts13-fp32",
    "gpt2-dynamo18-fp16",
    "vit-ts17-fp32",
    "vit-dynamo18-fp32",
    "clip_text-ts14-fp16",
)
# What other tests export too.
SAMPLE = ("bert-ts14-fp32", "gpt2-ts14-fp16", "gpt2-dynamo18-fp16", "vit-dynamo18-fp16")
CASES = {case.name: case for case in exports.cases()}


def assert_known(compared: Compared) -> None:
    """Everything evaluated, nothing wrong."""
    print(f"{compared.tensors} tensors, {len(compared.values)} values, unknown: {compared.unranked + compared.open}")
    assert not compared.wrong
    assert not compared.unranked
    assert not compared.open


def without_value_info(path: Path) -> onnx.ModelProto:
    """A model of which only the ends are stated."""
    model = onnx.load(path)
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.ClearField("type")
    return model


@pytest.mark.parametrize("name", sampling.chosen(lambda: SAMPLE, lambda: (*NAMES, *SAMPLE)))
def test_every_tensor_of_an_export(name: str) -> None:
    """With nothing stated but the inputs, each tensor is known in terms of their free dimensions."""
    path, _ = exports.export(CASES[name])
    model = without_value_info(path)
    assert_known(compare(model, [free_sizes(model, 2, 5), free_sizes(model, 1, 3)]))


def test_what_exporters_state_agrees() -> None:
    """With value_info as written the answers are the same."""
    path = make_shipped_model.PATH
    stated, bare = onnx.load(path), without_value_info(path)
    sizes = [{"batch": 2, "sequence": 5}, {"batch": 1, "sequence": 1}]
    assert_known(compare(stated, sizes))
    assert_known(compare(bare, sizes))
    (one, scope), (other, beside) = shapes_of(stated), shapes_of(bare)
    for node in scope.nodes:
        for name in filter(None, node.outputs):
            assert one.facts(scope, name) == other.facts(beside, name)


def attention_with_cache() -> tuple[Any, tuple[Any, ...]]:
    """Causal attention over a cache of keys and values, as GPT-2 writes it: heads split, joined, a sliced mask."""
    import torch
    from torch import nn

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
            self.register_buffer("causal", torch.tril(torch.ones(64, 64, dtype=torch.bool))[None, None])

        def forward(self, x, past_k, past_v):  # type: ignore[no-untyped-def]
            batch, length, _ = x.shape
            q, k, v = (part.view(batch, length, 4, 8).transpose(1, 2) for part in self.qkv(x).split(32, dim=2))
            k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
            scores = q @ k.transpose(-1, -2) / math.sqrt(v.size(-1))
            queries, keys = q.size(-2), k.size(-2)
            mask = self.causal[:, :, keys - queries : keys, :keys]
            weights = torch.where(mask, scores, torch.full([], -1e9)).softmax(-1)
            joined = (weights @ v).transpose(1, 2).reshape(batch, length, -1)
            positions = torch.arange(keys - queries, keys)
            return self.out(joined) + positions[None, :, None], k, v

    torch.manual_seed(0)
    return Attention().eval(), (torch.randn(2, 5, 32), torch.randn(2, 4, 3, 8), torch.randn(2, 4, 3, 8))


@pytest.mark.parametrize("dynamo", [False, True], ids=["ts", "dynamo"])
def test_attention_with_a_cache(dynamo: bool, tmp_path: Path) -> None:
    """Keys are of past + seq, scores of seq by past + seq: all dimensions hang together, an empty cache included."""
    import torch

    model, inputs = attention_with_cache()
    names = {"x": {0: "batch", 1: "seq"}, "past_k": {0: "batch", 2: "past"}, "past_v": {0: "batch", 2: "past"}}
    path = tmp_path / "attention.onnx"
    settings: dict[str, Any] = {"dynamic_axes": names, "opset_version": 17}
    if dynamo:
        limits = {"batch": {}, "seq": {"max": 20}, "past": {"max": 20}}
        dims = {name: torch.export.Dim(name, **limit) for name, limit in limits.items()}
        named = {value: {axis: dims[name] for axis, name in axes.items()} for value, axes in names.items()}
        settings = {"dynamic_shapes": named, "opset_version": 18, "verbose": False}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(model, inputs, str(path), input_names=list(names), dynamo=dynamo, **settings)
    bare = without_value_info(path)
    sets = [{"batch": 2, "seq": 5, "past": 3}, {"batch": 1, "seq": 1, "past": 0}, {"batch": 3, "seq": 4, "past": 9}]
    assert_known(compare(bare, sets))
    shapes, scope = shapes_of(bare)
    (softmax,) = (node for node in scope.nodes if node.op == "Softmax")
    scores = shapes.facts(scope, softmax.outputs[0]).shape
    assert ", ".join(map(str, scores)) == "batch, 4, seq, past + seq"
    assert {name for size in scores for name in symbols(size)} == {"batch", "seq", "past"}


def complete_declarations(model: onnx.ModelProto, shapes: ShapeInference) -> dict[str, TensorType]:
    """The declared types of inner tensors in which every dim is a number or follows from the inputs' dims."""
    declared = DeclaredTypes.of(shapes.origin)
    main = shapes.origin.index.main
    drafts = {value.name: complete_type(declared.draft(main, value.name)) for value in model.graph.value_info}
    return {
        name: found
        for name, found in drafts.items()
        if found is not None and all(symbols(size) <= declared.symbols for size in found.shape or ())
    }


@pytest.mark.parametrize("name", [name for name in (*NAMES, *SAMPLE) if "dynamo" in name])
def test_no_knowledge_of_an_export_is_lost(name: str) -> None:
    """What nodes are asked first says all that the file does: of each declared tensor the type is the declared one."""
    path, _ = exports.export(CASES[name])
    model = onnx.load(path)
    shapes, scope = shapes_of(model)
    declared = complete_declarations(model, shapes)
    assert len(declared) > len(model.graph.value_info) / 2
    found = {name: shapes.facts(scope, name) for name in declared}
    assert found == declared
