"""Runs commands of surgeon on files, each in a fork of this process, and judges how they end.

What ends badly in a fork is run once more, as people run it, and judged by that.
"""

import contextlib
import os
import re
import resource
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import onnx
from google.protobuf.message import DecodeError

from surgeon.errors import SurgeonError
from surgeon.file.model import Model

# A case hangs once it has taken so many seconds of processor time, times how much longer than YARD seconds one command
# takes here: a slower machine gets more, a busy one no less.  Or if it has done nothing for so many by the clock.
PATIENCE, YARD, IDLE = 90.0, 1.0, 60.0
LOOKS = 1.0  # seconds from one look at what goes on to the next
FINE, REFUSED = "fine", "refused"
BAD = ("traceback", "defect", "no sentence", "hang", "signal", "half-written")
MAX_LINES = 500  # of what a command prints of a small model
# Where a process of its own finds what this one runs.
FOUND = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}


@dataclass(frozen=True)
class Case:
    """A file, and the arguments of the command that reads it; OUT among them stands for where it writes."""

    name: str
    data: bytes
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Ending:
    """How a case ended: fine, refused, or one of BAD.

    text: what it printed last.  in_fork: how it ended in a fork, where that was bad.
    """

    case: Case
    kind: str
    text: str = ""
    in_fork: str = ""


@dataclass
class _Going:
    """A case at work.  worked: its seconds of processor time when it was last seen to do something, `since` when.

    in_fork: how it ended in a fork; it is alone now.
    """

    case: Case
    folder: Path
    since: float
    worked: float = 0.0
    in_fork: str = ""

    def is_late(self, worked: float, patience: float) -> bool:
        """Whether it has worked for too long by now, or stands still."""
        now = time.monotonic()
        if worked > self.worked:
            self.worked, self.since = worked, now
        return worked > patience or now - self.since > IDLE


def patience(sound: Case, folder: Path) -> float:
    """The seconds of processor time that a case may take on this machine.  sound: the yardstick, one that ends well."""
    item = _Going(sound, folder / "yardstick", time.monotonic())
    _, status, used = os.wait4(_start(sound, item.folder, _alone), 0)
    kind, said = _judged(item, status)
    if kind != FINE:
        raise ValueError(f"The yardstick does not end well, but as {kind}: {said}")
    _clean(item.folder)
    return PATIENCE * max((used.ru_utime + used.ru_stime) / YARD, 1.0)


def endings(cases: Iterable[Case], folder: Path, jobs: int, patience: float = PATIENCE) -> Iterator[Ending]:
    """The endings, as they come.  patience: how many seconds of processor time are no hang."""
    going: dict[int, _Going] = {}
    waiting = iter(enumerate(cases))
    is_more, look = True, time.monotonic()
    try:
        while is_more or going:
            while is_more and len(going) < jobs:
                number, case = next(waiting, (0, None))
                is_more = case is not None
                if case is not None:
                    place = folder / str(number)
                    going[_start(case, place, _in_fork)] = _Going(case, place, time.monotonic())
            time.sleep(0.002)
            found = list(_ended(going))
            if time.monotonic() - look > LOOKS:
                look = time.monotonic()
                found += _hanging(going, patience)
            for item, kind, text in found:
                _clean(item.folder)
                if kind in BAD and not item.in_fork:
                    going[_start(item.case, item.folder, _alone)] = _Going(
                        item.case, item.folder, time.monotonic(), in_fork=kind
                    )
                else:
                    yield Ending(item.case, kind, text, item.in_fork)
    finally:
        for pid in going:
            _kill(pid)


_Judgement = tuple[_Going, str, str]  # what ended, how, and what it said


def _ended(going: dict[int, _Going]) -> Iterator[_Judgement]:
    for started in list(going):
        pid, status = os.waitpid(started, os.WNOHANG)
        if pid:
            item = going.pop(pid)
            yield item, *_judged(item, status)


