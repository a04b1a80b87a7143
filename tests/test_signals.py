"""Every command ends when it is asked to, whatever runs: a child that never answers, C code that never returns."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from surgeon.cli.watchdog import GRACE
from surgeon.testing import parse
from tests.command_line import surroundings

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no watchdog without fork")
PATIENCE = 600  # seconds until a test gives up on a process that should have ended; none is judged by the clock

BEGINNING = """
import collections, itertools, os, pathlib, threading, time
from surgeon import implements, rule

def hold():
    # C code says that it has started: Python code that still ran would answer the signal.
    collections.deque(itertools.chain(map(os.mkdir, ["started"]), itertools.repeat(0)), maxlen=0)

def join():
    thread = threading.Thread(target=hold)
    thread.start()
    thread.join()

def sleep():
    time.sleep(600)

def resist():
    while True:
        try:
            time.sleep(0.01)
        except BaseException:
            pass

def stuck(work):
    if work not in (hold, join):
        pathlib.Path("started").touch()
    work()
"""
RULE = """
def relu(g, x):
    return g.relu(x)

@rule(patterns=[relu])
def late(g, x):
    stuck({work})
    return g.abs(x)
"""
IMPLEMENTATION = """
@implements("acme::Late")
def late(x):
    stuck({work})
"""
MODEL = """
    <ir_version: 10, opset_import: ["": 18, "acme": 1]>
    g (float[2] x) => (float[2] y) { t = acme.Late(x)  y = Relu(t) }
"""
REWRITE = ("rewrite", "in.onnx", "out.onnx", "--rules", "./late.py", "--ep", "any")
COMPARE = ("compare", "in.onnx", "in.onnx", "--custom-ops", "late.py")
UPGRADE = ("upgrade", "in.onnx", "out.onnx", "--opset", "20", "--custom-ops", "late.py")
RUN = ("run", "late.toml", "--over", "in.onnx", "--to", "out.onnx")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.parametrize(
    ("code", "work", "arguments", "by_force"),
    [
        (RULE, "hold", REWRITE, True),
        (RULE, "resist", REWRITE, True),
        (RULE, "join", REWRITE, True),
        (RULE, "sleep", REWRITE, False),
        (IMPLEMENTATION, "hold", COMPARE, False),
        (IMPLEMENTATION, "sleep", UPGRADE, False),
        (RULE, "hold", RUN, True),
    ],
    ids=["C code", "stubborn code", "a thread", "sleep", "C code in a child", "sleep in a child", "many models"],
)
def test_a_command_ends_when_it_is_asked_to(code, work, arguments, by_force, number, tmp_path):
    (tmp_path / "in.onnx").write_bytes(parse(MODEL).SerializeToString())
    (tmp_path / "late.py").write_text(BEGINNING + code.format(work=work))
    (tmp_path / "late.toml").write_text('[[step]]\nrules = ["./late.py"]\n')
    before = {path.name for path in tmp_path.iterdir()}
    with subprocess.Popen(
        [sys.executable, "-m", "surgeon", *arguments],
        cwd=tmp_path,
        env=surroundings(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a shell's jobs behind & ignore it
    ) as program:
        _wait_until(lambda: (tmp_path / "started").exists() or program.poll() is not None)
        assert program.poll() is None, program.stderr.read()
        program.send_signal(number)
        _, noise = program.communicate(timeout=PATIENCE)
    asked = "Interrupted." if number == signal.SIGINT and not by_force else f"Ended by {number.name}."
    assert noise.splitlines()[-1] == asked
    assert program.returncode == (-signal.SIGKILL if by_force else 128 + number)
    _wait_until(lambda: not _session(program.pid))
    assert {path.name for path in tmp_path.iterdir()} - before <= {"started", "__pycache__"}


def test_the_time_to_clean_up_is_less_than_two_seconds():
    assert 0 < GRACE < 2


def test_a_watchdog_ends_with_its_program():
    arguments = [sys.executable, "-m", "surgeon", "rules", "gelu"]
    with subprocess.Popen(arguments, env=surroundings(), stdout=subprocess.DEVNULL, start_new_session=True) as program:
        assert program.wait(PATIENCE) == 0
    _wait_until(lambda: not _session(program.pid))


def _wait_until(is_so):
    until = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > until:
            raise TimeoutError(f"it is not so after {PATIENCE} s")
        time.sleep(0.02)


def _session(leader: int) -> list[int]:
    """The processes of a session that still run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:  # it has ended
            continue
        if int(session) == leader and state != "Z":
            found.append(int(folder.name))
    return found
