"""What each converter runs, every job in a process of its own: `python tools.py TOOL < jobs`.

surgeon                 surgeon convert, all of it
onnxconverter_common    convert_float_to_float16, inputs and outputs kept
onnxruntime             onnxruntime.transformers.float16, likewise
modelopt                nvidia-modelopt's AutoCast, likewise
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from typing import Any

SECONDS = 1800


def surgeon_tool(job: dict[str, Any]) -> dict[str, Any]:
    import surgeon

    _, report = surgeon.convert(job["source"], output=job["target"])
    stretches = [item.outcome for item in report.stretches]
    return {"kept": len(report.kept), "casts": report.casts, "stretches": stretches}


def common_tool(job: dict[str, Any]) -> dict[str, Any]:
    import onnx
    from onnxconverter_common import float16

    return _peer(job, onnx, float16)


def onnxruntime_tool(job: dict[str, Any]) -> dict[str, Any]:
    import onnx
    from onnxruntime.transformers import float16

    return _peer(job, onnx, float16)


def modelopt_tool(job: dict[str, Any]) -> dict[str, Any]:
    import onnx
    from modelopt.onnx.autocast import convert_to_mixed_precision

    before = sum(node.op_type == "Cast" for node in onnx.load(job["source"]).graph.node)
    made = convert_to_mixed_precision(job["source"], "fp16", keep_io_types=True)
    onnx.save(made, job["target"])
    return {"casts": sum(node.op_type == "Cast" for node in made.graph.node) - before}


def _peer(job: dict[str, Any], onnx: Any, float16: Any) -> dict[str, Any]:
    model = onnx.load(job["source"])
    before = sum(node.op_type == "Cast" for node in model.graph.node)
    made = float16.convert_float_to_float16(model, keep_io_types=True)
    onnx.save(made, job["target"])
    return {"casts": sum(node.op_type == "Cast" for node in made.graph.node) - before}


TOOLS = {
    "surgeon": surgeon_tool,
    "onnxconverter_common": common_tool,
    "onnxruntime": onnxruntime_tool,
    "modelopt": modelopt_tool,
}
PEERS = ("onnxconverter_common", "modelopt")
"""Those that another environment may hold."""


def answered(run: Any, job: dict[str, Any]) -> dict[str, Any]:
    """What a job came to, in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        started = time.perf_counter()
        try:
            settings = {"why": "", **run(job)}
        except BaseException as error:  # noqa: BLE001  # whatever goes wrong is said
            settings = {"why": f"{type(error).__name__}: {error}"[:300]}
        settings["seconds"] = time.perf_counter() - started
        settings["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        os.write(writer, json.dumps(settings).encode()[:60000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if text else {"why": f"it ends its process with {status}", "seconds": 0, "megabytes": 0}


def main() -> None:
    run = TOOLS[sys.argv[1]]
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # what a converter prints is no answer
        for line in sys.stdin:
            print(json.dumps(answered(run, json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
