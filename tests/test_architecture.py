"""The architecture: layers, interfaces and sizes of packages, and what importing loads."""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest
from onnx import GraphProto

import surgeon
from surgeon.ir.scope import Node, Scope
from tests.engine_sources import forget, nodes, tree

ROOT = Path(__file__).resolve().parent.parent
# Bottom to top: a package, or a module beside the packages, imports only what stands on a line above its own.
LAYERS = (
    "errors",
    "connected_components declarations entry_points result_base script_imports text versions",
    "target_registry",
    "printed_commands",
    "file ops",
    "ir",
    "shapes",
    "analysis",
    "runtime",
    "rules targets",
    "proof",
    "pipeline",
    "precision",
    "edits",
    "diagnostics",
    "authoring automation",
    "display torch",
    "integrations",
    "cli searches testing",
)
# What is left to turn around: a rewrite may put a detector's post-processing, which is an edit, in front of its rules.
UPWARD = {"surgeon.pipeline.rewriting.aliased_edit": {"edits"}}
LONGEST_FILE, LONGEST_FUNCTION, LONGEST_RULE = 600, 70, 170
# Lines that a package may have.  Lower a number with each change that makes its package smaller.
BUDGETS = {
    "analysis": 2_640,  # what a graph is as a decoder, and why it is none
    "authoring": 4_160,
    "automation": 4_440,  # facts about models, and the gate
    "beside the packages": 1_380,  # descriptions of parameters without sentences for Python
    "cli": 2_825,  # the commands of an assistant and of the gate; the folder of a decoder
    "diagnostics": 1_820,  # nodes that a plugin leaves to the CPU
    "display": 7_260,  # the manuals of a name, for a command and an assistant; the gate; losses of weights; decoding
    "edits": 8_030,  # folders of decoders for onnxruntime-genai, or why not; sizes tied to each other; rotations
    "file": 5_380,  # kinds of models in memory, tensors that stay with them, results by component, computed data
    "integrations": 1_620,  # assistants, Olive, polygraphy, rule sets of onnxscript, models of onnx_ir and torch
    "ir": 2_570,  # plugins in the default domain, and a hash of the structure
    "ops": 4_670,  # ops of stored matrices, ops with a size that depends on data, and what is checked of a plugin
    "patterns": 313,  # the forms of fusions, and a group for decoders
    "pipeline": 7_650,  # rules that run once, and again without a step at fault; containers of several models
    "precision": 6_750,  # rounding of weights to integers, and the losses; conversions as steps of other runs
    "proof": 10_920,  # decoding in steps; sizes that an attention with a cache refuses
    "rules": 12_561,  # rules that share a search, ops that only another rule replaces, masks found by running them
    "rules of `patterns`": 14_848,  # attention of decoders as GroupQueryAttention, also with a condition and a mask
    "runtime": 13_525,  # execution providers of plugins; limits of GroupQueryAttention
    "shapes": 7_350,  # a total of past and new tokens, for a shape that leaves it out; tables of packed integers
    "targets": 3_550,  # nodes that a plugin leaves to the CPU; lines of a user's program
    "torch": 4_730,
}
# Named numbers of these folders, and those of them that no comment explains.  Lower the numbers as those of BUDGETS.
NUMBERED = ("surgeon/proof", "surgeon/runtime/inputs", "surgeon/runtime/numerics")
MOST_NUMBERS, MOST_WITHOUT_REASON = 202, 0  # with the prompts and steps of decoding
# Calls that make numbers of numbers; other calls make no number.
MAKING_NUMBERS = frozenset(("range", "float", "int", "min", "max", "len", "tuple", "frozenset", "sum"))
RULE_FILES = sorted((ROOT / "patterns").rglob("*.py"))


@cache
def sources():
    """Every module of the package but the packages' own files, by name."""
    paths = sorted((ROOT / "surgeon").rglob("*.py"))
    own = ("__init__.py", "__main__.py")
    return [(".".join(path.relative_to(ROOT).with_suffix("").parts), path) for path in paths if path.name not in own]


