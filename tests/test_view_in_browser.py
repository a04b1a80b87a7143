"""The view in Chromium: at the shell's server, and as a widget whose kernel hears what is selected."""

import queue
import textwrap
from threading import Thread
from xml.etree import ElementTree

import pytest

import surgeon
from surgeon.display.viewer.server import ViewerServer
from surgeon.display.viewer.session import ViewerSession
from surgeon.display.viewer.static_view import initial_diagram
from tests.browsers import Watched, chromium, inaccessible
from tests.command_line import ROOT

DISTILBERT = ROOT / "notebooks" / "models" / "tiny_distilbert.onnx"
BUNDLE = ROOT / "surgeon" / "display" / "viewer" / "view.js"


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def server():
    with ViewerServer(ViewerSession(DISTILBERT)) as found:
        Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield found
        found.shutdown()
        found.content.close()


@pytest.fixture(scope="module")
def opened(browser, server):
    found = Watched(browser, "light", server.url.partition("?")[0])
    yield found
    found.page.close()


@pytest.fixture
def watched(opened, server):
    opened.page.goto(server.url)
    opened.page.locator(".box").first.wait_for()
    yield opened
    assert opened.wrong == []


def boxes(page, kind):
    return page.locator(f".box.{kind}")


def test_groups_open_and_close_where_one_clicks(watched):
    """Every box of a node that comes into sight is one of the model's; closing takes them away again."""
    page = watched.page
    before = boxes(page, "node").count()
    group = boxes(page, "group").first
    name = group.get_attribute("aria-label")
    group.click()
    assert boxes(page, "node").count() > before
    frame = page.get_by_role("button", name=f"{name.partition(',')[0]}, open")
    frame.focus()
    frame.press("Enter")
    assert boxes(page, "node").count() == before
    page.get_by_role("button", name="close all").click()
    assert boxes(page, "group").count() >= 1
    assert "of 180 nodes" in page.get_by_role("status").last.inner_text()
    assert inaccessible(page) == []


def test_the_picture_beside_a_view_has_what_it_shows_first(watched, server):
    """The same boxes as on the page before anybody clicks."""
    reported = watched.page.locator(".box").evaluate_all("all => all.map(one => one.ariaLabel)")
    shown = {label.split(", ")[0] for label in reported}
    drawn = initial_diagram(server.content.graph(server.content.scope())).boxes
    assert len(drawn) == len(reported) > 20
    pills = ("input", "output")
    labels = (f"{box.kind if box.kind in pills else box.title} {box.hint}" for box in drawn)
    groups = {f"{label} {label}": label for label in server.content.graph(server.content.scope())["groups"]["label"]}
    assert {groups.get(label, label) for label in labels} == shown


def test_the_first_sight_can_be_read(watched):
    """Its smallest text has eight pixels, and no text of an edge covers another one or a box."""
    page = watched.page
    page.get_by_text("32 · 32").first.wait_for()  # with the shapes of weights, which come later
    height = page.locator("text.small").first.evaluate("one => parseFloat(getComputedStyle(one).fontSize)")
    scale = page.locator("svg > g").first.evaluate("one => one.getCTM().a")
    assert height * scale >= 8
    found = {
        kind: page.locator(kind).evaluate_all("all => all.map(one => one.getBoundingClientRect().toJSON())")
        for kind in ("text.type", ".box")
    }
    texts = found["text.type"]
    assert len(texts) > 15
    for place, one in enumerate(texts):
        for other in (*texts[place + 1 :], *found[".box"]):
            apart = one["right"] <= other["left"] + 1 or other["right"] <= one["left"] + 1
            assert apart or one["bottom"] <= other["top"] + 1 or other["bottom"] <= one["top"] + 1


