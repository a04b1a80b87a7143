"""Write surgeon/targets/data/kernels_*.json, the tables of what ONNX Runtime's execution providers have kernels for.

    python tests/make_kernel_tables.py                           the CPU provider, from the installed ONNX Runtime
    python tests/make_kernel_tables.py OperatorKernels.md REV    CUDA and DirectML, from docs/OperatorKernels.md of
                                                                 microsoft/onnxruntime at revision REV
    python tests/make_kernel_tables.py operators.md REV          TensorRT, from docs/operators.md of onnx/onnx-tensorrt

On a machine with a GPU `python -m tests.kernel_probe cuda --write` then corrects the table of CUDA: the document lacks
what came with newer versions of ops, and does not tell which versions a kernel is not for.

ONNX Runtime does not promise to keep `get_all_opkernel_def()`.  Functions' bodies are no kernels: where a node without
a kernel runs all the same is measured, by loading models of one node (`tests/node_models.py`).  Types that only
quantised models have (float8, float4, int4) and kernels of sequences are kept without their type constraints.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from surgeon.runtime.provider_support import CPU, FLOATS, NEWEST, KernelTable, ProviderSupport, parse_table
from tests.node_models import NODES, runs, says

DATA = Path(__file__).resolve().parent.parent / "surgeon" / "targets" / "data"
SECTIONS = {"CUDAExecutionProvider": "cuda", "DmlExecutionProvider": "dml"}
DOMAINS = ("", "com.microsoft", "ai.onnx.ml")
INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
KINDS = FLOATS | INTEGERS | {"bool", "string"}
PARSER_TYPES = {"FP32": "float", "FP16": "float16", "BF16": "bfloat16"}

Row = tuple[str, str, int, int, dict[str, frozenset[str]]]


def cpu_rows() -> list[Row]:
    """The kernels of the installed ONNX Runtime's CPU provider."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def

    return [
        (one.domain, one.op_name, *one.version_range, _constraints(one.type_constraints))
        for one in get_all_opkernel_def()
        if one.provider == "CPUExecutionProvider" and one.domain in DOMAINS
    ]


def cpu() -> dict[str, Any]:
    """The content of the CPU provider's table, kernels and bodies."""
    import onnxruntime

    rows, version = cpu_rows(), onnxruntime.__version__
    bare = content(rows, version, is_exact=True)
    return content(rows, version, is_exact=True, bodies=list(bodies(parse_table(bare))))


def bodies(table: KernelTable) -> Iterator[tuple[str, str, int, int, frozenset[str]]]:
    """Opsets at which what runs differs from what kernels and casts say: (domain, op, from, to, types that run).

    An op of another domain than the default has one row for all its versions; raises ValueError where the opset of the
    default domain makes a difference.
    """
    kernels = ProviderSupport(CPU, table)
    for (domain, op), node in NODES.items():
        found: dict[int, frozenset[str]] = {}
        for opset in (number for number in node.opsets if node.version(number) is not None):
            does = frozenset(kind for kind in FLOATS if runs(node, opset, kind))
            if any(says(kernels, node, opset, kind) != (kind in does) for kind in FLOATS):
                found[opset] = does
        if not domain:
            yield from ((domain, op, opset, opset, types) for opset, types in found.items())
        elif found:
            if set(found) != set(node.opsets) or len(set(found.values())) != 1:
                raise ValueError(f"What runs of {domain}::{op} hangs on the opset: {found}")
            yield domain, op, 1, NEWEST, next(iter(found.values()))


def documented(text: str, made_from: str) -> dict[str, dict[str, Any]]:
    """The tables that ONNX Runtime's docs/OperatorKernels.md holds, by the provider's short name."""
    found: dict[str, list[Row]] = {}
    provider = domain = op = ""
    for line in text.splitlines():
        if line.startswith("## Operators implemented by "):
            provider = SECTIONS.get(line.rpartition(" ")[2], "")
        named = re.match(r"\|\*\*Operator Domain:\*\* \*([\w.]+)\*", line)
        if named is not None:
            domain = "" if named[1] == "ai.onnx" else named[1]
        row = re.match(r"\|(\w*)\|.*?\|(?:\[(\d+), (\d+)\]|(\d+)(\+?))\|(.*)\|$", line)
        if row is None or not provider:
            continue
        op = row[1] or op
        first = int(row[2] or row[4])
        last = int(row[3]) if row[3] else NEWEST if row[5] else first
        types = {name: kinds.split(", ") for name, kinds in re.findall(r"\*\*(\w+)\*\* = ([^|<]*)", row[6])}
        if domain in DOMAINS:
            found.setdefault(provider, []).append((domain, op, first, last, _constraints(types)))
    return {name: content(rows, made_from, is_exact=False) for name, rows in found.items()}


