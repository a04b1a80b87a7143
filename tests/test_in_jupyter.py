"""A view where people have it: in JupyterLab and in Notebook 7, each in Chromium on a server of its own."""

from contextlib import suppress
from importlib.util import find_spec

import pytest

from tests import sampling
from tests.browsers import Watched, chromium
from tests.command_line import ROOT
from tests.fleet import parts

if find_spec("notebook") is None or find_spec("nbformat") is None:  # not imported here: that takes three seconds
    pytest.skip("nothing serves notebooks: pip install notebook", allow_module_level=True)
TimeoutError = pytest.importorskip("playwright.sync_api").TimeoutError

DISTILBERT = ROOT / "notebooks" / "models" / "tiny_distilbert.onnx"
TOKEN = "a-token"
CELLS = (
    f"import surgeon\nmodel = {str(DISTILBERT)!r}\nview = surgeon.view(model)\nview",
    "surgeon.rewrite(model, 'gelu', dry_run=True, check='none')[1]",
    "print(view.selection.nodes, view.selection.tos, surgeon.capture(model, view.selection).sites)",
)
PAGES = {"Notebook 7": "notebooks/view.ipynb", "JupyterLab": "lab/tree/view.ipynb"}


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory):
    """A server of notebooks, with one in it; gives its address."""
    import nbformat

    home = tmp_path_factory.mktemp("jupyter")
    cells = [nbformat.v4.new_code_cell(text) for text in CELLS]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), home / "view.ipynb")
    folders = {f"JUPYTER_{name}_DIR": home / name.lower() for name in ("CONFIG", "DATA", "RUNTIME")}
    port, never = parts.free_port(), "jupyterlab.NeverCheckForUpdate"
    words = ["--no-browser", "--ip=127.0.0.1", f"--port={port}", "--allow-root", f"--IdentityProvider.token={TOKEN}"]
    words += [f"--ServerApp.root_dir={home}", f"--LabApp.check_for_updates_class={never}"]
    with parts.started("-m", "notebook", *words, log=home / "log", HOME=home, **folders) as process:
        parts.wait_for(port, process)
        yield f"http://127.0.0.1:{port}/"


@pytest.mark.parametrize("where", sampling.chosen(lambda: ["JupyterLab"], lambda: [*PAGES]))
def test_a_view_in_a_notebook(jupyter, where):
    """Shown, searched and clicked in; the next cell has what is selected.  A result is a table with a picture."""
    with chromium() as browser:
        watched = Watched(browser, "light", jupyter)
        page = watched.page
        page.goto(f"{jupyter}{PAGES[where]}?token={TOKEN}")
        cells = page.locator(".jp-Notebook .jp-CodeCell")
        page.locator(".jp-NotebookPanel-toolbar [data-status=idle]").first.wait_for()
        own = len(watched.wrong)  # what Jupyter itself says as it begins

        def shown(number, what):
            """Run a cell until it shows something: as Notebook 7 begins it may lose keys, and what came of a cell."""
            found = cells.nth(number).locator(".jp-OutputArea").locator(what).first
            for seconds in (5, 10, 20, 40, *[60] * 10):
                with suppress(TimeoutError):
                    cells.nth(number).locator(".cm-content").click(timeout=60_000)
                    page.keyboard.press("Control+Enter")
                    found.wait_for(timeout=1000 * seconds)
                    return found
            raise AssertionError(f"cell {number} does not show {what}")

        shown(0, ".box")
        view = cells.nth(0).locator(".jp-OutputArea")
        view.get_by_role("searchbox").fill("node_gelu_2")
        view.get_by_role("searchbox").press("Enter")
        view.get_by_text("aten::gelu").first.wait_for()
        picture = view.locator("figure img").first
        picture.wait_for(state="attached")
        assert picture.is_hidden()  # it stands there for where no kernel answers
        shown(1, ".surgeon summary").click()
        cells.nth(1).locator(".surgeon details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
        picture = cells.nth(1).locator(".surgeon figure img").first
        picture.wait_for()
        assert picture.evaluate("one => one.naturalHeight") > 40
        assert shown(2, "pre").inner_text() == "('node_gelu_2',) ('gelu_2',) 14\n"
        assert [one for one in watched.wrong[own:] if one.startswith(("error", "request"))] == []
        page.close()
