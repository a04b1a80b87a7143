"""torch's schemas as plain values: what is read, what is refused, and the shipped table against the installed torch."""

import math
import subprocess
import sys
import warnings

import pytest

import surgeon
from surgeon.errors import UsageError
from surgeon.ops import torch_schema
from surgeon.ops.torch_schema import known, matching_overload, parse
from tests.command_line import ROOT
from tests.make_aten_schemas import TABLE, lines

ADD = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"


def test_a_schema_is_read_whole():
    one = parse(ADD)
    assert (one.namespace, one.name, one.overload) == ("aten", "add", "Tensor")
    assert (one.qualified, one.full) == ("aten::add", "aten::add.Tensor")
    assert [argument.name for argument in one.tensors] == ["self", "other"]
    alpha = one.argument("alpha")
    assert (alpha.type, alpha.default, alpha.keyword_only, alpha.has_default) == ("Scalar", 1, True, True)
    assert [result.type for result in one.returns] == ["Tensor"]


@pytest.mark.parametrize(
    ("argument", "kind", "default"),
    [
        ("Tensor(a!) self", "Tensor", None),
        ("Tensor(a -> *)[] tensors", "Tensor[]", None),
        ("Tensor?[] indices", "Tensor?[]", None),
        ("SymInt[2]? size=None", "int[2]?", None),
        ("int[2] stride=1", "int[2]", [1, 1]),
        ("float p=2", "float", 2.0),
        ("float p=-inf", "float", -math.inf),
        ("float[]? scales=[1, 2.5]", "float[]?", [1.0, 2.5]),
        ('str mode="a, (b) = \\"c\\""', "str", 'a, (b) = "c"'),
        ("MemoryFormat memory_format=contiguous_format", "MemoryFormat", "contiguous_format"),
        ("Dict(str, int) options", "Dict(str, int)", None),
        ("__torch__.torch.classes.quantized.Packed packed", "__torch__.torch.classes.quantized.Packed", None),
    ],
)
def test_types_and_defaults(argument, kind, default):
    """Aliases go, SymInt is int, and defaults are Python values."""
    (found,) = parse(f"ns::op({argument}) -> Tensor").arguments
    assert (found.type, found.default) == (kind, default)
    assert type(found.default) is type(default)


def test_results_have_names_where_the_schema_has():
    assert [one.name for one in parse("ns::op(Tensor x) -> (Tensor values, Tensor(a) indices)").returns] == [
        "values",
        "indices",
    ]
    assert [one.type for one in parse("ns::op(Tensor x) -> (Tensor(a!), Tensor[])").returns] == ["Tensor", "Tensor[]"]
    assert parse("ns::op(Tensor x) -> ()").returns == ()
    assert [one.type for one in parse("ns::op(Tensor x) -> Tensor[]").returns] == ["Tensor[]"]


def test_how_a_placeholder_writes_arguments():
    """By base type; what ONNX has no attribute for is left out."""
    one = parse("ns::op(Tensor x, bool a, float[] b, Scalar c, ScalarType? d, str e, Device f, int[2]? g) -> Tensor")
    kinds = {argument.name: argument.attribute for argument in one.arguments}
    assert kinds == {
        "x": None,
        "a": "INT",
        "b": "FLOATS",
        "c": "NUMBER",
        "d": "INT",
        "e": "STRING",
        "f": None,
        "g": "INTS",
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("add(Tensor x) -> Tensor", "not a schema of a torch operator"),
        ("ns::op(Tensor x)", "End it with '-> Tensor'"),
        ("ns::op(Tensor x -> Tensor", "unclosed parenthesis"),
        ("ns::op(x) -> Tensor", "needs a type and a name"),
        ("ns::op(Ten$or x) -> Tensor", "which torch does not have"),
    ],
)
def test_what_is_no_schema_is_refused(text, why):
    with pytest.raises(UsageError, match=why.replace("(", r"\(")):
        parse(text)


def test_an_overload_is_chosen_by_what_is_given():
    is_tensor = (True, False)
    by_kind = matching_overload("aten", "add", inputs=2, takes=lambda place, item: item.is_tensor == is_tensor[place])
    assert by_kind.overload == "Scalar"
    assert matching_overload("aten", "add", inputs=3).overload == "Tensor"
    assert matching_overload("aten", "add", "Scalar").overload == "Scalar"
    with pytest.raises(UsageError, match="it has .*Scalar.*Tensor"):
        matching_overload("aten", "add", "Tensors")
    with pytest.raises(UsageError, match="accepts 9 arguments"):
        matching_overload("aten", "add", inputs=9)
    with pytest.raises(UsageError, match="did you mean .*aten::gelu"):
        matching_overload("aten", "gleu")
    with pytest.raises(UsageError, match=r"surgeon\.torch_schema"):
        matching_overload("nobodys", "op")


def test_a_schema_of_ones_own():
    """It is there from then on, and a later one of the same overload replaces it."""
    try:
        surgeon.torch_schema("surgeon_test::scaled(Tensor x, float alpha) -> Tensor")
        surgeon.torch_schema("surgeon_test::scaled(Tensor x, float beta) -> Tensor")
        surgeon.torch_schema("surgeon_test::scaled.two(Tensor x, Tensor y) -> Tensor")
        first, second = known("surgeon_test", "scaled")
        assert (first.arguments[1].name, second.overload) == ("beta", "two")
    finally:
        torch_schema._declared.pop(("surgeon_test", "scaled"))


def test_the_table_needs_no_torch_and_agrees_with_the_installed_one():
    """The same release must give the same table; another may have more, which is said and is no failure."""
    import torch

    shipped = TABLE.read_text(encoding="utf-8")
    if shipped.splitlines()[0] == f"# torch {torch.__version__.partition('+')[0]}":
        # In a process of its own: parts of torch that others load register more.
        command = [sys.executable, "-m", "tests.make_aten_schemas", "--print"]
        assert shipped == subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
        return
    ours, theirs = set(shipped.splitlines()[1:]), set(lines())
    assert len(ours & theirs) > 1000, "hardly any schema in common: torch writes them in another form"
    warnings.warn(f"torch {torch.__version__}: gone {sorted(ours - theirs)}, new {sorted(theirs - ours)}", stacklevel=1)


def test_what_is_read_is_what_torch_says():
    """Names, order, defaults and overloads of the whole table, beside torch's own objects."""
    import torch

    seen = 0
    for one in torch._C._jit_get_all_schemas():
        namespace, _, name = one.name.partition("::")
        ours = next((own for own in known(namespace, name) if own.overload == one.overload_name), None)
        if namespace != "aten" or ours is None or any(item.is_out for item in one.arguments):
            continue
        seen += 1
        theirs = [(item.name, item.kwarg_only, item.has_default_value(), item.default_value) for item in one.arguments]
        assert theirs == [(a.name, a.keyword_only, a.has_default, a.default) for a in ours.arguments], one
        assert len(ours.returns) == len(one.returns), one
    assert seen > 1000
