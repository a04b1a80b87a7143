"""How two models differ: nodes matched whatever they are called and in whatever order, equal changes once."""

import random
import time

import hypothesis.strategies as st
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from onnx import helper, numpy_helper

import surgeon
from surgeon.display.diff.sequence_alignment import aligned
from surgeon.testing import parse
from tests import sampling
from tests.command_line import ROOT, one_sentence, result_in, run

DISTILBERT = ROOT / "notebooks" / "models" / "tiny_distilbert.onnx"
HEAD = '<ir_version: 8, opset_import: ["" : 18]> g'
LAYER = """{o}m = MatMul ({i}, w) {o}a = Add ({o}m, b) {o}d = Div ({o}a, two) {o}e = Erf ({o}d) {o}p = Add ({o}e, one)
    {o}t = Mul ({o}a, {o}p) {o}h = Mul ({o}t, half) {o}s = Softmax <axis = -1> ({o}h) {o} = Add ({i}, {o}s)"""
MATRIX = ", ".join(f"{place}.5" for place in range(16))
WEIGHTS = f"float[4, 4] w = {{{MATRIX}}}, float[4] b = {{1.0, 2.0, 3.0, 4.0}}, "
WEIGHTS += "float two = {1.4142}, float one = {1.0}, float half = {0.5}"


def layers(count, change=None, names="l"):
    """A stack of layers.  change: edits the text of a layer, by its number."""
    body, last = [], "x"
    for at in range(count):
        text = LAYER.format(i=last, o=f"{names}{at}_")
        body.append(change(at, text) if change is not None else text)
        last = f"{names}{at}_"
    model = parse(f"{HEAD} (float[n, 4] x) => (float[n, 4] {last}) <{WEIGHTS}> {{ {' '.join(body)} }}")
    model.graph.output[0].name = "y"
    for node in model.graph.node:
        node.output[:] = ["y" if name == last else name for name in node.output]
    return model


def shuffled(model, seed):
    """The same graph under other names and in another order."""
    made, rng = onnx.ModelProto(), random.Random(seed)
    made.CopyFrom(model)
    kept = {value.name for value in (*made.graph.input, *made.graph.output)}
    for node in made.graph.node:
        node.name = f"node {rng.random()}"
        node.input[:] = [name if name in kept or not name else f"other_{name}" for name in node.input]
        node.output[:] = [name if name in kept or not name else f"other_{name}" for name in node.output]
    for tensor in made.graph.initializer:
        tensor.name = f"other_{tensor.name}"
    del made.graph.value_info[:]
    known = kept | {tensor.name for tensor in made.graph.initializer} | {""}
    waiting, order = list(made.graph.node), []
    while waiting:
        ready = [node for node in waiting if set(node.input) <= known]
        node = rng.choice(ready)
        waiting.remove(node)
        order.append(node)
        known.update(node.output)
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in order]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made


def rows(found):
    return [(change.kind, change.what, change.count) for change in found.changes]


@pytest.mark.parametrize("seed", range(3))
def test_names_and_order_are_no_difference(seed):
    """Of a real export; how many are called otherwise is counted."""
    model = onnx.load(DISTILBERT)
    found = surgeon.diff(model, shuffled(model, seed))
    assert (found.differs, found.same, found.renamed, found.nodes) == (False, 180, 180, (180, 180))


@given(st.integers(0, 10**6), st.integers(1, 6))
def test_a_model_is_itself_however_it_is_written(seed, count):
    model = layers(count)
    found = surgeon.diff(model, shuffled(model, seed))
    assert not found.differs
    assert found.same == 9 * count


def test_what_a_rewrite_did_is_one_change(tmp_path):
    """Each site of the report is one of the difference, in both directions."""
    _, report = surgeon.rewrite(DISTILBERT, "gelu", output=tmp_path / "out.onnx", check="none")
    found = surgeon.diff(DISTILBERT, tmp_path / "out.onnx")
    (change,) = found.of("nodes")
    assert change.removed == ("Div", "Erf", "Add", "Mul", "Mul")
    assert change.added == ("com.microsoft::Gelu",)
    went = sorted(sorted(gone) for gone, _ in change.sites)
    assert went == sorted(sorted(node.name for node in site.replaced) for site in report.sites)
    assert found.same == 160
    back = surgeon.diff(tmp_path / "out.onnx", DISTILBERT)
    (other,) = back.of("nodes")
    assert (other.removed, other.added, other.count) == (change.added, change.removed, 4)