def test_the_drawing_can_be_saved(watched, tmp_path):
    """As SVG that stands for itself, and as PNG."""
    for kind in ("SVG", "PNG"):
        with watched.page.expect_download() as waiting:
            watched.page.get_by_role("button", name=kind).click()
        assert waiting.value.suggested_filename == f"tiny_distilbert.{kind.lower()}"
        waiting.value.save_as(tmp_path / kind)
    drawing = ElementTree.fromstring((tmp_path / "SVG").read_bytes())
    assert {"logits", "LayerNormalization"} <= {text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text")}
    assert "--norm" in drawing.attrib["style"]
    assert (tmp_path / "PNG").read_bytes().startswith(b"\x89PNG")


def test_a_category_selects_its_nodes(watched):
    page = watched.page
    page.get_by_role("button", name="norm (").click()
    assert "11 nodes" in page.get_by_role("complementary").inner_text()
    assert inaccessible(page) == []


def test_a_search_leads_to_the_node_and_what_is_in_it(watched):
    """By name, op, tensor or shape; with its types, constants and the line of the program."""
    page = watched.page
    page.get_by_role("searchbox").fill("layernormalization layer.1")
    assert page.locator(".found li").count() == 2
    page.get_by_role("searchbox").fill("erf [batch,sequence,64]")
    assert page.locator(".found li").count() == 3  # in the layers; the head's is narrower
    page.get_by_role("searchbox").fill("node_gelu_1")
    page.get_by_role("searchbox").press("Enter")
    assert page.locator(".box.picked").count() == 1
    panel = page.get_by_role("complementary")
    panel.get_by_text("aten::gelu").wait_for()
    assert "float32[batch,sequence,64]" in panel.inner_text()
    panel.get_by_role("button", name="1", exact=True).click()
    assert 2 < boxes(page, "node").count() < 6  # the node and its neighbours
    page.get_by_role("button", name="whole graph").click()
    assert inaccessible(page) == []


def test_a_node_says_which_rules_fit_it(watched):
    """And which nodes these would take: a click selects them."""
    page = watched.page
    page.get_by_role("searchbox").fill("node_gelu")
    page.get_by_role("searchbox").press("Enter")
    page.get_by_role("button", name="show matching rules").click()
    page.get_by_role("heading", name="almost match").wait_for()
    assert inaccessible(page) == []
    page.get_by_role("button", name="gelu: exact, 5 nodes", exact=True).click()
    assert "5 selected" in page.get_by_role("status").last.inner_text()


def test_two_cuts_select_what_lies_between(watched):
    page = watched.page
    for name, cut in (("linear_4", "cut from here"), ("gelu", "cut to here")):
        page.get_by_role("searchbox").fill(f"{name} ")
        page.locator(".found li", has_text=f"node_{name}").first.get_by_role("button").click()
        outputs = page.get_by_role("complementary").get_by_role("button", name=name, exact=True)
        outputs.last.click()
        page.get_by_role("button", name=cut).click()
    assert "5 selected" in page.get_by_role("status").last.inner_text()
    assert page.get_by_role("button", name="from linear_4").count() == 1
    page.get_by_role("button", name="show only these").click()
    assert boxes(page, "node").count() == 5
    page.get_by_role("button", name="clear selection").click()
    assert "selected" not in page.get_by_role("status").last.inner_text()


def test_arrows_walk_along_tensors(watched):
    page = watched.page
    page.get_by_role("searchbox").fill("node_gelu")
    page.get_by_role("searchbox").press("Enter")
    start = page.locator(".box.picked")
    start.focus()
    start.press("ArrowUp")
    reported = page.evaluate("document.querySelector('#view').shadowRoot.activeElement.getAttribute('aria-label')")
    assert reported != start.get_attribute("aria-label")
    page.keyboard.press("ArrowDown")
    back = page.evaluate("document.querySelector('#view').shadowRoot.activeElement.getAttribute('class')")
    assert "box" in back


class Kernel:
    """A running kernel with a view in it, whose page is elsewhere: messages go both ways as Jupyter sends them."""

    def __init__(self, code):
        from jupyter_client.manager import start_new_kernel

        self.manager, self.client = start_new_kernel(kernel_name="python3", cwd=str(ROOT))
        self.opened, self.heard = {}, []
        self.run(code)
        self.comm, state = next((key, one) for key, one in self.opened.items() if "_esm" in one)
        self.state = {key: value for key, value in state.items() if not key.startswith("_")}

    def run(self, code):
        """Run a cell; returns what it prints."""
        asked = self.client.execute(textwrap.dedent(code))
        printed = ""
        while True:
            message = self.client.get_iopub_msg(timeout=600)
            kind, content = message["msg_type"], message["content"]
            self._note(kind, content)
            assert kind != "error", content
            if message["parent_header"].get("msg_id") == asked:
                printed += content.get("text", "") if kind == "stream" else ""
                if kind == "status" and content["execution_state"] == "idle":
                    return printed

    def _note(self, kind, content):
        if kind == "comm_open":
            self.opened[content["comm_id"]] = content["data"]["state"]
        elif kind == "comm_msg" and content["comm_id"] == getattr(self, "comm", None):
            self.heard.append(content["data"])

    def send(self, data):
        """What a page sends."""
        content = {"comm_id": self.comm, "data": data}
        self.client.shell_channel.send(self.client.session.msg("comm_msg", content))

    def listen(self):
        """What came for the page since."""
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=0.02)
            except queue.Empty:
                break
            self._note(message["msg_type"], message["content"])
        found, self.heard = self.heard, []
        return found

    def end(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


# A page as a notebook is for a widget: the model that anywidget gives to `render`.
PAGE = """async ([source, state]) => {
  const heard = { custom: [] }, told = { ...state };
  const model = {
    get: (name) => told[name],
    set: (name, value) => { told[name] = value; model.changed = { ...model.changed, [name]: value }; },
    save_changes: () => { toKernel({ method: "update", state: model.changed, buffer_paths: [] }); model.changed = {}; },
    send: (content) => toKernel({ method: "custom", content }),
    on: (name, hear) => { (heard[name] ??= []).push(hear); },
    off: () => {},
  };
  globalThis.fromKernel = (data) => {
    if (data.method === "custom") for (const hear of heard["msg:custom"]) hear(data.content);
    if (data.method === "update") for (const [name, value] of Object.entries(data.state)) {
      told[name] = value;
      for (const hear of heard[`change:${name}`] ?? []) hear();
    }
  };
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const { default: widget } = await import(url);
  widget.render({ model, el: document.querySelector("#cell") });
}"""


@pytest.fixture
def kernel():
    pytest.importorskip("jupyter_client")
    found = Kernel(f"import surgeon\nview = surgeon.view({str(DISTILBERT)!r})\nview")
    yield found
    found.end()


def test_what_is_selected_in_the_page_is_in_the_kernel(browser, kernel):
    """And what the kernel colours is coloured in the page; the selection makes a rule that fires."""
    watched = Watched(browser, "dark", "about:")
    page = watched.page
    page.set_content('<body style="background: #111"><div id="cell"></div>')
    page.expose_function("toKernel", kernel.send)
    page.evaluate(PAGE, [BUNDLE.read_text(encoding="utf-8"), kernel.state])

    def until(condition):
        for _ in range(30_000):
            for data in kernel.listen():
                page.evaluate("(data) => fromKernel(data)", data)
            if condition():
                return
            page.wait_for_timeout(10)
        raise AssertionError("nothing came")

    until(lambda: page.locator(".box").count() > 0)
    until(lambda: "float32" in page.locator("svg").first.inner_html())
    assert "dark" in page.locator(".view").get_attribute("class")
    page.get_by_role("searchbox").fill("node_gelu_2")
    page.get_by_role("searchbox").press("Enter")
    until(lambda: "aten::gelu" in page.get_by_role("complementary").inner_text())
    assert kernel.run("print(view.selection.nodes, view.selection.tos)") == "('node_gelu_2',) ('gelu_2',)\n"
    names = [node.label for node in next(iter(surgeon.find(DISTILBERT, "gelu"))).nodes]
    capture = f"surgeon.capture({str(DISTILBERT)!r}, view.selection)"
    assert kernel.run(f"view.select({names}); print({capture}.sites)") == "4\n"
    kernel.run(f"view.show(surgeon.find({str(DISTILBERT)!r}, 'gelu'))")
    until(lambda: "exact (20)" in page.get_by_role("complementary").inner_text())
    assert watched.wrong == []
    page.close()


@pytest.mark.parametrize(
    ("behind", "is_dark"),
    [("rgb(17 17 17)", True), ("color(srgb 1 1 1)", False), ("oklch(0.98 0 0)", False), ("oklch(0.2 0 0)", True)],
)
def test_a_view_takes_the_colours_of_what_is_behind(browser, server, behind, is_dark):
    """However a browser tells them, and whatever the machine prefers."""
    watched = Watched(browser, "light" if is_dark else "dark", server.url.partition("?")[0])
    page = watched.page
    page.goto(server.url)
    page.locator(".box").first.wait_for()
    page.locator("#view").evaluate("(view, colour) => { view.style.background = colour; surgeon.themed(); }", behind)
    assert ("dark" in page.locator(".view").get_attribute("class").split()) is is_dark
    is_dark_alone = "(view) => { view.remove(); surgeon.themed(); return surgeon.frame.classList.contains('dark'); }"
    assert page.locator("#view").evaluate(is_dark_alone) is not is_dark  # on no page it is as the machine prefers
    assert watched.wrong == []
    page.close()