def _hanging(going: dict[int, _Going], patience: float) -> Iterator[_Judgement]:
    """End what hangs, with all that it started."""
    worked = _worked()
    for pid in [pid for pid, item in going.items() if item.is_late(worked.get(pid, 0.0), patience)]:
        item = going.pop(pid)
        _kill(pid)
        yield item, "hang", f"after {worked.get(pid, 0.0):.0f} s of work"


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ended just now
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _worked() -> dict[int, float]:
    """The seconds of processor time of all groups of processes, ended children included."""
    found: Counter[int] = Counter()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
            found[int(fields[2])] += sum(map(int, fields[11:15]))
    return {group: ticks / os.sysconf("SC_CLK_TCK") for group, ticks in found.items()}


def _start(case: Case, folder: Path, run: Callable[[Case], NoReturn]) -> int:
    """Run a command in a process and a folder of its own."""
    folder.mkdir(parents=True)
    (folder / "in.onnx").write_bytes(case.data)
    sys.stdout.flush()
    pid = os.fork()
    with contextlib.suppress(OSError):  # both do so, whoever comes first; it may have ended already
        os.setpgid(pid, pid)
    if pid:
        return pid
    os.chdir(folder)
    _redirect("out.txt", 1)
    _redirect("err.txt", 2)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return run(case)


def _alone(case: Case) -> NoReturn:
    """Be what people start."""
    os.execve(sys.executable, [sys.executable, "-P", "-m", "surgeon", *case.arguments], FOUND)


def _in_fork(case: Case) -> NoReturn:
    """Be that in this process, with all that it has at hand."""
    code = 99
    try:
        from surgeon.cli.app import main

        sys.argv = ["surgeon", *case.arguments]
        main(prog_name="surgeon")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001  # it is what is looked for
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _redirect(name: str, number: int) -> None:
    handle = os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(handle, number)
    os.close(handle)


def _judged(item: _Going, status: int) -> tuple[str, str]:
    """How a command ended, and what it said."""
    said = (item.folder / "err.txt").read_text(errors="replace")
    reported = (item.folder / "out.txt").read_text(errors="replace")
    if os.WIFSIGNALED(status):
        return "signal", signal.Signals(os.WTERMSIG(status)).name
    code = os.WEXITSTATUS(status)
    if "Traceback (most" in said:
        return "traceback", said
    if code == 4 or "Internal error in surgeon" in said:
        return "defect", said
    if code not in (0, 1, 2, 3) or (code == 2 and not _is_one_error(said)):
        return "no sentence", f"exit code {code}: {said}{reported[-500:]}"
    if " the rule raised " in reported:
        return "no sentence", reported[:2000]
    if _is_raw(said) or _is_raw(reported) or reported.count("\n") > MAX_LINES:
        return "no sentence", f"raw: {(said + reported)[:2000]!r}"
    written = [*item.folder.glob("out.onnx"), *item.folder.glob(f"{PARTS}/*")]
    left = sorted(path.name for path in item.folder.iterdir() if path.name not in _KNOWN)
    if left or not all(map(_is_whole, written)):
        return "half-written", f"exit code {code}: {left} {said}"
    return (FINE if code in (0, 1) else REFUSED), said


PARTS = "parts"  # a folder that a command writes
_KNOWN = frozenset(("in.onnx", "out.onnx", "out.txt", "err.txt", "out.svg", "out.html", "out.py", PARTS))


def _is_one_error(said: str) -> bool:
    """Whether it ends with one sentence, that blames no rule of ours for what a model is."""
    last = said.splitlines()[-1:]
    is_of_rule = re.search(r"Error: (Rule \w+ raised an error|The pattern of rule \w+ raised) ", said) is not None
    return said.count("\nError: ") <= 1 and "".join(last).startswith("Error: ") and not is_of_rule


def _is_raw(text: str) -> bool:
    """Whether a screen would do more with it than show it."""
    return any(
        (ord(char) < 32 and char not in "\n") or 0x202A <= ord(char) <= 0x202E or char == "\x7f" for char in text
    )


def _is_whole(path: Path) -> bool:
    try:
        onnx.load(path, load_external_data=False)
        with Model.open(path):
            return True
    except (SurgeonError, DecodeError, ValueError, OSError):
        return False


def _clean(folder: Path) -> None:
    shutil.rmtree(folder)


def counted(found: Iterable[Ending], note: Callable[[Ending], None]) -> Counter[tuple[str, str]]:
    """How many ended how, by command; `note` is told of each."""
    counts: Counter[tuple[str, str]] = Counter()
    for ending in found:
        counts[ending.case.arguments[0], ending.kind] += 1
        note(ending)
    return counts


