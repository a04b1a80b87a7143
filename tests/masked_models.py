"""Attentions of every kind of mask, dtype and layout, as models, and inputs that hide rows whole, or leave holes.

Needs neither torch nor anything of surgeon's proofs, so that what is found with them is a second opinion.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
import onnx.parser

HEADS, COLUMNS = 4, 8
NUMBERS = {"float": np.float32, "float16": np.float16}
LOWS = {
    "float": (float(np.finfo(np.float32).min), -np.inf, -1e9, -1e5, -1.5e4),
    "float16": (-65504.0, -np.inf, -1.5e4),
}
"""What stands for hidden scores, by dtype."""

FUTURE = (
    "zq = Shape(q) rows = Gather(zq, place_s) zk = Shape(kt) keys = Gather(zk, place_t) past = Sub(keys, rows) "
    "i0 = Range(nil, rows, one) i1 = Add(i0, past) i = Unsqueeze(i1, last) j = Range(nil, keys, one) "
    "future = LessOrEqual(j, i)"
)
KINDS = {
    "kept": "x = Where(c, z, low)",
    "hidden": "n = Not(c) x = Where(n, low, z)",
    "added": "x = Add(z, m)",
    "added, never infinite": "w = Add(z, m) x = Max(w, bottom)",
    "chosen": "f = Where(c, zero, low) x = Add(z, f)",
    "causal": f"{FUTURE} x = Where(future, z, low)",
    "causal, padded": f"{FUTURE} both = And(future, c) x = Where(both, z, low)",
    "causal, padding added behind": f"{FUTURE} w = Where(future, z, low) x = Add(w, m)",
    "causal, padding added before": f"{FUTURE} w = Add(z, m) x = Where(future, w, low)",
    "kept, a mask behind": "w = Where(c, z, low) x = Add(w, m)",
    "kept, a mask before": "w = Add(z, m) x = Where(c, w, low)",
    "two masks": "w = Add(z, m) f = Where(c, zero, low) x = Add(w, f)",
    "kept, a bias before": "w = Add(z, slope) x = Where(c, w, low)",
    "kept, a bias behind": "w = Where(c, z, low) x = Add(w, slope)",
    "causal, a bias behind": f"{FUTURE} w = Where(future, z, low) x = Add(w, slope)",
    "kept, in float32": "zw = Cast<to = 1>(z) x = Where(c, zw, least)",
    "kept, capped": "d = Div(z, cap) h = Tanh(d) w = Mul(h, cap) x = Where(c, w, low)",
    "kept, and so are the weights": "x = Where(c, z, low)",
    "hidden, and so are the weights": "n = Not(c) x = Where(n, low, z)",
    "kept, a slope before, and so are the weights": "w = Add(z, slope) x = Where(c, w, low)",
    "kept, a mask before, and so are the weights": "w = Add(z, m) x = Where(c, w, low)",
    "scaled with its mask": "w = Add(s0, m) x = Mul(w, scale)",
}
"""From the scores z, which are s0 times a scale, to what softmax takes: c is a condition, m is added."""

BESIDE = (
    "causal, padding added behind",
    "causal, padding added before",
    "kept, a mask behind",
    "kept, a mask before",
    "kept, a bias behind",
)
"""Kinds of a condition and a mask that may hide a row together, for all that the graph shows."""

SPLIT = "h{0} = Reshape({0}0, split) {0} = Transpose<perm = [0, 2, 1, 3]>(h{0})"
TURNED = "kt = Transpose<perm = [0, 1, 3, 2]>({0})"
COPIED = "u{0} = Unsqueeze({0}0, third) e{0} = Expand(u{0}, copies) {0} = Reshape(e{0}, whole)"
ENDED = "yt = Transpose<perm = [0, 2, 1, 3]>(y0) y = Reshape(yt, joined)"
LAYOUTS = {
    "heads": ("{n}[b, 4, s, 8] q, {n}[b, 4, 8, t] kt, {n}[b, 4, t, 8] v", "", "b, 4, s, 8", "y = Identity(y0)"),
    "joined": (
        "{n}[b, s, 32] q0, {n}[b, t, 32] k0, {n}[b, t, 32] v0",
        " ".join([*(SPLIT.format(name) for name in "qkv"), TURNED.format("k")]),
        "b, s, 32",
        ENDED,
    ),
    "self": (
        "{n}[b, s, 32] q0, {n}[b, s, 32] k0, {n}[b, s, 32] v0",
        " ".join([*(SPLIT.format(name) for name in "qkv"), TURNED.format("k")]),
        "b, s, 32",
        ENDED,
    ),
    "copies": (
        "{n}[b, 4, s, 8] q, {n}[b, 2, t, 8] k0, {n}[b, 2, t, 8] v0",
        " ".join([COPIED.format("k"), COPIED.format("v"), TURNED.format("k")]),
        "b, s, 32",
        ENDED,
    ),
    "past": (
        "{n}[b, 4, s, 8] q, {n}[b, 4, s, 8] k0, {n}[b, 4, s, 8] v0, {n}[b, 4, p, 8] pk, {n}[b, 4, p, 8] pv",
        f"k = Concat<axis = 2>(pk, k0) v = Concat<axis = 2>(pv, v0) {TURNED.format('k')}",
        "b, s, 32",
        ENDED,
    ),
    "one head": ("{n}[b, s, 8] q, {n}[b, 8, t] kt, {n}[b, t, 8] v", "", "b, s, 8", "y = Identity(y0)"),
}
"""Inputs, how q, kᵀ and v come of them, the shape of the output, and how it comes of y0."""

SHAPES = ("b, 1, s, t", "b, 4, s, t", "s, t", "b, 1, 1, t", "b, 1, s, 1", "t")
"""Of what hides.  One head has no axis for it."""


@dataclass(frozen=True)
class Masked:
    """One attention: keys of KINDS and LAYOUTS, one of LOWS and SHAPES; whether NaN behind softmax becomes 0."""

    kind: str
    low: float
    dtype: str
    layout: str
    shape: str
    is_guarded: bool = False
    opset: int = 17

    def is_left(self, target: str) -> bool:
        """Whether nothing is to be done: a condition and a mask may hide a row whole, with a number beside which scores
        still count; or the runtime's op that caps scores does not take as many keys.
        """
        if self.kind == "kept, capped" and target == "ort":
            return self.layout != "self"
        if self.kind == "added, never infinite":
            return self.dtype == "float16"
        if self.is_zeroed and "mask" in self.kind:
            return True
        may_hide = self.kind in BESIDE or (self.kind == "causal, a bias behind" and self.layout not in ("past", "self"))
        return may_hide and np.isfinite(self.low) and (self.dtype == "float16" or self.low > -1e30)

    @property
    def is_wide(self) -> bool:
        """Whether softmax is taken in float32, whatever the dtype."""
        return "float32" in self.kind

    @property
    def is_zeroed(self) -> bool:
        """Whether the weights of hidden scores become 0."""
        return "so are the weights" in self.kind

    @property
    def sides(self) -> list[str]:
        """The axes of what hides."""
        keys = {"past": "total", "self": "s"}.get(self.layout, "t")
        axes = self.shape.replace("t", keys).split(", ")
        return [axes[0], *axes[2:]] if self.layout == "one head" and len(axes) == 4 else axes

    def model(self) -> onnx.ModelProto:
        """The model; of its inputs, those that it reads."""
        inputs, parts, output, end = LAYOUTS[self.layout]
        n, rank = self.dtype, 3 if self.layout == "one head" else 4
        axes = ", ".join(self.sides)
        reads = {"c": f"bool[{axes}] c", "m": f"{n}[{axes}] m"}
        read = [text for name, text in reads.items() if f"{name}," in self._hides() or f"{name})" in self._hides()]
        again = "Where(n, nought, pp)" if "Not" in self._hides() else "Where(c, pp, nought)"
        soft = f"pp = Softmax<axis = -1>(x) p0 = {again}" if self.is_zeroed else "p0 = Softmax<axis = -1>(x)"
        soft += " nn = IsNaN(p0) p1 = Where(nn, nought, p0)" if self.is_guarded else " p1 = Identity(p0)"
        soft += f" w0 = Cast<to = {1 if n == 'float' else 10}>(p1)" if self.is_wide else " w0 = Identity(p1)"
        scaled = "z = Mul(s0, scale)" if "z" in self._hides().replace("zq", "").replace("zk", "") else ""
        body = f"{parts} s0 = MatMul(q, kt) {scaled} {self._hides()} {soft} y0 = MatMul(w0, v) {end}"
        header = f'<ir_version: 10, opset_import: ["" : {self.opset}, "com.microsoft" : 1]> g'
        taken = ", ".join([inputs.format(n=n), *read])
        made = onnx.parser.parse_model(f"{header} ({taken}) => ({n}[{output}] y) {{ {body} }}")
        known = self._constants(rank)
        used = {name for node in made.graph.node for name in node.input}
        made.graph.initializer.extend(
            onnx.numpy_helper.from_array(array, name) for name, array in known.items() if name in used
        )
        return made

    def _constants(self, rank: int) -> dict[str, np.ndarray]:
        n = NUMBERS[self.dtype]
        numbers = {"scale": 0.5, "zero": 0, "low": self.low, "slope": [0.25], "cap": 30}
        whole = {"nil": 0, "one": 1, "place_s": rank - 2, "place_t": rank - 1, "last": [1], "third": [2]}
        shapes = {"split": [0, 0, 4, 8], "joined": [0, 0, 32], "copies": [1, 1, 2, 1, 1], "whole": [0, 4, -1, 8]}
        real = {name: np.array(number, n) for name, number in numbers.items()}
        real["least"] = np.array(np.finfo(np.float32).min)
        real["bottom"] = np.array(np.finfo(n).min)
        real["nought"] = np.array(0, np.float32 if self.is_wide else n)
        return real | {name: np.array(number, np.int64) for name, number in {**whole, **shapes}.items()}

    def _hides(self) -> str:
        return KINDS[self.kind]

    def feeds(self, model: onnx.ModelProto, sizes: dict[str, int], hides: str, seed: int) -> dict[str, np.ndarray]:
        """Inputs.  sizes: b, s, t and p.  hides: "nothing", "holes", "rows" (some, whole) or "all"."""
        numbers = np.random.default_rng(seed)
        known = {**sizes, "total": sizes["p"] + sizes["s"]}
        fed: dict[str, np.ndarray] = {}
        for value in model.graph.input:
            dims = value.type.tensor_type.shape.dim
            shape = tuple(known[dim.dim_param] if dim.dim_param else dim.dim_value for dim in dims)
            if value.name not in ("c", "m"):
                fed[value.name] = (numbers.normal(size=shape) * 1.8).astype(NUMBERS[self.dtype])
                continue
            shown = {"nothing": 1.0, "holes": 0.6, "rows": 0.8, "all": 0.0}[hides]
            seen = numbers.random(shape) < shown
            if hides == "holes":
                seen[..., numbers.integers(shape[-1])] = True
            if hides == "rows":
                seen &= numbers.random((*shape[:-1], 1)) < 0.5
            fed[value.name] = seen if value.name == "c" else np.where(seen, 0, self.low).astype(NUMBERS[self.dtype])
        return fed
