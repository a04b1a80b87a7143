"""The data of a view: folding, selection, colours, and access to its server."""

import hashlib
import json
import re
import socket
import sys
import urllib.error
import urllib.request
from threading import Event, Thread

import onnx
import pytest

import surgeon
from surgeon.display.viewer.highlights import marks_of, view_marks
from surgeon.display.viewer.server import ViewerServer
from surgeon.display.viewer.session import ViewerSession
from surgeon.errors import UsageError
from surgeon.targets.inspection.outline import WIDE, OutlineGroup, build_outline
from surgeon.targets.inspection.provenance import module_path
from surgeon.testing import parse
from tests.command_line import ROOT, one_sentence, run

DISTILBERT = ROOT / "notebooks" / "models" / "tiny_distilbert.onnx"
BODIES = """<ir_version: 8, opset_import: ["" : 18]> g (float[4] x, bool c) => (float[4] y) <float two = {2.0}> {
    a = Mul (x, two)
    y = If (c) <then_branch = yes () => (float[4] p) { p = Neg (a) }, else_branch = no () => (float[4] q)
        { q = Identity (x) }> }"""


@pytest.fixture
def content():
    found = ViewerSession(DISTILBERT)
    yield found
    found.close()


def outline(group):
    """Labels and kinds of the groups in a group, and numbers of nodes."""
    return [(item.label, item.kind, outline(item)) if isinstance(item, OutlineGroup) else item for item in group.items]


def test_scopes_are_groups_and_chains_are_one():
    """A scope of one node is that node."""
    paths = [(), ("a", "b"), ("a", "b"), ("c",), ("d", "e"), ("d", "e")]
    assert outline(build_outline(paths, "uvwxyz")) == [
        0, ("a/b", "scope", [1, 2]), 3, ("d/e", "scope", [4, 5])
    ]


def test_three_alike_groups_are_a_stack():
    """Two are not, and one that differs stands apart."""
    paths = [(f"layer.{place // 2}",) for place in range(10)]
    layers = [("layer.0 … layer.3", "stack", [(f"layer.{n}", "scope", [2 * n, 2 * n + 1]) for n in range(4)])]
    assert outline(build_outline(paths, "uvuvuvuvuw")) == [*layers, ("layer.4", "scope", [8, 9])]
    assert [label for label, _, _ in outline(build_outline(paths[:4], "uvuv"))] == ["layer.0", "layer.1"]


def test_blocks_without_names_are_found():
    """A head, five times the same seven nodes, and a tail."""
    keys = ["in", "in2", *"abcdefg" * 5, "out"]
    (first, second, stack, last) = outline(build_outline([()] * len(keys), keys))
    assert (first, second, last) == (0, 1, 37)
    assert stack[:2] == ("5 blocks", "stack")
    assert [block[2] for block in stack[2]] == [list(range(2 + 7 * n, 9 + 7 * n)) for n in range(5)]


@pytest.mark.parametrize("count", [1, 59, 61, 500, 12_000])
def test_every_node_is_in_one_group_and_no_level_is_too_wide(count):
    """Whatever repeats, or nothing does."""
    keys = [str(place * place % 997) for place in range(count)]
    root = build_outline([()] * count, keys)
    assert sorted(root.nodes()) == list(range(count))
    waiting = [root]
    while waiting:
        group = waiting.pop()
        assert 0 < len(group.items) <= WIDE
        waiting += [item for item in group.items if isinstance(item, OutlineGroup)]


def test_scopes_come_from_torch_or_from_names():
    node = onnx.helper.make_node("Relu", ["x"], ["y"], "/encoder/layer.0/Relu")
    assert module_path(node) == ("encoder", "layer.0")
    node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'encoder', 'encoder.layer.0', 'relu']")
    assert module_path(node) == ("encoder", "layer.0")
    node.metadata_props[0].value = "no list"
    assert module_path(node) == ()