@pytest.mark.parametrize("seed", range(4))
def test_changes_in_some_layers_are_found_under_other_names(seed):
    """One kind of change in half of the layers, another in one, a third in the weights of one."""

    def change(at, text):
        if at % 2:
            text = text.replace(f"l{at}_t = Mul (l{at}_a, l{at}_p) ", "").replace(
                f"l{at}_h = Mul (l{at}_t, half)", f"l{at}_h = Gelu (l{at}_a)"
            )
            text = text[: text.index(f"l{at}_d = ")] + text[text.index(f"l{at}_h = ") :]
        if at == 4:
            text = text.replace("axis = -1", "axis = 0")
        return text.replace("two", "one") if at == 2 else text

    found = surgeon.diff(layers(8), shuffled(layers(8, change), seed))
    assert rows(found) == [
        ("attributes", "Softmax: axis -1 → 0", 1),
        ("constants", "Div has float32 1.4142 → float32 1.0 as input 1", 1),
        ("nodes", "Div, Erf, Add, Mul ×2 → Gelu", 4),
    ]
    assert found.same == 72 - 4 * 5 - 2


def test_many_changes_in_a_chain_of_alike_layers_are_reported_where_they_are():
    """No scope and no count tells one layer from another: the order of the file does."""

    def edited(at, text):
        if at % 13 == 0:
            return text.replace(f"l{at}_ = Add", f"l{at}_z = Add") + f" l{at}_ = Neg (l{at}_z)"
        return text.replace("Softmax <axis = -1>", "Relu") if at % 17 == 3 else text

    found = surgeon.diff(layers(40), layers(40, edited))
    reported = {(change.removed, change.added): change.count for change in found.changes}
    assert reported == {(("Softmax",), ("Relu",)): 3, ((), ("Neg",)): 4}
    assert found.same == 9 * 40 - 3
    longer = surgeon.diff(layers(40), layers(44, edited))
    assert longer.same >= 9 * 40 - 4
    assert sum(len(gone) for change in longer.changes for gone, _ in change.sites) <= 4


@given(st.lists(st.integers(0, 3), max_size=60), st.data())
@settings(max_examples=sampling.examples(300), deadline=None)
def test_rows_are_laid_against_each_other(old, data):
    """Runs are equal, ascend in both, and cover all where nothing differs or one item was put in."""
    new = list(data.draw(st.one_of(st.just(old), st.lists(st.integers(0, 3), max_size=60))))
    found = list(aligned(old, new))
    assert all(old[at : at + length] == new[to : to + length] and length for at, to, length in found)
    ends = [(0, 0), *((at + length, to + length) for at, to, length in found)]
    assert all(at >= a and to >= b for (a, b), (at, to, _) in zip(ends, found, strict=False))
    if new == old:
        assert sum(length for _, _, length in found) == len(old)
    place = data.draw(st.integers(0, len(old)))
    put = [*old[:place], 9, *old[place:]]
    assert sum(length for _, _, length in aligned(old, put)) == len(old)
    assert sum(length for _, _, length in aligned(put, old)) == len(old)


def test_ways_to_compute_sizes_are_one_line():
    """Nodes that look at sizes alone; what reads a tensor itself is told as ever."""
    one = parse(f"""{HEAD} (float[n, m] x) => (float[k] y) <int64[1] all = {{-1}}, int64[1] axis = {{0}}> {{
        r = Reshape (x, all)  y = Relu (r) }}""")
    other = parse(f"""{HEAD} (float[n, m] x) => (float[k] y)
        <int64[1] axis = {{0}}, int64 zero = {{0}}, int64 last = {{1}}> {{
        s = Shape (x)  a = Gather (s, zero)  b = Gather (s, last)  c = Mul (a, b)  d = Unsqueeze (c, axis)
        z = Neg (x)  r = Reshape (z, d)  y = Relu (r) }}""")
    found = {change.kind: change for change in surgeon.diff(one, other).changes}
    assert set(found) == {"sizes", "nodes"}
    assert found["sizes"].added == ("Shape", "Gather", "Gather", "Mul", "Unsqueeze")
    assert found["nodes"].added == ("Neg",)


