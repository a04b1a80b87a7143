"""Environments: any locale, path and working folder, no home, and no writable folder but that of the model."""

import ast
import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from subprocess import CompletedProcess

import onnx
import pytest

from surgeon.file.external_data.new_file import name_beside
from surgeon.torch.exporters.module_export import export_error
from tests.command_line import ROOT, commands, gelus, ops, process, result_in, rule_file

ASCII = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
NAME = "Mödell mit 😀"
NOWHERE = Path("/proc")  # where not even root makes a file
NO_TEMPORARY_FILES = f"""
import tempfile
tempfile._candidate_tempdir_list = lambda: ["{NOWHERE}"]
"""

needs_proc = pytest.mark.skipif(not NOWHERE.is_dir(), reason="no folder is known here where nobody may write")


def surgeon(*arguments: object, cwd: Path | None = None, **variables: str) -> str:
    """What a command prints that has to end well."""
    done: CompletedProcess[str] = process("-m", "surgeon", *arguments, cwd=cwd, **variables)
    errors = [line for line in done.stderr.splitlines() if "W:onnxruntime" not in line]  # it misses the home too
    assert (done.returncode, errors) == (0, []), arguments
    return done.stdout


@contextlib.contextmanager
def well(cwd: Path | None = None, without: Sequence[str] = (), **variables: str) -> Iterator[Callable[..., str]]:
    """Many commands in one process: a function that returns what a command prints that has to end well."""
    with commands(cwd, without, **variables) as run_one:

        def run(*arguments: object) -> str:
            code, result, errors = run_one(*arguments)
            assert (code, errors) == (0, ""), arguments
            return result

        yield run


def with_data(folder: Path) -> Path:
    """A GELU, and a weight that it is added to in a data file of a name that is not ASCII."""
    path = gelus(folder, 1, name=f"{NAME}.onnx")
    model = onnx.load(path)
    weight = onnx.TensorProto(name="weight", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value=f"{NAME}/gewicht.data")
    model.graph.initializer.append(weight)
    model.graph.node.add(op_type="Add", input=["y", "weight"], output=["größe"], name="/Größe")
    model.graph.output[0].name = "größe"
    path.write_bytes(model.SerializeToString())
    (folder / NAME).mkdir()
    (folder / NAME / "gewicht.data").write_bytes(bytes(16))
    return path


def all_commands(path: Path, rules: Path, run: Callable[..., str]) -> None:
    """Each command on a model, with its files beside it; OUT and another OUT in another folder."""
    out, elsewhere = path.with_name(f"out {path.name}"), path.parent / "änderswo" / path.name
    elsewhere.parent.mkdir()
    report, picture = path.with_name("bëricht.json"), path.with_name("bïld.svg")
    result = run("rewrite", path, out, "--rules", "gelu", "--check", "both", "--compare-layers", "--report", report)
    assert "PROVED" in result
    assert result_in(report.read_bytes())["outcome"] == "proved"
    assert ops(out)[0] == "com.microsoft::Gelu"
    assert "missed   refusing at " in run("rewrite", path, elsewhere, "--rules", f"{rules}:refusing")
    assert elsewhere.read_bytes() == path.read_bytes()
    assert "PROVED" in run("compare", path, out)
    assert result_in(run("compare", out, elsewhere, "--json"))["outcome"] == "proved"
    assert "no problems found for ONNX Runtime" in run("check", out)
    assert result_in(run("check", out, "--json"))["findings"] == []
    run("draw", path, picture)
    assert picture.read_text(encoding="utf-8").startswith("<svg")
    assert "PROVED" in run("upgrade", path, out, "--opset", 20)
    assert result_in(run("inspect", out, "--json"))["opsets"]["ai.onnx"] == 20
    assert "Gelu" in run("rules", "gelu")
    assert "gelu" in run("explain", path, "--rules", "gelu")
    assert result_in(run("bench", path, out, "--dim", "n=3", "--loads", 1, "--seconds", "0", "--json"))


def rules_in(folder: Path) -> Path:
    """A rule file at a path that is not ASCII."""
    return rule_file(folder).rename(folder / "regeln ä.py")


def test_a_locale_of_ascii_and_paths_that_are_none(tmp_path: Path) -> None:
    """With spaces, umlauts and emoji in names of folders, files, data files and tensors."""
    folder = tmp_path / NAME
    folder.mkdir()
    path, rules = with_data(folder), rules_in(folder)
    with well(**ASCII) as run:
        all_commands(path, rules, run)
    assert "PROVED" in surgeon("rewrite", path, path, "--rules", "gelu", **ASCII)  # as the shell brings the words


