"""Edits that an installed package brings."""

import importlib
import sys

import pytest

import surgeon
from surgeon.edits.installed_edits import all_edits
from tests.command_line import run
from tests.edits.test_names import MODEL
from tests.pages import blocks

SOURCE = next(
    block.text
    for block in blocks(MODEL.parents[2] / "docs" / "editing.md")
    if block.language == "python" and 'title="producer.py"' in block.info
)


@pytest.fixture
def pack(tmp_path, monkeypatch):
    """Installs a package whose entry point names what it is given."""

    def install(value, text=SOURCE):
        site = tmp_path / "site"
        info = site / "producer-1.0.dist-info"
        info.mkdir(parents=True)
        (site / "producer.py").write_text(text, encoding="utf-8")
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: producer\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[surgeon.edits]\nproducer = {value}\n")
        monkeypatch.syspath_prepend(str(site))
        importlib.invalidate_caches()

    yield install
    sys.modules.pop("producer", None)


@pytest.fixture(autouse=True)
def forget_options():
    from surgeon.cli.commands import edit

    edit._options.cache_clear()
    yield
    edit._options.cache_clear()


def test_an_edit_of_a_package_is_an_option_and_a_step(pack, tmp_path):
    pack("producer:Producer")
    assert "producer" in all_edits()
    out = tmp_path / "out.onnx"
    done = run("edit", MODEL, out, "--producer", "me", "--rename", "logits=y")
    assert done.exit_code == 0, done.output
    assert "producer  the producer is me" in done.output
    recipe = tmp_path / "made.toml"
    recipe.write_text('[[step]]\nproducer = "us"\n')
    _, report = surgeon.run(recipe, out, out)
    assert report.outcome == "proved"
    assert "--producer NAME" in run("edit", "--help").output


def test_what_is_no_edit_is_refused(pack, tmp_path):
    pack("producer:ModelDraft")
    done = run("edit", MODEL, tmp_path / "out.onnx", "--strip-doc")
    assert done.exit_code == 2
    assert "refers to producer:ModelDraft, not an edit" in done.output


def test_a_flag_that_is_taken_is_refused(pack, tmp_path):
    pack("producer:Producer", SOURCE.replace('flag = "producer"', 'flag = "rename"'))
    done = run("edit", MODEL, tmp_path / "out.onnx", "--strip-doc")
    assert done.exit_code == 2
    assert "has the flag --rename, which another edit has" in done.output
