"""What a process has done before it forks for each case: imported, loaded rules, and run each command once.

Most of a command's time on a small file goes there, and into the same once more in the child that runs models for it.
So that child is a fork as well.  Whatever ends badly so is run again as people run it (`surgeon.runtime` knows no
forks), and judged by that.
"""

import contextlib
import gc
import importlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from surgeon.runtime.processes import worker, worker_main

# What commands import when they need it, and children.
_PROOFS = ("surgeon.proof.model.bisect", "surgeon.proof.site.site_prover")
_NEEDED = ("surgeon.cli.app", "onnx.reference", "onnxruntime", *_PROOFS)


def warm(sound: bytes, commands: Sequence[tuple[str, ...]], refusing: Sequence[tuple[str, ...]]) -> None:
    """Import what commands need, and run each once on a sound model, with what it says thrown away.

    refusing: those that may refuse it.  Raises ValueError where another does not end well.
    """
    for module in _NEEDED:
        importlib.import_module(module)
    worker.subprocess = _Forking  # type: ignore[attr-defined, assignment]
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w", encoding="utf-8") as nothing:
        Path(folder, "in.onnx").write_bytes(sound)
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(nothing), contextlib.redirect_stderr(nothing):
                for arguments in (*commands, *refusing):
                    _run(arguments, may_refuse=arguments in refusing)
        finally:
            os.chdir(here)
    worker.stop()
    gc.collect()
    gc.freeze()  # forks that looked through it for garbage would have a copy of all each


def _run(arguments: Sequence[str], *, may_refuse: bool) -> None:
    from surgeon.cli.app import main

    try:
        main(list(arguments), prog_name="surgeon")
    except SystemExit as end:
        if end.code and not may_refuse:
            raise ValueError(f"'surgeon {' '.join(arguments)}' ends with {end.code} on a sound model") from end


class _Forked:
    """What `subprocess.Popen` is to `surgeon.runtime.processes.worker`, for a child that is a fork of this process."""

    def __init__(self, command: Sequence[str], *, env: dict[str, str], **_: Any) -> None:
        asked, asking = os.pipe()
        answering, answered = os.pipe()
        self.returncode: int | None = None
        self.pid = os.fork()
        if not self.pid:
            _serve(command[3:], asked, answered, (asking, answering), env)
        os.close(asked)
        os.close(answered)
        self.stdin: IO[bytes] = os.fdopen(asking, "wb")
        self.stdout: IO[bytes] = os.fdopen(answering, "rb")

    def poll(self) -> int | None:
        return self._waited(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int | None:
        """As long as it takes without a timeout; with one, not at all: who asks for one ends it then."""
        if self._waited(0 if timeout is None else os.WNOHANG) is None:
            raise subprocess.TimeoutExpired("fork", timeout or 0.0)
        return self.returncode

    def _waited(self, how: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, how)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


class _Forking:
    """The module `subprocess`, as far as children need it."""

    Popen, PIPE, DEVNULL = _Forked, subprocess.PIPE, subprocess.DEVNULL
    TimeoutExpired = subprocess.TimeoutExpired


def _serve(arguments: Sequence[str], asked: int, answered: int, others: Sequence[int], env: dict[str, str]) -> None:
    """Be a child, and end."""
    code = 99
    try:
        os.dup2(asked, 0)
        os.dup2(answered, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        for handle in (asked, answered, *others):
            os.close(handle)
        os.environ.update(env)
        worker_main._postpone_package = lambda: None  # it is here already
        code = worker_main.main(arguments)
    finally:
        sys.stdout.flush()
        os._exit(code)