@pytest.mark.parametrize("at", [0, 3, 5])
def test_a_layer_that_is_left_out_is_nine_nodes(at):
    """Wherever it stood; all else is the same."""
    found = surgeon.diff(layers(6), shuffled(layers(5), at))
    (change,) = found.of("nodes")
    assert (len(change.removed), change.added, change.count) == (9, (), 1)
    assert found.same + 9 >= 54 - 1  # who read it reads another tensor now


def test_weights_are_compared_by_their_bytes():
    """Large ones by what they hold, named by dtype and shape."""
    model = layers(2)
    rng = np.random.default_rng(0)
    values = rng.normal(size=(200, 200)).astype(np.float32)
    other = values.copy()
    other[100, 17] += 1
    found = []
    for array in (values, values.copy(), other):
        made = onnx.ModelProto()
        made.CopyFrom(model)
        made.graph.initializer[0].CopyFrom(numpy_helper.from_array(array, "w"))
        del made.graph.value_info[:]
        found.append(made)
    assert not surgeon.diff(found[0], found[1]).differs
    assert rows(surgeon.diff(found[0], found[2])) == [
        ("weights", "MatMul has other numbers in float32[200,200] as input 1", 2)
    ]


def test_operands_of_a_sum_may_change_places():
    swapped = layers(3)
    for node in swapped.graph.node:
        if node.op_type in ("Add", "Mul"):
            node.input[:] = list(node.input)[::-1]
    assert not surgeon.diff(layers(3), swapped).differs


def test_interfaces_opsets_and_types():
    before = parse(f'{HEAD} (float[n, 4] x) => (float[n, 4] y) {{ y = Relu (x) }}')
    after = parse('<ir_version: 8, opset_import: ["" : 20]> g (float16[n, 4] x) => (float16[n, 4] z) { z = Relu (x) }')
    assert rows(surgeon.diff(before, after)) == [
        ("interface", "input x: float32[n, 4] → float16[n, 4]", 1),
        ("interface", "output y: float32[n, 4] → nothing", 1),
        ("interface", "output z: nothing → float16[n, 4]", 1),
        ("opset", "opset of ai.onnx: 18 → 20", 1),
        ("types", "Relu makes float32[n,4] → float16[n,4]", 1),
    ]