@cache
def names():
    return {name for name, _ in sources()}


@pytest.fixture(scope="module", autouse=True)
def forget_trees():
    yield
    forget()


def imported(path):
    """The modules of surgeon that a file imports, also inside functions and for type checkers only."""
    known = names()
    for node in nodes(tree(path)):
        if isinstance(node, ast.Import):
            yield from (item.name for item in node.names if item.name.partition(".")[0] == "surgeon")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "surgeon":
            named = [f"{node.module}.{item.name}" for item in node.names]
            yield from (name if name in known else node.module for name in named)


def package_of(module):
    """The package that a module lies in, or a module beside the packages itself."""
    return module.split(".")[1] if "." in module else module


def test_every_package_has_its_layer():
    """LAYERS names every package, and the docstring of each package says what it is for."""
    placed = [name for layer in LAYERS for name in layer.split()]
    assert sorted(placed) == sorted({package_of(name) for name, _ in sources()} - {"patterns"})
    for package in (ROOT / "surgeon").glob("*/__init__.py"):
        assert ast.get_docstring(tree(package)), package


@pytest.mark.parametrize(("name", "path"), sources(), ids=lambda item: item if isinstance(item, str) else "")
def test_a_module_imports_only_what_lies_below(name, path):
    """So no two packages import each other, and the package's root is for users alone."""
    below = {other for layer in LAYERS[: level(package_of(name))] for other in layer.split()}
    above = {package_of(other) for other in imported(path)} - below - {package_of(name)}
    assert above == UPWARD.get(name, set())


# Packages whose `__all__` holds names that their modules define.
FACES = {"surgeon.edits", "surgeon.ops.schemas", "surgeon.patterns", "surgeon.torch"}


def packages():
    """The packages of surgeon, by name, with what their `__all__` lists."""
    for path in sorted((ROOT / "surgeon").rglob("__init__.py")):
        name = ".".join(path.parent.relative_to(ROOT).parts)
        if name != "surgeon" and name not in FACES:
            lists = [node for node in tree(path).body if isinstance(node, ast.Assign)]
            lists = [node for node in lists if ast.unparse(node.targets[0]) == "__all__"]
            yield name, {item for one in lists for item in ast.literal_eval(one.value)}


def test_all_lists_the_modules_that_other_packages_use():
    """So `__all__` of a package is its interface: what is not in it may change without a look outside."""
    used = {name: set() for name, _ in packages()}
    for path in (ROOT / "surgeon").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for other in imported(path):
            parts = other.split(".")
            for depth in range(2, len(parts)):
                package = ".".join(parts[:depth])
                if package in used and not f"{module}.".startswith(f"{package}."):
                    used[package].add(parts[depth])
    assert used == dict(packages())


def level(package):
    """How many layers lie below that of a package."""
    return next(place for place, layer in enumerate(LAYERS) if package in layer.split())


def test_modules_import_each_other_in_no_circle():
    """Within a package too."""
    TopologicalSorter({name: list(imported(path)) for name, path in sources()}).prepare()


def attributes(path):
    """The attributes that a file names of others than `self`, and those of them that it sets."""
    for node in nodes(tree(path)):
        if isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            yield node.attr, isinstance(node.ctx, ast.Store)


def test_only_one_package_edits():
    """The tables of a scope are for everybody to look things up; they and nodes change in one file alone."""
    tables = {name for name in vars(Scope(GraphProto(), (), {})) if name.startswith("_")}
    assert {"_producers", "_consumers", "_added"} <= tables
    touched = {name: {attribute for attribute, _ in attributes(path)} & tables for name, path in sources()}
    assert {package_of(name) for name, found in touched.items() if found} == {"ir"}
    known = {"alive", "encoded", "inputs", "slot", "source_slot"}
    assert known < set(Node.__slots__)
    setting = {name for name, path in sources() for attribute, sets in attributes(path) if sets and attribute in known}
    assert setting == {"surgeon.ir.mutations"}


