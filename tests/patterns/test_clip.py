"""The Clip rule: what fires and what does not."""

import pytest
from surgeon.patterns.activations.clip import clip, where_clip

from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.activations import F16, F64, graph

BOUNDS = "<float low = {-1.0}, float high = {2.0}, float zero = {0.0}, float six = {6.0}>"
INTEGERS = "<int64 low = {-1}, int64 high = {2}>"

# fmt: off
FIRES = [
    Case(clip, "min(max(x, low), high), TorchScript's", graph("m = Max(x, low) y = Min(m, high)", BOUNDS)),
    Case(clip, "max(min(x, high), low)", graph("m = Min(high, x) y = Max(low, m)", BOUNDS)),
    Case(clip, "bounds in attributes at opset 10", graph("m = Max(x, low) y = Min(m, high)", BOUNDS, opset=10)),
    Case(clip, "ReLU6 as Min of Relu, dynamo's", graph("r = Relu(x) y = Min(r, six)", BOUNDS)),
    Case(clip, "ReLU6 as Clip of Relu, TorchScript's", graph("r = Relu(x) y = Clip(r, , six)", BOUNDS)),
    Case(clip, "Clip from zero of Relu", graph("r = Relu(x) y = Clip(r, zero, six)", BOUNDS)),
    Case(clip, "fp16",
         graph("m = Max(x, low) y = Min(m, high)", "<float16 low = {48128}, float16 high = {16384}>", head=F16)),
    Case(clip, "integers",
         graph("m = Max(x, low) y = Min(m, high)", INTEGERS, head="(int64[n, 4] x) => (int64[n, 4] y)")),
    Case(where_clip, "the bound below", graph("c = Less(x, low) y = Where(c, low, x)", BOUNDS)),
    Case(where_clip, "the bound above, with operands in another order",
         model=graph("c = LessOrEqual(high, x) y = Where(c, high, x)", BOUNDS)),
    Case(where_clip, "from zero, integers",
         model=graph("c = Less(x, low) y = Where(c, low, x)", INTEGERS, head="(int64[n, 4] x) => (int64[n, 4] y)")),
    Case([where_clip, clip], "the function body of Clip",
         model=graph("c = Less(x, low) m = Where(c, low, x) d = Less(high, m) y = Where(d, high, m)", BOUNDS)),
    Case(clip, "back to primitives", target="decomposed", model=graph("y = Clip(x, low, high)", BOUNDS)),
    Case(clip, "back to primitives, from below alone", target="decomposed", model=graph("y = Clip(x, low)", BOUNDS)),
    Case(clip, "back to primitives, from above alone", target="decomposed", model=graph("y = Clip(x, , high)", BOUNDS)),
]

NEGATIVES = [
    Case(clip, "the bounds are the wrong way round", why="must not exceed",
         model=graph("m = Max(x, high) y = Min(m, low)", BOUNDS)),
    Case(clip, "a double at opset 11", why="no kernel supports Clip",
         model=graph("m = Max(x, low) y = Min(m, high)", "<double low = {-1.0}, double high = {2.0}>", head=F64,
                     opset=11)),
    Case(clip, "bounds that nearly meet", why="too close",
         model=graph("m = Max(x, low) y = Min(m, high)", "<float low = {0.0}, float high = {0.00001}>")),
    Case(clip, "no bounds", why="no bounds", target="decomposed", model=graph("y = Clip(x)", BOUNDS)),
    Case(clip, "one bound alone", why="", model=graph("y = Max(x, low)", BOUNDS)),
    Case(where_clip, "NaN becomes the bound", graph("c = Greater(x, low) y = Where(c, x, low)", BOUNDS), why=""),
    Case(where_clip, "another number than the bound", why="",
         model=graph("c = Less(x, low) y = Where(c, zero, x)", BOUNDS)),
    Case(where_clip, "numbers above the bound become smaller", why="",
         model=graph("c = Less(x, low) y = Where(c, x, low)", BOUNDS)),
    Case(where_clip, "a bound that raises the rank", why="raise the rank",
         model=graph("c = Less(x, v) y = Where(c, v, x)", "<float[1] v = {2.0}>", head="(float x) => (float[1] y)")),
    Case(clip, "a bound for each column", why="expected",
         model=graph("m = Max(x, low) y = Min(m, v)", BOUNDS[:-1] + ", float[4] v = {1, 2, 3, 4}>")),
    Case(clip, "a bound that is computed", why="expected",
         model=graph("m = Max(x, low) y = Min(m, v)", BOUNDS, head="(float[n, 4] x, float v) => (float[n, 4] y)")),
    Case(clip, "a [1] bound would raise the rank of a 0-d input", why="",
         model=graph("m = Max(x, low) y = Min(m, v)", "<float low = {-1.0}, float[1] v = {2.0}>",
                     head="(float x) => (float[1] y)")),
    Case(clip, "integers below opset 12", why="violates a schema",
         model=graph("m = Max(x, low) y = Min(m, high)", INTEGERS.replace("int64", "int32"),
                     head="(int32[n, 4] x) => (int32[n, 4] y)", opset=11)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """The rule fires, nothing else changes, and ONNX Runtime agrees."""
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    """No byte changes, and the report says why."""
    check_spares(case)