def test_the_graph_by_columns(content):
    """As the page reads it: every node but Constants, every tensor once, groups with their counts."""
    graph = content.answer("graph", {})
    assert json.loads(json.dumps(graph)) == graph
    nodes = graph["nodes"]
    model = onnx.load(DISTILBERT)
    assert len(nodes["name"]) == 180
    assert {len(column) for column in nodes.values()} == {180}
    place = nodes["name"].index("node_gelu")
    assert model.graph.node[nodes["place"][place]].name == "node_gelu"
    assert [graph["tensors"][one] for one in nodes["outputs"][place]] == ["gelu"]
    assert [graph["tensors"][one] for one in graph["inputs"]] == ["input_ids", "attention_mask"]
    assert graph["groups"]["count"][0] == 180
    assert graph["groups"]["parent"][0] == -1
    weights = {tensor.name for tensor in model.graph.initializer}
    assert {graph["tensors"][one] for one in graph["stored"]} >= weights & set(graph["tensors"])
    categories = dict(zip(graph["ops"], graph["categories"], strict=True))
    assert (categories["MatMul"], categories["Erf"], categories["Transpose"]) == ("product", "elementwise", "movement")
    types = content.answer("types", {})
    assert types["table"][types["of"][graph["tensors"].index("gelu")]] == "float32[batch,sequence,64]"


def test_what_is_reported_of_a_node(content):
    """Attributes, small constants by value, and the line of the program; which rules come near."""
    graph = content.answer("graph", {})
    place = graph["nodes"]["place"][graph["nodes"]["name"].index("node_gelu")]
    reported = content.answer("node", {"node": place})
    assert reported["formals"] == ["A", "B"]
    assert "aten::gelu" in reported["origin"]
    assert re.search(r"modeling_distilbert\.py:\d+|activations\.py:\d+|module ", reported["origin"])
    multiplied = [node.name for node in onnx.load(DISTILBERT).graph.node].index("node_gelu") - 3
    values = [content.answer("node", {"node": at})["constants"] for at in range(multiplied, place + 1)]
    assert any(value.startswith(("0.5", "1.0", "1.414")) for found in values for _, value in found)


@pytest.mark.slow
def rules_at(content, name):
    """What is said of rules at a node: by rule the nodes of those that fit, and the misses of others."""
    node = next(node for node in content.scope().nodes if node.label == name)
    data = content.answer("rules", {"node": node.slot})
    labels = {one.slot: one.label for one in content.scope().nodes}
    return {text.partition(":")[0]: [labels[place] for place in places] for text, places in data["fits"]}, data["near"]


def test_rules_that_fit_and_rules_that_come_near(content):
    """What fits has all nodes of its match, and is not told as a miss too; what changes outputs says so."""
    fits, near = rules_at(content, "node_layer_norm")
    assert any(text.startswith("skip_layer_norm at node_layer_norm: both inputs") for text in near)
    assert set(fits) == {"embed_layer_norm", "residual_sum"}
    fits, near = rules_at(content, "node_Erf_147")
    match = next(match for match in surgeon.find(DISTILBERT, "gelu") if match.root.label == "node_gelu")
    assert fits["gelu"] == [node.label for node in match.nodes]
    assert len(fits["bias_gelu"]) == 6
    assert list(fits)[-1] == "fast_gelu (approximate)"
    assert not any(text.startswith(tuple(fits)) for text in near)


def test_what_a_target_would_not_write_does_not_fit():
    """The same node under a target that has the op only in a later opset."""
    content = ViewerSession(DISTILBERT, "tensorrt")
    fits, near = rules_at(content, "node_gelu")
    content.close()
    assert fits == {}
    assert any("gelu at node_gelu: the form for target tensorrt needs opset 20" in text for text in near)


@pytest.mark.parametrize(
    ("kind", "given"), [("graph", {"scope": "nowhere"}), ("node", {}), ("node", {"node": 9999}), ("open", {"node": 1})]
)
def test_what_is_no_question_is_refused(content, kind, given):
    with pytest.raises(UsageError, match="load the view again"):
        content.answer(kind, given)


def test_bodies_are_graphs_of_their_own():
    content = ViewerSession(parse(BODIES))
    graph = content.answer("graph", {})
    assert graph["scopes"] == ["", "then_branch of y", "else_branch of y"]
    inside = content.answer("graph", {"scope": "then_branch of y"})
    assert inside["ops"] == ["Neg"]
    assert inside["title"] == "a model"


