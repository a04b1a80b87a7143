"""What a call says is in its node, or the export is refused: nothing is lost on the way without a word."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor

import surgeon
import surgeon.torch
from surgeon.errors import ExportError, UsageError
from tests.from_torch.operators import EXPORTERS, attributes, export, module, nodes, types

X = torch.arange(6.0).reshape(2, 3) - 2
each = pytest.mark.parametrize("exporter", EXPORTERS)


@torch.library.custom_op("kept::weighted", mutates_args=())
def weighted(x: Tensor, xs: Sequence[Tensor], w: Tensor | None = None, v: Tensor | None = None) -> Tensor:
    """A list of tensors, and tensors behind it that may be left out."""
    y = sum(xs) - x
    return (y if w is None else y * w) + (0 if v is None else v)


@weighted.register_fake
def _(x, xs, w=None, v=None):
    return torch.empty_like(x)


@torch.library.custom_op("kept::needed", mutates_args=())
def needed(x: Tensor, w: Tensor | None) -> Tensor:
    """A tensor that may be None, and has no default."""
    return x + 1 if w is None else x * w


@needed.register_fake
def _(x, w):
    return torch.empty_like(x)


@torch.library.custom_op("kept::positive", mutates_args=())
def positive(x: Tensor) -> Tensor:
    """As many numbers as the data have."""
    return x[x > 0]


@positive.register_fake
def _(x):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


LIBRARY = torch.library.Library("kept", "FRAGMENT")
for schema, run in (
    ("counted(Dict(str,int) d, Tensor x) -> Tensor", lambda d, x: x + len(d)),
    ("turned(Tensor x, complex c=1.0) -> Tensor", lambda x, c=1.0: x * c),
    ("spread(Tensor x, Scalar c) -> Tensor", lambda x, c: x * c),
):
    LIBRARY.define(schema)
    LIBRARY.impl(schema.partition("(")[0], run, "CompositeExplicitAutograd")
    fake = (lambda d, x: torch.empty_like(x)) if "Dict" in schema else (lambda x, c=1.0: torch.empty_like(x))
    torch.library.register_fake(f"kept::{schema.partition('(')[0]}", fake, lib=LIBRARY)


def calls_weighted(x, y):
    """With both tensors behind the list, with one of them, with none."""
    return weighted(x, [x, y], y, x), weighted(x, [x, y], y), weighted(x, [y], None, y), weighted(x, [y])


@each
def test_a_list_of_tensors_is_distinguished_from_what_is_left_out_behind_it(exporter):
    """As many inputs are empty at the end of the node as tensors are left out: the list would take the last ones."""
    surgeon.torch.implement("kept::weighted")
    made = export(calls_weighted, "x y", (X, X + 1), exporter, placeholders=["kept::weighted"])
    found = [["xy".find(name) if name else None for name in node.input] for node in nodes(made, "kept")]
    assert [len(one) for one in found] == [5, 5, 4, 4]
    assert [one[-2:] for one in found][1:] == [[1, None], [None, 1], [None, None]]
    assert surgeon.torch.compare(module(calls_weighted, "x y"), made.model, (X, X + 1))


@each
def test_a_symbolic_gets_the_list_and_what_is_left_out_behind_it(exporter):
    """By name: xs holds two tensors and w is None."""
    seen = []

    def symbolic(g, x, xs, w, v):
        seen.append((len(xs), w is None, v is None))
        return g.sub(g.add(*xs), x)

    surgeon.torch.register("kept::weighted", symbolic)
    try:
        calls = module(lambda x, y: weighted(x, [x, y]), "x y")
        made = surgeon.torch.export(calls, (X, X + 1), exporter=exporter)
    finally:
        surgeon.torch.unregister("kept::weighted")
    assert set(seen) == {(2, True, True)}
    assert surgeon.torch.compare(calls, made.model, (X, X + 1))


def test_a_tensor_that_is_none_needs_no_default_where_sizes_are_free():
    """The fake kernel is called with None."""
    made = export(
        lambda x: needed(x, None),
        "x",
        (X,),
        "torchscript",
        placeholders=["kept::needed"],
        dynamic_shapes={"x": {0: "batch"}},
    )
    assert types(made)[nodes(made, "kept")[0].output[0]] == ("FLOAT", ("batch", 3))


@pytest.mark.parametrize(
    ("name", "call", "words"),
    [
        ("counted", lambda x: torch.ops.kept.counted({"a": 1}, x), r"'d' of kept::counted is of type Dict\(str, int\)"),
        ("turned", lambda x: torch.ops.kept.turned(x, 2j).real, "'c' of kept::turned is of type complex"),
        ("spread", lambda x: torch.ops.kept.spread(x, 1e300), r"'c' of kept::spread is 1e\+300, but an attribute"),
    ],
    ids=["dict", "complex", "huge"],
)
def test_what_no_attribute_holds_is_refused(name, call, words):
    """It was left out, or became infinity."""
    with pytest.raises(UsageError, match=words):
        export(call, "x", (X,), "dynamo", placeholders=[f"kept::{name}"])


def test_what_is_at_its_default_may_be_of_any_type():
    """Nothing is lost of a complex number that the schema tells."""
    made = export(lambda x: torch.ops.kept.turned(x), "x", (X,), "dynamo", placeholders=["kept::turned"])
    assert [list(node.attribute) for node in nodes(made, "kept")] == [[]]


class Doubled(torch.autograd.Function):
    """Writes into its argument."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)


