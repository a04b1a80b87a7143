"""What an execution provider runs of models of one node: where its table, which is made from a document, is wrong.

    python -m tests.kernel_probe cuda             on a machine that has the provider: says where the table is wrong
    python -m tests.kernel_probe cuda --write     and corrects surgeon/targets/data/kernels_cuda.json

The models are those of `tests.node_models` at all opsets, and onnx's own cases at theirs, in each type of `KINDS` that
the schema allows.  They are loaded, not run, and ONNX Runtime says where it put each node.  A version of an op that
was looked at has the types that one model of it at least was placed in; other types stay as the table has them.  A
body counts at an opset where all models ran by it: that of a Clip without bounds is an Identity.
"""

import argparse
import json
import multiprocessing
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import TensorProto

from surgeon.authoring.rule_proof.opset_range import newest_opset
from surgeon.ops.schemas import Schema, history, schema, type_string, variables
from surgeon.runtime.provider_support import NEWEST
from tests.make_kernel_tables import DATA, content, write
from tests.node_models import NODES, NUMBERS
from tests.onnx_cases import onnx_cases

KINDS = ("float", "float16", "bfloat16")
KERNEL, BODY, ELSEWHERE = "kernel", "body", "elsewhere"


@dataclass(frozen=True)
class Sample:
    """A model of one node.

    opset: of the op's own domain.  kind: the type of its floating-point tensors; types: by type variable of its schema.
    """

    version: Schema
    opset: int
    kind: str
    types: Mapping[str, int]
    model: bytes


@dataclass(frozen=True)
class Found:
    """How a sample is run: KERNEL, BODY or ELSEWHERE."""

    domain: str
    op: str
    since: int
    opset: int
    kind: str
    variables: tuple[str, ...]
    how: str


def samples(newest: int) -> Iterator[Sample]:
    """All models that a runtime for opsets up to the newest may know."""
    for node in NODES.values():
        for opset in node.opsets:
            version = node.version(opset)
            if version is None or opset > newest:
                continue
            for kind in KINDS:
                types = variables(version, node.dtypes(kind))
                if all(
                    name not in version.types or type_string(dtype) in version.types[name]
                    for name, dtype in types.items()
                ):
                    made = node.model(opset, kind).SerializeToString()
                    yield Sample(version, node.opset(opset), kind, types, made)
    for case in onnx_cases():
        imports = {item.domain: item.version for item in case.model.opset_import}
        nodes = case.model.graph.node
        if len(nodes) == 1 and imports.get("", 1) <= newest:
            version = schema(nodes[0].domain, nodes[0].op_type, imports.get(nodes[0].domain))
            yield from () if version is None else _retyped(case.model, version, imports.get(version.domain, 1))


def _retyped(model: onnx.ModelProto, version: Schema, opset: int) -> Iterator[Sample]:
    """A case in the types that its schema allows in place of float."""
    node = model.graph.node[0]
    for kind in KINDS:
        made = onnx.ModelProto()
        made.CopyFrom(model)
        made.ir_version = min(made.ir_version, 11)
        ends = {value.name: value for value in (*made.graph.input, *made.graph.output)}
        if any(value.type.WhichOneof("value") != "tensor_type" for value in ends.values()):
            return
        dtypes: list[list[int | None]] = [[], []]
        changed = kind == "float"
        for side, (names, at) in enumerate(((node.input, version.input_at), (node.output, version.output_at))):
            for place, name in enumerate(names):
                formal, value = at(place), ends.get(name)
                is_float = value is not None and value.type.tensor_type.elem_type == TensorProto.FLOAT
                if value is not None and formal and is_float and f"tensor({kind})" in version.allowed(formal):
                    value.type.tensor_type.elem_type = NUMBERS[kind]
                    changed = changed or not side
                dtypes[side].append(None if value is None else value.type.tensor_type.elem_type)
        types = variables(version, *dtypes)
        if changed and NUMBERS[kind] in types.values():
            yield Sample(version, opset, kind, types, made.SerializeToString())


def placed(given: Iterable[Sample], provider: str) -> Iterator[Found]:
    """How a provider of the installed ONNX Runtime runs each, by ORT's name for it."""
    kept = list(given)
    with multiprocessing.get_context("spawn").Pool() as pool:  # a driver does not outlive a fork
        hows = pool.imap(_place, [(sample.model, provider) for sample in kept], chunksize=16)
        for sample, how in zip(kept, hows, strict=True):
            floats = tuple(name for name, dtype in sample.types.items() if dtype == NUMBERS[sample.kind])
            asked = sample.version.domain, sample.version.name, sample.version.since_version, sample.opset
            yield Found(*asked, sample.kind, floats, how)