def test_a_selection_is_nodes_and_two_cuts():
    """By the names of nodes, or of what they make; a cut is what comes in and what others read."""
    view = surgeon.view(DISTILBERT)
    assert not view.selection
    names = ["val_144", "val_145", "val_146", "val_148", "gelu"]
    view.select(["node_gelu"])
    assert view.selection.nodes == ("node_gelu",)
    assert view.selection.tos == ("gelu",)
    with pytest.raises(UsageError, match="No node and no tensor is named 'nothing'"):
        view.select(["nothing"])
    with pytest.raises(UsageError, match="no local function or body named 'nowhere'"):
        view.select(names[:1], scope="nowhere")
    match = next(iter(surgeon.find(DISTILBERT, "gelu")))
    view.select([node.label for node in match.nodes])
    assert (view.selection.froms, view.selection.tos) == (("linear_4",), ("gelu",))
    rule = surgeon.capture(DISTILBERT, view.selection, name="activation")
    assert (rule.name, rule.sites) == ("activation", 4)
    assert rule.text == surgeon.capture(DISTILBERT, ["linear_4"], ["gelu"], "activation").text


def test_a_selection_that_makes_no_rule_is_refused():
    view = surgeon.view(parse(BODIES))
    with pytest.raises(UsageError, match="Nothing is selected"):
        surgeon.capture(parse(BODIES), view.selection)
    view.select(["p"], scope="then_branch of y")
    with pytest.raises(UsageError, match="is in then_branch of y"):
        surgeon.capture(parse(BODIES), view.selection)


def test_results_colour_nodes(tmp_path):
    """Of the model before and after, whichever is shown."""
    _, report = surgeon.rewrite(DISTILBERT, "gelu", output=tmp_path / "out.onnx", check="none")
    before, after = surgeon.view(DISTILBERT), surgeon.view(tmp_path / "out.onnx")
    before.show(report)
    after.show(report)
    assert [len(mark["nodes"]) for mark in before.marks["marks"]] == [5] * 4
    assert [len(mark["nodes"]) for mark in after.marks["marks"]] == [1] * 4
    assert {mark["label"] for mark in after.marks["marks"]} == {"gelu, unchecked"}
    before.show(surgeon.find(DISTILBERT, "gelu"), surgeon.explain(DISTILBERT, "skip_layer_norm"), "node_gelu")
    assert [mark["done"] for mark in before.marks["marks"]] == [True] * 4 + [False] * 2 + [True]
    before.show()
    assert before.marks["marks"] == []
    with pytest.raises(UsageError, match="A view cannot show int"):
        list(marks_of(3))
    assert view_marks([], marks_of(["x"])) == []


def test_a_view_answers_its_page_and_shows_itself_without_one(monkeypatch):
    view = surgeon.view(DISTILBERT, height=400)
    sent = []
    monkeypatch.setattr(view, "send", sent.append)
    view._on_request(view, {"id": 1, "kind": "graph", "given": {"scope": ""}}, [])
    view._on_request(view, {"id": 2, "kind": "nothing", "given": None}, [])
    assert sent[0]["answer"]["title"] == "tiny_distilbert.onnx"
    assert sent[1]["error"].startswith("A view asks for a graph, for types, for a node or for rules; ")
    shown = []
    monkeypatch.setattr("surgeon.display.viewer.widget._show", lambda data, *_: shown.append(data))
    view._ipython_display_()
    assert [sorted(data)[0] for data in shown] == ["application/vnd.jupyter.widget-view+json", "text/html"]
    assert "attention_mask" in shown[1]["text/html"]
    with pytest.raises(UsageError, match="No target named 'moon'"):
        surgeon.view(DISTILBERT, target="moon")
    with pytest.raises(UsageError, match="100 pixels"):
        surgeon.view(DISTILBERT, height=3)


def test_without_anywidget_it_is_said_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "surgeon.display.viewer.widget", raising=False)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(UsageError, match=r'^A view needs anywidget: pip install "onnx-surgeon\[notebook\]"'):
        surgeon.view(DISTILBERT)


@pytest.fixture
def server(content):
    with ViewerServer(content) as found:
        Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield found
        found.shutdown()


def asked(url, data=None, **headers):
    """The status of a request, and what came."""
    request = urllib.request.Request(url, data, {name.replace("_", "-"): text for name, text in headers.items()})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()


