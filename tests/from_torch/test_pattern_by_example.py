"""Patterns by example: what is learned of one size fires on another, leaves what is nearly the same, and reads well."""

import subprocess
import sys
from functools import cache

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import surgeon
import surgeon.torch
from surgeon import Rule, UsageError
from surgeon.authoring.learning.codegen import numeral
from surgeon.authoring.learning.learn import learn as learn_models
from surgeon.authoring.learning.learn import run as run_text
from surgeon.authoring.learning.learn import short_labels
from surgeon.authoring.learning.terms import Example
from surgeon.testing import parse
from tests import sampling
from tests.command_line import one_sentence, process, run
from tests.from_torch.operations import OPERATIONS, RMS, Operation, SwiGLU, Wrapped
from tests.models import matches

EXPORTERS = ("dynamo", "torchscript")


@pytest.fixture(scope="module", autouse=True)
def custom_op():
    """learnlib::halve, which no exporter knows."""
    with torch.library._scoped_library("learnlib", "DEF") as library:
        library.define("halve(Tensor x, int factor) -> Tensor")
        library.impl("halve", lambda x, factor: x / factor, "CompositeExplicitAutograd")
        torch.library.register_fake("learnlib::halve", lambda x, factor: torch.empty_like(x), lib=library)
        yield


def exporters_of(operation):
    """Which exporters an operation is learned from: by default one, every third time dynamo's; of free sizes both."""
    both = sampling.is_whole() or operation.title == "SwiGLU"
    return EXPORTERS if both else (EXPORTERS[min(OPERATIONS.index(operation) % 3, 1)],)


@cache
def lesson(operation):
    """What its exporters write for an operation at opset 18."""
    inputs = [torch.randn(shape) for shape in operation.shapes]
    arguments, placeholders = operation.arguments, operation.placeholders
    runs = {"exporters": exporters_of(operation), "opsets": (18,)}
    return surgeon.torch.learn(
        operation.what, *inputs, arguments=arguments, placeholders=placeholders, title=operation.title, **runs
    )


def exported(made, exporter, placeholders=()):
    """A model of a module of random weights."""
    module, shapes = made
    inputs = tuple(torch.randn(shape) for shape in shapes)
    found = surgeon.torch.export(module.eval(), inputs, exporter=exporter, opset=18, placeholders=placeholders)
    return found.model


def written(text):
    """The rule that a pattern file defines."""
    (found,) = [value for value in run_text(text).values() if isinstance(value, Rule)]
    return found


EXPORTS = [(operation, exporter) for operation in OPERATIONS for exporter in exporters_of(operation)]


