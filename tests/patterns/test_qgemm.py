"""Gemm of quantised matrices in whole floats: what fires and what does not."""

import pytest
from surgeon.patterns.quantization.qgemm import qgemm

from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

CONSTANTS = (
    "int8[8, 3] w = {1, -2, 3, 4, -5, 6, 1, -2, 3, 4, -5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, -9}, "
    "uint8[3, 8] u = {10, 20, 30, 40, 50, 60, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}, "
    "int8[3] zeros = {1, 0, -1}, uint8 z = {100}, uint8 uz = {128}, int8 k = {0}, "
    "float s = {0.02}, float t = {0.5}, float[3] each = {0.5, 0.25, 2}, float coarse = {4}, "
    "int32[3] c = {1000, -2000, 70}, int32[3] big = {50000000, -2000000001, 70}"
)
BYTES = "(uint8[n, 8] x) => (uint8[n, 3] y)"


def model(body, head=BYTES):
    return graph(f"y = com.microsoft.{body}", head, CONSTANTS)


# fmt: off
FIRES = [
    Case(qgemm, "with a bias, each column its own scale", target="tensorrt",
         model=model("QGemm(x, t, z, w, each, zeros, c, coarse, uz)")),
    Case(qgemm, "right factor transposed, as exporters of torch write it", target="tensorrt",
         model=model("QGemm<transB = 1>(x, t, z, u, s, uz, c, t, z)")),
    Case(qgemm, "right factor transposed and computed", target="tensorrt",
         model=model("QGemm<transB = 1>(x, t, z, v, each, zeros, c, coarse, uz)",
                     "(uint8[n, 8] x, int8[3, 8] v) => (uint8[n, 3] y)")),
    Case(qgemm, "a scale that is computed", target="tensorrt",
         model=model("QGemm(x, j, z, w, s, k, c, s, uz)", "(uint8[n, 8] x, float j) => (uint8[n, 3] y)")),
    Case(qgemm, "without a bias", model("QGemm(x, t, z, w, s, k, , s, uz)"), target="tensorrt"),
    Case(qgemm, "a bias of more digits than float32 has", target="tensorrt",
         model=model("QGemm(x, t, z, w, s, k, big, s, uz)")),
    Case(qgemm, "a bias for each element, computed", target="tensorrt",
         model=model("QGemm(x, t, z, w, s, k, d, s, uz)", "(uint8[n, 8] x, int32[n, 3] d) => (uint8[n, 3] y)")),
    Case(qgemm, "its own factor", model("QGemm<alpha = 0.37>(x, t, z, w, s, k, c, s, uz)"), target="tensorrt"),
    Case(qgemm, "int8", target="tensorrt",
         model=model("QGemm(x, t, k, w, s, k, c, s, k)", "(int8[n, 8] x) => (int8[n, 3] y)")),
    Case(qgemm, "floats come out", target="tensorrt",
         model=model("QGemm(x, t, z, w, each, zeros, c)", "(uint8[n, 8] x) => (float[n, 3] y)")),
]
NEGATIVES = [
    Case(qgemm, "ONNX Runtime has it", model("QGemm(x, t, z, w, s, k, c, s, uz)"), why="runs it as it is"),
    Case(qgemm, "its own factor, and a computed scale", target="tensorrt", why="a scale is not constant",
         model=model("QGemm<alpha = 0.3>(x, j, z, w, s, k, c, s, uz)", "(uint8[n, 8] x, float j) => (uint8[n, 3] y)")),
    Case(qgemm, "left factor transposed", target="tensorrt", why="left factor is transposed",
         model=model("QGemm<transA = 1>(x, t, z, w, s, k, c, s, uz)", "(uint8[8, n] x) => (uint8[n, 3] y)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
