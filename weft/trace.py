"""`weft trace`: what packets meet inside a running switch, a block a packet, as they come."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import click

from emulation import fabric_record
from emulation.fabric_record import NoRunError
from observe.errors import UsageError
from observe.follow import OWN_SWITCH
from softswitch.client_tls import ClientTls
from softswitch.diagnostics import DiagnosticsClient, DiagnosticsError, Json
from softswitch.tracing.records import PacketTrace
from softswitch.tracing.text import COLOURS, PLAIN, Style, render
from weft import console
from weft.command_line import argument, as_json, command, option, tls_files
from weft.tls_files import tls_of

RETURN_S = 60.0
"""How long a switch that has died may take to be started again."""

_ADDRESS = re.compile(r".+:\d+")


class TraceEndedError(Exception):
    """The switch has gone before all was traced; the message says what is known of it."""


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise click.BadParameter(f"{text} is not a number from 1")
    return int(text)


@command("""
    examples:
      weft trace s1                                 all packets, until Ctrl-C
      weft trace s1 --filter 'udp dst port 4791'    packets that match a pcap filter
      weft trace s1 --port 1 --port 2 --count 10    ten that arrive at port 1 or 2
      weft trace 127.0.0.1:9559 --json              any softswitch, an object a line
      weft trace 10.0.0.7:9559 --tls-ca ca.pem      one with --grpc-server-ssl
    """)
@argument("switch", help="a switch of the run, or HOST:PORT of any softswitch")
@option("--filter", "expression", metavar="EXPR",
        help="pcap filter on the packet as the switch receives it")  # fmt: skip
@option("--port", "ports", type=int, multiple=True, metavar="N",
        help="only packets received at port N")  # fmt: skip
@option("--count", type=_positive, metavar="N", help="end after N packets (default: go on)")
@tls_files
@as_json
def run(
    switch: str, expression: str | None, ports: tuple[int, ...], count: int | None,
    tls_ca: Path | None, tls_cert: Path | None, tls_key: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Print traces until Ctrl-C or `--count` packets; return the exit code.

    Raises NoRunError when nothing runs, UsageError for a switch that is not there,
    DiagnosticsError when it can't trace (its filter is wrong, it is not Weft's own, it does not
    answer), TraceEndedError when it has gone.
    """
    viewer = _Viewer(switch, as_json, COLOURS if console.is_coloured(sys.stdout) else PLAIN)
    left = count
    tls = tls_of(tls_ca, tls_cert, tls_key)
    try:
        while True:
            seen = viewer.seen
            gone = _follow(viewer, expression, ports, left, tls)
            if gone is None:
                return 0
            if left is not None:
                left -= viewer.seen - seen
            _await_return(switch, gone, tls)
    except KeyboardInterrupt:
        console.notice("1 packet traced" if viewer.seen == 1 else f"{viewer.seen} packets traced")
        return 0


class _Viewer:
    """Prints events of switch `name`. `seen`: packets so far; `attached`: it has answered once."""

    def __init__(self, name: str, as_json: bool, style: Style) -> None:
        self.seen = 0
        self.attached = False
        self.name = name
        self._json = as_json
        self._style = style

    def show(self, event: Json) -> None:
        kind = event["event"]
        self.seen += kind == "packet"
        if self._json:
            print(json.dumps(event), flush=True)
        elif kind == "packet":
            trace = PacketTrace.from_json(event)
            print(render(trace, self._style, switch=self.name), end="\n\n", flush=True)
        elif kind == "missed":
            console.notice(
                f"{event['packets']} packets were not traced: they come faster than traces are "
                "read; a --filter helps"
            )
        else:
            console.notice(f"{self.name}: {event['text']}")


def _follow(
    viewer: _Viewer,
    expression: str | None,
    ports: tuple[int, ...],
    left: int | None,
    tls: ClientTls | None,
) -> str | None:
    """Follow one connection; return None when all packets were traced, else why the switch left."""
    address = address_of(viewer.name)
    with DiagnosticsClient(address, tls=tls) as client:
        try:
            events = client.trace(expression, left, ports or None)
            viewer.attached = True
            if sys.stderr.isatty():
                console.notice(f"tracing {viewer.name}; Ctrl-C ends it")
            for event in events:
                viewer.show(event)
                if event["event"] == "ended":
                    raise TraceEndedError(f"{viewer.name} has stopped")
        except DiagnosticsError as error:
            if error.gone and viewer.attached:
                return str(error)
            raise
    return None


def address_of(switch: str) -> str:
    """Return the gRPC address of a switch of the present run; HOST:PORT stands for itself.

    Raises NoRunError, and UsageError for a switch that the run does not have or can't trace.
    """
    if _ADDRESS.fullmatch(switch):
        return switch
    record = fabric_record.running()
    if record.runtime != OWN_SWITCH:
        raise UsageError(
            f"the switches of run {record.run} are {record.runtime}, which has no traces: "
            "start it without TARGET=" + record.runtime
        )
    if switch not in record.addresses:
        names = ", ".join(record.addresses)
        raise UsageError(f"there is no switch {switch!r} in run {record.run}: it has {names}")
    return record.addresses[switch]


def _await_return(switch: str, why: str, tls: ClientTls | None) -> None:
    """Wait until a switch that died answers again. Raises TraceEndedError."""
    console.notice(f"{switch} has gone; waiting for it up to {RETURN_S:.0f} s")
    deadline = time.monotonic() + RETURN_S
    while (left := deadline - time.monotonic()) > 0:
        try:
            address = address_of(switch)
        except NoRunError as error:
            raise TraceEndedError(f"{switch} has gone: {error}") from None
        with DiagnosticsClient(address, tls=tls) as client:
            if client.wait(min(left, 1.0)):
                return
    raise TraceEndedError(f"{switch} has gone and did not come back: {why}")
