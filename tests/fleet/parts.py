"""What a fleet runs on, as processes of their own on the loopback address: an S3 server, a scheduler, workers."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from urllib.parse import urlsplit

from tests.command_line import ROOT, surroundings

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": "us-east-1"}


def free_port():
    """A port that nobody has."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_for(port, process, seconds=600.0):
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


def runs_already():
    """Whether there is an S3 server by the variables of the environment."""
    return "AWS_ENDPOINT_URL" in os.environ


@contextmanager
def s3_server():
    """The S3 server that runs, else moto's; gives the variables by which everybody finds it."""
    if runs_already():
        yield {name: os.environ[name] for name in (*CREDENTIALS, "AWS_ENDPOINT_URL")}
        return
    port = free_port()
    with started("-m", "moto.server", "-H", "127.0.0.1", "-p", port) as process:
        wait_for(port, process)
        yield {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}


_DENIED = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


class Gate(BaseHTTPRequestHandler):
    """Passes on what is asked of an S3 server; while the gate is shut, nothing that writes."""

    protocol_version = "HTTP/1.1"

    def _pass_on(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.server.shut.is_set() and self.command not in ("GET", "HEAD"):
            self._answer(403, {"content-type": "application/xml"}, _DENIED)
            return
        there = HTTPConnection(*self.server.behind)
        there.request(self.command, self.path, body, dict(self.headers))
        answer = there.getresponse()
        self._answer(answer.status, dict(answer.getheaders()), answer.read())
        there.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on  # noqa: N815 - the names that are called

    def _answer(self, status, headers, body):
        self.send_response(status)
        is_head = self.command == "HEAD"  # its length is that of what is not sent
        own = {"connection", "transfer-encoding", "date", "server", "" if is_head else "content-length"}
        for name, value in headers.items():
            if name.lower() not in own:
                self.send_header(name, value)
        if not is_head:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing."""


@contextmanager
def gated(variables):
    """A gate before an S3 server; gives the variables by which it is found, and the event that shuts it."""
    behind = urlsplit(variables["AWS_ENDPOINT_URL"])
    with ThreadingHTTPServer(("127.0.0.1", 0), Gate) as server:
        server.behind, server.shut = (behind.hostname, behind.port), Event()
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield {**variables, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}"}, server.shut
        server.shutdown()


@contextmanager
def scheduler(*arguments, **variables):
    """A scheduler of Dask, without its dashboard where it is not told otherwise; gives its process and its address."""
    port = free_port()
    words = ("--host", "127.0.0.1", "--port", port, *(arguments or ("--no-dashboard",)), "--no-show")
    with started("-m", "distributed.cli.dask_scheduler", *words, **variables) as process:
        wait_for(port, process)
        yield process, f"dask://127.0.0.1:{port}"


@contextmanager
def workers(address, count, folder, *arguments, **variables):
    """So many workers of one thread, without a nanny; gives their processes."""
    url = address.replace("dask://", "tcp://")
    words = ("-m", "distributed.cli.dask_worker", url, "--nthreads", 1, "--no-nanny", "--no-dashboard", *arguments)
    with ExitStack() as stack:
        yield [
            stack.enter_context(started(*words, "--local-directory", folder, **variables)) for _ in range(count)
        ]


def kill(process):
    """kill -9."""
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
