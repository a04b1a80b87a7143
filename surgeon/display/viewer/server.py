"""The viewer in a browser: a server on the loopback address that only reads, and only answers requests with its token.

The token is in the printed URL.  A request under another host name, as from a page of another site, is refused.
"""

import hmac
import json
import secrets
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

from surgeon.display.html.elements import escape
from surgeon.display.viewer.session import ViewerSession
from surgeon.errors import UsageError

HOST, LARGEST = "127.0.0.1", 1 << 16  # the loopback address; the largest request in bytes
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<style>:root {{ color-scheme: light dark }} main, #view {{ height: 100% }}
html, body {{ height: 100%; margin: 0; background: light-dark(#fff, #15191e) }}
h1 {{ position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }}</style></head>
<body><main><h1>{title}</h1><div id="view"></div></main>
<script type="module" nonce="{nonce}">import {{ mount }} from "./view.js?token={token}";
window.surgeon = mount(document.getElementById("view"), "{token}");</script></body></html>
"""


class ViewerServer(ThreadingHTTPServer):
    """Serves one model until it is stopped.  port: 0 for any free port."""

    daemon_threads = True

    def __init__(self, content: ViewerSession, port: int = 0) -> None:
        self.content, self.token, self.lock = content, secrets.token_urlsafe(24), Lock()
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "ports end at 65535"
            raise UsageError(f"Port {port} is not available ({reason}). Choose another one with --port.") from None

    @property
    def url(self) -> str:
        """The URL of the page, with the token."""
        return f"http://{HOST}:{self.server_port}/?token={self.token}"


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: ViewerServer
    server_version, sys_version = "surgeon", ""

    def handle(self) -> None:
        """Answer; a client that closes the connection early is not an error."""
        try:
            super().handle()
        except ConnectionError:
            self.close_connection = True

    def do_GET(self) -> None:
        """Serve the page, and its script."""
        parts = urlsplit(self.path)
        if not self._is_authorised(parse_qs(parts.query).get("token", [""])[0]):
            return
        if parts.path == "/":
            nonce = secrets.token_urlsafe(12)
            policy = f"default-src 'none'; script-src 'self' 'nonce-{nonce}'; connect-src 'self'; img-src data:; "
            title = escape(self.server.content.title)
            page = PAGE.format(title=title, token=self.server.token, nonce=nonce)
            self._send("text/html; charset=utf-8", page.encode(), f"{policy}style-src 'unsafe-inline'")
        elif parts.path == "/view.js":
            script = resources.files(__package__).joinpath("view.js").read_bytes()
            self._send("text/javascript; charset=utf-8", script)
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        """Answer a request of the page."""
        if not self._is_authorised(self.headers.get("x-surgeon-token", "")):
            return
        length = self.headers.get("content-length", "")
        if urlsplit(self.path).path != "/ask" or not length.isdecimal() or int(length) > LARGEST:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        self._send("application/json", json.dumps(self._answer(self.rfile.read(int(length)))).encode())

    def _answer(self, body: bytes) -> dict[str, Any]:
        try:
            request = json.loads(body)
            kind, given = str(request["kind"]), dict(request["given"])
        except (ValueError, KeyError, TypeError):
            return {"error": "The question cannot be read; load the view again."}
        with self.server.lock:  # an index is not thread-safe
            return self.server.content.respond(kind, given)

    def _is_authorised(self, token: str) -> bool:
        """Whether a request has the token and the loopback host; refuses it otherwise."""
        known = hmac.compare_digest(token.encode(), self.server.token.encode())
        is_here = self.headers.get("host", "") == f"{HOST}:{self.server.server_port}"
        if not known or not is_here:
            self._refuse(HTTPStatus.FORBIDDEN)
        return known and is_here

    def _send(
        self, kind: str, body: bytes, policy: str = "default-src 'none'", status: HTTPStatus = HTTPStatus.OK
    ) -> None:
        self.send_response(status)
        given = {"content-type": kind, "content-length": str(len(body)), "content-security-policy": policy}
        always = {"cache-control": "no-store", "referrer-policy": "no-referrer", "x-content-type-options": "nosniff"}
        for name, value in {**given, **always}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _refuse(self, status: HTTPStatus) -> None:
        self._send("text/plain", status.phrase.encode(), status=status)

    def log_message(self, *_: object) -> None:
        """Log nothing: the log would contain the token."""
