"""What the README shows is what happens."""

import re
import subprocess
import sys
from pathlib import Path

import onnx

import surgeon

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
MODEL = ROOT / "notebooks" / "models" / "tiny_distilbert.onnx"


def blocks(language):
    """The code blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_first_command_prints_what_the_readme_shows(tmp_path):
    """The rewrite of the shipped export, but for measured errors and times."""
    command = [sys.executable, "-m", "surgeon", "rewrite", str(MODEL), str(tmp_path / "fused.onnx"), "--rules", "gelu"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    shown = [line.rstrip() for line in blocks("text")[0].splitlines() if line and not line.startswith("error")]
    lines = [line.rstrip() for line in printed.splitlines()]
    assert [line for line in shown if line not in lines] == []


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
