"""Placeholders of elementwise ATen functions that some exporters do not support, but ONNX does."""

from surgeon import Graph, Match, Tensor, require, rule

# ATen name: the ONNX op, and the version of ai.onnx that introduced it. Both mean the same for every dtype of the ONNX
# op. The ONNX op does not support integers, which ATen converts to floats.
# Sign is not in the table: for NaN, ATen gives 0, but ONNX gives NaN.
SAME = {
    "acos": ("Acos", 7),
    "acosh": ("Acosh", 9),
    "asin": ("Asin", 7),
    "asinh": ("Asinh", 9),
    "atan": ("Atan", 7),
    "atanh": ("Atanh", 9),
    "bitwise_not": ("BitwiseNot", 18),
    "ceil": ("Ceil", 6),
    "cosh": ("Cosh", 9),
    "erf": ("Erf", 9),
    "hardswish": ("HardSwish", 14),
    "isinf": ("IsInf", 10),
    "isnan": ("IsNaN", 9),
    "logical_not": ("Not", 1),
    "mish": ("Mish", 18),
    "round": ("Round", 11),
    "sinh": ("Sinh", 9),
    "tan": ("Tan", 7),
}


def placeholder(g: Graph, x: Tensor) -> Tensor:
    """A call of any of them, without attributes."""
    return g.any_of(*(g.op(f"aten::{name}", x) for name in SAME))


@rule(patterns=[placeholder], target="onnx")
def aten_elementwise(g: Graph, match: Match, x: Tensor) -> Tensor:
    """Write the placeholder of an elementwise ATen function as an ONNX op: aten::asinh as Asinh.

    Numerics: rounding only.
    """
    op, opset = SAME[match.nodes[0].op.rpartition("::")[2]]
    require((match.scope.opset or 0) >= opset, f"{op} needs opset {opset}")
    made: Tensor = g.op(op, x)
    return made


aten_elementwise.on("decomposed")(aten_elementwise.forms[0].function)
