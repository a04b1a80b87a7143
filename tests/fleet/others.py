"""A hundred models by other means: a shell loop, several at once by the shell, Olive, and a fleet."""

import importlib.util
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.command_line import surroundings
from tests.fleet import zoo

COUNT, LIMIT = 100, 10


def make_zoo(root, count):
    """All but ten are right, 8 are broken, one hangs and one crashes."""
    for place in range(count - 10):
        zoo.gelus(root / f"{place:03}.onnx", place % 9 + 1, 4 + place % 5)
    for place in range(8):
        zoo.broken(root / f"broken{place}.onnx", place)
    zoo.troubled(root / "hang.onnx", zoo.HANG)
    zoo.troubled(root / "crash.onnx", zoo.CRASH)
    return root


def run(count):
    """Print, for each, the time, what is done and what is known afterwards."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        make_zoo(folder / "zoo", min(count, COUNT))
        surgeon = f"{sys.executable} -m surgeon"
        many = f"{surgeon} run r.toml --over 'zoo/*.onnx' --model-time {LIMIT} >/dev/null --to"
        (folder / "r.toml").write_text(f'[[step]]\nrules = "{zoo.RULES}"\n', encoding="utf-8")
        one = f"timeout {LIMIT} {surgeon} run r.toml zoo/{{}} OUT/{{}} --quiet"
        at_once = f"parallel -j2 '{one}'" if shutil.which("parallel") else f"xargs -P2 -I{{}} sh -c '{one}'"
        ways = {
            "shell loop": "for f in $(ls zoo | grep onnx$); do " + one.replace("{}", "$f") + " 2>>OUT/log; done",
            "parallel" if shutil.which("parallel") else "xargs -P2": f"ls zoo | grep onnx$ | {at_once} 2>>OUT/log",
            "fleet": f"{many} OUT",
            "fleet -j2": f"{many} OUT -j 2",
            "again, loop": "for f in $(ls zoo | grep onnx$); do " + one.replace("{}", "$f") + " 2>>OUT/log; done",
            "again, fleet": f"{many} out2 --resume",
        }
        first = None
        for place, (name, command) in enumerate(ways.items()):
            out = folder / f"out{place}"
            out.mkdir(exist_ok=True)
            began = time.perf_counter()
            ran = subprocess.run(
                ["sh", "-c", command.replace("OUT", out.name)], env=surroundings(), cwd=folder, check=False
            )
            took = time.perf_counter() - began
            first = first or took
            done = len(list((folder / ("out2" if name == "again, fleet" else out.name)).glob("*.onnx")))
            print(
                f"{name:<12} {took / first:5.2f} of the loop's time, {done} written, exit code {ran.returncode}",
                flush=True,
            )
        if importlib.util.find_spec("olive") is None:
            print("Olive is not installed, and so not compared")
