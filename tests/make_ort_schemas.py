"""Write surgeon/ops/data/ort_schemas.json from the installed ONNX Runtime: `python tests/make_ort_schemas.py`.

The table holds every `com.microsoft` operator, and those of the default domain that ONNX does not have, or not as early
(LayerNormalization below opset 17).  It is made from `get_all_operator_schema()`, which ONNX Runtime does not promise
to keep, so only this script and the test that compares the table with the installed ONNX Runtime call it.
"""

import base64
import functools
import json
from pathlib import Path
from typing import Any

from onnx import defs

TABLE = Path(__file__).resolve().parent.parent / "surgeon" / "ops" / "data" / "ort_schemas.json"


def installed() -> list[Any]:
    """ONNX Runtime's own schemas of the operators that the table covers, by domain, name and version.

    Raises RuntimeError if this ONNX Runtime has no such list.
    """
    try:
        from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema
    except ImportError as error:
        raise RuntimeError("This ONNX Runtime does not list its schemas; take the one that the table names.") from error
    ours = [one for one in get_all_operator_schema() if _is_covered(one)]
    return sorted(ours, key=lambda one: (one.domain, one.name, one.since_version))


def table() -> dict[str, Any]:
    """The content of the table, as `json.loads` would give it back."""
    import onnx
    import onnxruntime

    type_sets: dict[tuple[str, ...], int] = {}
    operators = [_entry(one, type_sets) for one in installed()]
    return {
        "onnxruntime": onnxruntime.__version__,
        "onnx": onnx.__version__,
        "type_sets": [list(names) for names in type_sets],
        "operators": operators,
    }


def text(content: dict[str, Any]) -> str:
    """`content` as compact JSON with one line per operator, so that two versions compare line by line."""
    dump = lambda value: json.dumps(value, separators=(",", ":"))  # noqa: E731
    lines = ",\n".join(dump(one) for one in content["operators"])
    sets = ",\n".join(dump(one) for one in content["type_sets"])
    head = f'{{"onnxruntime":{dump(content["onnxruntime"])},"onnx":{dump(content["onnx"])},\n'
    return f'{head}"type_sets":[\n{sets}\n],\n"operators":[\n{lines}\n]}}\n'


def _is_covered(one: Any) -> bool:
    if one.domain == "":
        return one.since_version < _first_in_onnx().get(one.name, float("inf"))
    return bool(one.domain == "com.microsoft")


@functools.cache
def _first_in_onnx() -> dict[str, int]:
    """The opset from which ONNX itself has each of its operators."""
    found: dict[str, int] = {}
    for one in defs.get_all_schemas_with_history():
        if one.domain == "":
            found[one.name] = min(one.since_version, found.get(one.name, one.since_version))
    return found


def _entry(one: Any, type_sets: dict[tuple[str, ...], int]) -> dict[str, Any]:
    types = {}
    for constraint in one.type_constraints:
        names = tuple(sorted(constraint.allowed_type_strs))
        types[constraint.type_param_str] = type_sets.setdefault(names, len(type_sets))
    return {
        "domain": one.domain,
        "name": one.name,
        "since": one.since_version,
        "inputs": [_formal(formal) for formal in one.inputs],
        "outputs": [_formal(formal) for formal in one.outputs],
        "arity": [one.min_input, one.max_input, one.min_output, one.max_output],
        "attributes": {name: _attribute(one.attributes[name]) for name in sorted(one.attributes)},
        "types": types,
        "deprecated": int(one.deprecated),
    }


def _formal(formal: Any) -> list[str]:
    option = formal.option.name
    marks = {"Optional": "?", "Variadic": "*"}.get(option, "") + ("" if formal.isHomogeneous else "~")
    return [formal.name, formal.typeStr, marks]


def _attribute(attribute: Any) -> list[Any]:
    default = attribute._default_value
    kind = defs.OpSchema.AttrType.__members__[attribute.type.name]
    encoded = base64.b64encode(default).decode() if default else None
    return [int(kind.value), int(attribute.required), encoded]


if __name__ == "__main__":
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text(text(table()), encoding="utf-8")
    print(f"{TABLE}: {TABLE.stat().st_size} bytes")