def _place(asked: tuple[bytes, str]) -> str:
    import onnxruntime

    model, provider = asked
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    try:
        session = onnxruntime.InferenceSession(model, options, [provider, "CPUExecutionProvider"])
    except Exception:  # noqa: BLE001  # a refusal, of which there are a dozen types
        return ELSEWHERE
    (node,) = onnx.ModelProto.FromString(model).graph.node
    there = [
        one.op_type
        for part in session.get_provider_graph_assignment_info()
        if part.ep_name == provider
        for one in part.get_nodes()
    ]
    return KERNEL if node.op_type in there else BODY if there else ELSEWHERE


def corrected(table: Mapping[str, Any], found: Iterable[Found]) -> dict[str, Any]:
    """A table whose rows say what was found of the versions that were looked at."""
    sets = [frozenset(kinds) for kinds in table["type_sets"]]
    rows = [
        (domain, op, first, last or NEWEST, {name: sets[number] for name, number in types.items()})
        for domain, op, first, last, types in table["kernels"]
    ]
    by_version: dict[tuple[str, str, int], list[Found]] = {}
    for one in found:
        by_version.setdefault((one.domain, one.op, one.since), []).append(one)
    bodies = []
    for (domain, op, since), there in by_version.items():
        later = [version.since_version for version in history(domain, op) if version.since_version > since]
        last = min(later) - 1 if later else NEWEST
        ours = [row for row in rows if row[:2] == (domain, op) and row[2] <= since <= row[3]]
        rows = [row for row in rows if row not in ours]
        rows += [(*row[:2], row[2], since - 1, row[4]) for row in ours if row[2] < since]
        rows += [(*row[:2], last + 1, row[3], row[4]) for row in ours if row[3] > last]
        names = set.intersection(*(set(one.variables) for one in there))
        looked_at = {one.kind for one in there}
        ran = {one.kind for one in there if one.how == KERNEL}
        before = ours or ([(domain, op, since, last, dict.fromkeys(sorted(names), frozenset()))] if ran else [])
        for *_, types in before:
            new = {name: (kinds - looked_at) | ran if name in names else kinds for name, kinds in types.items()}
            is_lost = not ran and any(types.get(name, frozenset()) & looked_at for name in names)
            if not is_lost and all(new.values()):  # without any of these there is no kernel for this version at all
                rows.append((domain, op, since, last, {name: frozenset(kinds) for name, kinds in new.items()}))
        bodies += _bodies(there, last)
    made_from = table["made_from"].partition(";")[0]
    new_table = content(rows, made_from, is_exact=False, bodies=sorted(bodies, key=lambda row: row[:3]))
    return {**new_table, "measured": sorted({(domain, op) for domain, op, _ in by_version})}


def _bodies(there: Sequence[Found], last: int) -> Iterator[tuple[str, str, int, int, frozenset[str]]]:
    """In which types one version of an op runs by its body, from opset to opset; the last one that was tried stands for
    those behind it."""
    opsets = sorted({one.opset for one in there})
    for opset, following in zip(opsets, [*opsets[1:], last + 1], strict=True):
        tried = [one for one in there if one.opset == opset and one.how != KERNEL]
        kinds = {one.kind for one in tried} - {one.kind for one in tried if one.how == ELSEWHERE}
        if kinds:
            yield there[0].domain, there[0].op, opset, following - 1, frozenset(kinds)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kernel_probe", description=__doc__.partition("\n")[0])
    parser.add_argument("provider", help="cuda, dml")
    parser.add_argument("--write", action="store_true", help="correct the table")
    asked = parser.parse_args()
    import onnxruntime

    title = {name.lower(): name for name in onnxruntime.get_available_providers()}[f"{asked.provider}executionprovider"]
    path = DATA / f"kernels_{asked.provider}.json"
    before = json.loads(path.read_text(encoding="utf-8"))
    after = corrected(before, placed(samples(newest_opset()), title))
    after["made_from"] += f"; corrected by what ONNX Runtime {onnxruntime.__version__} places"
    olds, news = ({json.dumps(row) for row in _spelled(table)} for table in (before, after))
    for line in (*(f"- {row}" for row in sorted(olds - news)), *(f"+ {row}" for row in sorted(news - olds))):
        print(line)
    if asked.write:
        write(asked.provider, after)
    return 0


def _spelled(table: Mapping[str, Any]) -> Iterator[list[Any]]:
    for domain, op, first, last, types in table["kernels"]:
        yield [domain, op, first, last, {name: table["type_sets"][number] for name, number in types.items()}]


if __name__ == "__main__":
    sys.exit(main())
