"""A renderer of another package writes reports, without a change of the engine."""

import importlib
import re

import pytest

from tests.command_line import files_in, gelus, one_sentence, run


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a package whose entry point names a renderer."""

    def install(value):
        info = tmp_path / "site" / "markdown-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: markdown\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[surgeon.renderers]\nmd = {value}\n")
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        importlib.invalidate_caches()

    monkeypatch.chdir(tmp_path)
    return install


REWRITE = ("rewrite", "in.onnx", "out.onnx", "--rules", "gelu")


def test_a_report_is_written_by_the_renderer_of_its_suffix(install, tmp_path):
    """It has the words of the screen and the nodes of each site; an older one is replaced, other files are not."""
    install("tests.outside.renderer:MARKDOWN")
    gelus(tmp_path)
    for _ in range(2):
        assert run(*REWRITE, "--report", "report.md").exit_code == 0
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert text.startswith("<!-- surgeon -->\n# in.onnx\n")
    assert "| rule | times | where |\n| --- | --- | --- |\n| gelu | 2 | main graph: " in text
    assert "- **PROVED** 2 of 2 sites; largest error " in text
    assert re.search(r"^    \+ .* = .*Gelu\(", text, re.M)
    (tmp_path / "notes.md").write_text("mine", encoding="utf-8")
    before = files_in(tmp_path)
    assert "which is not a report" in one_sentence(run(*REWRITE, "--report", "notes.md"), 2)
    assert files_in(tmp_path) == before


def test_an_unknown_suffix_is_refused_with_the_known_ones(install, tmp_path):
    gelus(tmp_path)
    refused = one_sentence(run(*REWRITE, "--report", "report.md"), 2)
    assert "a report is HTML (.html) or JSON (.json)." in refused
    install("tests.outside.renderer:MARKDOWN")
    refused = one_sentence(run(*REWRITE, "--report", "report.rst"), 2)
    assert "a report is HTML (.html) or JSON (.json), or .md." in refused


def test_a_renderer_that_cannot_be_imported_is_one_sentence(install, tmp_path):
    install("tests.outside.nothing:RENDERER")
    gelus(tmp_path)
    (tmp_path / "report.md").write_text("", encoding="utf-8")
    assert "cannot be imported" in one_sentence(run(*REWRITE, "--report", "report.md"), 2)
