"""A proof without enough memory names the largest tensor."""

import onnx

import surgeon
from surgeon import Graph, Tensor, rule

LARGE = [1 << 17, 1 << 17, 1, 1]
TEXT = """<ir_version: 8, opset_import: ["" : 17]> g (float[n, 4] x) => (float[a, b, c, d] y)
    <int64[4] shape = {131072, 131072, 1, 1}> { t = Expand(x, shape) y = Neg(t) }"""


@rule(patterns=[lambda g, x: g.neg(g.expand(x, LARGE))], target="onnx", name="expand_late")
def expand_late(g: Graph, x: Tensor) -> Tensor:
    """Negate what is expanded before it is.  Numerics: exact."""
    return g.expand(g.neg(x), LARGE)


def test_the_largest_tensor_is_named():
    _, report = surgeon.rewrite(onnx.parser.parse_model(TEXT), [expand_late])
    (proof,) = report.proofs
    assert proof.outcome.value == "unproved"
    assert "not enough memory to run the model ('t', float32[131072, 131072, 3, 4], takes 825 GB)" in proof.reason
