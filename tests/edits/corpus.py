"""A hundred cuts and thirty merges: real exports, bodies, local functions, data files of 2 and 20 GB that are holes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
from onnx import helper

import surgeon
from surgeon.edits.merge_split.cut_points import SplitPlanner
from surgeon.file.model import Model
from surgeon.pipeline.editing.draft import ModelDraft
from tests.edits.samples import sample
from tests.edits.sized_exports import export

ARCHITECTURES = (
    *("bert", "gpt2", "llama", "qwen3", "gemma2", "t5", "vit", "clip", "convnext"),
    *("wav2vec2", "unet", "vae_decoder", "swin", "segformer", "lstm"),
)
EXPORTERS = ("ts", "dynamo")
PARTS = 3
MISSING = {("swin", "dynamo")}
"""What the exporter does not write."""
Arrays = dict[str, np.ndarray]

LOOP = """<ir_version: 9, opset_import: ["" : 18]>
g (float[N, 4] x, float[4] b) => (float[N, 4] y) {
    a = Relu (x)
    n = Constant <value_int = 3> ()
    go = Constant <value = bool {1}> ()
    s = Loop (n, go, a) <body = step (int64 i, bool more, float[N, 4] before) => (bool more_, float[N, 4] after) {
        more_ = Identity (more)
        after = Add (before, b)
    }>
    y = Tanh (s)
}"""


@dataclass(frozen=True)
class Task:
    """A cut, or a merge where there is a second model.

    group: under which it is told.  fed: what the whole is fed with.  needs: bytes of weights that the result uses.
    """

    name: str
    group: str
    source: Path
    froms: tuple[str, ...] = ()
    tos: tuple[str, ...] = ()
    second: Path | None = None
    connect: dict[str, str] = field(default_factory=dict)
    fed: Arrays = field(default_factory=dict)
    external: bool = False

    @property
    def is_cut(self) -> bool:
        """Whether it is one."""
        return self.second is None


def cuts(folder: Path, *, short: bool) -> Iterator[Task]:
    """All cuts; short: a few of the exports, and nothing that is large."""
    for arch, exporter in chosen(short):
        made = export(arch, exporter)
        with Model.open(made.path) as model:
            parts = SplitPlanner(ModelDraft(model)).into_parts(PARTS)
        for number, part in enumerate(parts, 1):
            yield Task(f"{arch}-{exporter} {number}", "exports", made.path, part.inputs, part.outputs, fed=made.fed[1])
    path, fed = saved(folder / "if.onnx", sample()), fed_with("x", "z") | {"c": np.array(True)}
    yield Task("if: to its result", "If", path, ("x", "z", "c"), ("e",), fed=fed)
    yield Task("if: from what it captures", "If", path, ("a", "d", "z", "c"), ("y",), fed=fed)
    yield Task("if: what others split", "If", path, ("b", "p"), ("d",), fed=fed)
    yield Task("if: behind it", "If", path, ("e",), ("y",), fed=fed)
    yield Task("functions: from the input", "functions", path, ("x",), ("b",), fed=fed)
    yield Task("functions: one call", "functions", path, ("a",), ("b",), fed=fed)
    yield Task("functions: and what follows", "functions", path, ("a",), ("d",), fed=fed)
    looped = saved(folder / "loop.onnx", onnx.parser.parse_model(LOOP))
    fed = {**fed_with("x"), "b": np.ones(4, np.float32)}
    yield Task("loop: to its result", "Loop", looped, ("x", "b"), ("s",), fed=fed)
    yield Task("loop: from what it carries", "Loop", looped, ("a", "b"), ("y",), fed=fed)
    yield Task("loop: alone", "Loop", looped, ("a", "b"), ("s",), fed=fed)
    yield Task("loop: behind it", "Loop", looped, ("s",), ("y",), fed=fed)
    if not short:
        for gigabytes, layers, width in ((2, 40, 4096), (20, 80, 8192)):
            deep = sparse(folder / f"{gigabytes}gb", layers, width, block=layers // 2)
            ends = (f"t{layers // 2}",), (f"t{layers // 2 + 1}",)
            fed = {ends[0][0]: np.random.default_rng(0).normal(size=(2, width)).astype(np.float32)}
            group = f"over {gigabytes} GB"
            yield Task(f"a block of {gigabytes} GB", group, deep, *ends, fed=fed, external=True)


def merges(folder: Path, *, short: bool) -> Iterator[Task]:
    """All merges."""
    for arch, exporter in chosen(short)[: 4 if short else 24]:
        made = export(arch, exporter)
        parts, report = surgeon.split(onnx.load(made.path), parts=2, check="none")
        paths = [saved(folder / f"{arch}-{exporter}-{number}.onnx", part) for number, part in enumerate(parts)]
        given = set(report.parts[0].outputs)
        connect = {name: name for name in report.parts[1].inputs if name in given}
        yield Task(f"{arch}-{exporter}", "exports", paths[0], second=paths[1], connect=connect, fed=made.fed[1])
    one, two = saved(folder / "a.onnx", sample()), saved(folder / "b.onnx", sample())
    fed = fed_with("x", "z") | {"c": np.array(True)}
    yield Task("names, functions and If of both", "If, functions", one, second=two, connect={"y": "x"}, fed=fed)
    other = sample()
    other.functions[0].node[0].attribute[0].f = 0.25
    changed = saved(folder / "c.onnx", other)
    yield Task("functions that differ", "If, functions", one, second=changed, connect={"y": "x"}, fed=fed)
    old = plain(folder / "old.onnx", 12, "r = ReduceSum <axes = [1], keepdims = 1> (x) y = Mul (x, r)")
    new = plain(folder / "new.onnx", 18, "r = Relu (x) y = Neg (r)")
    yield Task("an older opset first", "opsets", old, second=new, connect={"y": "x"}, fed=fed_with("x"))
    yield Task("an older opset behind", "opsets", new, second=old, connect={"y": "x"}, fed=fed_with("x"))
    if not short:
        for gigabytes, layers, width in ((2, 20, 4096), (20, 40, 8192)):
            pair = [
                sparse(folder / f"{gigabytes}gb-{side}", layers, width, block=place, prefix=side)
                for place, side in enumerate("ab")
            ]
            connect = {f"at{layers}": "bt0"}
            group = f"over {gigabytes} GB"
            yield Task(f"two of half of {gigabytes} GB", group, pair[0], second=pair[1], connect=connect, external=True)


def chosen(short: bool) -> list[tuple[str, str]]:
    """The exports."""
    every = [(arch, exporter) for exporter in EXPORTERS for arch in ARCHITECTURES]
    return [pair for pair in every[:: 5 if short else 1] if pair not in MISSING]


def saved(path: Path, model: onnx.ModelProto) -> Path:
    """Where a model was written to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    return path


