"""Normalisation by the statistics of the batch: what fires and what does not."""

import pytest
from surgeon.patterns.norms.training_batch_norm import training_batch_norm

from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

PICTURE = "(float[n, 3, 4, 5] x) => (float[n, 3, 4, 5] y)"
STATISTICS = "(float[n, 3, 4, 5] x) => (float[n, 3, 4, 5] y, float[3] a, float[3] b)"
FOUR = "float[3] s = {1, 2, -1}, float[3] c = {0, 1, 2}, float[3] m = {0, 1, 0}, float[3] v = {1, 2, 1}"
NODE = "y, a, b = BatchNormalization<training_mode = 1>(x, s, c, m, v)"

# fmt: off
FIRES = [
    Case(training_batch_norm, "what is normalised alone", model=graph(NODE, PICTURE, FOUR, 17), target="tensorrt"),
    Case(training_batch_norm, "the running statistics too", model=graph(NODE, STATISTICS, FOUR, 15), target="tensorrt"),
    Case(training_batch_norm, "another momentum and epsilon", target="tensorrt",
         model=graph("y, a, b = BatchNormalization<training_mode = 1, momentum = 0.5, epsilon = 0.01>(x, s, c, m, v)",
                     STATISTICS, FOUR, 14)),
    Case(training_batch_norm, "of a table", target="tensorrt",
         model=graph(NODE, "(float[n, 3] x) => (float[n, 3] y)", FOUR, 17)),
]
NEGATIVES = [
    Case(training_batch_norm, "at inference", target="tensorrt", why="expected training_mode = 1",
         model=graph("y = BatchNormalization(x, s, c, m, v)", PICTURE, FOUR, 17)),
    Case(training_batch_norm, "of free channels", target="tensorrt", why="number of channels is unknown",
         model=graph(NODE, "(float[n, k, 4, 5] x, float[k] s, float[k] c, float[k] m, float[k] v) "
                           "=> (float[n, k, 4, 5] y)", "", 17)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
