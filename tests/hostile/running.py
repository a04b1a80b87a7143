"""Runs commands of surgeon on files, each in a fork of this process, and judges how they end."""

import importlib
import os
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from surgeon.errors import SurgeonError
from surgeon.file.model import Model

PATIENCE = 90.0  # seconds: of a busy machine
FINE, REFUSED = "fine", "refused"
BAD = ("traceback", "defect", "no sentence", "hang", "signal", "half-written")
MOST_LINES = 400  # of what a command prints of a small model


# What commands import when they need it: here once, for all forks.
_NEEDED = (
    "surgeon",
    "surgeon.patterns",
    "onnxruntime",
    "onnx.reference",
    "surgeon.sites.site_check",
    "surgeon.models.model_check",
)
_NEEDED += ("surgeon.console.cli", "surgeon.console.report", "surgeon.models.bisect", "rich.table", "rich.console")


@dataclass(frozen=True)
class Case:
    """A file, and the arguments of the command that reads it; OUT among them stands for where it writes."""

    name: str
    data: bytes
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Ending:
    """How a case ended: fine, refused, or one of BAD.  text: what it printed last."""

    case: Case
    kind: str
    text: str = ""


@dataclass
class _Going:
    case: Case
    folder: Path
    since: float


def endings(cases: Iterable[Case], folder: Path, jobs: int) -> Iterator[Ending]:
    """The endings, as they come."""
    going: dict[int, _Going] = {}
    waiting = iter(enumerate(cases))
    for module in _NEEDED:
        importlib.import_module(module)
    is_more = True
    while is_more or going:
        while is_more and len(going) < jobs:
            number, case = next(waiting, (0, None))
            is_more = case is not None
            if case is not None:
                place = folder / str(number)
                going[_start(case, place)] = _Going(case, place, time.monotonic())
        yield from _ended(going)


def _ended(going: dict[int, _Going]) -> Iterator[Ending]:
    pid, status = os.waitpid(-1, os.WNOHANG) if going else (0, 0)
    if not pid:
        for late in [pid for pid, item in going.items() if time.monotonic() - item.since > PATIENCE]:
            item = going.pop(late)
            os.kill(late, signal.SIGKILL)
            os.waitpid(late, 0)
            yield Ending(item.case, "hang")
        time.sleep(0.002)
    elif pid in going:
        item = going.pop(pid)
        yield Ending(item.case, *_judged(item, status))
        _clean(item.folder)


def _start(case: Case, folder: Path) -> int:
    """Run a command in a fork, in a folder of its own."""
    folder.mkdir(parents=True)
    (folder / "in.onnx").write_bytes(case.data)
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    os.chdir(folder)
    _redirect("out.txt", 1)
    _redirect("err.txt", 2)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    code = 99
    try:
        from surgeon.console.cli import main

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
    told = (item.folder / "out.txt").read_text(errors="replace")
    if os.WIFSIGNALED(status):
        return "signal", signal.Signals(os.WTERMSIG(status)).name
    code = os.WEXITSTATUS(status)
    if "Traceback (most" in said:
        return "traceback", said
    if code == 4 or "defect of surgeon" in said:
        return "defect", said
    if code not in (0, 1, 2, 3) or (code == 2 and not _is_one_error(said)):
        return "no sentence", f"exit code {code}: {said}{told[-500:]}"
    if _is_raw(said) or _is_raw(told) or told.count("\n") > MOST_LINES:
        return "no sentence", f"raw: {(said + told)[:2000]!r}"
    written = item.folder / "out.onnx"
    left = sorted(path.name for path in item.folder.iterdir() if path.name not in _KNOWN)
    if left or (written.exists() and not _is_whole(written)):
        return "half-written", f"exit code {code}: {left} {said}"
    return (FINE if code in (0, 1) else REFUSED), said


_KNOWN = frozenset(("in.onnx", "out.onnx", "out.txt", "err.txt", "out.svg"))


def _is_one_error(said: str) -> bool:
    """Whether it ends with one sentence, that blames no rule of ours for what a model is."""
    last = said.splitlines()[-1:]
    return said.count("\nError: ") <= 1 and "".join(last).startswith("Error: ") and "; mend the rule." not in said


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
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


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
    """What files are read by: each command, as people call it."""
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
        ("check", "in.onnx", "--target", "tensorrt"),
        ("inspect", "in.onnx"),
        ("explain", "in.onnx", "--rules", "ort,onnx,transformers,placeholders"),
        ("draw", "in.onnx", "out.svg"),
        ("upgrade", "in.onnx", "out.onnx", "--opset", "21", "--run-time", "9"),
        ("compare", "in.onnx", "in.onnx", "--run-time", "9"),
        ("bench", "in.onnx", "in.onnx", "--rounds", "2", "--loads", "1", "--seconds", "1", "--run-time", "9"),
        ("rewrite", "in.onnx", "out.onnx", "--inline", "all", "--rules", "gelu", "--check", "none"),
    )