def test_a_server_reports_only_who_knows_the_token(server):
    """And only by the loopback address; it has the page, the script and answers, and nothing else."""
    place = f"http://127.0.0.1:{server.server_port}"
    question = json.dumps({"kind": "node", "given": {"node": 3}}).encode()
    status, page = asked(server.url)
    assert status == 200
    assert b"tiny_distilbert.onnx</title>" in page
    assert asked(f"{place}/view.js?token={server.token}")[0] == 200
    status, answer = asked(f"{place}/ask", question, x_surgeon_token=server.token)
    assert (status, set(json.loads(answer)["answer"])) == (200, {"formals", "constants", "attributes", "origin"})
    assert server.server_address[0] == "127.0.0.1"
    for url, data, headers in [
        (place, None, {}),
        (f"{place}/view.js", None, {}),
        (f"{place}/?token=guess", None, {}),
        (f"{place}/ask", question, {}),
        (f"{place}/ask?token={server.token}", question, {}),
        (server.url, None, {"host": "example.org"}),
    ]:
        assert asked(url, data, **headers) == (403, b"Forbidden")
    assert asked(f"{place}/../etc/passwd?token={server.token}")[0] == 404
    for wrong in (b"no json", b"[]", b'{"kind": "graph", "given": 3}'):
        assert "error" in json.loads(asked(f"{place}/ask", wrong, x_surgeon_token=server.token)[1])


def test_who_goes_away_before_the_answer_is_no_fault(server, monkeypatch, capsys):
    """A page that is closed while its view is made: nothing is told, and the next one is answered."""
    waits, goes_on, answered = Event(), Event(), server.content.answer

    def late(*asked):
        waits.set()
        goes_on.wait(60)
        return answered(*asked) | {"padding": "x" * (1 << 24)}

    monkeypatch.setattr(server.content, "answer", late)
    question = json.dumps({"kind": "model", "given": {}}).encode()
    with socket.create_connection(("127.0.0.1", server.server_port)) as page:
        head = f"POST /ask HTTP/1.1\r\nhost: 127.0.0.1:{server.server_port}\r\nx-surgeon-token: {server.token}\r\n"
        page.sendall(f"{head}content-length: {len(question)}\r\n\r\n".encode() + question)
        assert waits.wait(60)
    ended = Event()
    monkeypatch.setattr(server, "shutdown_request", lambda _: ended.set())
    goes_on.set()
    assert ended.wait(60)
    assert capsys.readouterr().err == ""
    assert asked(f"http://127.0.0.1:{server.server_port}/view.js?token={server.token}")[0] == 200


def test_a_question_that_finds_a_defect_is_reported_as_one(server, content, monkeypatch):
    """And not as a question that cannot be read."""

    def answer(kind, given):
        raise KeyError("lost")

    monkeypatch.setattr(content, "answer", answer)
    place = f"http://127.0.0.1:{server.server_port}/ask"
    reported = [
        json.loads(asked(place, question, x_surgeon_token=server.token)[1])["error"]
        for question in (b"{}", b'{"kind": "graph", "given": {}}')
    ]
    assert reported[0] == "The question cannot be read; load the view again."
    assert reported[1] == "Internal error in surgeon: KeyError: 'lost'"


def test_a_port_that_is_taken_is_refused(server, content):
    with pytest.raises(UsageError, match=f"Port {server.server_port} is not available"):
        ViewerServer(content, server.server_port)
    assert "is not available" in one_sentence(run("view", DISTILBERT, "--no-browser", "--port", server.server_port), 2)


def test_the_bundle_is_made_of_the_sources():
    """`npm ci && npm run build` was run in `web` after the last change there; the bundle holds a licence."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "surgeon" / "display" / "viewer" / "web" / "src").iterdir()):
        digest.update(path.read_bytes())
    text = (ROOT / "surgeon" / "display" / "viewer" / "view.js").read_text(encoding="utf-8")
    assert f" sources: {digest.hexdigest()}\n" in text
    assert "Permission is hereby granted, free of charge" in text
    assert len(text.encode()) < 1_500_000
    assert not re.search(r"https?://(?!www\.w3\.org)", text)