class Writes(torch.nn.Module):
    """A part that writes into its argument."""

    def forward(self, x, *, by=2):
        return x.mul_(by)


class Reads(torch.nn.Module):
    """Reads what a part has written into."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        y = x + 1
        return self.inner(y) + y


@each
@pytest.mark.parametrize(
    ("inner", "named"), [(Doubled.apply, Doubled), (Writes(), Writes)], ids=["function", "module class"]
)
def test_a_class_that_changes_its_argument_is_no_node(exporter, inner, named):
    """Who reads the argument after it would read what was there before."""
    with pytest.raises(ExportError, match=r"changes its argument 'x' in place.* \(x\.clone\(\)\)"):
        surgeon.torch.export(Reads(inner), (X,), placeholders=[named], exporter=exporter)


@torch.library.custom_op("kept::increase", mutates_args=("x",))
def increase(x: Tensor, by: Tensor) -> None:
    """Writes into x, and returns nothing."""
    x.add_(by)


class Increases(torch.nn.Module):
    """Calls it on something of its own."""

    def forward(self, x, by):
        y = x.clone()
        increase(y, by)
        return y


@each
@pytest.mark.parametrize("named", [[], ["kept::increase"]], ids=["plain", "placeholder"])
def test_an_operator_that_writes_is_reported_with_what_helps(exporter, named):
    """TorchScript's exporter lost what it writes; a module class around it is the way, and works."""
    calls = torch.nn.Sequential(Increases())
    calls.forward = lambda x, by: calls[0](x, by)
    with pytest.raises(UsageError, match=r"kept::increase changes its arguments in place.*Use a module class"):
        surgeon.torch.export(calls, (X, X), placeholders=named, exporter=exporter)
    made = surgeon.torch.export(calls, (X, X), placeholders={Increases: "t::I"}, exporter=exporter)
    assert made.placeholders == {"t::I": 1}
    found = surgeon.torch.is_supported("kept::increase", exporter=exporter)
    assert not found
    assert "Use a module class that calls it as the placeholder" in found.reason


def test_what_writes_is_not_reported_to_be_a_placeholder():
    """That would be refused."""
    (found,) = surgeon.torch.unsupported(Increases(), (X, X))
    assert found.reason.startswith("kept::increase changes its arguments in place")


class Scaled(torch.autograd.Function):
    """x · by."""

    @staticmethod
    def forward(ctx, x, by=2):
        return x * by


class Apart(torch.autograd.Function):
    """Without a context."""

    @staticmethod
    def forward(x, y):
        return x * 2, y + 1

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass


scaled, apart = Scaled.apply, Apart.apply


