"""rms_norm_from_l2_channels_first: root mean squares by lengths over the channels, what does not match and why."""

import pytest
from surgeon.patterns.norms.rms_norm_from_l2_channels_first import rms_norm_from_l2_channels_first

from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "(float[n, 4, h, w] x) => (float[n, 4, h, w] y)"
CONSTANTS = "float floor = {1e-12}, float two = {2}, float three = {3}, float[4, 1, 1] g = {1, 2, 3, 4}"
LENGTH = "l = ReduceL2<axes = [1]>(x) c = Clip(l, floor) d = Div(x, c) "


def graph(body, head=HEAD, constants=CONSTANTS):
    return parse(f'<ir_version: 8, opset_import: ["" : 17]> agraph {head} <{constants}> {{ {body} }}')


# fmt: off
FIRES = [
    Case(rms_norm_from_l2_channels_first, "torch's normalize, scaled, times the root of the channels",
         graph("l = ReduceL2<axes = [1]>(x) c = Clip(l, floor) s = Shape(x) e = Expand(c, s) d = Div(x, e) "
               "r = Mul(d, g) y = Mul(r, two)")),
    Case(rms_norm_from_l2_channels_first, "without a scale", graph(f"{LENGTH} y = Mul(d, two)")),
    Case(rms_norm_from_l2_channels_first, "another number than the root, and a scale",
         graph(f"{LENGTH} r = Mul(d, g) y = Mul(r, three)")),
    Case(rms_norm_from_l2_channels_first, "three axes",
         graph(f"{LENGTH} r = Mul(d, g) y = Mul(r, two)", HEAD.replace("h, w", "w"),
               CONSTANTS.replace("[4, 1, 1]", "[1, 4, 1]"))),
    Case(rms_norm_from_l2_channels_first, "a scale that is an input",
         graph(f"{LENGTH} r = Mul(d, three) y = Mul(r, v)", HEAD.replace("w] x)", "w] x, float[4, 1, 1] v)"))),
]
NEGATIVES = [
    Case(rms_norm_from_l2_channels_first, "over rows", why="over only the channels",
         model=graph(f"{LENGTH} y = Mul(d, two)".replace("[1]", "[2]"))),
    Case(rms_norm_from_l2_channels_first, "a floor that shows", why="the floor is 2",
         model=graph(f"{LENGTH} y = Mul(d, two)".replace("l, floor", "l, two"))),
    Case(rms_norm_from_l2_channels_first, "a scale along the columns", why="along only the channels",
         model=graph(f"{LENGTH} y = Mul(d, v)", HEAD.replace("h, w", "h, 3"),
                     f"{CONSTANTS}, float[3] v = {{1, 2, 3}}")),
    Case(rms_norm_from_l2_channels_first, "free channels", why="the number of channels is not fixed",
         model=graph(f"{LENGTH} y = Mul(d, two)", HEAD.replace("4", "c"))),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