def parsed(text: str, made_from: str) -> dict[str, Any]:
    """The table that onnx-tensorrt's docs/operators.md holds; it tells types without saying of which tensors."""
    rows: list[Row] = []
    for name, yes, types in re.findall(r"^\| *(\w+) *\| *([YN]) *\|([^|]*)\|", text, re.MULTILINE):
        kinds = frozenset(PARSER_TYPES[kind] for kind in re.findall(r"\w+", types) if kind in PARSER_TYPES)
        if yes == "Y":
            rows.append(("", name, 1, NEWEST, {"*": kinds} if kinds else {}))
    return content(rows, made_from, is_exact=False)


def content(
    rows: Iterable[Row], made_from: str, *, is_exact: bool, bodies: Iterable[tuple[Any, ...]] = ()
) -> dict[str, Any]:
    """A table as JSON holds it; rows of the same types whose versions touch are one, save where kernels are exact."""
    sets: dict[frozenset[str], int] = {}

    def number(kinds: frozenset[str]) -> int:
        return sets.setdefault(kinds, len(sets))

    merged: list[Row] = []
    for row in sorted(
        set_of(rows), key=lambda one: (one[0], one[1], sorted((k, sorted(v)) for k, v in one[4].items()), one[2])
    ):
        before = merged[-1] if merged else None
        if before and not is_exact and (before[:2], before[4]) == (row[:2], row[4]) and row[2] <= before[3] + 1:
            merged[-1] = (*row[:2], before[2], max(before[3], row[3]), row[4])
        else:
            merged.append(row)
    merged.sort(key=lambda one: (one[0], one[1], one[2]))
    joined: list[tuple[Any, ...]] = []
    for domain, op, first, last, kinds in bodies:
        if joined and joined[-1][:2] == (domain, op) and joined[-1][3] == first - 1 and joined[-1][4] == kinds:
            joined[-1] = (domain, op, joined[-1][2], last, kinds)
        else:
            joined.append((domain, op, first, last, kinds))
    return {
        "made_from": made_from,
        "exact": is_exact,
        "kernels": [
            [domain, op, first, 0 if last == NEWEST else last, {key: number(kinds) for key, kinds in types.items()}]
            for domain, op, first, last, types in merged
        ],
        "bodies": [[*row[:3], 0 if row[3] == NEWEST else row[3], number(row[4])] for row in joined],
        "measured": sorted(map(list, NODES)) if is_exact else [],
        "type_sets": [sorted(kinds) for kinds in sets],
    }


def set_of(rows: Iterable[Row]) -> list[Row]:
    """Rows without repetition."""
    return list({(*row[:4], tuple(sorted((k, v) for k, v in row[4].items()))): row for row in rows}.values())


def text(table: dict[str, Any]) -> str:
    """A table as compact JSON with one line per kernel, so that two versions compare line by line."""
    parts = []
    for key, value in table.items():
        lines = value if isinstance(value, list) else None
        shown = json.dumps(value, separators=(",", ":"))
        if lines:
            shown = "[\n" + ",\n".join(json.dumps(one, separators=(",", ":")) for one in lines) + "\n]"
        parts.append(f"{json.dumps(key)}:{shown}")
    return "{" + ",\n".join(parts) + "}\n"


def write(name: str, table: dict[str, Any]) -> None:
    """Write the table of a provider."""
    DATA.mkdir(exist_ok=True)
    path = DATA / f"kernels_{name}.json"
    path.write_text(text(table), encoding="utf-8")
    print(f"{path}: {len(table['kernels'])} kernels, {path.stat().st_size} bytes")


def _constraints(given: Any) -> dict[str, frozenset[str]]:
    """Type constraints without what no rule asks for: one of sequences, or of quantised types alone, is left out."""
    found = {}
    for name, types in sorted(given.items()):
        kinds = frozenset(kind.strip()[7:-1] for kind in types) & KINDS
        if kinds and all(kind.strip().startswith("tensor(") for kind in types):
            found[name] = kinds
    return found


if __name__ == "__main__":
    if len(sys.argv) == 1:
        write(CPU, cpu())
    elif Path(sys.argv[1]).name == "operators.md":
        source = f"docs/operators.md of onnx/onnx-tensorrt at {sys.argv[2]}"
        write("tensorrt", parsed(Path(sys.argv[1]).read_text(encoding="utf-8"), source))
    else:
        source = f"docs/OperatorKernels.md of microsoft/onnxruntime at {sys.argv[2]}"
        for short, table in documented(Path(sys.argv[1]).read_text(encoding="utf-8"), source).items():
            write(short, table)
