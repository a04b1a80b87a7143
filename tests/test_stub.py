"""The generated stub of `surgeon.ops.builder.graph`: up to date, complete, and true to what the helpers take."""

import ast
import textwrap
from importlib.metadata import version
from pathlib import Path

import pytest
from mypy import api

from surgeon.errors import RuleError
from surgeon.ops.schemas import bind, history
from surgeon.ops.schemas.helper_names import all_helpers
from tests.make_stub import SOURCE, STUB, made_from, stub

PROJECT = Path(__file__).resolve().parent.parent


def methods(text: str) -> dict[str, list[ast.FunctionDef]]:
    """The methods that a stub gives `Graph`, by name; two where a method is overloaded."""
    tree = ast.parse(text)
    graph = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Graph")
    found: dict[str, list[ast.FunctionDef]] = {}
    for node in graph.body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    return found


def test_the_committed_stub_is_what_the_generator_writes() -> None:
    """With another version of onnx the helpers may differ; what graph.py itself declares may not."""
    written, committed = stub(), STUB.read_text(encoding="utf-8")
    if made_from() == version("onnx"):
        assert committed == written, "run: python tests/make_stub.py"
    else:
        own = [node for node in ast.parse(SOURCE.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)]
        declared = {one.name for one in ast.parse(committed).body if isinstance(one, ast.ClassDef)}
        assert {one.name for one in own if not one.name.startswith("_")} <= declared


def test_every_helper_is_in_the_stub() -> None:
    """Helpers of operators that are newer than the onnx that the stub was made from are not yet there."""
    committed = methods(STUB.read_text(encoding="utf-8"))
    assert len(committed) > 360
    absent = set(all_helpers()) - set(committed)
    assert not absent or made_from() != version("onnx")


def test_every_name_in_the_stub_is_one_that_binding_knows() -> None:
    """Each parameter of each method, given as a keyword, reaches an input or an attribute."""
    declared = methods(stub())
    for name, (domain, op) in all_helpers().items():
        for method in declared[name]:
            keywords = [one.arg for one in (*method.args.args[1:], *method.args.kwonlyargs) if one.arg != "outputs"]
            for keyword in keywords:
                assert f"'{keyword}'" not in refusal(domain, op, keyword), name


def refusal(domain: str, op: str, keyword: str) -> str:
    """What binding says against a keyword given alone; empty if nothing."""
    try:
        bind(domain, op, (), {keyword: object()}, None)
    except RuleError as error:
        return str(error)
    return ""


def test_results_are_typed_as_binding_says() -> None:
    """A tuple exactly where binding says that a helper gives several, or where the caller may ask for that."""
    declared = methods(stub())
    for name, (domain, op) in all_helpers().items():
        newest = history(domain, op)[-1]
        for method in declared[name]:
            several = ast.unparse(method.returns or ast.Constant(None)) == "tuple[Tensor, ...]"
            assert several == ("outputs" in [one.arg for one in method.args.kwonlyargs]), name
            assert several <= (newest.max_outputs > 1), name


GOOD = """
    from typing import assert_type

    import numpy as np

    from surgeon.ops.builder.graph import Graph, Tensor

    def rule(g: Graph, x: Tensor, alpha: float) -> Tensor:
        y = g.layer_normalization(x, np.ones(4), b=None, epsilon=1e-5)
        assert_type(y, Tensor)
        assert_type(g.top_k(x, 5, axis=-1), tuple[Tensor, ...])
        assert_type(g.layer_normalization(x, 1.0, outputs=3), tuple[Tensor, ...])
        y = g.reduce_mean(y, [-1], keepdims=True)
        y = g.reduce_mean(y, axes=[-1])
        y = g.cast(g.clip(y, max=6.0), to="float16")
        y = g.cast(y, to=np.float32)
        y = g.leaky_relu(y, alpha=alpha)
        y = g.concat(x, y, 1.0, axis=0)
        y = g.and_(g.equal(x, y), g.not_(x))
        first, second = g.op("acme::halves", y, outputs=2)
        assert_type(g.op("acme::scaled", first, alpha=alpha), Tensor)
        return g.op("acme::joined", first, g.ms_fast_gelu(second))
"""

BAD = {
    'g.gelu(x, aproximate="tanh")': "aproximate",
    "g.relu(x, x)": "Too many",
    "g.gemm(x)": "Missing positional argument",
    'g.leaky_relu(x, alpha="a")': "alpha",
    "g.top_k(x, 5) + 1": "operator",
    'first, second = g.op("acme::halves", x)': "not iterable",
}


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What mypy, strict as this project is, says of a good rule and of one wrong line after the other."""
    lines = [*textwrap.dedent(GOOD).splitlines(), "def wrong(g: Graph, x: Tensor) -> None:"]
    lines += [f"    {line}" for line in BAD]
    path = tmp_path_factory.mktemp("typed") / "typed_rule.py"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    # Skipping what the stub imports leaves numpy's arrays unlooked at, whose types alone take most of half a minute.
    found = api.run(["--config-file", str(PROJECT / "pyproject.toml"), "--follow-imports=skip", str(path), str(STUB)])
    assert not found[1], found[1]
    return found[0]


def test_mypy_finds_nothing_in_the_stub_and_in_a_good_rule(complaints: str) -> None:
    bad = [line for line in complaints.splitlines() if ": error:" in line]
    assert not [line for line in bad if "graph.pyi" in line]
    first = len(textwrap.dedent(GOOD).splitlines()) + 2
    assert [line for line in bad if int(Path(line).name.split(":")[1]) < first] == []


@pytest.mark.parametrize("line", BAD)
def test_mypy_finds_what_is_wrong(line: str, complaints: str) -> None:
    number = len(textwrap.dedent(GOOD).splitlines()) + 2 + list(BAD).index(line)
    said = [one for one in complaints.splitlines() if f"typed_rule.py:{number}:" in one and ": error:" in one]
    assert said, complaints
    assert any(BAD[line] in one for one in said), said
