"""What views and pages cost: `python -m tests.benchmarks.views [--runs 5] [--bars]`; needs Chromium and playwright.

A view is timed from the call to the first boxes on the screen of a browser that is open, and what a kernel does before
the widget is told besides.  Sizes are of files.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from threading import Thread
from typing import Any
from unittest.mock import patch

import onnx
from onnx import TensorProto, helper

import surgeon
from surgeon.display.viewer.server import ViewerServer
from surgeon.display.viewer.session import ViewerSession
from tests.benchmarks.measure import measure
from tests.benchmarks.transformer_models import exported
from tests.benchmarks.works import Stack, generate
from tests.browsers import Watched, chromium

Row = tuple[str, float, float, str]
"""What was measured, how much it is, how much it may be at most, and the unit."""
SITES, NODES = 500, 10_000


def main() -> int:
    """Measure, print the table, and say with --bars whether all bars are held."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.views", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="rounds (default 5)")
    parser.add_argument("--bars", action="store_true", help="exit with 1 when a bar is missed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        rows = [*views(Path(folder), browser, options.runs), *sizes(Path(folder)), imported(options.runs)]
    print("| what | measured | at most |\n|---|--:|--:|")
    for name, found, bar, unit in rows:
        print(f"| {name} | {found:,.2f} {unit} | {bar:,.2f} {unit} |")
    return int(options.bars and any(found > bar for _, found, bar, _ in rows))


def views(folder: Path, browser: object, runs: int) -> Iterator[Row]:
    """A transformer as people have it, and one of very many layers."""
    generate(Stack(NODES // 18 + 1, mixed=True), folder / "long.onnx")
    for path, bar in ((exported("bert-ts17"), 1.0), (folder / "long.onnx", 3.0)):
        kernel, page = (median(_seconds(what, runs)) for what in (partial(told, path), partial(shown, path, browser)))
        name = f"a view of {path.stem}, {surgeon.inspect(path).nodes:,} nodes"
        yield f"{name}: widget told", kernel, bar, "s"
        yield f"{name}: on the screen", page, bar, "s"


def _seconds(what: Callable[[], object], runs: int) -> Iterator[float]:
    for place in range(runs + 1):
        began = time.perf_counter()
        what()
        if place:  # the first one loads what all others have
            yield time.perf_counter() - began


def told(path: Path) -> None:
    """What a kernel does as the last line of a cell."""
    view = surgeon.view(path)
    with patch("surgeon.display.viewer.widget._show"):  # where there is no notebook
        view._ipython_display_()


def shown(path: Path, browser: object) -> None:
    """What `surgeon view` and a browser do until there is something to be seen."""
    with ViewerServer(ViewerSession(path)) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        watched = Watched(browser, "light", server.url.partition("?")[0])
        page: Any = watched.page
        page.goto(server.url)
        page.locator(".box").first.wait_for()
        assert watched.wrong == []
        page.close()
        server.shutdown()
        server.content.close()


def sizes(folder: Path) -> Iterator[Row]:
    """The bundle, and pages of many proved sites: of four kinds, and of one kind but no two of one width."""
    bundle = Path(surgeon.__file__).parent / "viewing" / "view.js"
    yield "the bundle of the view", bundle.stat().st_size / 1e6, 1.5, "MB"
    generate(Stack(SITES // 4, mixed=True), folder / "alike.onnx")
    onnx.save(widths(), folder / "widths.onnx")
    for name in ("alike", "widths"):
        _, report = surgeon.rewrite(folder / f"{name}.onnx", "ort", output=folder / "out.onnx", force=True)
        page = surgeon.page(report).save(folder / f"{name}.html")
        yield f"a page of {len(report.sites)} sites ({name})", page.stat().st_size / 1e6, 1.0, "MB"


def widths() -> onnx.ModelProto:
    """A GELU for each width, side by side."""
    nodes, ends = [], []
    for place in range(SITES):
        x, *names = (f"{letter}{place}" for letter in "xdeamy")
        for op, text, made in zip(("Div", "Erf", "Add", "Mul", "Mul"), steps(x, *names), names, strict=True):
            nodes.append(helper.make_node(op, text, [made]))
        size = ["n", 4 + place]
        ends.append([helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name in (x, names[-1])])
    numbers = (("root", 2**0.5), ("one", 1.0), ("half", 0.5))
    held = [helper.make_tensor(name, TensorProto.FLOAT, (), [value]) for name, value in numbers]
    graph = helper.make_graph(nodes, "widths", [one for one, _ in ends], [one for _, one in ends], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def steps(x: str, divided: str, erf: str, more: str, product: str, _: str) -> list[list[str]]:
    """What each of the five nodes of a GELU reads."""
    return [[x, "root"], [divided], [erf, "one"], [x, more], [product, "half"]]


def imported(runs: int) -> Row:
    """`import surgeon` beside itself where anywidget cannot be imported: the view is loaded when it is asked for."""
    without = "import sys; sys.modules['anywidget'] = None; import surgeon"
    ratios = []
    for _ in range(max(runs, 5)):
        with_it, bare = (measure((sys.executable, "-c", code)).processor for code in ("import surgeon", without))
        ratios.append(with_it / bare)
    return "`import surgeon`, by itself without anywidget", median(ratios), 1.05, "times"


if __name__ == "__main__":
    sys.exit(main())
