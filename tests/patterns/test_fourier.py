"""Fourier transforms as products with tables: what fires and what does not."""

import pytest
from surgeon.patterns.lowering.fourier import dft, stft

from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

# fmt: off
FIRES = [
    Case(dft, "complex numbers", target="tensorrt",
         model=graph("y = DFT(x)", "(float[n, 8, 2] x) => (float[n, 8, 2] y)")),
    Case(dft, "back again, along another axis", target="tensorrt",
         model=graph("y = DFT<inverse = 1, axis = 2>(x)", "(float[n, 3, 8, 2] x) => (float[n, 3, 8, 2] y)")),
    Case(dft, "cut to a length", target="tensorrt",
         model=graph("y = DFT(x, l)", "(float[n, 8, 1] x) => (float[n, 6, 2] y)", "int64 l = {6}")),
    Case(dft, "one side of real numbers, padded to a length", target="tensorrt",
         model=graph("y = DFT<onesided = 1>(x, l)", "(float[n, 8, 1] x) => (float[n, 6, 2] y)", "int64 l = {10}")),
    Case(dft, "the axis as an input", target="tensorrt",
         model=graph("y = DFT(x, , a)", "(float[n, 8, 4, 2] x) => (float[n, 8, 4, 2] y)", "int64 a = {1}", 20)),
    Case(dft, "the default axis of opset 17 is the first behind the batch", target="tensorrt",
         model=graph("y = DFT(x)", "(float[n, 8, 4, 2] x) => (float[n, 8, 4, 2] y)")),
    Case(dft, "the default axis of opset 20 is the last of the signal", target="tensorrt",
         model=graph("y = DFT(x)", "(float[n, 8, 4, 2] x) => (float[n, 8, 4, 2] y)", "", 20)),
    Case(stft, "of complex numbers, without a window", target="tensorrt",
         model=graph("y = STFT<onesided = 0>(x, s, , l)", "(float[n, 20, 2] x) => (float[n, 5, 8, 2] y)",
                     "int64 s = {3}, int64 l = {8}")),
    Case(stft, "of complex numbers, with a window", target="tensorrt",
         model=graph("y = STFT<onesided = 0>(x, s, w)", "(float[n, t, 2] x) => (float[n, f, 4, 2] y)",
                     "int64 s = {3}, float[4] w = {1, 2, 2, 1}")),
]
NEGATIVES = [
    Case(dft, "of free length", target="tensorrt", why="the length of the signal is not fixed",
         model=graph("y = DFT(x)", "(float[2, n, 2] x) => (float[2, n, 2] y)")),
    Case(dft, "of such length that the table is too large", target="tensorrt", why="would be too large",
         model=graph("y = DFT(x)", "(float[1, 5000, 2] x) => (float[1, 5000, 2] y)")),
    Case(dft, "of doubles", target="tensorrt", why="the rule supports only float16 or bfloat16 or float32",
         model=graph("y = DFT(x)", "(double[n, 8, 2] x) => (double[n, 8, 2] y)")),
    Case(dft, "of doubles, one side", target="tensorrt", why="the rule supports only float16 or bfloat16 or float32",
         model=graph("y = DFT<onesided = 1>(x)", "(double[n, 5, 1] x) => (double[n, 3, 2] y)")),
    Case(stft, "of doubles", target="tensorrt", why="the rule supports only float16 or bfloat16 or float32",
         model=graph("y = STFT<onesided = 0>(x, s, w)", "(double[n, 20, 2] x) => (double[n, f, 4, 2] y)",
                     "int64 s = {3}, double[4] w = {1, 2, 2, 1}")),
    Case(dft, "ONNX Runtime has it", why="runs it as it is",
         model=graph("y = DFT(x)", "(float[n, 8, 2] x) => (float[n, 8, 2] y)")),
    Case(stft, "of real numbers, as TensorRT has it itself", target="tensorrt", why="runs it as it is",
         model=graph("y = STFT(x, s, w)", "(float[n, t, 1] x) => (float[n, f, 3, 2] y)",
                     "int64 s = {3}, float[4] w = {1, 2, 2, 1}")),
    Case(stft, "neither a window nor a length", target="tensorrt", why="neither a window nor a frame length",
         model=graph("y = STFT<onesided = 0>(x, s)", "(float[n, 20, 2] x) => (float[n, f, l, 2] y)", "int64 s = {3}")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
