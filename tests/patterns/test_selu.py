"""The SELU rule: what fires and what does not."""

import pytest
from surgeon.patterns.activations.selu import selu

from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.activations import F16, graph

CONSTANTS = "<float one = {1.0}, float zero = {0.0}, float alpha = {1.6732632}, float gamma = {1.050701}>"
BEND = "e = Exp(x) s = Sub(e, one) b = Mul(s, alpha)"
HALF = "<float16 one = {15360}, float zero = {0.0}, float16 alpha = {16049}, float16 gamma = {15412}>"

DEFINED = "e = Exp(x) s = Mul(alpha, e) d = Sub(s, alpha) n = Mul(gamma, d) p = Mul(gamma, x)"
LIKE = DEFINED.replace("alpha", "a")
OWN = "<float zero = {0.0}, float alpha = {1.67326}, float gamma = {1.0507}>"
WIDE = "<int64 zero0 = {0}, float alpha0 = {1.67326}, float gamma0 = {1.0507}>"

# fmt: off
FIRES = [
    Case(selu, "scale * where(x > 0, x, alpha * (exp(x) - 1))",
         graph(f"{BEND} c = Greater(x, zero) w = Where(c, x, b) y = Mul(w, gamma)", CONSTANTS)),
    Case(selu, "scale * elu(x, alpha)", graph("w = Elu<alpha = 1.6732632>(x) y = Mul(gamma, w)", CONSTANTS)),
    Case(selu, "scale * (relu(x) + min(0, ..)), TorchScript's",
         graph(f"{BEND} p = Relu(x) n = Clip(b, , zero) w = Add(p, n) y = Mul(w, gamma)", CONSTANTS)),
    Case(selu, "the same from dynamo",
         graph(f"{BEND} p = Relu(x) n = Min(b, zero) w = Add(p, n) y = Mul(w, gamma)", CONSTANTS)),
    Case(selu, "fp16, compared in float",
         graph(f"{BEND} f = Cast<to = 1>(x) c = Greater(f, zero) w = Where(c, x, b) y = Mul(w, gamma)", HALF,
               head=F16)),
    Case(selu, "fp16 whose ELU is fused already",
         graph("w = Elu<alpha = 1.6728516>(x) y = Mul(gamma, w)", HALF, head=F16)),
    Case(selu, "as ONNX Script's tutorials write it, numbers of their own",
         graph(f"{DEFINED} c = LessOrEqual(x, zero) y = Where(c, n, p)", OWN)),
    Case(selu, "the same the other way round",
         graph(f"{DEFINED} c = Greater(x, zero) y = Where(c, p, n)", OWN)),
    Case(selu, "its numbers cast to the type of the input",
         graph(f"a = CastLike(alpha0, x) gamma = CastLike(gamma0, x) zero = CastLike(zero0, x) {LIKE} "
               "c = LessOrEqual(x, zero) y = Where(c, n, p)", WIDE)),
    Case(selu, "back to primitives", target="decomposed", model=graph("y = Selu(x)")),
    Case(selu, "back to primitives, numbers of its own", target="decomposed",
         model=graph("y = Selu<alpha = 1.5, gamma = 2.0>(x)")),
]

NEGATIVES = [
    Case(selu, "another gamma", why="expected the constant 1.05",
         model=graph("w = Elu<alpha = 1.6732632>(x) y = Mul(two, w)", CONSTANTS[:-1] + ", float two = {2.0}>")),
    Case(selu, "the alpha of float16 in float32", why="only when rounded to float16",
         model=graph("w = Elu<alpha = 1.6728516>(x) y = Mul(gamma, w)", CONSTANTS)),
    Case(selu, "two alphas", why="alpha",
         model=graph("e = Exp(x) s = Mul(alpha, e) d = Sub(s, gamma) n = Mul(gamma, d) p = Mul(gamma, x) "
                     "c = LessOrEqual(x, zero) y = Where(c, n, p)", OWN)),
    Case(selu, "zero is not zero", why="constant 0",
         model=graph(f"{DEFINED} c = LessOrEqual(x, alpha) y = Where(c, n, p)", OWN)),
    Case(selu, "another alpha", why="alpha", model=graph("w = Elu<alpha = 1.6>(x) y = Mul(gamma, w)", CONSTANTS)),
    Case(selu, "alpha is missing", why="",
         model=graph("e = Exp(x) s = Sub(e, one) c = Greater(x, zero) w = Where(c, x, s) y = Mul(w, gamma)",
                     CONSTANTS)),
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
