"""Residuals before a layer normalisation on a CPU: what is written as Sum, what does not match and why."""

import pytest
from surgeon.patterns.norms.residual_sum import residual_rms_sum, residual_sum
from surgeon.patterns.norms.skip_layer_norm import skip_layer_norm
from surgeon.patterns.norms.skip_rms_norm import skip_rms_norm

from surgeon.testing import Case, check_fires, check_spares, parse

CONSTANTS = "<float[4] w = {1, 2, 3, 4}, float[4] b = {4, 3, 2, 1}, float[4] c = {0.5, 1, 1.5, 2}>"
RMS = "t = Add(x, s) y = SimplifiedLayerNormalization<axis = -1>(t, w)"
STANDARD_RMS = "t = Add(x, s) y = RMSNormalization<axis = -1>(t, w)"
PLAIN = "t = Add(x, s) y = LayerNormalization<axis = -1>(t, w, b)"


def graph(body, more="", dtype="float", opset=17):
    header = f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>'
    ends = f"({dtype}[n, 3, 4] x, {dtype}[n, 3, 4] s) => ({dtype}[n, 3, 4] y{more})"
    return parse(f"{header} test {ends} {CONSTANTS.replace('float', dtype)} {{ {body} }}")


# fmt: off
FIRES = [
    Case(residual_sum, "a residual", graph(PLAIN)),
    Case(residual_sum, "with a bias before it", graph(f"u = Add(x, c) {PLAIN.replace('Add(x', 'Add(u')}")),
    Case(residual_sum, "whose sum is read too", graph(f"{PLAIN} z = Relu(t)", ", float[n, 3, 4] z")),
    Case([residual_sum, skip_layer_norm], "before the fused op, on a CPU", graph(PLAIN), sites=1),
    Case(residual_rms_sum, "a residual before an RMSNorm", graph(RMS)),
    Case(residual_rms_sum, "before the standard one", graph(STANDARD_RMS, opset=23)),
    Case(residual_rms_sum, "whose sum is read too", graph(f"{RMS} z = Relu(t)", ", float[n, 3, 4] z")),
    Case(residual_rms_sum, "with a bias", graph(f"u = Add(x, c) {RMS.replace('Add(x', 'Add(u')}")),
    Case([residual_rms_sum, skip_rms_norm], "an RMSNorm before the fused op", graph(RMS), sites=1),
]
NEGATIVES = [
    Case(residual_sum, "another execution provider", graph(PLAIN), ep="cuda", why="only the execution provider cpu"),
    Case(residual_rms_sum, "for CUDA", graph(RMS), ep="cuda", why="only the execution provider cpu"),
    Case(residual_sum, "a Sum", graph(PLAIN.replace("Add", "Sum")), why="keeps the two apart"),
    Case(residual_rms_sum, "a Sum before an RMSNorm", graph(RMS.replace("Add", "Sum")), why="keeps the two apart"),
    Case(skip_layer_norm, "a Sum, which is not fused", graph(PLAIN.replace("Add", "Sum")), why="keeps the two apart"),
    Case([residual_rms_sum, skip_rms_norm], "a Sum, which is not fused", graph(RMS.replace("Add", "Sum")),
         why="keeps the two apart"),
    Case(residual_sum, "a double", graph(PLAIN, dtype="double"), why="supports only float32"),
    Case(residual_sum, "no residual", graph("y = LayerNormalization<axis = -1>(x, w, b) z = Neg(s)",
                                            ", float[n, 3, 4] z"), why="expected Add"),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_for_another_provider_the_fused_op_comes():
    report = check_fires(Case([residual_sum, skip_layer_norm], "", graph(PLAIN), ep="cuda"))
    assert [site.rule for site in report.sites] == ["skip_layer_norm"]