def test_failure_has_one_form():
    """What a function returns in the place of one of our own results is no sentence: a `Refusal`, or it raises."""
    both = [(name, node) for name, path in sources() for node in nodes(tree(path))]
    ours = {node.name for _, node in both if isinstance(node, ast.ClassDef)}
    functions = [(f"{name}.{node.name}", node.returns) for name, node in both if isinstance(node, ast.FunctionDef)]
    reported = [(name, set(ast.unparse(returns or ast.Constant("")).split(" | "))) for name, returns in functions]
    found = {name for name, kinds in reported if "str" in kinds and kinds & ours}
    assert found <= {"surgeon.precision.segments.segment_proofs._run"}  # the last one


def test_class_names_are_unique():
    """A class name identifies one class of the engine and the rules, nested and private classes included."""
    paths = [*(ROOT / "surgeon").rglob("*.py"), *RULE_FILES]
    classes = Counter(node.name for path in paths for node in nodes(tree(path)) if isinstance(node, ast.ClassDef))
    assert {name for name, count in classes.items() if count > 1} == set()


# Folders whose modules show or run the subject of an engine module, and share its name: the command, and the blocks
# of its result.
OUTER_FOLDERS = ("surgeon.cli.commands", "surgeon.display.content", "surgeon.display.terminal")
# Other module names that occur twice, with the one subject that both modules have.
SHARED_NAMES = {
    "data_movement": "ops that only move data: their kernels, and their shapes",
    "testing": "tests of a rule: the public path, and its implementation",
}


def test_module_names_are_unique():
    """A module name identifies one subject; a rule file may have the name of the engine module that it uses."""
    homes = Counter(name.rpartition(".")[2] for name, _ in sources() if name.rpartition(".")[0] not in OUTER_FOLDERS)
    assert {name for name, count in homes.items() if count > 1} == set(SHARED_NAMES)
    rule_files = Counter(path.stem for path in RULE_FILES if path.name != "__init__.py")
    assert {name for name, count in rule_files.items() if count > 1} == set()


def test_importing_surgeon_loads_neither_torch_nor_onnxruntime():
    """Rewriting must not need torch, and only a check needs ONNX Runtime."""
    code = "import sys, surgeon; print(sorted({'torch', 'onnxruntime', 'rich', 'click'} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_public_names():
    """__all__ is what is exported, and sorted; type checkers are told the same names as Python, of the same modules."""
    assert list(surgeon.__all__) == sorted(surgeon.__all__)
    assert all(hasattr(surgeon, name) for name in surgeon.__all__)
    found = nodes(tree(Path(surgeon.__file__)))
    lines = [node for node in found if isinstance(node, ast.ImportFrom) and node.module.startswith("surgeon")]
    reported = {item.asname: node.module for node in lines for item in node.names if item.asname}
    homes = {name: f"surgeon.{home}" for name, home in surgeon._HOME.items()}
    assert reported == homes | dict.fromkeys(("edits", "integrations", "searches"), "surgeon")
    with pytest.raises(AttributeError, match="module 'surgeon' has no attribute 'nothing'"):
        surgeon.nothing  # noqa: B018 - it raises


def test_importing_surgeon_imports_no_other_package():
    """So that the command line starts fast, and can take the working directory off Python's path before it matters."""
    code = "import sys; before = set(sys.modules); import surgeon; print(*sorted({*sys.modules} - before))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    home = ["surgeon", "surgeon.ops", "surgeon.ops.builder", "surgeon.ops.builder.helper_registration"]
    assert ran.stdout.split() == home


def test_files_can_be_read_in_one_sitting():
    """No file and no function grows past what one can hold in mind; every module says what it owns."""
    for name, path in sources():
        text = path.read_text(encoding="utf-8")
        assert ast.get_docstring(tree(path)), name
        assert len(text.splitlines()) <= LONGEST_FILE, name
        for node in nodes(tree(path)):
            if isinstance(node, ast.FunctionDef):
                manual = node.body[0] if ast.get_docstring(node) else None
                length = node.end_lineno - node.lineno - (manual.end_lineno - manual.lineno if manual else 0)
                assert length < LONGEST_FUNCTION, f"{name}.{node.name}"


