"""Small models for the tests of activation rules, from ONNX text."""

from surgeon.testing import parse

F32 = "(float[n, 4] x) => (float[n, 4] y)"
F16 = "(float16[n, 4] x) => (float16[n, 4] y)"
F64 = "(double[n, 4] x) => (double[n, 4] y)"


def graph(body, constants="", head=F32, opset=17):
    """A model of these nodes and constants; head: its inputs and outputs."""
    header = f'<ir_version: 9, opset_import: ["" : {opset}, "com.microsoft" : 1]> agraph '
    return parse(f"{header}{head} {constants} {{ {body} }}")
