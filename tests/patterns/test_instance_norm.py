"""Instance normalisation: what is fused, what does not match and why."""

import pytest
from surgeon.patterns.norms.instance_norm import instance_norm

from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "(float[n, 3, 5, 4] x) => (float[n, 3, 5, 4] y)"
CONSTANTS = {
    "two": "float two = {2}",
    "eps": "float eps = {1e-5}",
    "one": "float[3] one = {1, 1, 1}",
    "zero": "float[3] zero = {0, 0, 0}",
    "scale": "float[3, 1, 1] scale = {1.5, -0.5, 2}",
    "bias": "float[3, 1, 1] bias = {1, 2, 3}",
}
SIGNALS = ("float[3, 1] scale = {1.5, -0.5, 2}", "float[3, 1] bias = {1, 2, 3}")
CENTRED = "a = ReduceMean<axes = [2, 3]>(x) c = Sub(x, a)"
VARIANCE = "q = Pow(c, two) v = ReduceMean<axes = [2, 3]>(q) e = Add(v, eps) s = Sqrt(e)"
BY_HAND = f"{CENTRED} {VARIANCE} d = Div(c, s) m = Mul(d, scale) y = Add(m, bias)"
BEHIND = "i = InstanceNormalization<epsilon = 1e-5>(x, one, zero) m = Mul(i, scale) y = Add(m, bias)"


def graph(body, head=HEAD, **changed):
    return parse(f"{head} <{', '.join({**CONSTANTS, **changed}.values())}> {{ {body} }}")


# fmt: off
FIRES = [
    Case(instance_norm, "by hand", graph(BY_HAND)),
    Case(instance_norm, "by hand, as a product with the reciprocal",
         graph(f"{CENTRED} {VARIANCE} o = Reciprocal(s) d = Mul(c, o) m = Mul(scale, d) y = Add(m, bias)")),
    Case(instance_norm, "by hand, the axes counted from the end", graph(BY_HAND.replace("[2, 3]", "[-2, -1]"))),
    Case(instance_norm, "by hand, without scale and bias", graph(f"{CENTRED} {VARIANCE} y = Div(c, s)")),
    Case(instance_norm, "by hand, a scale of shape [1, 3, 1, 1]",
         graph(BY_HAND, scale="float[1, 3, 1, 1] scale = {1.5, -0.5, 2}")),
    Case(instance_norm, "three axes with a scale for each channel",
         graph(BY_HAND.replace("[2, 3]", "[2]"), HEAD.replace("5, 4", "4"), scale=SIGNALS[0], bias=SIGNALS[1])),
    Case(instance_norm, "a scale along the last axis stays behind",
         graph(BY_HAND, scale="float[4] scale = {1, 2, 3, 4}")),
    Case(instance_norm, "scale and bias behind a node that has none", graph(BEHIND)),
    Case(instance_norm, "the same with a size that is not fixed", graph(BEHIND, HEAD.replace("5, 4", "h, 4"))),
    Case(instance_norm, "by hand, with a size that is not fixed", graph(BY_HAND, HEAD.replace("5, 4", "5, w"))),
    Case(instance_norm, "of signals, scale and bias behind the node",
         graph(BEHIND, HEAD.replace("5, 4", "4"), scale=SIGNALS[0], bias=SIGNALS[1])),
    Case(instance_norm, "back to primitives", target="decomposed",
         model=graph("y = InstanceNormalization<epsilon = 1e-5>(x, one, zero)", one="float[3] one = {1.5, -0.5, 2}")),
]
NEGATIVES = [
    Case(instance_norm, "mean over all, as no axes are named", why="has no axes",
         model=graph(BY_HAND.replace("<axes = [2, 3]>", "").replace("axes = [2, 3], ", ""))),
    Case(instance_norm, "the node has its own scale", why="must have scale one and bias zero",
         model=graph(BEHIND, one="float[3] one = {1, 2, 1}")),
    Case(instance_norm, "mean over the channels", why="all axes after the channels",
         model=graph(BY_HAND.replace("[2, 3]", "[1, 2]"))),
    Case(instance_norm, "mean over one of two axes", why="all axes after the channels",
         model=graph(BY_HAND.replace("[2, 3]", "[3]"))),
    Case(instance_norm, "over the last of three axes, without a scale for each channel", why="layer normalisation",
         model=graph(BY_HAND.replace("[2, 3]", "[2]"), HEAD.replace("5, 4", "4"), scale="float[4] scale = {1, 2, 3, 4}",
                     bias="float[4] bias = {1, 2, 3, 4}")),
    Case(instance_norm, "sizes that may be one", why="must be fixed at 2",
         model=graph(BY_HAND, HEAD.replace("5, 4", "h, w"))),
    Case(instance_norm, "sizes that may be one, behind a node", why="must be fixed at 2",
         model=graph(BEHIND, HEAD.replace("5, 4", "h, w"))),
    Case(instance_norm, "a signal that may have one element, behind a node", why="must be fixed at 2",
         model=graph(BEHIND, HEAD.replace("5, 4", "t"), scale=SIGNALS[0], bias=SIGNALS[1])),
    Case(instance_norm, "one size of one, the other free, behind a node", why="must be fixed at 2",
         model=graph(BEHIND, HEAD.replace("5, 4", "1, w"))),
    Case(instance_norm, "a single pixel behind a node", why="for one number",
         model=graph(BEHIND, HEAD.replace("5, 4", "1, 1"))),
    Case(instance_norm, "a single pixel", why="for one number", model=graph(BY_HAND, HEAD.replace("5, 4", "1, 1"))),
    Case(instance_norm, "a scale along the last axis behind a node", why="along only the channels",
         model=graph(BEHIND, scale="float[4] scale = {1, 2, 3, 4}")),
    Case(instance_norm, "the mean of another tensor", why="",
         model=graph(BY_HAND.replace("Sub(x, a)", "Sub(z, a)"), HEAD.replace("x)", "x, float[n, 3, 5, 4] z)"))),
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
