"""`weft metrics`, and `run-topo --metrics`: Prometheus metrics of the fabric, on loopback.

Switches are read when Prometheus asks, and not otherwise.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from emulation.fabric_record import NoRunError
from observe.follow import Follower
from observe.loopback_http import LoopbackServer, Page, Routes
from observe.metrics_exposition import CONTENT_TYPE, Exposed, exposition

PATH = "/metrics"
FRESH_S = 0.2  # two that ask at once get the same answer


def run(port: int) -> int:
    """Serve metrics of whichever run is up, until Ctrl-C; return 0. Raises PortInUseError."""
    with Follower() as follower, LoopbackServer(port, metrics_routes(follower)) as server:
        print(f"metrics  {server.url}{PATH} (Ctrl-C ends)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


@contextmanager
def serving(port: int) -> Iterator[str]:
    """Serve metrics in a thread for the block; gives their URL. Raises PortInUseError."""
    with Follower() as follower, LoopbackServer(port, metrics_routes(follower)) as server:
        threading.Thread(target=server.serve_forever, name="weft-http", daemon=True).start()
        try:
            yield server.url + PATH
        finally:
            server.shutdown()


def metrics_routes(follower: Follower) -> Routes:
    """Return what a server needs to serve them."""
    return {PATH: lambda: metrics_page(follower)}


def metrics_page(follower: Follower) -> Page:
    """Read all switches and return the metrics; that no run is up is one of them."""
    try:
        moment = follower.look(at_most_s=FRESH_S)
    except NoRunError:
        return Page(CONTENT_TYPE, exposition(None))
    record = moment.record
    return Page(
        CONTENT_TYPE,
        exposition(
            Exposed(
                run=record.run,
                runtime=record.runtime,
                topology=record.topology,
                sample=moment.sample,
                read_seconds=moment.read_seconds,
                hops=moment.hops.rows,
            )
        ),
    )