@pytest.mark.parametrize(("operation", "exporter"), EXPORTS, ids=str)
def test_fires_on_another_export(operation: Operation, exporter: str):
    """Of other sizes, other weights and other hyper-parameters; the printed rule finds the same as the functions."""
    model = exported(operation.fresh(), exporter, operation.placeholders)
    (match,) = [match for function in lesson(operation).functions for match in matches(model, function)]
    (printed,) = surgeon.find(model, written(lesson(operation).text()))
    assert [node.label for node in match.nodes] == [node.label for node in printed.nodes]
    assert set(match.outputs) == {value.name for value in model.graph.output}
    assert set(operation.parameters) == {name for name in match.bound if not name.startswith("_")}


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_fires_on_an_export_of_free_sizes(exporter):
    """What was learned of fixed sizes holds for any."""
    operation = next(item for item in OPERATIONS if item.title == "SwiGLU")
    free = {"hidden": {0: "batch", 1: "time"}}
    made = surgeon.torch.export(
        SwiGLU(6, 10).eval(), (torch.randn(3, 4, 6),), exporter=exporter, opset=18, dynamic_shapes=free
    )
    assert len(list(surgeon.find(made.model, lesson(operation).rule))) == 1


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_does_not_fire_on_what_is_nearly_the_same(operation: Operation):
    """A constant or a step of its own is no hole."""
    model = exported(operation.decoy(), exporters_of(operation)[-1], operation.placeholders)
    assert not list(surgeon.find(model, lesson(operation).rule))


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_the_text_reads_as_written_by_a_person(operation: Operation):
    """It is formatted, imports nothing that it does not use, and says who writes each form."""
    text = lesson(operation).text()
    for command in (["format", "--check"], ["check", "--select", "E,F,W,I,UP,RUF100"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--isolated", "--line-length", "120"]
        ruff += ["--stdin-filename", "learned.py", "-"]
        done = subprocess.run(ruff, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stdout}{text}"
    assert all(f"{exporter} 18" in text for exporter in exporters_of(operation))


def test_both_forms_of_the_gelu():
    """Equal forms come once, whichever exporter writes them; numbers are short."""
    runs = {"exporters": ["dynamo", "torchscript"], "opsets": [18, 20]}
    found = surgeon.torch.learn("torch.nn:GELU", torch.randn(2, 3), **runs)
    assert [form.labels for form in found.forms] == [
        ["dynamo 18", "torchscript 18"],
        ["dynamo 20", "torchscript 20"],
    ]
    assert "return g.mul(x, 0.5, g.add(g.erf(g.div(x, 2**0.5)), 1.0))" in found.text()
    assert "def gelu_node(g: Graph, x: Tensor) -> Tensor:" in found.text()


def test_the_skeleton_rewrites():
    """The printed rule puts one node in the place of many."""
    operation = next(item for item in OPERATIONS if item.title == "SwiGLU")
    model = exported(operation.fresh(), "dynamo")
    after, report = surgeon.rewrite(model, written(lesson(operation).text()), check="none")
    (node,) = after.graph.node
    assert (node.domain, node.op_type, len(node.input)) == ("my.domain", "SwiGLU", 4)
    assert len(report.sites) == 1


def test_pattern_gives_functions_for_a_rule():
    """As in the rule's own decorator."""
    patterns = surgeon.torch.pattern(RMS(4, 1e-5), torch.randn(2, 4), exporters=["torchscript"], opsets=[17])

    @surgeon.rule(patterns=patterns)
    def my_norm(g, x, weight, epsilon):
        return g.op("my.domain::Norm", x, weight, epsilon=epsilon)

    (match,) = surgeon.find(exported((RMS(6, 1e-3), ((2, 6),)), "torchscript"), my_norm)
    assert match["epsilon"] == pytest.approx(1e-3)
    assert match["weight"].shape == (6,)


def test_vary_nothing_keeps_literals():
    """With vary={} a hyper-parameter is part of the pattern."""
    runs = {"exporters": ["torchscript"], "opsets": [17]}
    fixed = surgeon.torch.learn(RMS(8, 1e-5), torch.randn(2, 8), vary={}, **runs)
    told_so = surgeon.torch.learn(RMS, torch.randn(2, 8), vary={"eps": 0.5}, **runs)
    assert "1e-05" in fixed.text()
    assert "epsilon" not in fixed.text()
    assert "epsilon: float" in told_so.text()


def test_hyper_parameters_that_change_the_structure_make_two_forms():
    """beta = 1 leaves two nodes out: both ways to write a Softplus are learned."""
    found = surgeon.torch.learn(nn.Softplus, torch.randn(2, 8), exporters=["torchscript"], opsets=[17])
    texts = [" ".join(form.source.lines) for form in found.forms]
    assert sorted(texts) == ["return g.div(g.softplus(g.mul(x, beta)), beta)", "return g.softplus(x)"]


def test_sizes_that_a_module_forces_stay():
    """An instance keeps its sizes, a class with arguments varies them along; the text says which."""
    runs = {"exporters": ["torchscript"], "opsets": [17]}
    instance = surgeon.torch.learn(nn.LayerNorm(8), torch.randn(2, 8), **runs)
    assert "Not varied, so dependent values stay literal: axis 1 of input 0 (8)." in instance.text()
    known = surgeon.torch.learn(nn.LayerNorm, torch.randn(8, 8), arguments={"normalized_shape": 8}, **runs)
    assert "Not varied" not in known.text()


def test_sizes_in_a_reshape_are_no_literals():
    """What only says a shape may be anything."""

    def heads(x):
        return x.reshape(x.shape[0], x.shape[1], 2, -1).transpose(1, 2)

    found = surgeon.torch.learn(heads, torch.randn(3, 5, 8), exporters=["torchscript"], opsets=[17])
    assert "return g.transpose(g.reshape(x, g.any_tensor()), perm=[0, 2, 1, 3])" in found.text()


def test_sizes_worked_out_from_a_shape():
    """With free sizes the exporters write the computation of the half: forms of their own."""

    def rotate_half(x):
        half = x.shape[-1] // 2
        return torch.cat((-x[..., half:], x[..., :half]), -1)

    exporters = sampling.chosen(lambda: ["torchscript"], lambda: ["dynamo", "torchscript"])
    found = surgeon.torch.learn(
        rotate_half, torch.randn(2, 5, 8), free_sizes=True, exporters=exporters, opsets=[18]
    )
    fixed, *free_ones = [form.labels for form in found.forms]
    assert fixed == [f"{exporter} 18" for exporter in exporters]
    assert free_ones == [[f"{exporter} with dynamic sizes 18"] for exporter in exporters]
    free = {"inputs": [{2: "width"}]}
    made = surgeon.torch.export(
        Wrapped(rotate_half), (torch.randn(3, 4, 6),), exporter="torchscript", opset=18, dynamic_shapes=free
    )
    assert len(list(surgeon.find(made.model, found.rule))) == 1


def test_several_outputs():
    """A pattern returns what the operation returns."""
    runs = {"exporters": ["torchscript"], "opsets": [18]}
    found = surgeon.torch.learn(torch.topk, torch.randn(3, 8), arguments={"k": 2}, **runs)
    assert "top_k, top_k_2 = g.top_k(x, k=k)\n    return top_k, top_k_2" in found.text()
    model = exported((TopK(), ((4, 9),)), "torchscript")
    (match,) = surgeon.find(model, found.rule)
    assert match["k"] == 3


class TopK(nn.Module):
    """The three largest."""

    def forward(self, x):
        """As torch has it."""
        return torch.topk(x, 3)


TEXT = """(float[2, 4] x) => (float[2, 4] y) <float[4] w = {WEIGHT}, float half = {HALF}>
    { m = Mul(x, w) s = Sigmoid(m) y = Mul(s, half) }"""


def model_of(weight, half="0.5"):
    """A small model in ONNX text."""
    return parse(TEXT.replace("WEIGHT", weight).replace("HALF", half))


def test_two_models_are_enough(tmp_path):
    """`surgeon learn a.onnx b.onnx` needs no torch."""
    for name, weight in (("one", "1, 2, 3, 4"), ("two", "5, 6, 7, 8")):
        onnx.save(model_of(weight), tmp_path / f"{name}.onnx")
    result = run("learn", tmp_path / "one.onnx", tmp_path / "two.onnx", "--title", "Gate")
    assert result.exit_code == 0, result.output
    assert "def gate_by_sigmoid(g: Graph, x: Tensor, weight: Constant) -> Tensor:" in result.output
    assert "return g.mul(g.sigmoid(g.mul(x, weight)), 0.5)" in result.output
    (match,) = surgeon.find(model_of("3, 1, 4, 1"), written(result.output))
    assert match["weight"].shape == (4,)
    assert not list(surgeon.find(model_of("3, 1, 4, 1", "0.4"), written(result.output)))


def test_the_command_says_which_rules_know_a_form():
    """`surgeon learn torch.nn:SiLU` names rule silu, and nothing is printed beside the file."""
    result = run("learn", "torch.nn:SiLU", "--shape", "2,3", "--exporter", "torchscript", "--opset", 14, "--opset", 15)
    assert result.exit_code == 0, result.output
    assert '"""As torchscript 14-15 write it."""\n    # rule silu recognises this form\n' in result.stdout
    assert written(result.stdout).name == "silu"


def test_learning_without_torch(monkeypatch):
    """The sentence says what to install."""
    monkeypatch.setitem(sys.modules, "torch", None)
    assert 'pip install "onnx-surgeon[torch]"' in one_sentence(run("learn", "torch.nn:GELU"), 2)


def test_models_are_learned_from_without_torch():
    """Comparing needs onnx alone."""
    code = "import sys, surgeon.authoring.learning.known_rules; print('torch' in sys.modules)"
    assert process("-c", code).stdout.strip() == "False"


def test_many_labels_take_several_lines():
    """No line of the text is longer than a line of code."""
    models = [Example(model_of(weight), "a.onnx") for weight in ("1, 2, 3, 4", "5, 6, 7, 8")]
    found = learn_models([models], "Gate")
    found.forms[0].labels += [f"exporter number {place} 18" for place in range(9)]
    assert max(map(len, found.text().splitlines())) <= 120
    assert len(found.functions) == 1


BAD = {
    "an unknown module": (["learn", "torch.nnn:GELU"], "torch.nnn cannot be imported"),
    "an unknown name": (["learn", "torch.nn:Glu2"], "torch.nn has no 'Glu2'"),
    "no module at all": (["learn", "GELU"], "has no module"),
    "shapes it does not take": (
        ["learn", "torch.nn:LayerNorm", "--arg", "normalized_shape=8", "--shape", "2,3"],
        "LayerNorm does not accept inputs of shape 2x3",
    ),
    "a missing argument": (["learn", "torch.nn:LayerNorm"], "missing 1 required positional argument"),
    "no shape": (["learn", "torch.nn:GELU", "--shape", "2,a"], "Invalid shape '2,a'"),
    "no dtype": (["learn", "torch.nn:GELU", "--dtype", "float31"], "Unknown dtype 'float31'"),
    "no pair": (["learn", "torch.nn:GELU", "--arg", "approximate"], "Expected NAME=VALUE"),
    "nothing of that name to vary": (["learn", "torch.nn:GELU", "--vary", "eps=1"], "no argument or float 'eps'"),
    "an opset before the exporter's": (
        ["learn", "torch.nn:GELU", "--exporter", "dynamo", "--opset", "12"],
        "writes opset 17 and later",
    ),
    "one model": (["learn", "one.onnx"], "A single model does not show which values may differ"),
    "two modules": (["learn", "torch.nn:GELU", "torch.nn:SiLU"], "Give one module, or two or more .onnx files"),
    "an exporter that fails": (
        ["learn", "torch:i0", "--exporter", "torchscript", "--opset", "17"],
        "i0",
    ),
}


@pytest.mark.parametrize(("arguments", "words"), BAD.values(), ids=list(BAD))
def test_bad_input(arguments, words):
    """One clear sentence each."""
    assert words in one_sentence(run(*arguments), 2)


def test_a_structure_that_depends_on_the_size_is_reported():
    """The sentence names the nodes that differ."""

    def uneven(x):
        return x.exp() if x.shape[0] > 3 else x.tanh()

    with pytest.raises(UsageError, match=r"differ in structure: one has Tanh .* another has Exp .*") as caught:
        surgeon.torch.learn(uneven, torch.randn(2, 3), exporters=["torchscript"], opsets=[17])
    assert str(caught.value).count(". ") == 1


def test_what_no_pattern_can_say_is_reported():
    """Control flow, and nothing at all."""
    body = """(bool c, float[2] x) => (float[2] y)
        { y = If(c) <then_branch = a () => (float[2] z) { z = Exp(x) },
                     else_branch = b () => (float[2] w) { w = Tanh(x) }> }"""
    with pytest.raises(UsageError, match="has a body"):
        learn_models([[Example(parse(body), "one"), Example(parse(body), "two")]], "branches")
    constant = "(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Identity(x) }"
    with pytest.raises(UsageError, match="no node to learn from"):
        learn_models([[Example(parse(constant), "one"), Example(parse(constant), "two")]], "nothing")
    with pytest.raises(UsageError, match="Example inputs must be tensors, but none was given"):
        surgeon.torch.pattern(nn.GELU())
    with pytest.raises(UsageError, match=r"Give --arg normalized_shape=..., in Python arguments={"):
        surgeon.torch.learn("torch.nn:LayerNorm", torch.ones(2))
    with pytest.raises(UsageError, match="Unknown exporter 'fx'"):
        surgeon.torch.pattern(nn.GELU(), torch.randn(2), exporters=["fx"])


def test_numbers_are_short():
    """As a person writes them, and exact enough to match."""
    wanted = {
        np.float32(2**0.5): "2**0.5",
        np.float32(-(2**-0.5)): "-(2**-0.5)",
        np.float32(1e-5): "1e-05",
        np.float32(0.044715): "0.044715",
        np.float16(2**0.5): "2**0.5",
        np.int64(-1): "-1",
        np.float32(np.inf): "math.inf",
    }
    assert {number: numeral(number) for number in wanted} == wanted


def test_words_keep_what_they_mean():
    """A mean that drops its axis is no mean_over; one that keeps it is."""
    runs = {"exporters": ["torchscript"], "opsets": [17]}
    dropped = surgeon.torch.learn(lambda x: x.mean(-1).sqrt(), torch.randn(2, 8), **runs)
    kept = surgeon.torch.learn(lambda x: x.mean(-1, keepdim=True).sqrt(), torch.randn(2, 8), **runs)
    assert "g.sqrt(g.reduce_mean(x, axes=[-1], keepdims=0))" in dropped.text()
    assert "g.sqrt(g.mean_last(x))" in kept.text()


def test_too_large_a_pattern_is_reported(request):
    """A chain of a thousand nodes is no pattern; where that ends hangs on Python's limit, which torch may raise."""

    def long(x):
        for _ in range(400):
            x = x.exp().tanh()
        return x

    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    request.addfinalizer(lambda: sys.setrecursionlimit(usual))
    with pytest.raises(UsageError, match="has 800 nodes, too many for one pattern"):
        surgeon.torch.learn(long, torch.randn(2, 8), exporters=["torchscript"], opsets=[17])


def test_numbers_of_half_precision_keep_their_names():
    """A float16 epsilon is the module's, whatever its digits."""
    runs = {"exporters": ["torchscript"], "opsets": [17]}
    for dtype in (torch.float16, torch.bfloat16):
        found = surgeon.torch.learn(RMS(8).to(dtype), torch.randn(2, 8).to(dtype), **runs)
        assert "(g: Graph, x: Tensor, weight: Constant, epsilon: float)" in found.text()


def test_a_constant_is_the_same_in_every_precision():
    """The digits that float16 has are those of the number in float32; other digits are another number."""
    model = parse("(float[n] x) => (float[n] y) <float half = {0.5}> { y = Mul(x, half) }")

    def learned_from(*numbers):
        made = [onnx.ModelProto.FromString(model.SerializeToString()) for _ in numbers]
        for one, number in zip(made, numbers, strict=True):
            one.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(number, "half"))
            one.graph.input[0].type.tensor_type.elem_type = one.graph.initializer[0].data_type
            one.graph.output[0].type.tensor_type.elem_type = one.graph.initializer[0].data_type
        return learn_models([[Example(one, f"{place}.onnx") for place, one in enumerate(made)]], "scaled").text()

    narrow, wide = np.float16(0.7345678), np.float32(0.7345678)
    assert "g.mul(x, 0.7345678)" in learned_from(narrow, wide)
    assert "g.mul(x, 0.7345678)" in learned_from(wide, narrow)
    assert "g.mul(x, number)" in learned_from(narrow, np.float32(0.73))


def test_names_in_a_model_are_no_code():
    """A custom op may be called anything; the text quotes it, and refuses what cannot be written."""
    models = [parse("(float[2, 4] x) => (float[2, 4] y) { s = my.Op(x) y = Neg(s) }") for _ in range(2)]
    for model in models:
        model.graph.node[0].op_type = 'Op"); print("'
    found = learn_models([[Example(model, 'a"""b', ["import"]) for model in models]], 'x"""\\')
    assert 'g.op("my::Op\\"); print(\\"", import_)' in found.text()
    assert len(found.functions) == 1
    for model in models:
        model.graph.node[0].attribute.append(onnx.helper.make_attribute("a b", 1))
    with pytest.raises(UsageError, match="an attribute 'a b'"):
        learn_models([[Example(model, "a") for model in models]], "x")


def test_labels_are_short():
    """Opsets in a row are a range."""
    assert short_labels(["dynamo 18", "dynamo 19", "torchscript 14", "dynamo 23", "a.onnx"]) == (
        "dynamo 18-19, 23, torchscript 14, a.onnx"
    )


def test_the_module_is_left_as_it_was():
    """An instance keeps its weights and hyper-parameters."""
    module = SwiGLU().train()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    surgeon.torch.learn(module, torch.randn(2, 5, 8), exporters=["torchscript"], opsets=[17])
    assert module.training
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
