"""What users are promised of rules, targets and outcomes, tried from outside: the command line and the public names."""

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

import surgeon
from surgeon import Graph, Tensor, rule
from surgeon.testing import parse
from tests.command_line import EXACT, commands, files_in, gelus, ops, result_in, run, save
from tests.counting import growth

STANDARD = ["Gelu", "Gelu", "Swish"]
CONTRIB = ["com.microsoft::Gelu", "com.microsoft::FastGelu", "com.microsoft::QuickGelu"]
HOPS = [
    ("onnx", STANDARD),
    ("ort", STANDARD),
    ("contrib", CONTRIB),
    ("onnx", STANDARD),
    ("decomposed", None),
    ("contrib", CONTRIB),
    ("decomposed", None),
    ("ort", CONTRIB),
]


def test_all_three_gelus_travel_between_all_targets(tmp_path: Path) -> None:
    """From any form to any other and back, on one file, each hop checked where ONNX Runtime has the kernels."""
    path = save(
        tmp_path,
        'g = Gelu(x) t = Gelu<approximate = "tanh">(g) y = com.microsoft.QuickGelu<alpha = 1.702>(t)',
        opset=24,
        ir_version=11,
        constants="",
        imports=', "com.microsoft" : 1',
    )
    source = path.read_bytes()
    for target, wanted in HOPS:
        done = run("rewrite", path, path, "--rules", "gelu", "--target", target)
        assert done.exit_code == 0, done.output
        found = ops(path)
        assert found == wanted if wanted else not {"Gelu", "Swish"} & {op.rpartition(":")[2] for op in found}
    first, last = onnx.ModelProto.FromString(source).graph, onnx.load(path).graph
    assert (first.input, first.output) == (last.input, last.output)
    assert not last.initializer


UNPROVABLE = {
    "a placeholder": ("z = my.Thing(y)", "does not load the original"),
    "all NaN": ("p = Abs(y) n = Neg(p) q = Sub(n, one) z = Sqrt(q)", "all NaN"),
    "random": ("r = RandomNormalLike(y) z = Add(r, y)", "original model is not deterministic"),
}


@pytest.mark.parametrize("title", UNPROVABLE)
def test_unproved_is_written_and_loud_unless_proof_is_required(title: str, tmp_path: Path) -> None:
    """Each cause has its reason, on the console and in the report."""
    tail, words = UNPROVABLE[title]
    path = save(tmp_path, f"{EXACT.format(i='g', x='x', y='y')} {tail}", outputs="float[n, 4] z", imports=', "my" : 1')
    report = tmp_path / "report.json"
    out = tmp_path / "out.onnx"
    done = run("rewrite", path, out, "--rules", "gelu", "--report", report, "--check", "both")
    assert done.exit_code == 0
    assert out.exists()
    assert "UNPROVED" in done.stdout
    assert words in done.stdout
    data = result_in(report.read_text())
    assert (data["outcome"], data["written"], data["sites"][0]["outcome"]) == ("unproved", True, "proved")
    assert words in data["check"]["reason"]
    out.unlink()
    assert run("rewrite", path, out, "--rules", "gelu", "--require-proof", "--check", "model").exit_code == 1
    assert not out.exists()
    assert run("rewrite", path, out, "--rules", "gelu", "--require-proof").exit_code == 0  # the site itself is proved


USERS_RULE = '''
import onnx_graphsurgeon as gs
from surgeon import Graph, Tensor, rule

@gs.Graph.register()
def mul(self, a, b):
    return self.layer(op="Sub", inputs=[a, b], outputs=["out"])

def pattern(g: Graph, x: Tensor) -> Tensor:
    """What `mul` means here: a difference."""
    return g.abs(g.mul(g.relu(x), x)[0])

@rule(patterns=[pattern])
def difference(g: Graph, x: Tensor) -> Tensor:
    """The difference turned round."""
    return g.abs(g.op("Sub", x, g.relu(x)))
'''


