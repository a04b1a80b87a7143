"""rms_norm_channels_first: root mean squares over the channels of a picture, what does not match and why."""

import pytest
from surgeon.patterns.norms.rms_norm_channels_first import rms_norm_channels_first

from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "(float[n, 3, h, w] x) => (float[n, 3, h, w] y)"
CONSTANTS = "float two = {2}, float e = {1e-6}, float one = {1}, float[3, 1, 1] g = {1, 2, 3}, float[3] v = {1, 2, 3}"
ROOT = "p = Pow(x, two) m = ReduceMean<axes = [1]>(p) a = Add(m, e) s = Sqrt(a) "


def graph(body, head=HEAD, constants=CONSTANTS):
    return parse(f'<ir_version: 8, opset_import: ["" : 17]> agraph {head} <{constants}> {{ {body} }}')


# fmt: off
FIRES = [
    Case(rms_norm_channels_first, "divided by the root", graph(f"{ROOT} d = Div(x, s) y = Mul(d, g)")),
    Case(rms_norm_channels_first, "times the reciprocal", graph(f"{ROOT} r = Div(one, s) d = Mul(x, r) y = Mul(d, g)")),
    Case(rms_norm_channels_first, "a scale of four axes",
         graph(f"{ROOT} d = Div(x, s) y = Mul(d, g)", constants=CONSTANTS.replace("[3, 1, 1] g", "[1, 3, 1, 1] g"))),
    Case(rms_norm_channels_first, "axes from the end",
         graph(f"{ROOT} d = Div(x, s) y = Mul(d, g)".replace("[1]", "[-3]"))),
]
NEGATIVES = [
    Case(rms_norm_channels_first, "over rows", why="over only the channels",
         model=graph(f"{ROOT} d = Div(x, s) y = Mul(d, g)".replace("[1]", "[2]"))),
    Case(rms_norm_channels_first, "a scale along the columns", why="along only the channels",
         model=graph(f"{ROOT} d = Div(x, s) y = Mul(d, v)", HEAD.replace("h, w", "h, 3"))),
    Case(rms_norm_channels_first, "no axes behind the channels", why="axes after the channels",
         model=graph(f"{ROOT} d = Div(x, s) y = Mul(d, v)", "(float[n, 3] x) => (float[n, 3] y)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
