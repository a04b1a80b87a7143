"""How many function calls of surgeon's own code its jobs take: `python -m tests.benchmarks.calls`.

Calls do not depend on the machine or on other load.  Each case runs in a fresh process.  What worker processes do is
not counted, nor what compiled code does inside a call.  A generator counts again each time it goes on, and a module
that a job is the first to load counts as a call, as do its classes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, NamedTuple

SHIPPED = Path(__file__).resolve().parents[2] / "notebooks" / "models" / "tiny_distilbert.onnx"


class Case(NamedTuple):
    """One job, and how many runs of it precede the counted one in its process."""

    name: str
    """The job in words."""
    job: str
    """`proved`, `unproved` or `convert`."""
    runs_before: int = 0
    """Runs before the counted one."""
    has_value_info: bool = True
    """The file declares the shapes of inner tensors."""


class Cost(NamedTuple):
    """What a job costs."""

    calls: int
    """Function calls."""
    modules: int
    """Modules a function of which was called."""


CASES = (
    Case("first rewrite, proved", "proved"),
    Case("second rewrite, proved", "proved", 1),
    Case("first rewrite, not proved", "unproved"),
    Case("second rewrite, not proved", "unproved", 1),
    Case("first rewrite, proved, no shapes declared", "proved", has_value_info=False),
    Case("second rewrite, proved, no shapes declared", "proved", 1, has_value_info=False),
    Case("convert to float16", "convert"),
)


def cost(case: Case) -> Cost:
    """Count the calls of a case in a fresh process."""
    command = (sys.executable, "-m", "tests.benchmarks.calls", json.dumps(case))
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    return Cost(*json.loads(done.stdout))


def count(case: Case) -> Cost:
    """Count a case in this process."""
    import onnx

    import surgeon

    root = str(Path(surgeon.__file__).parent)
    found: dict[Any, int] = {}

    def profile(frame: Any, event: str, _argument: Any) -> None:
        if event == "call":
            found[frame.f_code] = found.get(frame.f_code, 0) + 1

    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.onnx"), Path(folder, "out.onnx")
        model = onnx.load(SHIPPED)
        if not case.has_value_info:
            del model.graph.value_info[:]
        onnx.save(model, source)

        def run() -> None:
            if case.job == "convert":
                surgeon.convert(source, "float16", output=target, force=True)
            else:
                check = "sites" if case.job == "proved" else "none"
                surgeon.rewrite(source, "gelu", output=target, check=check, force=True)

        for _ in range(case.runs_before):
            run()
        threading.setprofile(profile)
        sys.setprofile(profile)
        try:
            run()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
    own = {code: calls for code, calls in found.items() if code.co_filename.startswith(root)}
    return Cost(sum(own.values()), len({code.co_filename for code in own if code.co_name != "<module>"}))


def main() -> None:
    """Print the table; with a case as JSON, its cost as JSON."""
    if sys.argv[1:]:
        sys.stdout.write(json.dumps(count(Case(*json.loads(sys.argv[1])))))
        return
    for case in CASES:
        found = cost(case)
        print(f"{case.name:45} {found.calls:>9,} calls in {found.modules:>3} modules")


if __name__ == "__main__":
    main()
