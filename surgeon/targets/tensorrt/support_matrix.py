"""The ops of ONNX that TensorRT reads, from its parser's documentation (TensorRT 11.1, opsets 9 to 24).

It is a list of names and dtypes, without single opsets: it shows what is documented, which is not a proof.  The
differences of TensorRT-RTX come from its parser (`tests/make_tensorrt_tables.py`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

# Those that mean the same as the op of ONNX.
CONTRIB_EQUIVALENTS = frozenset(
    {"DequantizeLinear", "GatherND", "Gelu", "GridSample", "Pad", "QuantizeLinear", "Range", "Trilu"}
)


@dataclass(frozen=True, slots=True)
class TensorrtOp:
    """An op of ONNX in TensorRT's documentation."""

    name: str
    """Name of the op."""
    supported: bool
    """Whether TensorRT reads it."""
    types: frozenset[str]
    """Dtypes of its data, as in schemas ("float")."""
    since: str
    """First version that reads it."""
    rtx: bool
    """Whether TensorRT-RTX reads it."""


def tensorrt_version() -> str:
    """The version of TensorRT that the list describes."""
    return str(_table()["tensorrt"])


def rtx_version() -> str:
    """The version of TensorRT-RTX whose parser was run."""
    return str(_table()["tensorrt_rtx"]["version"])


def tensorrt_opsets() -> range:
    """The opsets of ai.onnx that the list covers."""
    first, last = _table()["opsets"]
    return range(int(first), int(last) + 1)


@cache
def tensorrt_ops() -> Mapping[str, TensorrtOp]:
    """All ops of the list by name; other ops are unknown."""
    rtx: Mapping[str, bool] = _table()["tensorrt_rtx"]["differs"]
    return {
        name: TensorrtOp(
            name,
            row["supported"],
            frozenset(row.get("types", ())),
            since=row.get("since", ""),
            rtx=rtx.get(name, row["supported"]),
        )
        for name, row in _table()["ops"].items()
    }


@cache
def _table() -> dict[str, Any]:
    text = files("surgeon.targets").joinpath("data/tensorrt_ops.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table
