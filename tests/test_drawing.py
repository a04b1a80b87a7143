"""Pictures: what is on them, that they are the same each time, and what is refused."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import onnx
import onnx_graphsurgeon as gs
import pytest

import surgeon
from surgeon.display.pictures.diagram import Box, Diagram
from surgeon.display.pictures.graph_layout import GAP, arrange
from surgeon.display.pictures.svg import paint
from surgeon.errors import UsageError
from surgeon.testing import parse
from tests.command_line import run

SVG = "{http://www.w3.org/2000/svg}"
DISTILBERT = Path(__file__).resolve().parent.parent / "notebooks" / "models" / "tiny_distilbert.onnx"
HEAD = '<ir_version: 8, opset_import: ["" : 18, "mylibrary" : 1, "com.microsoft" : 1]>'
PLACEHOLDER = f"""{HEAD} g (float[n, 4] x, float[n, 4] z) => (float[n, 4] y)
    <float[4] bias = {{1.0, 2.0, 3.0, 4.0}}, float[4, 4] W, float[n, 4] s> {{
    half = Constant <value = float {{0.5}}> ()
    s = mylibrary.addandround_op <alpha: float = 1.0, mode: string = "<even>", sizes: ints = [1, 2]> (x, z)
    m = Mul (half, s)
    t = MatMul (m, W)
    b = Add (t, bias)
    i = Cast <to = 6> (b)
    f = Cast <to = 1> (i)
    y = com.microsoft.Gelu (f) }}"""
BRANCHES = """<ir_version: 8, opset_import: ["" : 18]> g (float[4] x, bool c) => (float[4] y) {
    a = Relu (x)
    y = If (c) <then_branch = yes () => (float[4] p) { p = Neg (a) }, else_branch = no () => (float[4] q)
        { q = Identity (x) }> }"""
FUNCTION = """<ir_version: 8, opset_import: ["" : 18, "mylib" : 1]> g (float[4] x) => (float[4] y)
    { y = mylib.twice <factor = 3.0> (x) }
    <domain: "mylib", opset_import: ["" : 18]> twice <factor> (a) => (b)
    { k = Constant <value_float: float = @factor> () b = Mul (a, k) }"""


def model(text=PLACEHOLDER):
    """A model with its weight W, which has no value in the text."""
    found = parse(text)
    for value in list(found.graph.value_info):
        if value.name == "W":
            found.graph.initializer.append(
                onnx.helper.make_tensor("W", onnx.TensorProto.FLOAT, (4, 4), [float(i) for i in range(16)])
            )
            found.graph.value_info.remove(value)
    return found


def texts(picture):
    """All that one reads in a picture."""
    return [item.text for item in ElementTree.fromstring(picture.svg).iter(f"{SVG}text")]


def test_boxes_attributes_constants_and_tensors_are_named():
    shown = texts(surgeon.draw(model()))
    for text in ("mylibrary", "addandround_op", "alpha=1.0", "mode='<even>'", "sizes=[1, 2]", "com.microsoft", "Gelu"):
        assert text in shown, text
    for text in ("A: 0.5", "B: [1.0, 2.0, 3.0, 4.0]", "B: float32[4,4]", "to=int32", "to=float32", "int32[n,4]"):
        assert text in shown, text
    assert [text for text in shown if text in ("x", "z", "y")] == ["x", "z", "y"]
    assert "Constant" not in shown
    assert "bias" not in shown


def test_a_picture_says_how_much_is_on_it():
    assert repr(surgeon.draw(model())) == "<Picture: 7 nodes>"
    assert repr(surgeon.draw(model(), parse(FUNCTION))) == "<Picture: before 7 nodes, after 1 node>"


def test_what_a_body_takes_from_outside_leads_to_its_node():
    """Relu's only reader is in a branch: it is drawn above the If, and x too, which the other branch reads."""
    picture = surgeon.draw(parse(BRANCHES))
    shown = texts(picture)
    assert "then_branch=1 node" in shown
    lines = [item.get("d") for item in ElementTree.fromstring(picture.svg).iter(f"{SVG}path") if item.get("stroke")]
    assert len(lines) == 5  # x to Relu and If, c and Relu to If, If to y