@each
def test_a_function_is_met_by_whatever_name_it_is_called(exporter):
    """`scaled = Scaled.apply`, as torch's own pages write it, was made before the export."""
    calls = module(lambda x: sum(apart(x, x + 1)) + scaled(x, 3) + Scaled.apply(x) + Apart.apply(x, x)[1], "x")
    made = surgeon.torch.export(calls, (X,), placeholders={Scaled: "t::S", Apart: "t::A"}, exporter=exporter)
    assert made.placeholders == {"t::S": 2, "t::A": 2}
    assert sorted(map(len, map(attributes, nodes(made, "t")))) == [0, 0, 0, 1]
    surgeon.torch.implement(Scaled, "t::S")
    surgeon.torch.implement(Apart, "t::A")
    assert surgeon.torch.compare(calls, made.model, (X,))
    assert Scaled.forward(None, X, 1) is not X
    assert "apply" not in vars(Scaled)


class Packed(torch.nn.Module):
    """Weights as torch's quantised layers keep them."""

    def __init__(self):
        super().__init__()
        weight = torch.quantize_per_tensor(torch.ones(3, 3), 0.1, 0, torch.qint8)
        self.packed = torch.ops.quantized.linear_prepack(weight, None)

    def forward(self, x):
        return torch.ops.quantized.linear_dynamic(x, self.packed)


def test_weights_that_are_no_tensors_are_not_lost():
    """A node would have had the module's input alone."""
    with pytest.raises(ExportError, match="Packed keeps its weights in packed, which is not a tensor"):
        surgeon.torch.export(Packed(), (X,), placeholders=[Packed], exporter="torchscript")


class Remembers(torch.nn.Module):
    """Writes into one buffer, and puts another in the place of the other."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2, 3))
        self.register_buffer("seen", torch.zeros(1, 3))

    def forward(self, x):
        self.total.add_(x)
        self.seen = torch.cat([self.seen, x])
        return self.total + self.seen.sum(0)


@each
@pytest.mark.parametrize("named", [[], [Remembers]], ids=["plain", "placeholder"])
def test_a_module_s_buffers_are_what_they_were(exporter, named):
    """Exporters run the module, and it is to be left as it is."""
    inner = Remembers()
    before = inner.total, inner.seen
    if exporter == "torchscript" or named:  # dynamo takes no buffer of another size
        surgeon.torch.export(torch.nn.Sequential(inner), (X,), placeholders=named, exporter=exporter)
    assert (inner.total is before[0], inner.seen is before[1]) == (True, True)
    assert not inner.total.any()


def test_buffers_that_are_not_made_yet_are_left_to_the_run():
    """A lazy module has none to keep."""
    lazy = torch.nn.Sequential(torch.nn.LazyBatchNorm1d()).eval()
    made = surgeon.torch.export(lazy, (X,))
    assert surgeon.torch.compare(lazy, made.model, (X,))


class Sums(torch.nn.Module):
    """Adds to a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2, 3))

    def forward(self, x):
        return self.total.add_(x) * 2


def test_a_comparison_changes_no_buffer():
    """The second one is as the first."""
    sums = Sums()
    made = surgeon.torch.export(sums, (X,))
    for _ in range(2):
        assert surgeon.torch.compare(sums, made.model, (X,))


@each
@pytest.mark.parametrize(
    ("op", "call"),
    [
        ("aten::nonzero", lambda x: torch.nonzero(x) + 1),
        ("aten::_unique2", lambda x: torch.unique(x) * 2),
        ("kept::positive", lambda x: positive(x) * 2),
    ],
    ids=["nonzero", "unique", "own"],
)
def test_a_size_that_depends_on_data_is_not_fixed(exporter, op, call):
    """TorchScript's trace has seen one, which the model stated."""
    made = export(call, "x", (X,), exporter, placeholders=[op])
    known = types(made)
    for name in (nodes(made, op.partition("::")[0])[0].output[0], made.model.graph.output[0].name):
        assert not isinstance(known[name][1][0], int)


def test_an_implementation_takes_no_text_for_numbers():
    """aten::any has an overload of texts, which took a tensor as its list."""
    found = surgeon.torch.implement("aten::any")
    assert found(np.array([False, True]))
    assert not found(np.array([False, False]))


@each
def test_a_dict_may_be_the_last_argument(exporter):
    """torch takes it for the keyword arguments."""
    made = export(lambda d: d["a"] * 2 + d["b"], "d", ({"a": X, "b": X},), exporter)
    assert len(made.model.graph.input) == 2