def test_bodies_and_functions_are_compared_too():
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[4] x, bool c) => (float[4] y) {{
        a = Relu (x)
        y = If (c) <then_branch = yes () => (float[4] p) {{ p = {op} (a) }}, else_branch = no () => (float[4] q)
            {{ q = Identity (x) }}> }}"""
    found = surgeon.diff(parse(text.format(op="Neg")), parse(text.format(op="Abs")))
    assert [(change.kind, change.what, change.scope) for change in found.changes] == [
        ("nodes", "Neg → Abs", "then_branch of y")
    ]


def test_two_exports_of_one_module_differ_in_what_they_write(exported_twice):
    """From names of modules alone: layers are told once, and what is the same is found."""
    found = surgeon.diff(*exported_twice)
    assert found.same == 8
    assert any(change.kind == "nodes" and change.count >= 3 for change in found.changes)


@pytest.fixture
def exported_twice():
    """Four layers as two exporters write them: LayerNormalization as one node, and in parts."""
    return normalised(True), normalised(False)


def normalised(is_whole):
    nodes, last = [], "x"
    for at in range(4):
        path = f"/encoder/layer.{at}/"

        def add(op, inputs, name, path=path, **attributes):
            full = f"{path}{name}" if is_whole else f"{path}{name}_output"
            nodes.append(helper.make_node(op, inputs, [full], f"{path}{op}_{name}", **attributes))
            return full

        dense = add("MatMul", [last, "w"], "dense")
        total = add("Add", [dense, last], "total")
        if is_whole:
            last = add("LayerNormalization", [total, "s"], "norm", axis=-1)
            continue
        mean = add("ReduceMean", [total, "axes"], "mean")
        gap = add("Sub", [total, mean], "gap")
        square = add("Pow", [gap, "two"], "square")
        spread = add("ReduceMean", [square, "axes"], "spread")
        root = add("Sqrt", [spread], "root")
        last = add("Mul", [add("Div", [gap, root], "scaled"), "s"], "norm")
    nodes[-1].output[0] = "y"
    stored = {"w": np.eye(4, dtype=np.float32), "s": np.ones(4, np.float32), "axes": np.array([-1])}
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()]
    tensors.append(numpy_helper.from_array(np.float32(2), "two"))
    ends = [helper.make_tensor_value_info(name, 1, ["n", 4]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_the_command_reports_it_and_ends_with_1(tmp_path):
    """0 for the same; JSON and a page have all of it."""
    onnx.save(layers(2), tmp_path / "a.onnx")
    onnx.save(layers(2, lambda at, text: text.replace("axis = -1", "axis = 0")), tmp_path / "b.onnx")
    same = run("diff", tmp_path / "a.onnx", tmp_path / "a.onnx")
    assert (same.exit_code, "differs  nothing\n" in same.output) == (0, True)
    found = run("diff", tmp_path / "a.onnx", tmp_path / "b.onnx", "--report", tmp_path / "d.html")
    assert found.exit_code == 1
    assert "attributes  2 × Softmax: axis -1 → 0 at " in found.output
    assert "same        16 of 18 and 18 nodes" in found.output
    data = result_in(run("diff", tmp_path / "a.onnx", tmp_path / "b.onnx", "--json").stdout)
    assert (data["differs"], data["same"], data["changes"][0]["count"]) == (True, 16, 2)
    assert "Softmax: axis -1 → 0" in (tmp_path / "d.html").read_text(encoding="utf-8")
    assert "nothing.onnx" in one_sentence(run("diff", tmp_path / "a.onnx", tmp_path / "nothing.onnx"), 2)


@pytest.mark.parametrize("count", [2_000 if sampling.is_whole() else 300])
def test_it_takes_time_as_the_nodes_do(count):
    """Three times the layers take no more than some five times as long."""
    took = []

    def change(at, text):
        return text.replace("axis = -1", "axis = 0") if at % 5 == 0 else text

    for size in (count, 3 * count):
        models = layers(size), layers(size, change)
        started = time.process_time()
        found = surgeon.diff(*models)
        took.append(time.process_time() - started)
        assert found.changes[0].count == size / 5
    assert took[1] < 6 * took[0] + 0.5


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        (
            "o, z = Split <num_outputs = 2> (x)",
            "z, o = Split <num_outputs = 2> (x)",
            ["Split hands on its output 0 → 1"],
        ),
        (
            "o, p = Split <num_outputs = 2> (x)",
            "p, o = Split <num_outputs = 2> (x)",
            ["Split hands on its output 0 → 1", "Split hands on its output 1 → 0"],
        ),
        ("o, z = TopK (x, k) i = Cast <to = 1> (z)", "q, z = TopK (x, k) o = Cast <to = 1> (z)", None),
    ],
)
def test_another_output_of_a_node_that_is_handed_on(one, other, message):
    """No node reads it: it is what the graph gives."""
    outputs = "float[a] o, float[b] p" if "p" in one.split("=")[0] else "float[a] o"
    models = [
        parse(f"{HEAD} (float[8] x) => ({outputs}) <int64[1] k = {{2}}> {{ {text} }}") for text in (one, other)
    ]
    found = surgeon.diff(*models)
    assert found.differs
    if message is not None:
        assert [change.what for change in found.changes] == message
        assert {change.kind for change in found.changes} == {"wiring"}
    assert not surgeon.diff(models[0], models[0]).differs


FUNCTION = '<ir_version: 10, opset_import: ["" : 18, "l" : 1]> g (float[4] x) => (float[4] y) {{ y = l.F (x) }} '
LOOP = """(int64 n, bool t, float[4] x) => (float[4] y, float[4] z) {{
    e = Exp (x)  y, z = Loop (n, t, x, e) <body = b (int64 i, bool c, float[4] s, float[4] r) =>
        (bool go, float[4] {}, float[4] {}) {{ go = Identity (c) }}> }}"""
BRANCHES = """(bool c, float[4] x) => (float[4] y) {{ k = If (c) <then_branch = t () => (float[n] a)
    {{ a = Constant <value_floats = {}> () }}, else_branch = f () => (float[1] b)
    {{ b = Constant <value_floats = [1.0]> () }}>  y = Mul (x, k) }}"""
SWAPPED_OUTSIDE = """(bool c, float[4] x) => (float[4] y) {{ e = {} (x)  s = {} (x)
    y = If (c) <then_branch = t () => (float[4] a) {{ a = Neg (e) }},
        else_branch = f () => (float[4] b) {{ b = Add (e, s) }}> }}"""
NESTED = """(bool c, int64 n, bool t, float[4] x) => (float[4] y, float[4] z) {{
    e = Exp (x)  y, z = Loop (n, t, x, e) <body = b (int64 i, bool go, float[4] {}, float[4] {}) =>
        (bool on, float[4] p, float[4] q) {{ on = Identity (go)  q = Tanh (x)  p = If (c) <
            then_branch = t () => (float[4] f) {{ f = Neg (s) }}, else_branch = u () => (float[4] h) {{ h = Abs (r) }}
        > }}> }}"""


@pytest.mark.parametrize(
    ("text", "one", "other", "kind", "what"),
    [
        ("(float[4] x) => (float[4] y, float k) {{ k = Constant <value_float = {}> ()  y = Exp (x) }}", ["1.0"],
         ["2.0"], "constants", "output k has float32 1.0 → float32 2.0"),
        ("(float[4] x) => (float[4] y, float[2] k) <float[2] k = {{1.0, {}}}> {{ y = Exp (x) }}", ["2.0"], ["3.0"],
         "constants", "output k has float32 [1.0, 2.0] → float32 [1.0, 3.0]"),
        (BRANCHES, ["[2.0]"], ["[3.0]"], "constants", "output 0 has float32 [2.0] → float32 [3.0]"),
        (LOOP, ["s", "r"], ["r", "s"], "wiring", "output 1 is another graph input: s → r"),
        ("(float[4] x) => (float[4] y, float[4] k) {{ y = Exp (x)  {} }}",
         ["k = Neg (x)"], ["k = Constant <value_floats = [1.0, 2.0, 3.0, 4.0]> ()"], "nodes", "Neg → nothing"),
        ("(float[4] x) => (float[4] y, float[4] k) {{ e = Exp (x)  y = Neg (e)  {} }}",
         ["k = Identity (x)"], ["k = Constant <value_floats = [1.0, 2.0, 3.0, 4.0]> ()"], "nodes",
         "Identity → nothing"),
        ("(float[4] x, float[4] k = {{1.0, 1.0, 1.0, {}}}) => (float[4] y, float[4] k) {{ y = Exp (x) }}",
         ["1.0"], ["2.0"], "weights", "output k has other numbers in float32[4]"),
        (SWAPPED_OUTSIDE, ["Exp", "Sin"], ["Sin", "Exp"], "wiring", "Neg reads another tensor as input 0"),
        (NESTED, ["s", "r"], ["r", "s"], "wiring", "Neg reads another tensor as input 0"),
    ],
)
def test_what_graphs_hand_on_that_no_node_of_theirs_makes(text, one, other, kind, what):
    """Constants, and what they are given; bodies read what is around them, whatever that is called."""
    models = [parse(f"{HEAD} {text.format(*words)}") for words in (one, other)]
    found = surgeon.diff(*models)
    assert kind in {change.kind for change in found.changes}
    assert what in {change.what for change in found.changes}
    assert not surgeon.diff(models[0], models[0]).differs


def test_bodies_read_equal_nodes_of_other_names():
    """Which of two equal nodes a body reads decides what stands for what, and names do not."""
    text = """(bool c, float[4] x) => (float[4] y) {{ {} = Exp (x)  {} = Exp (x)  m = Neg (a)  k = If (c) <
        then_branch = t () => (float[4] p) {{ p = Sin (b) }}, else_branch = f () => (float[4] q) {{ q = Cos (b) }}>
        y = Add (m, k) }}"""
    models = [parse(f"{HEAD} {text.format(*names)}") for names in ("ab", "ba")]
    assert not surgeon.diff(*models).differs


def test_bodies_are_compared_by_the_attributes_that_hold_them():
    """Not by the order in which a node lists them."""
    text = """(bool c, float[4] x) => (float[4] y) {{ y = If (c) <then_branch = t () => (float[4] a) {{ a = {} (x) }},
        else_branch = f () => (float[4] b) {{ b = {} (x) }}> }}"""
    pairs = (("Exp", "Sin"), ("Exp", "Sin"), ("Sin", "Exp"))
    one, same, other = (parse(f"{HEAD} {text.format(*ops)}") for ops in pairs)
    for model in (same, other):
        items = [onnx.AttributeProto.FromString(item.SerializeToString()) for item in model.graph.node[0].attribute]
        del model.graph.node[0].attribute[:]
        model.graph.node[0].attribute.extend(reversed(items))
    assert not surgeon.diff(one, same).differs
    assert [change.kind for change in surgeon.diff(one, other).changes] == ["nodes", "nodes"]


LEAKY = """<domain: "l", opset_import: ["" : {}]> F <alpha: float = {}> (a) => (b) {{
    b = LeakyRelu <alpha: float = @alpha> (a) }}"""
TWO = """<domain: "l", opset_import: ["" : 18]> F <p: float = 1.0, q: float = 2.0> (a) => (b) {{
    k = Constant <value_float: float = @{}> ()  b = Mul (a, k) }}"""


@pytest.mark.parametrize(
    ("text", "one", "other", "changes"),
    [
        (LEAKY, ["18", "0.1"], ["18", "0.9"], [("attributes", "default of alpha: 0.1 → 0.9")]),
        (LEAKY, ["18", "0.1"], ["16", "0.1"], [("opset", "opset of ai.onnx: 18 → 16")]),
        (TWO, ["p"], ["q"], [("constants", "Mul has another constant as input 1")]),
    ],
)
def test_functions_say_more_than_their_nodes(text, one, other, changes):
    """Defaults of attributes, opsets of their own, and constants that calls give."""
    models = [parse(FUNCTION.format() + text.format(*words)) for words in (one, other)]
    found = surgeon.diff(*models)
    assert [(change.kind, change.what, change.scope) for change in found.changes] == [
        (*change, "function l::F") for change in changes
    ]
    assert not surgeon.diff(models[1], models[1]).differs


def test_overloads_are_functions_of_their_own():
    """One that is called instead of another differs, and so does one of two that have one name."""
    text = FUNCTION + '<domain: "l", opset_import: ["" : 18]> F (a) => (b) {{ b = {} (a) }}'
    models = []
    for called, op in (("", "Exp"), ("two", "Exp"), ("", "Sin")):
        model, more = parse(text.format(op)), parse(text.format("Neg"))
        model.graph.node[0].overload = called
        more.functions[0].overload = "two"
        model.functions.extend(more.functions)
        models.append(model)
    assert not surgeon.diff(models[0], models[0]).differs
    assert surgeon.diff(models[0], models[1]).differs
    assert [change.what for change in surgeon.diff(models[0], models[2]).changes] == ["Exp → Sin"]


def sparse(numbers):
    """Times a large sparse tensor."""
    model = parse(f"{HEAD} (float[5000] x) => (float[5000] y) {{ y = Mul (x, w) }}")
    values = helper.make_tensor("w", 1, [2], [5.0, 7.0])
    model.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, helper.make_tensor("i", 7, [2], numbers), [5000])
    )
    return model


def valued(number):
    """An op of others with a large tensor among its attributes."""
    model = parse('<ir_version: 8, opset_import: ["" : 18, "l" : 1]> g (float[4] x) => (float[4] y) { y = l.F (x) }')
    array = np.ones((200, 200), np.float32)
    array[9, 9] = number
    model.graph.node[0].attribute.append(helper.make_attribute("table", numpy_helper.from_array(array)))
    return model


@pytest.mark.parametrize(
    ("one", "other"), [(sparse([0, 3]), sparse([1, 3])), (valued(1), valued(2))], ids=["sparse", "attribute"]
)
def test_large_tensors_that_are_no_initializers(one, other, tmp_path):
    """By all that they hold, from a file too."""
    assert surgeon.diff(one, other).differs
    assert not surgeon.diff(one, one).differs
    for model, name in ((one, "one.onnx"), (other, "other.onnx")):
        onnx.save(model, tmp_path / name)
    assert surgeon.diff(tmp_path / "one.onnx", tmp_path / "other.onnx").differs
    assert not surgeon.diff(tmp_path / "one.onnx", one).differs


def test_what_is_listed_twice_and_what_has_a_default():
    """How often an output is listed, and whether a stored tensor is an input too."""
    once, twice = (parse(f"{HEAD} (float[4] x) => ({outputs}) {{ y = Exp (x) }}") for outputs in
                   ("float[4] y", "float[4] y, float[4] y"))
    assert rows(surgeon.diff(once, twice)) == [("interface", "output y is listed so many times: 1 → 2", 1)]
    fixed = parse(f"{HEAD} (float[4] x) => (float[4] y) <float k = {{2.0}}> {{ y = Mul (x, k) }}")
    free = parse(f"{HEAD} (float[4] x, float k = {{2.0}}) => (float[4] y) {{ y = Mul (x, k) }}")
    assert ("interface", "inputs with a default, in only one model: none → k", 1) in rows(
        surgeon.diff(fixed, free)
    )


def told_fields(model):
    """Give a model all that can be told of one."""
    model.ir_version, model.model_version = 10, 3
    model.producer_name, model.producer_version, model.domain, model.doc_string = "torch", "2", "d", "of it"
    helper.set_model_props(model, {"author": "x" * 50})
    model.graph.name, model.graph.doc_string = "other", "of the graph"
    model.graph.metadata_props.add(key="ns", value="a")
    model.graph.input[0].doc_string = "of the input"
    model.graph.output[0].metadata_props.add(key="ns", value="b")
    for node in model.graph.node:
        node.metadata_props.add(key="trace", value=node.op_type)
    model.graph.node[0].doc_string = "of the node"
    model.functions[0].doc_string = "of the function"
    model.functions[0].node[0].doc_string = "of a node of it"


def test_what_models_tell_of_themselves_is_no_difference_and_reported(tmp_path):
    text = """<ir_version: 9, opset_import: ["": 18, "acme": 1]>
        g (float[n] x) => (float[n] y) { t = acme.twice(x) y = Tanh(t) }
        <domain: "acme", opset_import: ["": 18]> twice (a) => (b) { b = Add(a, a) }"""
    one, other = parse(text), parse(text)
    told_fields(other)
    found = surgeon.diff(one, other)
    assert (found.differs, found.changes, found.same) == (False, [], 3)
    assert found.told == [
        "ir_version: '9' → '10'",
        "producer_name: nothing → 'torch'",
        "producer_version: nothing → '2'",
        "domain: nothing → 'd'",
        "model_version: nothing → '3'",
        "doc_string: nothing → 'of it'",
        f"metadata author: nothing → '{'x' * 40}…'",
        "graph name: 'g' → 'other'",
        "graph: doc_string: nothing → 'of the graph'",
        "graph: metadata ns: nothing → 'a'",
        "input x: doc_string: nothing → 'of the input'",
        "output y: metadata ns: nothing → 'b'",
        "function acme::twice: doc_string: nothing → 'of the function'",
        "doc_string of 2 nodes",
        "metadata trace of 2 nodes",
    ]
    assert surgeon.diff(other, other).told == []
    for name, model in (("a", one), ("b", other)):
        onnx.save(model, tmp_path / f"{name}.onnx")
    shown = run("diff", tmp_path / "a.onnx", tmp_path / "b.onnx", "--report", tmp_path / "d.html")
    assert shown.exit_code == 0
    assert "differs  nothing but metadata\ntold     ir_version: '9' → '10'\n" in shown.output
    page = (tmp_path / "d.html").read_text(encoding="utf-8")
    assert "<dt>differs</dt><dd>nothing but metadata</dd>" in page
    assert "metadata trace of 2 nodes" in page


def test_long_texts_are_reported_from_where_they_part():
    text = '<ir_version: 9, opset_import: ["": 18]> g (float[n] x) => (float[n] y) { y = Tanh(x) }'
    one, other = parse(text), parse(text)
    one.doc_string, other.doc_string = "a" * 99 + "b" * 99, "a" * 99 + "c"
    assert surgeon.diff(one, other).told == [f"doc_string: '…{'a' * 20}{'b' * 20}…' → '…{'a' * 20}c'"]
    one.doc_string = "a" * 99
    assert surgeon.diff(one, other).told == [f"doc_string: '…{'a' * 20}' → '…{'a' * 20}c'"]


def one_node(text, *, also="", opset=19):
    return parse(f'<ir_version: 9, opset_import: ["": {opset}, "acme": 1]> g {text} {also}')


@pytest.mark.parametrize(
    ("text", "one", "other", "kind", "what"),
    [
        ("(string[2] x) => (bool[2] y) <string[2] s = {{\"a\", \"{}\"}}> {{ y = Equal (x, s) }}", "b", "c",
         "constants", "Equal has string [a, b] → string [a, c] as input 1"),
        ("(float[2] x, float[2] z) => (float[2] y) {{ y = Sub ({}) }}", "x, z", "z, x", "wiring",
         "Sub reads another tensor as input 0"),
        ("(float[2] x) => (float[2] y) {{ y = acme.f <a = {}> (x) }}", "1", "1.0", "attributes", "acme::f: a 1 → 1.0"),
        ("(float[2] x) => (float[2] y) {{ y = acme.f <a = [{}]> (x) }}", "1, " * 30 + "2", "1, " * 30 + "3",
         "attributes", "acme::f: a holds something else"),
        ("(float[2] x) => (float[2] y) {{ y = acme.f <a = float[31] {{{}}}> (x) }}", "1, " * 30 + "2", "1, " * 30 + "3",
         "attributes", "acme::f: a holds something else"),
    ],
)  # fmt: skip
def test_of_a_node_that_stands_alone_it_is_reported_what_differs(text, one, other, kind, what):
    """Not that it went and came, as all of it did."""
    found = surgeon.diff(one_node(text.format(one)), one_node(text.format(other)))
    assert rows(found)[0] == (kind, what, 1)
    assert not surgeon.diff(one_node(text.format(one)), one_node(text.format(one))).differs


def test_operands_of_a_sum_that_stands_alone_may_change_places():
    text = "(float[2] x, float[2] z) => (float[2] y) {{ y = Add ({}) }}"
    assert not surgeon.diff(one_node(text.format("x, z")), one_node(text.format("z, x"))).differs


def test_sparse_tensors_are_reported_as_such():
    numbers = ", ".join(map(str, range(20)))
    models = [one_node(f"(float[20] x) => (float[20] y) <float[20] w = {{{numbers}}}> {{ y = Mul (x, w) }}")]
    for places in ([0, 1], [0, 2]):
        model = one_node("(float[20] x) => (float[20] y) { y = Mul (x, w) }")
        values = numpy_helper.from_array(np.ones(2, np.float32), "w")
        indices = numpy_helper.from_array(np.array(places), "at")
        model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [20]))
        models.append(model)
    dense, one, other = models
    assert rows(surgeon.diff(one, other)) == [("weights", "Mul has other numbers in sparse float32[20] as input 1", 1)]
    assert rows(surgeon.diff(dense, one)) == [
        ("constants", "Mul has float32[20] → sparse float32[20] as input 1", 1)
    ]


def test_what_nothing_reads_is_reported():
    """Training info, annotations, tensors without a reader, and a key that stands there twice."""
    one, other = (one_node("(float[2] x) => (float[2] y) { y = Neg (x) }") for _ in range(2))
    other.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "unread"))
    other.graph.quantization_annotation.add(tensor_name="y")
    other.training_info.add().algorithm.node.add(op_type="Neg")
    for value in "ab":
        other.metadata_props.add(key="k", value=value)
    found = surgeon.diff(one, other)
    assert not found.differs
    assert found.told == [
        "metadata k: nothing → 'a'",
        "metadata k (2): nothing → 'b'",
        "training info: nothing → 1, of other content",
        "quantization annotations: nothing → 1, of other content",
        "stored tensors that nothing reads, in only one model: nothing → float32[3]",
    ]
    assert not surgeon.diff(other, other).told