def fed_with(*names: str) -> Arrays:
    """Random inputs of the small models."""
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=(3, 4)).astype(np.float32) for name in names}


def plain(path: Path, opset: int, nodes: str) -> Path:
    """A model of one input and one output."""
    head = f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[N, 4] x) => (float[N, 4] y)'
    return saved(path, onnx.parser.parse_model(f"{head} {{ {nodes} }}"))


def sparse(folder: Path, layers: int, width: int, block: int = -1, prefix: str = "") -> Path:
    """Products one behind the other, their weights holes in a data file but for those of one block."""
    names = [f"{prefix}t{place}" for place in range(layers + 1)]
    nodes = [
        helper.make_node("MatMul", [names[place], f"{prefix}w{place}"], [names[place + 1]], name=f"{prefix}n{place}")
        for place in range(layers)
    ]
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", width]) for name in (names[0], names[-1])]
    model = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:]), ir_version=9)
    size = width * width * 4
    for place in range(layers):
        tensor = model.graph.initializer.add(name=f"{prefix}w{place}", data_type=1, dims=[width] * 2, data_location=1)
        for key, value in (("location", "weights.data"), ("offset", place * size), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "weights.data", "wb") as data:
        data.truncate(layers * size)
        if block >= 0:
            data.seek(block * size)
            data.write(weight_of(width).tobytes())
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def weight_of(width: int) -> np.ndarray:
    """The weight of the block that is no hole."""
    return np.random.default_rng(1).normal(size=(width, width)).astype(np.float32)
