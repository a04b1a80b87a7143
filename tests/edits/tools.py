"""What the tools beside surgeon run, each job in a process of its own: `python tools.py TOOL < jobs`.

A job is a line of JSON.  The tool is imported once; then a process is forked for each job, under a limit of memory and
of time, and says in a line what came of it, how long it took and by how much its memory grew.

onnx            onnx.utils.extract_model, onnx.compose.merge_models (with prefixes where names clash)
onnx-ir         onnx_ir.convenience.extract, behind its shape inference
polygraphy      polygraphy surgeon extract
sclblonnx       inputs and outputs added and deleted; merge
surgeon         surgeon extract and merge, whose proof is left out in `surgeon-no-check`
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from typing import Any

MEMORY, SECONDS = 6 << 30, 90
Job = dict[str, Any]


def onnx_tool(job: Job) -> None:
    import onnx
    from onnx import compose, utils

    if job["kind"] == "cut":
        utils.extract_model(job["source"], job["target"], job["froms"], job["tos"])
        return
    models = [onnx.load(job[side]) for side in ("source", "second")]
    pairs = list(job["connect"].items())
    try:
        made = compose.merge_models(*models, io_map=pairs)
    except ValueError:
        made = compose.merge_models(*models, io_map=pairs, prefix1="a_", prefix2="b_")
    onnx.save(made, job["target"], save_as_external_data=job["external"])


def onnx_ir_tool(job: Job) -> None:
    import onnx_ir
    import onnx_ir.passes.common

    model = onnx_ir.load(job["source"])
    model = onnx_ir.is_passthrough.common.ShapeInferencePass()(model).model  # else inner tensors have no types
    graph = onnx_ir.convenience.extract(model.graph, job["froms"], job["tos"])
    made = onnx_ir.Model(graph, ir_version=model.ir_version, functions=list(model.functions.values()))
    onnx_ir.save(made, job["target"], external_data="part.data" if job["external"] else None)


def polygraphy_tool(job: Job) -> None:
    from polygraphy.tools import main

    inputs, outputs = [f"{name}:auto:auto" for name in job["froms"]], [f"{name}:auto" for name in job["tos"]]
    more = ["--save-external-data", "part.data"] if job["external"] else []
    command = ["surgeon", "extract", job["source"], "-o", job["target"], "--inputs", *inputs, "--outputs", *outputs]
    if main([*command, *more, "--silent"]):
        raise RuntimeError("polygraphy ended with an error")


def sclblonnx_tool(job: Job) -> None:
    import onnx
    import sclblonnx

    found = onnx.load(job["source"], load_external_data=False)
    opsets = [onnx.helper.make_opsetid(item.domain, item.version) for item in found.opset_import]
    graph = sclblonnx.graph_from_file(job["source"])
    if job["kind"] == "merge":
        pairs = list(job["connect"].items())
        graph = sclblonnx.merge(graph, sclblonnx.graph_from_file(job["second"]), io_match=pairs, complete=False)
    else:
        for name in [value.name for value in graph.output if value.name not in job["tos"]]:
            sclblonnx.delete_output(graph, name)
        for name in [value.name for value in graph.input if value.name not in job["froms"]]:
            sclblonnx.delete_input(graph, name)
        held = {value.name for value in (*graph.input, *graph.output)}
        for name in job["tos"]:
            if name not in held:
                sclblonnx.add_output(graph, name, *job["types"][name])
        for name in job["froms"]:
            if name not in held:
                sclblonnx.add_input(graph, name, *job["types"][name])
        graph = sclblonnx.clean(graph, opset_imports=opsets)
    if not graph:
        raise RuntimeError("sclblonnx gave no graph")
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=found.ir_version), job["target"])


def surgeon_tool(job: Job, check: str = "model") -> None:
    import surgeon

    if job["external"]:  # what nobody runs in this memory: a cut is proved by its nodes
        check = "auto" if job["kind"] == "cut" else "none"
    if job["kind"] == "cut":
        edit = surgeon.edits.Extract(tuple(job["froms"]), tuple(job["tos"]))
        surgeon.edit(job["source"], edit, output=job["target"], check=check)
    else:
        surgeon.merge(job["source"], job["second"], connect=job["connect"], output=job["target"], check=check)


def unchecked_tool(job: Job) -> None:
    surgeon_tool(job, "none")


MERGING = ("onnx", "sclblonnx", "surgeon", "surgeon-no-check")
"""Those that merge."""
OURS = ("surgeon.edits.merge_split.merge", "surgeon.edits", "surgeon.proof.model.model_check")
TOOLS = {
    "onnx": (onnx_tool, ("onnx.utils", "onnx.compose")),
    "onnx-ir": (onnx_ir_tool, ("onnx_ir", "onnx_ir.passes.common")),
    "polygraphy": (polygraphy_tool, ("polygraphy.tools", "onnx")),
    "sclblonnx": (sclblonnx_tool, ("sclblonnx",)),
    "surgeon": (surgeon_tool, OURS),
    "surgeon-no-check": (unchecked_tool, OURS),
}


def peak() -> float:
    """The most memory that this process held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def do(tool: Any, job: Job, answer: int) -> None:
    """One job in this process, which ends with it."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    signal.alarm(SECONDS)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    before, started, why = peak(), time.perf_counter(), ""
    try:
        tool(job)
    except BaseException as error:  # noqa: BLE001  # whatever a tool does, the row says so
        why = f"{type(error).__name__}: {error}"[:300]
    settings = {"why": why, "seconds": time.perf_counter() - started, "megabytes": max(peak() - before, 0.0)}
    os.write(answer, json.dumps(settings).encode())
    os._exit(0)


def main() -> int:
    tool, modules = TOOLS[sys.argv[1]]
    for name in modules:
        __import__(name)
    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            do(tool, json.loads(line), writer)
        os.close(writer)
        with os.fdopen(reader) as stream:
            answer = stream.read()
        _, status = os.waitpid(child, 0)
        ended = {"why": f"the process ended with {status}", "seconds": 0.0, "megabytes": 0.0}
        sys.stdout.write(f"{answer or json.dumps(ended)}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
