"""`weft web`: the page, what it shows as JSON and as events, and the metrics, on one port."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path

from emulation.errors import EmulationError
from observe import metrics
from observe.follow import Follower, Moment
from observe.interval import interval_seconds
from observe.loopback_http import EventStream, LoopbackServer, Page, Routes
from observe.moment_json import moment_json
from observe.web.broadcast import Broadcast, Json
from observe.web.fabric_json import fabric_json

PAGE = Path(__file__).resolve().parent / "page"
_FILES: Mapping[str, tuple[str, str]] = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/live.js": ("live.js", "text/javascript; charset=utf-8"),
    "/drawing.js": ("drawing.js", "text/javascript; charset=utf-8"),
    "/table.js": ("table.js", "text/javascript; charset=utf-8"),
    "/hops.js": ("hops.js", "text/javascript; charset=utf-8"),
    "/marks.js": ("marks.js", "text/javascript; charset=utf-8"),
    "/format.js": ("format.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}


def run(port: int, interval: str) -> int:
    """Serve the page until Ctrl-C; return the exit code. Raises PortInUseError, UsageError."""
    with _prepared(port, interval_seconds(interval)) as server:
        print(f"live view  {server.url}/ (Ctrl-C ends)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


@contextmanager
def serving(port: int, interval_s: float = 1.0) -> Iterator[str]:
    """Serve the page in a thread for the block; gives its URL. Raises PortInUseError."""
    with _prepared(port, interval_s) as server:
        threading.Thread(target=server.serve_forever, name="weft-http", daemon=True).start()
        try:
            yield server.url
        finally:
            server.shutdown()


@contextmanager
def _prepared(port: int, interval_s: float) -> Iterator[LoopbackServer]:
    # Rates are since the look before: who asks now and then must not cut the watchers' short.
    with Follower() as watching, Follower() as asked:
        broadcast = Broadcast(watching, interval_s)
        try:
            with LoopbackServer(port, routes(asked, broadcast)) as server:
                yield server
        finally:
            broadcast.close()


def routes(follower: Follower, broadcast: Broadcast) -> Routes:
    """Return everything that the server answers; `follower` is for single requests."""
    return {
        **{path: partial(_file, *what) for path, what in _FILES.items()},
        "/api/fabric": partial(_json, follower, lambda moment: fabric_json(moment.record)),
        "/api/moment": partial(_json, follower, moment_json),
        "/api/events": lambda: EventStream(broadcast.events),
        **metrics.metrics_routes(follower),
    }


def _file(name: str, content_type: str) -> Page:
    return Page(content_type, (PAGE / name).read_bytes())


def _json(follower: Follower, tell: Callable[[Moment], Json]) -> Page:
    status = HTTPStatus.OK
    try:
        answer = tell(follower.look(at_most_s=metrics.FRESH_S))
    except EmulationError as error:  # no run is up, or its record is unreadable
        status, answer = HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)}
    return Page("application/json", json.dumps(answer).encode(), status)
