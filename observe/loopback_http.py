"""A small HTTP server that only this machine reaches, and only by its own names.

It binds to loopback, and refuses requests whose Host is another name, so that a web site whose
name is made to point to 127.0.0.1 (DNS rebinding) reads nothing of what runs here.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

LOOPBACK = "127.0.0.1"
_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class PortInUseError(Exception):
    """Something else listens where a server should; `remedy` says what to do."""

    def __init__(self, port: int) -> None:
        super().__init__(f"port {port} of {LOOPBACK} is in use")
        self.remedy = f"choose another one, for example --port {port + 1}, or 0 for any"


class PortRefusedError(Exception):
    """The system refuses this port, at least to this user."""


@dataclass(frozen=True)
class Page:
    """An answer that is whole at once."""

    content_type: str
    body: bytes
    status: HTTPStatus = HTTPStatus.OK


@dataclass(frozen=True)
class EventStream:
    """An answer that goes on: server-sent events, each already in their format."""

    events: Callable[[], Generator[bytes, None, None]]


Answer = Page | EventStream
Routes = Mapping[str, Callable[[], Answer]]
"""What answers a GET, by path."""


class LoopbackServer(ThreadingHTTPServer):
    """Serves routes until `shutdown`. `port` 0 takes any that is free; `url` says which."""

    daemon_threads = True
    block_on_close = False  # streams end with the process, not before it

    def __init__(self, port: int, routes: Routes) -> None:
        """Listen, but serve nothing before `serve_forever`. Raises PortInUseError."""
        self.routes = routes
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUseError(port) from None
            raise PortRefusedError(f"port {port} of {LOOPBACK}: {error.strerror}") from None

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{LOOPBACK}:{self.port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that went away; a bug of ours is shown."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "weft"
    sys_version = ""
    timeout = 30.0
    server: LoopbackServer

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _refuse_method(self) -> None:
        page = _text(HTTPStatus.METHOD_NOT_ALLOWED, "only GET: nothing here can be changed")
        self.close_connection = True  # a body may follow that is not read
        self._send(page, {"Allow": "GET, HEAD"})

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _refuse_method

    def _answer(self) -> None:
        host = self.headers.get("Host", "")
        if _without_port(host) not in _NAMES:
            self._send(_text(HTTPStatus.FORBIDDEN, f"this is not {host or 'a known host'}"))
            return
        route = self.server.routes.get(urlsplit(self.path).path)
        if route is None:
            there = " ".join(self.server.routes)
            self._send(_text(HTTPStatus.NOT_FOUND, f"nothing is here; available: {there}"))
            return
        match route():
            case Page() as page:
                self._send(page)
            case EventStream(events):
                self._stream(events())

    def _send(self, page: Page, more: Mapping[str, str] | None = None) -> None:
        self.send_response(page.status)
        headers = {**_HEADERS, **(more or {}), "Content-Length": str(len(page.body))}
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", page.content_type)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)

    def _stream(self, events: Generator[bytes, None, None]) -> None:
        self.close_connection = True
        self.send_response(HTTPStatus.OK)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command == "HEAD":
            return
        with closing(events):  # also when the reader has gone
            for event in events:
                self.wfile.write(event)
                self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a page that asks each second would fill the terminal."""


def _text(status: HTTPStatus, text: str) -> Page:
    return Page("text/plain; charset=utf-8", f"{text}\n".encode(), status)


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name.lower() if colon and port.isdigit() else host.lower()
