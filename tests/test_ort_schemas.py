"""The shipped table of ONNX Runtime's schemas against the ONNX Runtime that is installed."""

import json
import warnings

import onnx
import onnxruntime

from surgeon.ops.schemas import schema
from surgeon.ops.schemas.op_schema import history, operators
from tests.make_ort_schemas import TABLE, table, text


def test_the_table_is_that_of_the_installed_onnxruntime() -> None:
    """The same versions must give the same table; others may differ, which is said and is no failure.

    The version of onnx counts too: the table has what onnxruntime knows beyond it.
    """
    shipped = json.loads(TABLE.read_text(encoding="utf-8"))
    installed = table()
    if (shipped["onnxruntime"], shipped["onnx"]) == (installed["onnxruntime"], installed["onnx"]):
        assert shipped == installed
        return
    ours, theirs = (
        {(one["domain"], one["name"], one["since"]): one for one in content["operators"]}
        for content in (shipped, installed)
    )
    assert len(ours.keys() & theirs.keys()) > 50, "hardly any operator in common: the listing has changed its form"
    differing = [
        key
        for key in sorted(ours.keys() & theirs.keys())
        if ours[key]["inputs"] != theirs[key]["inputs"] or ours[key]["attributes"] != theirs[key]["attributes"]
    ]
    if differing or ours.keys() != theirs.keys():
        warnings.warn(
            f"onnxruntime {onnxruntime.__version__} with onnx {onnx.__version__} differs from the table of "
            f"{shipped['onnxruntime']} with {shipped['onnx']}: changed {differing}, "
            f"gone {sorted(ours.keys() - theirs.keys())}, new {sorted(theirs.keys() - ours.keys())}",
            stacklevel=1,
        )


def test_the_table_is_written_as_its_generator_writes_it() -> None:
    shipped = TABLE.read_text(encoding="utf-8")
    assert shipped == text(json.loads(shipped))


def test_a_line_per_operator() -> None:
    """Two versions of the table can be compared line by line."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    named = [line for line in lines if line.startswith('{"domain":')]
    assert len(named) == len(json.loads(TABLE.read_text(encoding="utf-8"))["operators"])


def test_defaults_are_decoded() -> None:
    found = schema("com.microsoft", "SkipLayerNormalization")
    assert found is not None
    assert abs(found.attributes["epsilon"].value - 1e-12) < 1e-18
    quick = schema("com.microsoft", "QuickGelu")
    assert quick is not None
    assert round(quick.attributes["alpha"].value, 3) == 1.702
    assert found.attributes["epsilon"].required is False


def test_every_entry_is_a_whole_schema() -> None:
    for domain in ("", "com.microsoft"):
        for name in operators(domain):
            for version in history(domain, name):
                assert version.domain == domain
                assert version.min_inputs <= version.max_inputs
                assert 0 <= version.min_outputs <= version.max_outputs
                for formal in (*version.inputs, *version.outputs):
                    assert all("(" in kind for kind in version.allowed(formal)), (name, formal)
