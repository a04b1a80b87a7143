"""A hundred models by other means: a shell loop, several at once by the shell, Olive, and a fleet."""

import contextlib
import ctypes
import importlib.util
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.command_line import surroundings
from tests.fleet import zoo

COUNT, LIMIT = 100, 60
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
# Olive has no rules of other people: it runs fusions of ONNX Runtime, the nearest it has, one model after another.
OLIVE = """
import sys
from pathlib import Path
from olive.workflows import run

for model in sorted(Path("zoo").glob("*.onnx")):
    fusions = {"fuse": {"type": "OrtTransformersOptimization", "model_type": "bert"}}
    told = {"type": "ONNXModel", "model_path": str(model)}
    run({"input_model": told, "passes": fusions, "output_dir": f"{sys.argv[1]}/{model.stem}", "log_severity_level": 4})
"""


def make_zoo(root, count):
    """All but ten are right, 8 are broken, one hangs and one crashes."""
    for place in range(count - 10):
        zoo.gelus(root / f"{place:03}.onnx", place % 9 + 1, 4 + place % 5)
    for place in range(8):
        zoo.broken(root / f"broken{place}.onnx", place)
    zoo.troubled(root / "hang.onnx", zoo.HANG)
    zoo.troubled(root / "crash.onnx", zoo.CRASH)
    return root


def ways():
    """By name what the shell is told; OUT is the folder for the results."""
    surgeon = f"{sys.executable} -m surgeon"
    many = f"{surgeon} run r.toml --over 'zoo/*.onnx' --model-time {LIMIT} >/dev/null --to"
    one = f"timeout {LIMIT} {surgeon} run r.toml zoo/{{}} OUT/{{}} --quiet"
    loop = "for f in $(ls zoo | grep onnx$); do " + one.replace("{}", "$f") + " 2>>OUT/log; done"
    has_parallel, has_olive = shutil.which("parallel"), importlib.util.find_spec("olive")
    at_once = f"parallel -j2 --joblog OUT/jobs '{one}'" if has_parallel else f"xargs -P2 -I{{}} sh -c '{one}'"
    found = {
        "shell loop": loop,
        "parallel" if has_parallel else "xargs -P2": f"ls zoo | grep onnx$ | {at_once} 2>>OUT/log",
        "fleet": f"{many} OUT",
        "fleet -j2": f"{many} OUT -j 2",
        "shell loop again": loop,
        "fleet again": f"{many} out-fleet --resume",
    }
    if has_olive:
        found["Olive"] = found["Olive again"] = f"{sys.executable} by_olive.py OUT >OUT.log 2>&1"
    else:
        print("Olive is not installed, and so not compared")
    return found


def run(count):
    """Print, for each, the processors' time, what is done and how it ended."""
    _adopt()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        make_zoo(folder / "zoo", min(count, COUNT))
        (folder / "r.toml").write_text(f'[[step]]\nrules = "{zoo.RULES}"\n', encoding="utf-8")
        (folder / "by_olive.py").write_text(OLIVE, encoding="utf-8")
        first = None
        for name, command in ways().items():
            out = folder / f"out-{name.replace(' ', '-').removesuffix('-again')}"
            out.mkdir(exist_ok=True)
            began = _used()
            words = ["sh", "-c", command.replace("OUT", out.name)]
            ran = subprocess.run(words, env=surroundings(), cwd=folder, check=False)
            took = _used() - began
            first = first or took
            done = len(list(out.rglob("*.onnx")))
            ratio = f"{took / first:5.2f} of the loop's"
            print(f"{name:<16} {ratio}, {done} written, exit code {ran.returncode}", flush=True)


def _adopt():
    """Have processes that lose their parent counted too: those of a fleet outlive it for a moment (Linux)."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def _used():
    """Seconds that processors have worked for children that are over; waits for those that are not."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