def test_a_user_s_helper_and_the_builtin_rules_in_one_run(tmp_path: Path) -> None:
    """`mul` means Sub in the user's file, and still Mul in the rule that ships, as pattern and as replacement."""
    (tmp_path / "mine.py").write_text(USERS_RULE)
    body = f"{EXACT.format(i='g', x='x', y='h')} r = Relu(h) d = Sub(r, h) y = Abs(d)"
    path, out = save(tmp_path, body), tmp_path / "out.onnx"
    rules = f"{tmp_path / 'mine.py'},gelu"
    with commands() as run_one:
        for target in ("ort", "decomposed", "ort"):
            words = ("rewrite", path, out, "--rules", rules, "--target", target, "--require-proof")
            code, result, errors = run_one(*words)
            assert code == 0, result + errors
            path = out
    assert ops(out) == ["com.microsoft::Gelu", "Relu", "Sub", "Abs"]


def test_an_installed_pack_is_listed_explained_and_run(tmp_path: Path) -> None:
    """By its metadata alone, as pip writes them."""
    (tmp_path / "my_pack").mkdir()
    (tmp_path / "my_pack" / "__init__.py").write_text("")
    (tmp_path / "my_pack" / "minus.py").write_text(USERS_RULE.replace("mul", "my_minus"))
    (tmp_path / "my_pack-1.dist-info").mkdir()
    (tmp_path / "my_pack-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: my-pack\nVersion: 1\n")
    (tmp_path / "my_pack-1.dist-info" / "entry_points.txt").write_text("[surgeon.rules]\nmy-pack = my_pack\n")
    path = save(tmp_path, "r = Relu(x) d = Sub(r, x) y = Abs(d)")
    with commands(PYTHONPATH=str(tmp_path)) as run_one:
        assert "my-pack: my_pack.minus" in run_one("rules", "-v")[1]
        assert "The difference turned round" in run_one("rules", "difference")[1]
        for name in ("difference", "minus", "minus:difference", "my_pack.minus:difference"):
            out = tmp_path / f"{name.replace(':', ' ')}.onnx"
            code, _, errors = run_one("rewrite", path, out, "--rules", name)
            assert code == 0, errors
            assert ops(out) == ["Relu", "Sub", "Abs"]


def test_a_careless_rule_is_found_and_undone(tmp_path: Path) -> None:
    """The exact GELU taken for the tanh form differs by 5e-4 at most, and that is found."""

    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.mul(x, 0.5, g.add(g.erf(g.div(x, 2**0.5)), 1.0))

    @rule(patterns=[pattern])
    def nearly(g: Graph, x: Tensor) -> Tensor:
        return g.ms_fast_gelu(x)

    path, out = gelus(tmp_path, 1), tmp_path / "out.onnx"
    out.write_bytes(b"old")
    with pytest.raises(surgeon.CheckFailed) as failed:
        surgeon.rewrite(path, nearly, output=out)
    assert out.read_bytes() == path.read_bytes()
    assert files_in(tmp_path) == {"in.onnx", "out.onnx"}
    report = failed.value.report
    assert (report.outcome, report.sites) == ("failed", [])
    assert [site.outcome for site in report.rolled_back] == ["failed"]
    assert 1e-4 < report.proofs[0].worst.rewritten.max_abs < 1e-3


def test_a_sum_of_thousands_is_no_explosion(tmp_path: Path) -> None:
    """A chain of 3,000 Adds, searched by a rule that starts from a sum: four times the chain, four times the calls."""

    def pattern(g: Graph, a: Tensor, b: Tensor) -> Tensor:
        return g.mul(g.add(a, b), 0.5)

    @rule(patterns=[pattern])
    def mean(g: Graph, a: Tensor, b: Tensor) -> Tensor:
        return g.mean(a, b)

    def search(length: int) -> Callable[[], None]:
        chain = " ".join(f"c{place} = Add(c{place - 1}, x)" for place in range(1, length))
        last = f"y = Mul(c{length - 1}, half)"
        model = parse(f"(float[n, 4] x) => (float[n, 4] y) <float half = {{0.5}}> {{ c0 = Neg(x) {chain} {last} }}")

        def run() -> None:
            _, report = surgeon.rewrite(model, mean, check="none")
            assert report.count("mean") == 1

        return run

    search(3_000)()
    assert growth(search, 250, 1_000) < 1.2