def test_a_local_function_and_a_body_can_be_drawn():
    assert "Mul" in texts(surgeon.draw(parse(FUNCTION), inside="mylib::twice"))
    inner = texts(surgeon.draw(parse(BRANCHES), inside="then_branch of y"))
    assert "Neg" in inner
    assert "a" in inner
    with pytest.raises(UsageError, match="no local function or body named 'other': it has mylib::twice"):
        surgeon.draw(parse(FUNCTION), inside="other")


def test_a_part_of_a_large_model():
    """With radius 0 the node alone, its neighbours' tensors as dashed ends."""
    picture = surgeon.draw(DISTILBERT, around="node_gelu", radius=0)
    assert repr(picture) == "<Picture: 1 node>"
    assert {"Mul", "linear_4", "gelu"} <= set(texts(picture))
    assert repr(surgeon.draw(DISTILBERT, around="gelu", radius=1)) == "<Picture: 4 nodes>"


def test_a_report_shows_each_kind_of_change_before_and_after(tmp_path):
    """Constants that went with the nodes are still told, by value."""
    _, report = surgeon.rewrite(DISTILBERT, "gelu", output=tmp_path / "out.onnx", check="none")
    picture = surgeon.draw(report)
    assert repr(picture) == "<Picture: gelu (1 of 4), before 5 nodes, gelu (1 of 4), after 1 node>"
    assert {"B: 1.4142135", "B: 1.0", "A: 0.5", "Erf", "com.microsoft", "Gelu"} <= set(texts(picture))
    assert texts(surgeon.draw(report.sites[2]))[0] == "gelu, before"
    root = report.sites[3].replaced[0].name
    assert repr(surgeon.draw(report, around=root)) == "<Picture: gelu, before 5 nodes, gelu, after 1 node>"


def test_a_report_without_sites_has_nothing_to_draw():
    _, report = surgeon.rewrite(parse(FUNCTION), "gelu", check="none")
    with pytest.raises(UsageError, match="nothing to draw"):
        surgeon.draw(report)


def test_the_same_model_gives_the_same_letters():
    """In another process too, whatever the order of its hashes."""
    code = f"import surgeon; print(surgeon.draw({str(DISTILBERT)!r}, around='node_gelu', radius=4).svg, end='')"
    found = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert found == {surgeon.draw(DISTILBERT, around="node_gelu", radius=4).svg}


def test_names_cannot_break_the_file():
    """Markup, quotes and control characters in names are text."""
    text = PLACEHOLDER.replace("addandround_op", "odd")
    odd = model(text)
    odd.graph.node[1].name = '"/><script>\x01'
    odd.graph.node[1].op_type = "<b>&"
    picture = surgeon.draw(odd)
    assert "<b>&" in texts(picture)
    assert "script" not in {item.tag.removeprefix(SVG) for item in ElementTree.fromstring(picture.svg).iter()}


def test_a_gs_graph_can_be_drawn():
    assert "Mul" in texts(surgeon.draw(gs.import_onnx(model())))


def test_a_notebook_shows_the_file_that_is_saved(tmp_path):
    picture = surgeon.draw(model())
    saved = picture.save(tmp_path / "x.svg")
    assert saved.read_text(encoding="utf-8") == picture._repr_svg_()
    for path, said in ((tmp_path / "x.png", "ends in .svg"), (tmp_path / "none" / "x.svg", "name another file")):
        with pytest.raises(UsageError, match=said):
            picture.save(path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, r'has 180 nodes, too many for one picture: choose a part with around="node name"'),
        ({"around": "node_gelu", "radius": 50}, "choose a smaller radius"),
        ({"around": "no_such_node"}, "No node and no tensor of the graph is named 'no_such_node'"),
        ({"around": "node_gellu"}, "named 'node_gellu': did you mean 'node_gelu'"),
        ({"around": ""}, "named '': "),
        ({"radius": -1}, "no negative radius"),
        ({"titles": ["a", "b"]}, "There are 2 titles for 1 models"),
    ],
)
def test_refusals_say_what_to_do(options, said):
    with pytest.raises(UsageError, match=said):
        surgeon.draw(DISTILBERT, **options)