@each
@pytest.mark.parametrize(
    "free",
    [{"d": {"a": {0: "batch"}, "b": {0: "batch"}}}, {"d": {0: "batch"}}, {"d": [{0: "batch"}, {0: "batch"}]}],
    ids=["tree", "all alike", "list"],
)
def test_sizes_of_what_a_dict_holds_are_free_under_their_names(exporter, free):
    """dynamo has names of its own for these inputs."""
    made = export(lambda d: d["a"] * 2 + d["b"], "d", ({"a": X, "b": X},), exporter, dynamic_shapes=free)
    assert {shape for _, shape in types(made).values()} >= {("batch", 3)}
    assert types(made)[made.model.graph.output[0].name] == ("FLOAT", ("batch", 3))


class Any(torch.nn.Module):
    """Takes any number of tensors, and heeds the first."""

    def forward(self, *tensors):
        return tensors[0] * 2


@each
def test_sizes_of_further_arguments_are_free_under_their_names(exporter):
    """And an argument that nothing reads is no input of TorchScript's, and no fault of a comparison."""
    made = surgeon.torch.export(Any(), (X, X + 1), exporter=exporter, dynamic_shapes={"tensors": {0: "batch"}})
    assert types(made)[made.model.graph.output[0].name] == ("FLOAT", ("batch", 3))
    assert surgeon.torch.compare(Any(), made.model, (X, X + 1))


@pytest.mark.parametrize("make", [torch.jit.script, lambda one: torch.jit.trace(one, X)], ids=["scripted", "traced"])
def test_a_module_of_torchscript_is_exported_by_torchscript(make):
    """Its parameters are those of its schema; dynamo takes none such."""
    made_of = torch.nn.Sequential(torch.nn.GELU(), torch.nn.BatchNorm1d(3)).eval()
    found = make(made_of)
    surgeon.torch.implement("aten::gelu")
    made = surgeon.torch.export(found, (X,), exporter="torchscript", placeholders=["aten::gelu"])
    assert made.placeholders == {"aten::gelu": 1}
    assert surgeon.torch.compare(found, made.model, (X,))
    with pytest.raises(UsageError, match="is a TorchScript module, which the dynamo exporter does not accept. Use"):
        surgeon.torch.export(found, (X,))


@each
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"opset": "18"}, "writes opsets .* not '18'"),
        ({"path": "."}, r"\. is a directory. Give the path of a file in it"),
        ({"path": 3}, "path must be a path or None, not 3"),
        ({"input_names": ["a", "a"]}, "input_names has 'a' more than once"),
        ({"input_names": "xy"}, "input_names must be a list of names"),
        ({"output_names": 3}, "output_names must be a list of names"),
        ({"args": (X.numpy(), X)}, "Argument 'x' is a numpy array, but modules take tensors"),
    ],
    ids=lambda item: next(iter(item)) if isinstance(item, dict) else "",
)
def test_arguments_that_do_not_fit_are_reported_before_anything_is_done(exporter, options, words):
    """They ended in a TypeError, in a file that is no model, or in two inputs of one name."""
    given = {"args": (X, X), "exporter": exporter, **options}
    with pytest.raises(UsageError, match=words):
        surgeon.torch.export(module(lambda x, y: x + y, "x y"), **given)


def test_more_output_names_than_outputs_are_reported():
    """dynamo dropped what was too many."""
    with pytest.raises(UsageError, match="2 output names, but .* returns 1 tensor"):
        export(lambda x: x + 1, "x", (X,), "dynamo", output_names=["a", "b"])


def test_a_module_that_cannot_run_is_reported_in_one_sentence(capfd, request):
    """torch's log said the same in forty lines, and an export by torch itself leaves it on."""
    torch._C._jit_set_onnx_log_enabled(True)
    request.addfinalizer(lambda: torch._C._jit_set_onnx_log_enabled(False))
    with pytest.raises(ExportError, match="broadcast"):
        export(lambda x, y: x + y, "x y", (X, torch.ones(7)), "dynamo")
    with pytest.raises(ExportError):
        export(lambda x: torch.fft.rfft(x).abs(), "x", (X,), "torchscript", placeholders=["aten::fft_rfft"])
    reported = capfd.readouterr()
    assert "Traceback" not in reported.err
    assert "graph(" not in reported.out