@pytest.mark.parametrize("home", ["read-only", "missing", None])
@needs_proc
def test_nothing_can_be_written_but_beside_the_model(home: str | None, tmp_path: Path) -> None:
    """No home, a working folder that takes no file, and none for temporary files."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(NO_TEMPORARY_FILES, encoding="utf-8")
    work = tmp_path / "work"
    work.mkdir()
    path, rules = gelus(work, 1), rules_in(work)
    variables = {"PYTHONPATH": str(tmp_path / "site"), "TMPDIR": str(NOWHERE), "PYTHONDONTWRITEBYTECODE": "1"}
    without = () if home else ("HOME",)
    if home:
        variables["HOME"] = str(NOWHERE if home == "read-only" else tmp_path / "missing")
    with well(cwd=NOWHERE, without=without, **variables) as run:
        if home == "read-only":
            all_commands(path, rules, run)
            return
        assert "PROVED" in run("rewrite", path, path, "--rules", "gelu", "--check", "both")  # what starts a child
        assert "no problems found for ONNX Runtime" in run("check", path)


@needs_proc
def test_learning_needs_no_home_and_no_working_folder(tmp_path: Path) -> None:
    """Only torch, which it asks, has to have a place for temporary files; where there is none, a sentence says so."""
    learn = ("learn", "torch.nn:ReLU6", "--shape", "2,3", "--exporter", "torchscript", "--opset", 17)
    result = surgeon(*learn, cwd=NOWHERE, HOME=str(NOWHERE), TMPDIR=str(tmp_path), **ASCII)
    assert "g.clip" in result
    (tmp_path / "sitecustomize.py").write_text(NO_TEMPORARY_FILES, encoding="utf-8")
    done = process("-m", "surgeon", *learn, cwd=NOWHERE, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line == "Error: No folder for temporary files. Set TMPDIR to a writable folder."


def test_relative_paths_count_from_the_working_folder(tmp_path: Path) -> None:
    """From wherever that is."""
    (tmp_path / "deep").mkdir()
    gelus(tmp_path, 1)
    result = surgeon("rewrite", "../in.onnx", "../out.onnx", "--rules", "gelu", cwd=tmp_path / "deep")
    assert "PROVED" in result
    assert ops(tmp_path / "out.onnx") == ["com.microsoft::Gelu"]


def test_a_name_that_is_no_utf8(tmp_path: Path) -> None:
    """Models and ONNX Runtime have UTF-8 alone: new data go to a name that is, and what cannot run is said."""
    name = os.fsdecode(b"m\xff.onnx")
    assert name_beside(Path(name), []) == "m\ufffd.onnx.data"
    try:
        path = gelus(tmp_path, 1).rename(tmp_path / name)
    except OSError:
        pytest.skip("this file system takes names of UTF-8 alone")
    result = surgeon("rewrite", path, path, "--rules", "gelu", "--check", "both")
    assert "is not UTF-8. Rename the file" in result
    assert ops(path) == ["com.microsoft::Gelu"]


def test_text_is_never_read_or_written_as_the_locale_has_it() -> None:
    """Every call that opens a file of text says its encoding."""
    found = []
    for path in [*(ROOT / "surgeon").rglob("*.py"), *(ROOT / "patterns").rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if re.search(r"\bopen\(|_text\(|text=|universal_newlines", text) else ():
            if isinstance(node, ast.Call) and is_of_text(node):
                found.append(f"{path.name}:{node.lineno}")
    assert found == []


def is_of_text(call: ast.Call) -> bool:
    """Whether a call opens a file, or a pipe, of text without an encoding."""
    named = {item.arg: item.value for item in call.keywords}
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if "encoding" in named or None in named or ast.unparse(call.func) == "formatter.write_text":  # click's, of a help
        return False
    if name in ("read_text", "write_text"):  # of a path; what a package or a store has takes a name first
        return len(call.args) <= (name == "write_text")
    if name == "open" and isinstance(call.func, ast.Name):
        mode = named.get("mode", call.args[1] if len(call.args) > 1 else None)
        return mode is None or (isinstance(mode, ast.Constant) and "b" not in mode.value)
    return "text" in named or "universal_newlines" in named


@pytest.mark.parametrize(
    ("code", "expected"),
    [("open(p)", True), ("open(p, 'rb')", False), ("open(p, mode='w')", True), ("open(p, encoding='utf-8')", False),
     ("p.read_text()", True), ("p.write_text(t)", True), ("s.write_text(p, t)", False), ("s.read_text('a')", False),
     ("p.write_text(t, encoding='ascii')", False), ("run(a, text=True)", True),
     ("Model.open(p)", False)],
)  # fmt: skip
def test_the_search_for_text_finds_it(code: str, expected: bool) -> None:
    """What it looks for, and what not."""
    call = ast.parse(code, mode="eval").body
    assert isinstance(call, ast.Call)
    assert is_of_text(call) is expected


def test_standard_output_of_any_encoding(tmp_path: Path) -> None:
    """What it does not have is escaped, as in the manual's formulas; JSON stays JSON."""
    for encoding in ("ascii", "cp1252", "utf-8"):
        assert "gelu" in surgeon("rules", "gelu", PYTHONIOENCODING=encoding)
    path = gelus(tmp_path, 1)
    path.write_bytes(path.read_bytes().replace(b"/y/Mul", "/ä/Ml".encode()))
    for encoding in ("ascii", "utf-8"):
        found = result_in(surgeon("inspect", path, "--json", PYTHONIOENCODING=encoding))
        assert found["path"] == str(path)



def test_an_exporter_that_lacks_a_folder_for_temporary_files() -> None:
    """It may look for one deep inside of it."""
    inner = FileNotFoundError(errno.ENOENT, f"No usable temporary directory found in ['{NOWHERE}']")
    outer = RuntimeError("export failed")
    outer.__cause__ = inner
    reported = export_error(outer, "torchscript", "ReLU6")
    assert str(reported) == "No folder for temporary files. Set TMPDIR to a writable folder."
