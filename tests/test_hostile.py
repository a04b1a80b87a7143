"""A part of what `python -m tests.hostile` does, and whether it would see what it looks for."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import sampling
from tests.hostile import running
from tests.hostile.__main__ import every
from tests.hostile.bombs import bombs
from tests.hostile.mutants import mutant
from tests.hostile.running import (
    IDLE,
    Case,
    _Going,
    _judged,
    _worked,
    commands,
    endings,
    further_commands,
    is_bad,
)
from tests.hostile.subjects import subjects

ROOT = Path(__file__).resolve().parent.parent


def test_hostile_files_leave_nobody_alone():
    """In a process of its own, which forks."""
    count, every_nth = ("100", "127") if sampling.is_whole() else ("40", "317")
    chosen = ("--files", count, "--seed", "70000", "--every", every_nth, "--jobs", "1")
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile", *chosen], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


# By the seed of a mutant that a whole run found: what was wrong.  All end with a sentence now.
FOUND = {
    2305: "values that are integers",
    2362: "a weight of no type, before TensorRT",
    4651: "an attribute that is a reference and has numbers",
    4907: "a type 99",
    5733: "a weight with more data than its shape holds, before TensorRT",
    5917: "a call's attribute of another type",
    7075: "a reference among the attributes of a convolution",
    7639: "a body that is not there",
    7983: "an output of a function that nothing makes",
    9185: "a difference of many, in a proof",
    9238: "a body that is not there, beside a name that is none",
    9492: "a difference of many, in a whole model",
    9924: "a tensor of no type in an attribute",
}


@pytest.mark.parametrize("seed", FOUND, ids=FOUND.get)
def test_what_was_found_leaves_nobody_alone_any_more(seed, tmp_path):
    case = next(case for case in every(1, seed) if case.name.startswith(str(seed)))
    (ending,) = endings([case], tmp_path, 1)
    assert not is_bad(ending), ending.text


# The same of commands that name tensors: the mutant, the command, and what was wrong.
FOUND_FURTHER = [(43, "edit", "an input of a type 99, retyped"), (1206, "edit", "an input of no type, retyped")]


@pytest.mark.parametrize(("seed", "command", "wrong"), FOUND_FURTHER, ids=lambda item: str(item))
def test_what_was_found_by_names_leaves_nobody_alone_any_more(seed, command, wrong, tmp_path):
    reported, data = mutant(seed)
    cases = [Case(reported, data, arguments) for arguments in further_commands(data) if arguments[0] == command]
    bad = [ending.text for ending in endings(cases, tmp_path, 1) if is_bad(ending)]
    assert not bad, wrong


def test_mutants_are_many_and_come_again():
    files = {mutant(seed)[1] for seed in range(300)}
    assert len(files) > 250
    assert mutant(17) == mutant(17)
    assert len(dict(bombs())) == 83


def test_each_command_takes_what_is_sound(tmp_path):
    case = Case("gelu", subjects()["gelu"].SerializeToString(), commands()[1])
    (tmp_path / "in.onnx").write_bytes(case.data)
    assert _ending(tmp_path, case, 0, "", "written out.onnx\n") == "fine"


@pytest.mark.parametrize(
    ("status", "said", "message", "kind"),
    [
        (2 << 8, "Error: it is broken; mend it.\n", "", "refused"),
        (2 << 8, "", "", "no sentence"),
        (2 << 8, "Error: Rule gelu raised an error at node 'y': KeyError: 1 (gelu.py:1)\n", "", "no sentence"),
        (0, "", "warning  gelu at y: the rule raised KeyError: 1 (gelu.py:1), so these nodes stay\n", "no sentence"),
        (1 << 8, "Traceback (most recent call last):\n", "", "traceback"),
        (4 << 8, "Error: Internal error in surgeon: ...\n", "", "defect"),
        (0, "", "a name \x1b[2J\n", "no sentence"),
        (11, "", "", "signal"),
        (7 << 8, "", "", "no sentence"),
    ],
)
def test_what_ends_badly_is_seen(tmp_path, status, said, message, kind):
    assert _ending(tmp_path, Case("", b"", ("inspect",)), status, said, message) == kind


def test_what_is_half_written_is_seen(tmp_path):
    (tmp_path / "out.onnx").write_bytes(b"\x08\x08\x3a\xff")
    assert _ending(tmp_path, Case("", b"", ("rewrite",)), 0, "", "") == "half-written"
    (tmp_path / "out.onnx").unlink()
    (tmp_path / ".out.onnx.tmp").touch()
    assert _ending(tmp_path, Case("", b"", ("rewrite",)), 2 << 8, "Error: no.\n", "") == "half-written"


def test_what_ends_badly_in_a_fork_is_run_again_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "_in_fork", lambda case: os.kill(os.getpid(), signal.SIGKILL))
    sound, broken = subjects()["gelu"].SerializeToString(), b"\xff" * 9
    cases = [Case(name, data, ("inspect", "in.onnx")) for name, data in (("sound", sound), ("broken", broken))]
    ended = {ending.case.name: (ending.kind, ending.in_fork) for ending in endings(cases, tmp_path, 2)}
    assert ended == {"sound": ("fine", "signal"), "broken": ("refused", "signal")}
    monkeypatch.setattr(running, "_alone", lambda case: os.kill(os.getpid(), signal.SIGKILL))
    assert [(ending.kind, ending.in_fork) for ending in endings(cases[:1], tmp_path, 1)] == [("signal", "signal")]


def test_a_hang_is_reported_by_work_and_not_by_the_clock():
    """What others leave to a process on a busy machine says nothing of it."""
    now = time.monotonic()
    slow, idle = (_Going(Case("", b"", ("inspect",)), Path(), now - ago, worked=3.0) for ago in (100 * IDLE, 2 * IDLE))
    assert not slow.is_late(3.1, 10.0)
    assert not slow.is_late(3.1, 10.0)
    assert slow.is_late(10.1, 10.0)
    assert idle.is_late(3.0, 10.0)
    assert _worked()[os.getpgrp()] > 0


def _ending(folder, case, status, said, text):
    (folder / "err.txt").write_text(said)
    (folder / "out.txt").write_text(text)
    return _judged(_Going(case, folder, 0.0), status)[0]
