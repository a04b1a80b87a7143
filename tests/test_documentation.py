"""What the documentation shows is what happens, and all of it is built."""

import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

import surgeon
from surgeon import edits
from surgeon.cli.app import main
from surgeon.edits.installed_edits import OWN
from surgeon.ops.builder import composites
from tests.command_line import ROOT
from tests.pages import PageError, blocks, run_page

# Words for what the glossary has another for, but where they mean what everybody does by them.
BANNED = re.compile(
    r"(?<!in )(?<!last )(?<!its )\bplace\b(?! of )|(?<!counts and )\bplaces\b|"
    r"\bspots?\b|\bregions?\b|\btwins?\b|\bwish(es)?\b",
    re.I,
)
# Pages of packages that not every environment of the tests has.
NEEDED = {
    "decoders": "onnxruntime_genai",
    "olive": "olive.passes",
    "onnx-ir": "onnx_ir",
    "polygraphy": "polygraphy",
    "torch-program": "torch",
    "transformers": "transformers.exporters",
}
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md"]


@pytest.mark.usefixtures("forget_implementations")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_runs(page, tmp_path, monkeypatch):
    """Every block of a page, in order."""
    if page.stem in NEEDED:
        pytest.importorskip(NEEDED[page.stem], reason=f"the page needs {page.stem}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(composites, "_words", dict(composites._words))  # a page may add one
    assert run_page(page) == len(list(blocks(page)))


def page_of(tmp_path, monkeypatch, text):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("```python\nprint(2)\n```\n\n```text\n3\n```\n", "page.md:5: not printed:\n3"),
        ("```python\n1 / 0\n```\n", "page.md:1: ZeroDivisionError"),
        ("```sh\nsurgeon inspect nothing.onnx\n```\n", "exit code 2, not 0"),
        ("```sh\nrm -r folder\n```\n", "rm is not run"),
        ("    indented\n", "a block of no language is not run"),
    ],
)
def test_page_that_shows_something_else_is_found_out(tmp_path, monkeypatch, text, reason):
    """What is not so fails, by the line of the page."""
    with pytest.raises(PageError) as failure:
        run_page(page_of(tmp_path, monkeypatch, text))
    assert reason in str(failure.value)


def texts():
    """All that users read before they run anything: pages, help, and what public names say of themselves."""
    for page in [*PAGES, ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "notebooks" / "README.md"]:
        yield page.name, re.sub(r"`[\w/]+\.py`", "", page.read_text(encoding="utf-8"))  # without names of files
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        yield f"surgeon {name}", command.get_help(click.Context(command, **main.context_settings))
    for name in surgeon.__all__:
        home = getattr(surgeon, name)
        if str(getattr(home, "__module__", "")).startswith("surgeon"):
            parts = vars(home).values() if inspect.isclass(home) else ()
            reported = (item for item in (home, *parts) if callable(item) or isinstance(item, property))
            yield name, "\n".join(filter(None, map(inspect.getdoc, reported)))


def test_one_thing_has_one_word():
    """What is rewritten is a site, and no place, spot or region; rules that are wrong on purpose are variants."""
    assert [(name, found[0]) for name, text in texts() for found in BANNED.finditer(text)] == []


def test_every_page_is_in_the_navigation():
    """Pages that nobody finds are warned of by the generator; this says so without it."""
    listed = Path(ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [str(page.relative_to(ROOT / "docs")) for page in PAGES if page.parent != ROOT]
    assert [page for page in pages if page not in listed] == []


def test_the_reference_has_every_public_name():
    """Under the module that it lives in, which the generator looks for; results without a public name come last."""
    text, _, _ = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8").partition("## Results as data")
    reported = re.findall(r"^::: (surgeon\.(?!integrations\.)[\w.]+)$", text, re.MULTILINE)  # others need packages
    names = set(surgeon.__all__) - {"Constant", "Tensor", "edits", "integrations", "searches"}  # gs's own, and modules
    homes = [f"{getattr(surgeon, name).__module__}.{name}" for name in names]
    others = edits.Edit, edits.ModelDraft, edits.ModelClaim, edits.detector_tail
    homes += [f"{kind.__module__}.{kind.__name__}" for kind in (*OWN, *others)]
    assert sorted(reported) == sorted([*homes, "surgeon.testing"])


def test_the_site_needs_no_network(tmp_path):
    """Its search runs from a folder too: the theme's shim is part of the site."""
    pytest.importorskip("mkdocs")
    from docs.hooks import OWN_SHIM, SHIM, on_post_page

    assert (ROOT / "docs" / OWN_SHIM).exists()
    for url, wanted in (("index.html", OWN_SHIM), ("reference/python.html", f"../{OWN_SHIM}")):
        assert on_post_page(f'<script src="{SHIM}">', page=SimpleNamespace(url=url)) == f'<script src="{wanted}">'
