"""Ifs whose branches differ in shape: sizes of inputs decide which, and the command that is printed fixes these."""

import re
import shlex

import onnx
import pytest

from tests.command_line import run
from tests.patterns.tensorrt import library

CONSTANTS = (
    "int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 many = {512}, float half = {0.5}, "
    "int64[1] axis = {1}, int64[1] flat = {-1}, int64[1] first = {0}, int64[1] last = {2}"
)
LENGTH, ROWS = "s = Shape(x) d = Gather(s, one)", "e = Gather(s, zero)"
ROW, TWICE, FEW = "p = Reshape(x, flat)", "p = Concat<axis = 1>(x, x)", "p = Slice(x, first, last, axis)"
SAME = "p = Neg(x)"
DECIDED = {  # by what computes the condition c and what the first branch makes: the sizes that decide
    "a size of 1": (f"{LENGTH} c = Equal(d, one)", ROW, {"n": 1}),
    "a known length": (f"{LENGTH} c = Equal(d, many)", ROW, {"n": 512}),
    "at least some": (f"{LENGTH} c = Greater(d, two)", FEW, {"n": 4}),
    "an even length": (f"{LENGTH} m = Mod(d, two) c = Equal(m, zero)", TWICE, {"n": 3}),
    "in floats": (f"{LENGTH} f = Cast<to = 1>(d) h = Mul(f, half) g = Floor(h) b = Cast<to = 9>(g) c = Not(b)", TWICE,
                  {"n": 4}),
    "two sizes": (f"{LENGTH} {ROWS} c = Equal(d, e)", TWICE, {"batch": 3, "n": 3}),
    "either of two": (f"{LENGTH} {ROWS} v = Equal(d, one) w = Equal(e, one) c = Or(v, w)", ROW, {"batch": 2, "n": 3}),
    "the count of elements": ("s = Size(x) c = Greater(s, two)", TWICE, {"batch": 2, "n": 3}),
    "after a pooling": (
        "u = Unsqueeze(x, axis) k = MaxPool<kernel_shape = [2], strides = [2]>(u) s = Shape(k) d = Gather(s, two) "
        "c = Equal(d, one)", ROW, {"n": 2}
    ),
    "an If in a branch": (
        f"{LENGTH} c = Equal(d, one)",
        "i = If(c) <then_branch = a () => (float[] r) { r = Reshape(x, flat) }, "
        "else_branch = b () => (float[] t) { t = Reshape(x, flat) }> p = Neg(i)", {"n": 3}
    ),
}  # fmt: skip
OTHERS = {
    "branches of one shape": (f"{LENGTH} c = Equal(d, one)", SAME),
    "the data": ("m = ReduceMax<keepdims = 0>(x) i = Cast<to = 7>(m) c = Equal(i, one)", TWICE),
    "the data beside a size": (
        f"{LENGTH} m = ReduceMax<keepdims = 0>(x) i = Cast<to = 7>(m) v = Equal(i, d) w = Equal(d, one) c = And(v, w)",
        TWICE,
    ),
    "a size that the data make": ("z = NonZero(x) s = Shape(z) d = Gather(s, one) c = Equal(d, one)", TWICE),
    "chance": (f"{LENGTH} r = RandomUniform<shape = [1]>() b = Cast<to = 9>(r) c = Squeeze(b)", TWICE),
    "an input": ("c = Identity(given)", TWICE),
    "a constant": ("c = Equal(one, two)", TWICE),
}


def model(condition: str, branch: str) -> onnx.ModelProto:
    """A model whose If takes a branch by a condition, or else hands on its input."""
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 17]> g (float[batch, n] x, bool given) => (float[] y) <{CONSTANTS}> '
        f"{{ {condition} z = If(c) <then_branch = yes () => (float[] p) {{ {branch} }}, "
        "else_branch = no () => (float[] q) { q = Identity(x) }> y = Neg(z) }"
    )


def proposed(text: str) -> list[str]:
    """The commands of edits in what was printed."""
    return re.findall(r"surgeon (edit IN OUT (?:--dim \S+ ?)+)", text)


@pytest.mark.parametrize("title", DECIDED)
def test_the_printed_command_decides_the_if(title, tmp_path):
    condition, branch, sizes = DECIDED[title]
    source, fixed, done = (tmp_path / f"{name}.onnx" for name in ("in", "fixed", "done"))
    onnx.save(model(condition, branch), source)
    checked = run("check", source, "--target", "tensorrt", "--no-load")
    rewritten = run("rewrite", source, done, "--rules", "constant_if", "--target", "tensorrt")
    (printed,) = set(proposed(checked.output) + proposed(rewritten.output))
    words = shlex.split(printed)
    assert words[3:] == [word for name in sizes for word in ("--dim", f"{name}=N")]
    filled = {"IN": str(source), "OUT": str(fixed), **{f"{name}=N": f"{name}={size}" for name, size in sizes.items()}}
    edited = run(*(filled.get(word, word) for word in words))
    assert edited.exit_code == 0, edited.output
    assert proposed(run("check", fixed, "--target", "tensorrt", "--no-load").output) == []
    assert "If" not in [node.op_type for node in onnx.load(fixed).graph.node]


@pytest.mark.skipif(library() is None, reason="TensorRT-RTX is not installed")
@pytest.mark.parametrize("title", ["a size of 1", "two sizes", "after a pooling"])
def test_tensorrt_refuses_several_sizes_and_takes_the_fixed_ones(title, tmp_path):
    condition, branch, sizes = DECIDED[title]
    source, fixed = tmp_path / "in.onnx", tmp_path / "fixed.onnx"
    onnx.save(model(condition, branch), source)
    ranges = [word for name in ("batch", "n") for word in ("--dim", f"{name}=1:3:600")]
    refused = run("check", source, "--target", "tensorrt", "--build", *ranges)
    assert refused.exit_code == 1
    assert len(proposed(refused.output)) == 1
    edit = [word for name, size in sizes.items() for word in ("--dim", f"{name}={size}")]
    assert run("edit", source, fixed, *edit).exit_code == 0
    rest = [word for name in ("batch", "n") if name not in sizes for word in ("--dim", f"{name}=1:3:600")]
    built = run("check", fixed, "--target", "tensorrt", "--build", *rest)
    assert built.exit_code == 0, built.output


@pytest.mark.parametrize("title", OTHERS)
def test_nothing_is_proposed_where_sizes_do_not_decide(title, tmp_path):
    source = tmp_path / "in.onnx"
    onnx.save(model(*OTHERS[title]), source)
    assert proposed(run("check", source, "--target", "tensorrt", "--no-load").output) == []
