"""Models that ONNX Runtime does not load: a rewrite reports that, whatever its proofs say."""

from pathlib import Path

import onnx
import pytest

import surgeon
from surgeon.display.content.near_misses import warning_lines
from surgeon.testing import parse
from tests.command_line import run

GELU = "d = Div(x, r) e = Erf(d) p = Add(e, one) m = Mul(x, p) y = Mul(m, h)"
HEAD = "(float[n, 8] x, int64[n, 8] i, bfloat16[n, 8] b)"
WEIGHTS = "<float h = {0.5}, float one = {1}, float r = {1.4142135}>"
OTHERS = {
    "an op that is not there": ("float z", "z = NoSuchOp(x)", "NoSuchOp"),
    "an op of a newer opset": ("float z", "z = Gelu(x)", "Gelu"),
    "a dtype without a kernel": ("bfloat16[n, 8] z", "z = Tanh(b)", "Could not find an implementation for Tanh"),
    "dtypes that clash": ("float[n, 8] z", "z = Add(x, i)", "bound to different types"),
    "a placeholder": ("float[n, 8] z", "z = acme.Snake(x)", 'implementation with @surgeon.implements("acme::Snake")'),
}


def model(output: str, body: str) -> onnx.ModelProto:
    """A model with a GELU, and a node beside it."""
    imports, made = '"": 18, "acme": 1', f"(float[n, 8] y, {output})"
    return parse(f"<ir_version: 9, opset_import: [{imports}]> g {HEAD} => {made} {WEIGHTS} {{ {GELU} {body} }}")


@pytest.mark.parametrize("case", OTHERS)
def test_why_a_model_is_not_loaded_is_reported(case: str) -> None:
    """Beside proofs of sites, which run."""
    output, body, why = OTHERS[case]
    _, report = surgeon.rewrite(model(output, body), "gelu")
    assert report.outcome == "proved"
    assert report.refused.startswith("ONNX Runtime loads neither the original nor the result: ")
    assert why in report.refused
    assert report.to_dict()["refused"] == report.refused
    (reported,) = warning_lines(report)
    assert reported == f"{report.refused}; remedies: surgeon check IN"


def test_the_command_line_says_it(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model(*OTHERS["an op that is not there"][:2]), path)
    found = run("rewrite", str(path), str(tmp_path / "out.onnx"), "--rules", "gelu")
    assert "ONNX Runtime loads neither the original nor the result" in found.stdout
    assert f"remedies: surgeon check {path}" in found.stdout
    quiet = run("rewrite", str(path), str(tmp_path / "out.onnx"), "--rules", "gelu", "--quiet")
    assert "NoSuchOp" in quiet.stderr


def test_where_it_loads_nothing_is_reported() -> None:
    """Nor where a rule takes out what kept it from that, nor where something else is to run it."""
    output, body, _ = OTHERS["a placeholder"]

    def pattern(g: surgeon.Graph, x: surgeon.Tensor) -> surgeon.Tensor:
        return g.op("acme::Snake", x)

    @surgeon.rule(patterns=[pattern], target="any")
    def snake(g: surgeon.Graph, x: surgeon.Tensor) -> surgeon.Tensor:
        """Write it as its sine."""
        return g.sin(x)

    assert surgeon.rewrite(model(output, body), snake)[1].refused == ""
    assert surgeon.rewrite(model("float[n, 8] z", "z = Sin(x)"), "gelu")[1].refused == ""
    assert surgeon.rewrite(model(output, body), "gelu", target="tensorrt")[1].refused == ""
    assert "neither" in surgeon.rewrite(model(output, body), "gelu", check="none")[1].refused


LATE = {
    "no way of loading it tells": (
        "t = Shape(x) d = Gather(t, one) e = Mod(d, five) f = Add(e, one) h = Unsqueeze(f, ax) "
        "k = Concat<axis = 0>(left, h)",
        True,
    ),
    "its own optimisations tell": ("s = Neg(p) u = Mul(s, s) w = Sub(u, u) q = Sub(w, p) k = Abs(q)", False),
}


@pytest.mark.parametrize(("sizes", "loads"), LATE.values(), ids=LATE)
def test_what_does_not_load_any_more_is_not_written(sizes: str, loads: bool) -> None:
    """Sizes that do not fit, which nobody knew before they were written as numbers."""
    held = "int64 one = {1}, int64 five = {5}, int64[1] left = {-1}, int64[1] ax = {0}, int64[2] p = {1, -4}"
    made = parse(
        f'<ir_version: 9, opset_import: ["" : 17]> g (float[n, 8] x) => (float[a, b] y) '
        f"<{held}, float[5] v = {{1, 2, 3, 4, 5}}> {{ {sizes} r = Reshape(x, k) y = Add(r, v) }}"
    )
    if not loads:
        assert "neither" in surgeon.rewrite(made, "constant_folding")[1].refused
        return
    with pytest.raises(surgeon.CheckFailed, match="loads the original but not the result: .*Incompatible"):
        surgeon.rewrite(made, "constant_folding")
    _, report = surgeon.rewrite(made, "constant_folding", keep_going=True)
    assert len(report.rolled_back) == 1
    assert report.refused == ""