def test_packages_keep_to_their_budgets():
    """What needs more room takes it from something else, or says why the number goes up."""
    lines = Counter()
    for path in [*(ROOT / "surgeon").rglob("*.py"), *(ROOT / "patterns").rglob("*.py")]:
        folder, *parts = path.relative_to(ROOT).parts
        home = parts[0] if len(parts) > 1 else "beside the packages"
        home = "rules of `patterns`" if folder == "patterns" else home
        lines[home] += len(path.read_text(encoding="utf-8").splitlines())
    assert {name for name, count in lines.items() if count > BUDGETS.get(name, 0)} == set()


def is_of_numbers(value: ast.expr) -> bool:
    """Whether a value is a number that is written here, or a collection or an expression of such."""
    found = [node for node in ast.walk(value) if isinstance(node, ast.Constant)]
    calls = [node.func for node in ast.walk(value) if isinstance(node, ast.Call)]
    others = [call for call in calls if not (isinstance(call, ast.Name) and call.id in MAKING_NUMBERS)]
    has_functions = any(isinstance(node, ast.Lambda | ast.Subscript) for node in ast.walk(value))
    numbers = [node for node in found if type(node.value) in (int, float, complex)]
    return bool(numbers) and not has_functions and all(ast.unparse(call).startswith("np.") for call in others)


def named_numbers():
    """The names of numbers at module level, and whether a comment or a docstring is on the line, above or below."""
    for path in sorted(path for folder in NUMBERED for path in (ROOT / folder).rglob("*.py")):
        lines, body = path.read_text(encoding="utf-8").splitlines(), tree(path).body
        for node, behind in zip(body, [*body[1:], None], strict=True):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names = [one.id for target in targets if target for one in ast.walk(target) if isinstance(one, ast.Name)]
            if not names or not all(name.isupper() for name in names) or not is_of_numbers(node.value):
                continue
            own = "#" in "".join(lines[node.lineno - 1 : node.end_lineno]) or lines[node.lineno - 2].startswith("#")
            has_docstring = isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant)
            yield from ((f"{path.relative_to(ROOT)}: {name}", own or has_docstring) for name in names)


def test_numbers_are_few():
    """A number that is chosen is one that somebody has to defend."""
    assert len([*named_numbers()]) <= MOST_NUMBERS


def test_numbers_have_reasons():
    """So that a reader can tell whether another would do."""
    assert len([name for name, has_reason in named_numbers() if not has_reason]) <= MOST_WITHOUT_REASON


def test_the_reading_path_of_the_documentation_is_short():
    """Its modules are there, and a new owner reads them in two days."""
    text = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    path = text.partition("## What to read")[2].partition("At first skip")[0]
    files = re.findall(r"`([\w/]+\.py)`", path)
    homes = [ROOT / name if name.startswith(("patterns", "surgeon")) else ROOT / "surgeon" / name for name in files]
    assert len(homes) > 20
    assert sum(len(home.read_text(encoding="utf-8").splitlines()) for home in homes) <= 16_000


def test_rule_files_are_short():
    """A rule that needs more is a sign that the vocabulary lacks a word."""
    lengths = {path.stem: len(path.read_text(encoding="utf-8").splitlines()) for path in RULE_FILES}
    assert {name for name, length in lengths.items() if length > LONGEST_RULE} == set()


def test_rules_do_not_ask_a_match_what_it_binds():
    """A field of a record has a default where the pattern that fits does not bind it."""
    asking = {path.stem for path in RULE_FILES if "match.bound" in path.read_text(encoding="utf-8")}
    assert asking <= {"deform_conv"}, "whose captures are parameters"


def test_rules_count_no_inputs():
    """Inputs that are left out are not written: those behind them go by their names."""
    counting = set()
    for path in RULE_FILES:
        for node in nodes(tree(path)):
            given = node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, ast.Tuple) else []
            left_out = [isinstance(item, ast.Constant) and item.value is None for item in given]
            if len(given) > 2 and any(one and other for one, other in pairwise(left_out)):
                counting.add(path.stem)
    assert counting == set()
