"""Pages in Chromium: they sort, unfold, ask nobody for anything, and can be used without a mouse or a screen."""

import pytest

import surgeon
from surgeon.diagnostics.explanation import explanations
from tests.bench_results import bench_of
from tests.browsers import Watched, chromium, inaccessible
from tests.command_line import ROOT

LOADS = [1.0 + place / 100 for place in range(20)]
DISTILBERT = ROOT / "notebooks" / "models" / "tiny_distilbert.onnx"


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A page of several results."""
    out = tmp_path_factory.mktemp("page")
    _, report = surgeon.rewrite(DISTILBERT, "gelu,skip_layer_norm,consecutive_reshapes", output=out / "fused.onnx")
    results = [
        report,
        explanations(DISTILBERT, "skip_layer_norm,quick_gelu"),
        surgeon.compare(DISTILBERT, out / "fused.onnx", layers=True),
        surgeon.inspect(DISTILBERT),
        surgeon.patterns.activations.gelu.gelu,
        surgeon.diff(DISTILBERT, out / "fused.onnx"),
        surgeon.capture(DISTILBERT, ["linear_4"], ["gelu"], "activation"),
        surgeon.convert(DISTILBERT, output=out / "half.onnx", check="none")[1],
        bench_of({"a.onnx": LOADS, "b.onnx": LOADS}),
    ]
    return surgeon.page(*results, command="surgeon & Co.").save(out / "page.html")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_is_whole_quiet_and_accessible(browser, path, scheme):
    """Folds open, no word on the console, no request, nothing that axe-core objects to, pictures with a size."""
    watched = Watched(browser, scheme)
    page = watched.open(path)
    page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    sizes = page.eval_on_selector_all("figure svg", "all => all.map(one => one.getBoundingClientRect().height)")
    assert sizes
    assert min(sizes) > 40
    assert inaccessible(page) == []
    assert watched.wrong == []
    page.close()


def test_tables_sort_by_number_and_by_name(browser, path):
    """By a click or by the keyboard, first up and then down; the header says so."""
    watched = Watched(browser)
    page = watched.open(path)
    table = page.locator("table", has=page.locator("caption", has_text="Nodes by op")).first

    def column(number):
        return table.locator(f"tbody tr td:nth-child({number})").all_inner_texts()

    counts = sorted(int(text) for text in column(1))
    table.get_by_role("button", name="nodes").click()
    assert [int(text) for text in column(1)] == counts
    table.get_by_role("button", name="nodes").press("Enter")
    assert [int(text) for text in column(1)] == counts[::-1]
    assert table.locator("th").nth(0).get_attribute("aria-sort") == "descending"
    table.get_by_role("button", name="ai.onnx").press("Enter")
    assert column(2) == sorted(column(2), key=str.lower)
    assert watched.wrong == []
    page.close()


def test_folds_open_by_the_keyboard_and_print_open(browser, path):
    page = Watched(browser).open(path)
    fold = page.locator("details", has_text="gelu").first
    fold.locator("summary").first.press("Enter")
    assert fold.get_attribute("open") is not None
    assert page.locator("details:not([open])").count() > 0
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.close()


def test_a_fragment_stands_on_any_ground(browser, tmp_path):
    """Text has the colour of the notebook around it, light or dark, without a sheet for either."""
    _, report = surgeon.rewrite(DISTILBERT, "gelu", dry_run=True, check="none")
    for ground, ink in (("#ffffff", "rgb(30, 30, 30)"), ("#111111", "rgb(230, 230, 230)")):
        path = tmp_path / "cell.html"
        head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>cell</title>'
        body = f'<main style="background: {ground}; color: {ink}"><h1>cell</h1>{report._repr_html_()}</main>'
        path.write_text(f"{head}{body}</html>", encoding="utf-8")
        watched = Watched(browser)
        page = watched.open(path)
        assert page.locator(".surgeon td").first.evaluate("one => getComputedStyle(one).color") == ink
        assert [one for one in inaccessible(page) if not one.startswith("heading-order")] == []
        assert watched.wrong == []
        page.close()
