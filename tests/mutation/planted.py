"""Wrong rules written by hand: one for each class of input that a proof may fail to look at.

`EXPECTED` says what the proofs make of each today.  A rule that is called proved is a known hole; whoever mends it
writes "failed" (or "unproved") there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

import surgeon
from surgeon import Match, Rule, require, rule
from surgeon.testing import parse

LOWEST = float(np.finfo(np.float32).min)
LARGE = 5000  # elements of a weight that proofs make up


@dataclass(frozen=True)
class Planted:
    """A wrong rule and a model on which it is wrong.  area: the class of hole; name: what is wrong."""

    area: str
    name: str
    rule: Rule
    model: onnx.ModelProto


PLANTED: dict[str, Planted] = {}


def plant(
    area: str, name: str, text: str, pattern: Callable[..., Any], wrong: Callable[..., Any], **weights: Any
) -> None:
    """Add one.  weights: initializers of the model, by name, that its text reads."""
    model = parse(HEADER + text)
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(w), key) for key, w in weights.items())
    made = rule(patterns=[pattern], conditions=[is_original], name="planted", target="onnx")(wrong)
    PLANTED[name] = Planted(area, name, made, model)


def is_original(match: Match) -> None:
    """A wrong rule may write what it looks for."""
    require(all(node.original for node in match.nodes), "the rule wrote it")


HEADER = '<ir_version: 9, opset_import: ["" : 18]> agraph '


def outcome(one: Planted) -> tuple[str, str]:
    """What the proof of the site says: the outcome, "refused" where nothing is written, and the reason."""
    _, report = surgeon.rewrite(one.model, one.rule, target="onnx", check="sites", keep_going=True)
    sites = [*report.sites, *report.rolled_back]
    return (sites[0].outcome, sites[0].reason) if sites else ("refused", report.misses[0].reason)


def half_up(g: Any, x: Any) -> Any:
    """Round with ties upwards, where ONNX rounds them to even."""
    return g.floor(g.add(x, 0.5))


def fake(g: Any, x: Any, rounded: Callable[..., Any], low: float = -128.0, high: float = 127.0) -> Any:
    """Fake quantization with a scale of 0.1."""
    return g.mul(g.clip(rounded(g.div(x, 0.1)), low, high), 0.1)


def tampered(g: Any, y: Any, where: Any) -> Any:
    """y, half as large again where a condition holds."""
    return g.where(where, g.mul(y, 1.5), y)


def size(g: Any, x: Any, axis: int) -> Any:
    """A size as a scalar."""
    return g.gather(g.shape(x), np.array(axis))


X = "(float[n, m] x) => (float[n, m] y) "
FREE = "(float[b, s, 4] x) => (float[b, s, 4] y) { y = Relu(x) }"
JUMP, WEIGHT, MASK, INDEX, INTEGER = "jumps", "weights", "masks", "indices", "integers"
SIZE, SCALE, MAGNITUDE, EDGE = "sizes", "scale", "magnitudes", "edges"

plant(JUMP, "round half up", X + "{ y = Round(x) }", lambda g, x: g.round(x), half_up)
plant(JUMP, "round half away from zero", X + "{ y = Round(x) }", lambda g, x: g.round(x),
      lambda g, x: g.mul(g.sign(x), g.floor(g.add(g.abs(x), 0.5))))  # fmt: skip
plant(JUMP, "quantize half up", X + "<float s = {0.25}> { d = Div(x, s) r = Round(d) y = Mul(r, s) }",
      lambda g, x: g.mul(g.round(g.div(x, 0.25)), 0.25), lambda g, x: g.mul(half_up(g, g.div(x, 0.25)), 0.25))  # fmt: skip
FAKE = X + "<float s = {0.1}, float a = {-128.0}, float b = {127.0}> { d = Div(x, s) r = Round(d) c = Clip(r, a, b) y = Mul(c, s) }"
plant(JUMP, "fake quantization half up", FAKE, lambda g, x: fake(g, x, g.round), lambda g, x: fake(g, x, lambda t: half_up(g, t)))
plant(JUMP, "fake quantization by floor", FAKE, lambda g, x: fake(g, x, g.round), lambda g, x: fake(g, x, g.floor))
plant(JUMP, "fake quantization, one level less", FAKE, lambda g, x: fake(g, x, g.round),
      lambda g, x: fake(g, x, g.round, high=126.0))  # fmt: skip
plant(JUMP, "fake quantization, scale 1 % off", FAKE, lambda g, x: fake(g, x, g.round),
      lambda g, x: g.mul(g.clip(g.round(g.div(x, 0.101)), -128.0, 127.0), 0.101))  # fmt: skip
plant(JUMP, "quantize linear half up", "(float[n, 8] x) => (float[n, 8] y) <float s = {0.5}, uint8 z = {3}> "
      "{ q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }",
      lambda g, x: g.dequantize_linear(g.quantize_linear(x, 0.5, g.literal(np.uint8(3))), 0.5, g.literal(np.uint8(3))),
      lambda g, x: g.mul(g.sub(g.clip(g.add(half_up(g, g.div(x, 0.5)), 3.0), 0.0, 255.0), 3.0), 0.5))  # fmt: skip
plant(JUMP, "quantize linear, the zero point added first", "(float[n, 8] x) => (float[n, 8] y) <float s = {0.5}, uint8 z = {3}> "
      "{ q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }",
      lambda g, x: g.dequantize_linear(g.quantize_linear(x, 0.5, g.literal(np.uint8(3))), 0.5, g.literal(np.uint8(3))),
      lambda g, x: g.mul(g.sub(g.clip(g.round(g.add(g.div(x, 0.5), 3.0)), 0.0, 255.0), 3.0), 0.5))  # fmt: skip
plant(JUMP, "at least becomes more than, a constant", X + "<float c = {0.5}> { g = GreaterOrEqual(x, c) y = Where(g, x, c2) c2 = Neg(x) }"
      .replace("y = Where(g, x, c2) c2 = Neg(x)", "k = Neg(x) y = Where(g, x, k)"),
      lambda g, x: g.where(g.greater_or_equal(x, 0.5), x, g.neg(x)), lambda g, x: g.where(g.greater(x, 0.5), x, g.neg(x)))  # fmt: skip
plant(JUMP, "at least becomes more than, a step at zero", X + "<float c = {0.0}> { g = GreaterOrEqual(x, c) y = Cast<to = 1>(g) }",
      lambda g, x: g.cast(g.greater_or_equal(x, 0.0), to=1), lambda g, x: g.cast(g.greater(x, 0.0), to=1))  # fmt: skip
plant(JUMP, "at least becomes more than, two inputs", "(float[n, m] x, float[n, m] w) => (float[n, m] y) "
      "{ g = GreaterOrEqual(x, w) y = Cast<to = 1>(g) }",
      lambda g, x, w: g.cast(g.greater_or_equal(x, w), to=1), lambda g, x, w: g.cast(g.greater(x, w), to=1))  # fmt: skip
plant(JUMP, "ceil becomes floor plus 1", X + "{ y = Ceil(x) }", lambda g, x: g.ceil(x), lambda g, x: g.add(g.floor(x), 1.0))
plant(JUMP, "ceil of a scaled number", X + "<float c = {0.3}> { t = Mul(x, c) y = Ceil(t) }", lambda g, x: g.ceil(g.mul(x, 0.3)),
      lambda g, x: g.add(g.floor(g.mul(x, 0.3)), 1.0))  # fmt: skip
plant(JUMP, "sign of zero is one", X + "{ y = Sign(x) }", lambda g, x: g.sign(x),
      lambda g, x: g.sub(1.0, g.mul(g.cast(g.less(x, 0.0), to=1), 2.0)))  # fmt: skip
plant(JUMP, "floor by truncation", X + "{ y = Floor(x) }", lambda g, x: g.floor(x), lambda g, x: g.cast(g.cast(x, to=6), to=1))
plant(JUMP, "last of equal maxima", "(float[n, m] x) => (int64[n, 1] y) { y = ArgMax<axis = 1>(x) }",
      lambda g, x: g.arg_max(x, axis=1), lambda g, x: g.arg_max(x, axis=1, select_last_index=1))  # fmt: skip

SPARSE = np.where(np.arange(LARGE) % 7 == 3, 0.0, 1.5).astype(np.float32)
HOLED = np.where(np.arange(LARGE) % 11 == 5, np.nan, 1.5).astype(np.float32)
WIDE = f"(float[n, {LARGE}] x) => (float[n, {LARGE}] y) "
plant(WEIGHT, "x w / w, zeros in w", WIDE + "{ t = Mul(x, w) y = Div(t, w) }",
      lambda g, x, w: g.div(g.mul(x, w), w), lambda g, x: g.identity(x), w=SPARSE)  # fmt: skip
plant(WEIGHT, "the causal mask of a float buffer lost", "(float[b, h, 80, 80] x) => (float[b, h, 80, 80] y) <float low = {-1e30}> "
      "{ m = Cast<to = 9>(w) t = Where(m, x, low) y = Softmax<axis = -1>(t) }",
      lambda g, x, w: g.softmax(g.where(g.cast(w, to=9), x, -1e30), axis=-1), lambda g, x: g.softmax(x, axis=-1),
      w=np.tril(np.ones((1, 1, 80, 80), np.float32)))  # fmt: skip
plant(WEIGHT, "a guard against NaN in a weight dropped", WIDE + "<float zero = {0.0}> "
      "{ n = IsNaN(w) c = Where(n, zero, w) y = Mul(x, c) }",
      lambda g, x, w: g.mul(x, g.where(g.isnan(w), 0.0, w)), lambda g, x, w: g.mul(x, w), w=HOLED)  # fmt: skip
plant(WEIGHT, "absolute values of a weight dropped, one is negative", WIDE + "{ a = Abs(w) s = Sqrt(a) y = Mul(x, s) }",
      lambda g, x, w: g.mul(x, g.sqrt(g.abs(w))), lambda g, x, w: g.mul(x, g.sqrt(w)),
      w=np.where(np.arange(LARGE) == 17, -2.0, 2.0).astype(np.float32))  # fmt: skip
plant(WEIGHT, "a limit of a weight dropped", WIDE + "<float low = {-50.0}, float high = {50.0}> { c = Clip(w, low, high) y = Mul(x, c) }",
      lambda g, x, w: g.mul(x, g.clip(w, -50.0, 50.0)), lambda g, x, w: g.mul(x, w),
      w=np.where(np.arange(LARGE) == 17, 1000.0, 2.0).astype(np.float32))  # fmt: skip
plant(WEIGHT, "an integer table is taken for even", f"(float[n, {LARGE}] x) => (float[n, {LARGE}] y) <int64 two = {{2}}> "
      "{ k = Mod(w, two) s = Sub(w, k) f = Cast<to = 1>(s) y = Mul(x, f) }",
      lambda g, x, w: g.mul(x, g.cast(g.sub(w, g.mod(w, 2)), to=1)), lambda g, x, w: g.mul(x, g.cast(w, to=1)),
      w=np.where(np.arange(LARGE) == 17, 3, 2).astype(np.int64))  # fmt: skip

HIDDEN = "(float[b, n, m] x, bool[b, 1, m] keep) => (float[b, n, m] y) <float low = {LOW}> { t = Where(keep, x, low) y = Softmax<axis = -1>(t) }"


def hidden(low: float) -> Callable[..., Any]:
    """The softmax of scores in which a mask hides some."""
    return lambda g, x, keep: g.softmax(g.where(keep, x, low), axis=-1)


def seen_between(g: Any, keep: Any) -> Any:
    """A mask without holes: all between the first and the last that counts."""
    one = g.cast(keep, to=6)
    behind = g.greater(g.cum_sum(one, np.array(2)), 0)
    return g.and_(behind, g.greater(g.cum_sum(one, np.array(2), reverse=1), 0))


def summed(low: float) -> Callable[..., Any]:
    """The mask added, as a number, in place of the choice."""
    return lambda g, x, keep: g.softmax(g.add(x, g.mul(g.cast(g.not_(keep), to=1), low)), axis=-1)


plant(MASK, "holes of a mask filled", HIDDEN.replace("LOW", "-1e30"), hidden(-1e30),
      lambda g, x, keep: g.softmax(g.where(seen_between(g, keep), x, -1e30), axis=-1))  # fmt: skip
for low in (-1e9, -1e4):
    plant(MASK, f"rows all hidden, {low:g} added", HIDDEN.replace("LOW", str(low)), hidden(low), summed(low))
plant(MASK, "rows all hidden become zero", HIDDEN.replace("LOW", "-1e30"), hidden(-1e30),
      lambda g, x, keep: g.mul(g.softmax(g.where(keep, x, -1e30), axis=-1), g.cast(keep, to=1)))  # fmt: skip
plant(MASK, "only the count of a mask", "(float[b, m] x, bool[b, m] keep) => (float[b, m] y) <float z = {0.0}> { y = Where(keep, x, z) }",
      lambda g, x, keep: g.where(keep, x, 0.0),
      lambda g, x, keep: g.where(g.less(g.range(0, size(g, x, 1), 1), g.reduce_sum(g.cast(keep, to=7), axes=[1])), x, 0.0))  # fmt: skip
plant(MASK, "a guard for rows all hidden dropped", "(float[b, n, m] x, float[b, 1, m] mask) => (float[b, n, m] y) <float z = {0.0}> "
      "{ a = Add(x, mask) s = Softmax<axis = -1>(a) n1 = IsNaN(s) y = Where(n1, z, s) }",
      lambda g, x, mask: _guarded(g, g.softmax(g.add(x, mask), axis=-1)), lambda g, x, mask: g.softmax(g.add(x, mask), axis=-1))  # fmt: skip
plant(MASK, "a float mask taken for 0 or low", "(float[b, n, m] x, float[b, 1, m] mask) => (float[b, n, m] y) "
      "{ a = Add(x, mask) y = Softmax<axis = -1>(a) }", lambda g, x, mask: g.softmax(g.add(x, mask), axis=-1),
      lambda g, x, mask: g.softmax(g.where(g.less(mask, 0.0), -1e30, x), axis=-1))  # fmt: skip
plant(MASK, "the first key counts always", HIDDEN.replace("LOW", "-1e30"), hidden(-1e30),
      lambda g, x, keep: g.softmax(g.where(g.or_(keep, g.equal(g.range(0, size(g, x, 2), 1), 0)), x, -1e30), axis=-1))  # fmt: skip


def _guarded(g: Any, soft: Any) -> Any:
    return g.where(g.isnan(soft), 0.0, soft)


GATHERED = "(float[v, 8] t, int64[n] i) => (float[n, 8] y) { y = Gather(t, i) }"
plant(INDEX, "negative indices become 0", GATHERED, lambda g, t, i: g.gather(t, i), lambda g, t, i: g.gather(t, g.max(i, 0)))
plant(INDEX, "negative indices lost by a comparison", GATHERED, lambda g, t, i: g.gather(t, i),
      lambda g, t, i: g.matmul(g.cast(g.equal(g.unsqueeze(i, [1]), g.range(0, size(g, t, 0), 1)), to=1), t))  # fmt: skip
plant(INDEX, "negative indices of a fixed table", "(int64[n] i) => (float[n, 4] y) { y = Gather(w, i) }",
      lambda g, w, i: g.gather(w, i), lambda g, w, i: g.gather(w, g.abs(i)),
      w=np.arange(400, dtype=np.float32).reshape(100, 4))  # fmt: skip
plant(INDEX, "OneHot without negatives", "(int64[n] i) => (float[n, 10] y) <int64 d = {10}, float[2] v = {0.0, 1.0}> { y = OneHot(i, d, v) }",
      lambda g, i: g.one_hot(i, 10, g.literal(np.array([0, 1], np.float32))),
      lambda g, i: g.cast(g.equal(g.unsqueeze(i, [1]), np.arange(10)), to=1))  # fmt: skip
for place, end in ((999, "last"), (0, "first")):
    plant(INDEX, f"padding_idx of the table's {end} row", "(int64[n] i) => (float[n, 8] y) "
          f"<int64 p = {{{place}}}, float z = {{0.0}}, int64[1] last = {{-1}}> "
          "{ e = Gather(w, i) m = Equal(i, p) k = Unsqueeze(m, last) y = Where(k, z, e) }",
          lambda g, w, i, place=place: g.where(g.unsqueeze(g.equal(i, place), [-1]), 0.0, g.gather(w, i)),
          lambda g, w, i: g.gather(w, i), w=np.linspace(1, 2, 8000, dtype=np.float32).reshape(1000, 8))  # fmt: skip
plant(INDEX, "a special index inside the table", "(int64[n] i) => (float[n, 8] y) "
      "<int64 p = {517}, float z = {0.0}, int64[1] last = {-1}> "
      "{ e = Gather(w, i) m = Equal(i, p) k = Unsqueeze(m, last) y = Where(k, z, e) }",
      lambda g, w, i: g.where(g.unsqueeze(g.equal(i, 517), [-1]), 0.0, g.gather(w, i)),
      lambda g, w, i: g.gather(w, i), w=np.linspace(1, 2, 8000, dtype=np.float32).reshape(1000, 8))  # fmt: skip



def of_two(op: str) -> Callable[..., Any]:
    """An op of two tensors."""
    return lambda g, a, b: getattr(g, op.lower())(a, b)


TWO = "(TYPE[n] a, TYPE[n] b) => (TYPE[n] y) { y = OP(a, b) }"
for type_name, number, op in (("int32", 6, "Add"), ("int32", 6, "Mul"), ("int64", 7, "Add"), ("uint32", 12, "Add")):
    plant(INTEGER, f"{type_name} {op} through float32", TWO.replace("TYPE", type_name).replace("OP", op), of_two(op),
          lambda g, a, b, op=op, n=number: g.cast(of_two(op)(g, g.cast(a, to=1), g.cast(b, to=1)), to=n))  # fmt: skip
plant(INTEGER, "int64 Add through int32", TWO.replace("TYPE", "int64").replace("OP", "Add"), lambda g, a, b: g.add(a, b),
      lambda g, a, b: g.cast(g.add(g.cast(a, to=6), g.cast(b, to=6)), to=7))  # fmt: skip
plant(INTEGER, "int32 ReduceSum through float32", "(int32[n, m] x) => (int32[n] y) <int64[1] k = {1}> { y = ReduceSum<keepdims = 0>(x, k) }",
      lambda g, x: g.reduce_sum(x, axes=[1], keepdims=0),
      lambda g, x: g.cast(g.reduce_sum(g.cast(x, to=1), axes=[1], keepdims=0), to=6))  # fmt: skip
plant(INTEGER, "int32 sum that no longer wraps", "(int32[n] a, int32[n] b) => (int64[n] y) { c = Add(a, b) y = Cast<to = 7>(c) }",
      lambda g, a, b: g.cast(g.add(a, b), to=7), lambda g, a, b: g.add(g.cast(a, to=7), g.cast(b, to=7)))  # fmt: skip
plant(INTEGER, "uint8 sum that no longer wraps", "(uint8[n] a, uint8[n] b) => (float[n] y) { c = Add(a, b) y = Cast<to = 1>(c) }",
      lambda g, a, b: g.cast(g.add(a, b), to=1), lambda g, a, b: g.add(g.cast(a, to=1), g.cast(b, to=1)))  # fmt: skip
plant(INTEGER, "division rounds down", "(int32[n] a) => (int32[n] y) <int32 k = {4}> { y = Div(a, k) }", lambda g, a: g.div(a, 4),
      lambda g, a: g.cast(g.floor(g.div(g.cast(a, to=11), 4.0)), to=6))  # fmt: skip
plant(INTEGER, "half of the range of uint8 lost", "(uint8[n] a) => (float[n] y) { y = Cast<to = 1>(a) }", lambda g, a: g.cast(a, to=1),
      lambda g, a: g.cast(g.cast(a, to=3), to=1))  # fmt: skip

for count in (8, 64, 512):
    plant(SIZE, f"only the first {count} columns computed", "(float[n, m] x) => (float[n, m] y) { y = Relu(x) }", lambda g, x: g.relu(x),
          lambda g, x, k=count: g.concat(g.relu(g.slice(x, [0], [k], [1])), g.slice(x, [k], [1 << 40], [1]), axis=1))  # fmt: skip
    plant(SIZE, f"only the first {count} rows computed", "(float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }", lambda g, x: g.relu(x),
          lambda g, x, k=count: g.concat(g.relu(g.slice(x, [0], [k], [0])), g.slice(x, [k], [1 << 40], [0]), axis=0))  # fmt: skip
for name, holds in {
    "more than one batch with one row": lambda g, b, s: g.and_(g.greater(b, 1), g.equal(s, 1)),
    "one batch with more than one row": lambda g, b, s: g.and_(g.equal(b, 1), g.greater(s, 1)),
    "an even length": lambda g, b, s: g.equal(g.mod(s, 2), 0),
    "an odd length above one": lambda g, b, s: g.and_(g.equal(g.mod(s, 2), 1), g.greater(s, 1)),
    "a length that is no power of two": lambda g, b, s: g.greater(g.mod(16, s), 0),
    "equal sizes": lambda g, b, s: g.and_(g.equal(b, s), g.greater(s, 1)),
    "a length of 8": lambda g, b, s: g.equal(s, 8),
    "a length of 129 or more": lambda g, b, s: g.greater(s, 128),
    "a batch above 8": lambda g, b, s: g.greater(b, 8),
}.items():
    plant(SIZE, f"wrong for {name}", FREE, lambda g, x: g.relu(x),
          lambda g, x, holds=holds: tampered(g, g.relu(x), holds(g, size(g, x, 0), size(g, x, 1))))  # fmt: skip
plant(SIZE, "wrong beside a constant of the region: sizes above 12",
      "(float[n, m] x) => (float[n, m] y) <int64[1] a = {0}, int64[1] b = {12}, int64[1] k = {1}, int64[1] e = {1099511627776}> "
      "{ f = Slice(x, a, b, k) s = Slice(x, b, e, k) y = Concat<axis = 1>(f, s) }",
      lambda g, x: g.concat(g.slice(x, [0], [12], [1]), g.slice(x, [12], [1 << 40], [1]), axis=1),
      lambda g, x: tampered(g, g.identity(x), g.greater(size(g, x, 1), 12)))  # fmt: skip
PAST = "(float[b, p, 4] past, float[b, s, 4] x) => (float[b, t, 4] y) { y = Concat<axis = 1>(past, x) }"
plant(SIZE, "an empty past", PAST, lambda g, past, x: g.concat(past, x, axis=1),
      lambda g, past, x: tampered(g, g.concat(past, x, axis=1), g.equal(size(g, past, 1), 0)))  # fmt: skip
plant(SIZE, "a past as long as what follows", PAST, lambda g, past, x: g.concat(past, x, axis=1),
      lambda g, past, x: tampered(g, g.concat(past, x, axis=1), g.equal(size(g, past, 1), size(g, x, 1))))  # fmt: skip
plant(SIZE, "the first batch for all", "(float[b, s, 4] x) => (float[b, s, 4] y) { y = Relu(x) }", lambda g, x: g.relu(x),
      lambda g, x: g.expand(g.relu(g.slice(x, [0], [1], [0])), g.shape(x)))  # fmt: skip

for low in (LOWEST, -1e30):
    text = f"(float[n, m] x, bool[n, m] keep) => (float[n, m] y) <float low = {{{low!r}}}> {{ y = Where(keep, x, low) }}"
    plant(SCALE, f"what stands beside {low:.3g}", text, lambda g, x, keep, low=low: g.where(keep, x, low),
          lambda g, x, keep, low=low: g.where(keep, g.mul(x, 1.5), low))  # fmt: skip
plant(SCALE, "what stands beside a large column", "(float[n, 2] x) => (float[n, 2] y) <float[2] s = {1.0, 1e8}> { y = Mul(x, s) }",
      lambda g, x: g.mul(x, g.literal(np.array([1, 1e8], np.float32))),
      lambda g, x: g.mul(x, g.literal(np.array([1.01, 1e8], np.float32))))  # fmt: skip
plant(SCALE, "a small part of a concatenation", "(float[n, 4] x) => (float[n, 8] y) <float s = {1e9}> { b = Mul(x, s) y = Concat<axis = 1>(b, x) }",
      lambda g, x: g.concat(g.mul(x, 1e9), x, axis=1), lambda g, x: g.concat(g.mul(x, 1e9), g.mul(x, 1.5), axis=1))  # fmt: skip

for name, low, high in (
    ("2e4 < |x| < 1e15", 2e4, 1e15),
    ("|x| < 1e-5", 0.0, 1e-5),
    ("1e-20 < |x| < 1e-12", 1e-20, 1e-12),
    ("1e20 < |x| < 1e30", 1e20, 1e30),
    ("200 < |x| < 1000", 200.0, 1000.0),
):
    plant(MAGNITUDE, f"wrong for {name}", X + "{ y = Neg(x) }", lambda g, x: g.neg(x),
          lambda g, x, a=low, b=high: tampered(g, g.neg(x), g.and_(g.greater(g.abs(x), a), g.less(g.abs(x), b))))  # fmt: skip
plant(MAGNITUDE, "a limit of 1e15", X + "{ y = Neg(x) }", lambda g, x: g.neg(x), lambda g, x: g.neg(g.clip(x, -1e15, 1e15)))
plant(MAGNITUDE, "an offset of 1e-6", X + "{ y = Neg(x) }", lambda g, x: g.neg(x), lambda g, x: g.sub(-1e-6, x))
plant(MAGNITUDE, "a sum with 1e-6 left out", X + "<float e = {1e-6}> { y = Add(x, e) }", lambda g, x: g.add(x, 1e-6), lambda g, x: g.identity(x))
plant(MAGNITUDE, "log1p by log", X + "<float one = {1.0}> { a = Abs(x) k = Softplus(a) y = Neg(k) }",
      lambda g, x: g.neg(g.softplus(g.abs(x))), lambda g, x: g.neg(g.add(g.abs(x), g.log(g.add(1.0, g.exp(g.mul(g.abs(x), -1.001)))))))  # fmt: skip

plant(EDGE, "the root of a square is the number", X + "{ q = Mul(x, x) y = Sqrt(q) }", lambda g, x: g.sqrt(g.mul(x, x)), lambda g, x: g.identity(x))
plant(EDGE, "x / x is one", X + "{ y = Div(x, x) }", lambda g, x: g.div(x, x), lambda g, x: g.div(g.add(g.abs(x), 1.0), g.add(g.abs(x), 1.0)))
plant(EDGE, "x times zero is zero", X + "<float z = {0.0}> { y = Mul(x, z) }", lambda g, x: g.mul(x, 0.0),
      lambda g, x: g.mul(g.cast(g.isnan(g.cast(g.cast(x, to=6), to=1)), to=1), 0.0))  # fmt: skip
plant(EDGE, "NaN becomes the other side", X + "<float z = {0.0}> { y = Max(x, z) }", lambda g, x: g.max(x, 0.0),
      lambda g, x: g.where(g.greater(x, 0.0), x, 0.0))  # fmt: skip
plant(EDGE, "the exact GELU becomes that with tanh", X + "<float r = {1.4142135}, float one = {1.0}, float h = {0.5}> "
      "{ d = Div(x, r) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, h) }",
      lambda g, x: g.mul(g.mul(x, g.add(g.erf(g.div(x, 2**0.5)), 1.0)), 0.5),
      lambda g, x: g.mul(g.mul(x, 0.5), g.add(1.0, g.tanh(g.mul((2 / np.pi) ** 0.5, g.add(x, g.mul(0.044715, g.pow(x, 3.0))))))))  # fmt: skip
plant(EDGE, "a variance without its epsilon", "(float[n, 8] x) => (float[n, 8] y) <float e = {1e-5}> "
      "{ q = Mul(x, x) m = ReduceMean(q, k) a = Add(m, e) s = Sqrt(a) y = Div(x, s) }",
      lambda g, x: g.div(x, g.sqrt(g.add(g.reduce_mean(g.mul(x, x), axes=[-1]), 1e-5))),
      lambda g, x: g.div(x, g.sqrt(g.reduce_mean(g.mul(x, x), axes=[-1]))), k=np.array([-1], np.int64))  # fmt: skip
