"""Ask TensorRT-RTX's parser which ops of ONNX it reads, and write where that differs from TensorRT's documentation.

    python -m tests.make_tensorrt_tables

writes `tensorrt_rtx` in surgeon/targets/data/tensorrt_ops.json: the version asked, and each op for which the parser
says otherwise than the documentation of TensorRT, which stays as it is.
"""

import json
from pathlib import Path
from typing import Any

import onnx

from surgeon.runtime.processes.worker import Task, TaskResult, Worker
from surgeon.runtime.tensorrt.library import installed

TABLE = Path(__file__).resolve().parent.parent / "surgeon" / "targets" / "data" / "tensorrt_ops.json"
# The parser has an importer for these and finds no plugin to import them with: `supports_operator` says yes.
WITHOUT_PLUGIN = ("DeformConv", "NonZero")


def asked() -> dict[str, Any]:
    """The content of `tensorrt_rtx`, by the parser that is installed."""
    library = installed("tensorrt-rtx")
    assert library is not None
    documented = json.loads(TABLE.read_text(encoding="utf-8"))["ops"]
    names = sorted({one.name for one in onnx.defs.get_all_schemas() if not one.domain})
    answer = Worker().run(Task("surgeon.runtime.tensorrt.parser_tasks:supports", (library.module, names), 60.0))
    assert isinstance(answer, TaskResult)
    said = {name: reads and name not in WITHOUT_PLUGIN for name, reads in answer.value["ops"].items()}
    differs = {name: said[name] for name in names if said[name] != documented.get(name, {}).get("supported", False)}
    return {"version": library.version, "differs": {name: differs[name] for name in differs if name in documented}}


def main() -> None:
    """Write the table."""
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    table["tensorrt_rtx"] = asked()
    lines = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in table["ops"].items()]
    head = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in table.items() if name != "ops")
    TABLE.write_text("{" + head + ",\n\"ops\": {\n" + ",\n".join(lines) + "\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
