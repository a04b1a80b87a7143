"""Optional values that are there: what fires and what does not."""

import pytest
from surgeon.patterns.lowering.optionals import optional_get_element, optional_has_element

from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

# fmt: off
FIRES = [
    Case(optional_get_element, "of an Optional", target="tensorrt",
         model=graph("o = Optional(x) a = OptionalGetElement(o) y = Relu(a)", "(float[n, 4] x) => (float[n, 4] y)",
                     "", 18)),
    Case(optional_get_element, "of a tensor", target="tensorrt",
         model=graph("a = OptionalGetElement(x) y = Relu(a)", "(float[n, 4] x) => (float[n, 4] y)", "", 18)),
    Case(optional_has_element, "of an Optional", target="tensorrt", check='sites',
         model=graph("o = Optional(x) y = OptionalHasElement(o)", "(float[n, 4] x) => (bool y)", "", 18)),
    Case(optional_has_element, "of a tensor", target="tensorrt", check='sites',
         model=graph("y = OptionalHasElement(x)", "(float[n, 4] x) => (bool y)", "", 18)),
]
NEGATIVES = [
    Case(optional_get_element, "ONNX Runtime has them", why="runs it as it is",
         model=graph("a = OptionalGetElement(x) y = Relu(a)", "(float[n, 4] x) => (float[n, 4] y)", "", 18)),
    Case(optional_get_element, "what may be absent", target="tensorrt", why="its input must be a tensor",
         model=graph("y = OptionalGetElement(x)", "(optional(float[4]) x) => (float[4] y)", "", 18)),
    Case(optional_has_element, "what may be absent", target="tensorrt", why="its input must be a tensor",
         model=graph("y = OptionalHasElement(x)", "(optional(float[4]) x) => (bool y)", "", 18)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