def test_empty_inputs_at_the_end_change_nothing_for_patterns():
    """A node whose last inputs are empty is one that onnx takes, and that a pattern matches."""
    made = export(calls_weighted, "x y", (X, X + 1), "torchscript", placeholders=["kept::weighted"])
    onnx.checker.check_model(made.model, full_check=True)

    def placeholder(g, x, y):
        return g.op("kept::weighted", x, y)

    @surgeon.rule(patterns=[placeholder], target="any")
    def difference(g, x, y):
        """Write the difference."""
        return g.sub(y, x)

    assert sum(1 for _ in surgeon.find(made.model, difference)) == 1


@pytest.mark.parametrize("opset", [7, 8])
def test_an_op_that_the_opset_does_not_have_is_reported(opset):
    """TorchScript's exporter writes Erf at any opset, and no runtime loads that."""
    with pytest.raises(ExportError, match=f"wrote Erf at opset {opset}, but .* from opset 9 on. Use opset=9"):
        export(torch.nn.functional.gelu, "x", (X,), "torchscript", opset=opset)
    assert surgeon.torch.compare(
        torch.nn.GELU(), export(torch.nn.functional.gelu, "x", (X,), "torchscript", opset=9).model, (X,)
    )


def test_an_argument_that_torchscript_does_not_trace_has_the_other_exporter_as_a_cure():
    """Lists of texts, say."""
    LIBRARY.define("named(Tensor x, str[] names) -> Tensor")
    LIBRARY.impl("named", lambda x, names: x + len(names), "CompositeExplicitAutograd")
    torch.library.register_fake("kept::named", lambda x, names: torch.empty_like(x), lib=LIBRARY)
    asked = {"placeholders": ["kept::named"]}
    with pytest.raises(ExportError, match="unsupported input list type: str. Use exporter='dynamo', which accepts it"):
        export(lambda x: torch.ops.kept.named(x, ["a"]), "x", (X,), "torchscript", **asked)
    made = export(lambda x: torch.ops.kept.named(x, ["a", "b,c"]), "x", (X,), "dynamo", **asked)
    assert attributes(nodes(made, "kept")[0]) == {"names": [b"a", b"b,c"]}


@pytest.mark.parametrize(
    ("given", "words"),
    [(torch.nn.GELU, "GELU is a module class. Create a module: GELU"), (torch.i0, "Only an nn.Module can be exported")],
    ids=["class", "function"],
)
def test_what_is_no_module_is_reported(given, words):
    """Whether to be exported, or asked what of it is not supported."""
    for call in (surgeon.torch.export, surgeon.torch.unsupported):
        with pytest.raises(UsageError, match=words):
            call(given, (X,))


@pytest.mark.parametrize("name", [3, "a b::c", "a::b::c"])
def test_a_name_for_a_node_that_is_none_is_reported(name):
    """A number had no `partition`."""
    with pytest.raises(UsageError, match="The name for Scaled is .*, as in 'mylibrary::op'"):
        export(Scaled.apply, "x", (X,), "torchscript", placeholders={Scaled: name})


class Within(torch.nn.Module):
    """Calls a Function with a weight of its own."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        return Scaled.apply(x) * self.weight


def test_what_is_called_inside_of_a_node_is_reported_as_that():
    """The module does call it."""
    asked = {"placeholders": [Within, Scaled], "exporter": "torchscript"}
    with pytest.raises(ExportError, match="Scaled, or only inside of Within, so it cannot be a placeholder"):
        surgeon.torch.export(torch.nn.Sequential(Within()), (X,), **asked)


def test_a_weight_that_a_symbolic_leaves_out_is_reported_by_its_name():
    """Not as what surgeon keeps of it."""
    surgeon.torch.register(Within, lambda g, x: g.mul(x, 2.0))
    try:
        with pytest.raises(ExportError, match="has no parameter 'weight', which is the tensor '0.weight' here"):
            surgeon.torch.export(torch.nn.Sequential(Within()), (X,), exporter="torchscript")
    finally:
        surgeon.torch.unregister(Within)
