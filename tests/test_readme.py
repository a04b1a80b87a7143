"""What the README shows is what happens."""

import re
import subprocess
import sys
from pathlib import Path

import onnx

import surgeon
from tests.pages import blocks as fenced
from tests.shown import missing

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "notebooks" / "models" / "tiny_distilbert.onnx"


def blocks(language):
    """The code blocks of one language, in order."""
    return [block.text for block in fenced(ROOT / "README.md") if block.language == language]


def test_first_command_prints_what_the_readme_shows(tmp_path):
    """The rewrite of the shipped export, errors up to rounding."""
    assert unprinted(tmp_path, blocks("text")[0], "rewrite", MODEL, "fused.onnx", "--rules", "gelu") == []


def unprinted(tmp_path, shown, *command):
    """Lines that the README shows of a command and that it does not print."""
    done = subprocess.run(
        [sys.executable, "-m", "surgeon", *map(str, command)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    return missing(shown, done.stdout)


def test_the_proof_prints_what_the_readme_shows(tmp_path):
    """A careless rule is found out at each site."""
    (tmp_path / "careless.py").write_text(blocks("python")[2], encoding="utf-8")
    command = ("rewrite", MODEL, "fused.onnx", "--rules", "./careless.py")
    assert unprinted(tmp_path, blocks("text")[1], *command) == []


def test_the_explanation_prints_what_the_readme_shows(tmp_path):
    """The same rule with 0.4 for one half."""
    text = blocks("python")[2].replace("0.5, g.add", "0.4, g.add").replace("careless", "my_gelu")
    (tmp_path / "my_gelu.py").write_text(text, encoding="utf-8")
    assert unprinted(tmp_path, blocks("text")[2], "explain", MODEL, "--rules", "./my_gelu.py") == []


def test_python_cell(tmp_path):
    """The cell runs, and its comment tells the report."""
    code = blocks("python")[0].replace('"notebooks/models/tiny_distilbert.onnx"', repr(str(MODEL)))
    scope = {}
    exec(code.replace('"fused.onnx"', repr(str(tmp_path / "fused.onnx"))), scope)
    assert repr(scope["report"]) == re.search(r"# (<Report.*>)", code).group(1)


def test_rule_file_of_the_readme_fires(tmp_path):
    """The rule file is complete as it stands."""
    file = tmp_path / "my_rules.py"
    file.write_text(blocks("python")[1], encoding="utf-8")
    model, report = surgeon.rewrite(onnx.load(MODEL), str(file), check="none")
    assert report.count("gelu") == 4
    assert sum(node.op_type == "Gelu" and node.domain == "com.microsoft" for node in model.graph.node) == 4