def is_bad(ending: Ending) -> bool:
    """Whether a user is left alone with it."""
    return ending.kind in BAD


def commands() -> Sequence[tuple[str, ...]]:
    """What files are read by, as people call it; FOUND in tests/test_hostile.py rests on their order."""
    return (
        ("rewrite", "in.onnx", "out.onnx", "--rules", "ort,onnx,transformers,placeholders", "--check", "none"),
        ("rewrite", "in.onnx", "out.onnx", "--rules", "ort", "--check", "none"),
        ("rewrite", "in.onnx", "out.onnx", "--rules", "ort"),
        (
            "rewrite",
            "in.onnx",
            "out.onnx",
            "--rules",
            "transformers",
            "--check",
            "both",
            "--keep-going",
            "--run-time",
            "9",
        ),
        ("check", "in.onnx", "--run-time", "9"),
        ("check", "in.onnx", "--target", "tensorrt", "--run-time", "9"),
        ("inspect", "in.onnx"),
        ("explain", "in.onnx", "--rules", "ort,onnx,transformers,placeholders"),
        ("draw", "in.onnx", "out.svg"),
        ("upgrade", "in.onnx", "out.onnx", "--opset", "21", "--run-time", "9"),
        ("edit", "in.onnx", "out.onnx", "--strip-doc", "--metadata", "by=me", "--check", "model", "--run-time", "9"),
        ("compare", "in.onnx", "in.onnx", "--run-time", "9"),
        ("bench", "in.onnx", "in.onnx", "--at", "n=2", "--loads", "1", "--seconds", "0", "--run-time", "9"),
        ("rewrite", "in.onnx", "out.onnx", "--inline", "all", "--rules", "gelu", "--check", "none"),
    )


def further_commands(data: bytes) -> Sequence[tuple[str, ...]]:
    """Further commands: those that name tensors, with names of this file where it has any that can be read."""
    try:
        graph = onnx.load_from_string(data).graph
    except (DecodeError, UnicodeDecodeError):
        graph = onnx.GraphProto()
    made = [name for node in graph.node for name in node.output if name]
    taken = graph.input[0].name if graph.input else "x"
    given = graph.output[0].name if graph.output else "y"
    middle = made[len(made) // 2] if made else "y"
    seconds = ("--run-time", "9")
    return (
        ("extract", "in.onnx", "out.onnx", "--to", middle, *seconds),
        ("extract", "in.onnx", "out.onnx", "--from", middle, "--check", "auto", *seconds),
        ("split", "in.onnx", PARTS, "--parts", "2", *seconds),
        ("split", "in.onnx", PARTS, "--at", middle, "--check", "none"),
        ("merge", "in.onnx", "in.onnx", "out.onnx", "--connect", f"{taken}={taken}", *seconds),
        ("merge", "in.onnx", "in.onnx", "out.onnx", "--connect", f"{given}={taken}", *seconds),
        ("insert", "in.onnx", "out.onnx", "--between", taken, "--and", middle, "--op", "acme::Part", *seconds),
        ("append", "in.onnx", "out.onnx", "argmax", "--output", given, *seconds),
        ("append", "in.onnx", "out.onnx", "in.onnx", "--output", given, *seconds),
        ("prepend", "in.onnx", "out.onnx", "image", "--input", taken, "--mean", "0.5", *seconds),
        ("capture", "in.onnx", "--to", middle, "--name", "part", "-o", "out.py"),
        ("edit", "in.onnx", "out.onnx", "--free", "0=batch", *seconds),
        ("edit", "in.onnx", "out.onnx", "--add-output", middle, "--rename", f"{taken}=renamed", *seconds),
        ("edit", "in.onnx", "out.onnx", "--shapes", "infer", "--retype", f"{taken}=float64:cast", *seconds),
        ("convert", "in.onnx", "out.onnx", *seconds),
        ("convert", "in.onnx", "out.onnx", "--to", "bfloat16", "--io", "convert", "--check", "none"),
        ("diff", "in.onnx", "in.onnx"),
        ("rewrite", "in.onnx", "out.onnx", "--rules", "ort", "--check", "none", "--report", "out.html"),
        ("check", "in.onnx", "--report", "out.html", *seconds),
    )