@pytest.mark.parametrize("name", ["x", "c"])
def test_around_what_no_node_makes_stand_those_that_read_it(name):
    """Inputs and stored tensors."""
    made = parse("""<ir_version: 8, opset_import: ["": 18]> g (float[4] x, float[4] far) => (float[4] y, float[4] z)
        <float[4] c = {1.0, 2.0, 3.0, 4.0}> { a = Mul (x, c) y = Neg (a) z = Exp (far) }""")
    shown = texts(surgeon.draw(made, around=name, radius=0))
    assert "Mul" in shown
    assert "Exp" not in shown


def test_without_the_layout_library_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "fast_sugiyama", None)
    with pytest.raises(UsageError, match=r'pip install "onnx-surgeon\[pictures\]"'):
        surgeon.draw(model())


def test_boxes_of_a_layer_keep_their_distance():
    """Whatever their widths: no two overlap, and every edge is a way from its source to its target."""
    widths = [40.0 + 37 * (place % 5) for place in range(30)]
    edges = [(place, place + step) for place in range(30) for step in (1, 2, 7, 11) if place + step < 30]
    layout = arrange(widths, edges)
    for layer in layout.layers:
        boxes = [slot for slot in layer if slot < len(widths)]
        for left, right in pairwise(boxes):
            assert layout.x[right] - layout.x[left] >= (widths[left] + widths[right]) / 2 + GAP - 1e-6
    level = {slot: place for place, layer in enumerate(layout.layers) for slot in layer}
    assert set(layout.paths) == set(edges)
    for path in layout.paths.values():
        assert [level[slot] for slot in path] == list(range(level[path[0]], level[path[0]] + len(path)))


def test_parts_that_hang_together_are_laid_out_apart():
    """One with bends beside one without: no edge is lost, and none goes through a box."""
    edges = [(7, 1), (1, 2), (2, 3), (3, 4), (1, 5), (4, 5), (5, 6), (0, 8), (6, 9)]
    layout = arrange([50.0] * 10, edges)
    assert set(layout.paths) == set(edges)
    assert all(slot >= 10 for path in layout.paths.values() for slot in path[1:-1])
    assert sorted(slot for layer in layout.layers for slot in layer) == list(range(len(layout.x)))


def test_a_chain_hangs_straight():
    layout = arrange([50.0, 120.0, 80.0, 200.0], [(0, 1), (1, 2), (2, 3)])
    assert len({round(x, 6) for x in layout.x}) == 1


def test_boxes_without_edges_stand_side_by_side():
    layout = arrange([60.0, 50.0, 40.0], [(0, 2)])
    assert layout.layers == [[0, 1], [2]]
    assert layout.x[1] - layout.x[0] >= 55.0 + GAP
    assert repr(paint([Diagram("", [Box("onnx", "Relu"), Box("onnx", "Neg")])])) == "<Picture: 2 nodes>"


def test_the_command_draws_a_file(tmp_path):
    onnx.save(model(), tmp_path / "in.onnx")
    result = run("draw", tmp_path / "in.onnx", tmp_path / "out.svg", "--beside", tmp_path / "in.onnx")
    assert result.exit_code == 0, result.output
    assert "before 7 nodes, after 7 nodes" in result.stdout
    assert "addandround_op" in (tmp_path / "out.svg").read_text(encoding="utf-8")
    refused = run("draw", tmp_path / "in.onnx", tmp_path / "in.onnx")
    assert refused.exit_code == 2
    assert "ends in .svg" in refused.stderr


def test_the_command_names_its_own_options(tmp_path, monkeypatch):
    """And sees what OUT is called before it looks for what draws."""
    out = tmp_path / "out.svg"
    output = run("draw", DISTILBERT, out).stderr
    assert 'choose a part with --around "node name", or allow more with --nodes 180.' in output
    output = run("draw", DISTILBERT, out, "--around", "node_gelu", "--radius", "50", "--nodes", "20").stderr
    assert "choose a smaller --radius, or allow more with --nodes " in output
    monkeypatch.setitem(sys.modules, "fast_sugiyama", None)
    assert "ends in .svg" in run("draw", DISTILBERT, tmp_path / "out.png", "--around", "node_gelu").stderr
