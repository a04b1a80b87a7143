"""What a fleet runs on, as processes of their own on the loopback address: an S3 server, a scheduler, workers."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager

from tests.command_line import ROOT, surroundings

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": "us-east-1"}


def free_port():
    """A port that nobody has."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_for(port, process, seconds=60.0):
    """Wait until something listens."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert process.poll() is None, "it ended before it began"
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"nothing listens at port {port}")


@contextmanager
def started(*command, log=None, **variables):
    """A process, ended when the context is left."""
    out = subprocess.DEVNULL if log is None else open(log, "ab")  # noqa: SIM115 - closed below
    process = subprocess.Popen(
        [sys.executable, *map(str, command)], env=surroundings(**variables), stdout=out, stderr=out, cwd=ROOT
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if log is not None:
            out.close()


@contextmanager
def s3_server():
    """moto's S3 server; gives the variables by which everybody finds it."""
    port = free_port()
    with started("-m", "moto.server", "-H", "127.0.0.1", "-p", port) as process:
        wait_for(port, process)
        yield {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}


@contextmanager
def scheduler(**variables):
    """A scheduler of Dask; gives its process and its address."""
    port = free_port()
    told = ("--host", "127.0.0.1", "--port", port, "--no-dashboard", "--no-show")
    with started("-m", "distributed.cli.dask_scheduler", *told, **variables) as process:
        wait_for(port, process)
        yield process, f"dask://127.0.0.1:{port}"


@contextmanager
def workers(address, count, folder, *arguments, **variables):
    """So many workers of one thread, without a nanny; gives their processes."""
    url = address.replace("dask://", "tcp://")
    told = ("-m", "distributed.cli.dask_worker", url, "--nthreads", 1, "--no-nanny", "--no-dashboard", *arguments)
    with ExitStack() as stack:
        yield [
            stack.enter_context(started(*told, "--local-directory", folder, **variables)) for _ in range(count)
        ]


def kill(process):
    """kill -9."""
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
