"""The house: who may import whom, what importing loads, and how large a room may be."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import surgeon

ROOT = Path(__file__).resolve().parent.parent
# Bottom to top; a module imports only what stands before it.
FLOORS = (
    "errors",
    "limits",
    "packs",
    "listing",
    "parcels",
    "implementations",
    "file: wire edits payloads records values foreign paths mapping checksums external copying fresh atomic moves "
    "model sameness save",
    "ops: record standard_table contrib_table records walking schema_tables torch_schemas torch_names attributes "
    "plugins tensorrt_ops naming binding node_check schemas",
    "words",
    "graph",
    "lending",
    "indexing: scope soundness constants types local index origin",
    "shaping: polynomials symbols facts frame bodies broadcasting ratios elementwise layout linear selecting "
    "reducing making attention rules values inference stated repeats shapes affine choices moving elements seen",
    "upgrading: lossless",
    "matching: work pattern recording trace state advice flatten chain chain_findings chain_nodes algebra "
    "chain_search captures arguments needs standing_in search captured compile templates blockers roots match",
    "running: runtime threads kernels inlining erf aten deformable activations windows convolution pooling recurrent "
    "resizing shared_heads formulas evaluator pipes child children crew plain serving worker stepwise unknown whole "
    "held away shaking precision oracles",
    "feeding: dims scopes roles wants edges hiding filling inputs user_inputs",
    "prove: compare movement magnitudes tensor_error floats judge nudging moves changes result noise loads workload "
    "trials verdict exposing layers model_check structure bisect inner_values proof region experiment twins cut mini "
    "pins wishes fitting sizes forms sums preparing signature kinds feeder narrowing largest site_proof site_run "
    "in_child remote site_check",
    "upgrading: result",
    "searches: folding branches equal_initializers repeats neutral decided gathers placeholders unread",
    "rewriting: clock targets options fragment placing making sharing copies splice write rule signatures bodies "
    "expansion functions catalogue runnable workshop acceptance nearness near_misses result recipe inline driver run "
    "references whole_model kin proving checking",
    "upgrading: upgrade raised",
    "rewriting: rewrite explain",
    "ruleproof: variants dtypes crashing instances unifying layouts opsets result together trial zero_size "
    "without_shapes cases judging supply prover",
    "comparing",
    "benching: intervals rounds result feeds part bench",
    "drawing: content layout picture draw",
    "diagnosis: finding provenance header structure data dtypes fitting loading support limits tensorrt remedies check",
    "learning: terms generalise numerals wording writing lessons recognising",
    "torch: signature naming arguments placeholders plan sizes finishing outputs dynamo torchscript complaints effects "
    "scoped registering exporting arrays mappings captured support comparing implementing subject varying examples "
    "patterns",
    "console: clean console progress guard misses report bench_command check_command compare_command draw_command "
    "explain_command learn_command rule_proof manual inspection cli",
    "testing",
)
LONGEST_FILE, LONGEST_FUNCTION = 400, 70


def order():
    """All modules in the order of their floors."""
    for floor in FLOORS:
        package, colon, modules = floor.partition(": ")
        yield from (f"surgeon.{package}.{name}" for name in modules.split()) if colon else (f"surgeon.{package}",)


@cache
def sources():
    """Every module of the package but the packages' own files, by name."""
    paths = sorted((ROOT / "surgeon").rglob("*.py"))
    own = ("__init__.py", "__main__.py")
    return [(".".join(path.relative_to(ROOT).with_suffix("").parts), path) for path in paths if path.name not in own]


def imported(path):
    """The modules of surgeon that a file imports, also inside functions and for type checkers only."""
    known = {name for name, _ in sources()}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (item.name for item in node.names if item.name.partition(".")[0] == "surgeon")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "surgeon":
            names = [f"{node.module}.{item.name}" for item in node.names]
            yield from (name if name in known else node.module for name in names)


def test_every_module_has_its_floor():
    """The list above is the house as it stands."""
    assert sorted(order()) == [name for name, _ in sources()]


@pytest.mark.parametrize(("name", "path"), sources(), ids=lambda item: item if isinstance(item, str) else "")
def test_a_module_imports_only_what_lies_below(name, path):
    """So there are no circles, and the package's root is for users alone."""
    floors = list(order())
    wrong = [other for other in imported(path) if other not in floors[: floors.index(name)]]
    assert not wrong


def test_importing_surgeon_loads_neither_torch_nor_onnxruntime():
    """Rewriting must not need torch, and only a check needs ONNX Runtime."""
    code = "import sys, surgeon; print(sorted({'torch', 'onnxruntime', 'rich', 'click'} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_public_names():
    """__all__ is what is exported, and sorted; type checkers are told the same names as Python, of the same modules."""
    assert list(surgeon.__all__) == sorted(surgeon.__all__)
    assert all(hasattr(surgeon, name) for name in surgeon.__all__)
    tree = ast.parse(Path(surgeon.__file__).read_text(encoding="utf-8"))
    lines = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module.startswith("surgeon")]
    told = {item.asname: node.module for node in lines for item in node.names if item.asname}
    homes = {name: f"surgeon.{home}" for name, home in surgeon._HOME.items()}
    assert told == homes | {"searches": "surgeon"}
    with pytest.raises(AttributeError, match="module 'surgeon' has no attribute 'nothing'"):
        surgeon.nothing  # noqa: B018 - it raises


def test_importing_surgeon_imports_no_other_package():
    """So that the command line starts fast, and can take the working directory off Python's path before it matters."""
    code = "import sys; before = set(sys.modules); import surgeon; print(*sorted({*sys.modules} - before))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["surgeon", "surgeon.lending"]


def test_rooms_can_be_read_in_one_sitting():
    """No file and no function grows past what one can hold in mind; every module says what it owns."""
    for name, path in sources():
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        assert ast.get_docstring(tree), name
        assert len(text.splitlines()) <= LONGEST_FILE, name
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < LONGEST_FUNCTION, f"{name}.{node.name}"


def test_rule_files_are_short():
    """A rule that needs more is a sign that the vocabulary lacks a word."""
    for path in (ROOT / "patterns").glob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 150, path.name
