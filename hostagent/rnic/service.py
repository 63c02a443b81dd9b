"""The endpoint's daemon: one a host, in the host's namespace, spoken to over a Unix socket.

    python -m hostagent.rnic.service --interface h1-eth0 --ip 10.0.1.1 --socket PATH
        [--mac MAC] [--gateway-mac MAC] [--maps PINDIR] [--af-packet] [--line-rate BPS]
        [--max-qps N] [--also INTERFACE,IP[,BPS[,GATEWAY_MAC]]]...

It writes `ready: ...` (one line) on standard output once the socket takes clients, and ends on
SIGTERM and SIGINT, leaving nothing behind. Errors before that are one line, `error: ...`, exit
code 1. `hostagent.rnic.client` is the Python side of what follows.

The protocol: one JSON object a line, both ways. A request has a `command`; each gets one answer, in
order, `{"error": "..."}` if it failed, and then it changed nothing. A connection's queue pairs
vanish when it closes, whatever they are doing; others' are not touched. Addresses are text
("10.0.1.1", "02:00:..."), times are ns of CLOCK_MONOTONIC or differences of them, sizes bytes,
rates bits/s of payload.

`--also`: one more interface of the same card, which queue pairs may use together with the first.

info {} -> {interface, ip, mac, mode, mode_reason, mtu, line_rate_bps, max_qps, qps, kernel,
            interfaces}
    mode: "af_xdp" or "af_packet", and why not the better one; mtu: the largest that a queue pair
    may have on any interface; kernel: whether congestion control runs in the kernel (--maps) or in
    the card; interfaces: each one's {interface, ip, mac, mtu, line_rate_bps}, the first in front.
open {qps, buffer_bytes, mtu?, udp_port?, udp_ports?, repeat?, ack_every?, window?, timeout_us?,
      retries?, rnr_retries?, rate_bps?, dscp?, queue?, max_reads?, congestion_control?,
      cnp_interval_ns?, ack_class?, reorder_us?, interface?, interfaces?, path_choice?, planes?,
      collects?}
        -> {pairs: [{qpn, psn, rkey, address, ip, mac, ways?}]}
    Makes queue pairs, each with `buffer_bytes` that its peer may write and read, and as much to
    send from. mtu: 256 .. 2048, default the largest that fits its interfaces; udp_port: the source
    port of the first one, whose packets take udp_ports in turn (default 1), and each further one
    has those behind; default: chosen by the queue pair's number; repeat: "go-back-n" (default) or
    "selective-repeat"; window: packets, default no limit (on a bare wire without --line-rate some
    512 keep the far end's queues from running over); timeout_us: default 200000; retries: default
    7; rate_bps: a limit beside congestion control's, preamble and gap counted, as all rates that
    frames leave with. congestion_control: an object with the fields of each algorithm that
    applies, by its name (hostagent/algorithms.py); null (default): none. cnp_interval_ns: of this
    end as receiver, between two CNPs; null (default): it sends none. ack_class: [DSCP, queue] of
    acknowledgements; null (default): those of the data. reorder_us: with selective-repeat, how
    long packets may overtake each other before what is missing counts as lost; default 0.
    path_choice: {kind, idle_rounds?, rounds?, pause_ns?}: with selective-repeat the sender chooses
    among udp_ports for each packet; kind "oblivious", "bitmap", "reps" or "plb", the same at both
    ends; null (default): packets take turns.
    interfaces: "one" (default), number `interface` of the card (default 0), or "all": packets take
    turns over all interfaces of the card; `ways` has the {ip, mac} of each then.
    planes: {silence_us, misses, probe_us}: with selective-repeat and "all" the interfaces are
    planes (rnic.h), the same at both ends; congestion_control is that of each of them then, and
    an algorithm of planes in it says when one that was lost may be used again; null (default): they
    are one device's. {first, tries, by_link, switch_us, return_us}: one plane at a time instead,
    with path migration as rnic.h has it.
    collects: true: its data collects what switches write into it, whatever its congestion control
    wants; false (default): only if that wants it. Not with planes.
connect {pairs: [{qpn, peer_ip, peer_qpn, peer_psn, peer_rkey?, peer_address?, peer_mac?,
         peer_ways?}]} -> {}
    What the other end's `open` said. If one is refused, those of the request are closed. peer_mac:
    default the gateway's, on a host without one the peer's own. peer_ways: of a queue pair over all
    interfaces, the peer's {ip, mac?} by interface, in the place of peer_ip and peer_mac.
set_ports {pairs: [{qpn, udp_port}]} -> {}
    From now on these queue pairs, any connection's, send from other source ports, whatever they are
    doing: a fabric that hashes ports then takes them by other paths. What was sent before may come
    behind what is sent now: go-back-n sends again what was overtaken, selective-repeat what counts
    as missing (none within reorder_us). Of a queue pair with udp_ports it is the first one.
drain {interface, on?} -> {}
    No new packet of any connection's queue pairs with planes takes an interface (on: true, the
    default), or they may again. What is on its way arrives.
serve {qpns, operation, mode, size} -> {}
    The answering side, from now on: keeps receives posted (operation "send"), and in mode
    "latency" answers each message with one of `size`. To be called before the other end measures.
measure {qpns, operation, mode, size, count, depth?, duration_ms?, timeout_ms?, shared?, contents?}
    -> {mode, operation, size, qps, messages, bytes, elapsed_ns, average_bps, peak_bps,
        messages_per_s, times_ns, cpu_ns, interrupted, failures, pairs}
    Posts `count` messages on each queue pair (or as many as fit duration_ms), in mode "bandwidth"
    with `depth` (default 128) of them outstanding on each. shared: true: `count` messages on all of
    them together, the next one on whichever has fewer than `depth` outstanding; one that fails
    loses those it had. operation: "write", "send", "read". mode "latency": one queue pair, one
    message at a time, `times_ns` has each one's time: half the round trip of send and write, post
    to completion of read, as perftest counts. peak_bps: the best run of messages, from the posting
    of its first to the completion of its last.
    failures: [{qpn, why}]; the others go on. Nothing completed for timeout_ms (default 10000):
    a failure too. pairs: [{qpn, messages, bytes, elapsed_ns, average_bps}] and what `stats` says
    of it, counted from the start of the measurement. contents: a number, by which each message
    has random bytes; null (default): zeros.
    While it runs, the only request that is taken is `cancel` (or the end of the connection).
compare {qpn, contents, size} -> {wrong_bytes}
    How many of the first `size` bytes that the peer may write are not those of its `contents`.
stats {} -> {pairs: [{qpn, peer_ip, peer_qpn, connected, failure, ...}], endpoint: {...}}
    The connection's queue pairs with all of `struct rnic_qp_stats` (udp_port: its first source
    port; rate_bps: congestion control's, null if it does not limit; first_cut_at: when that first
    lowered it, null if it never did; planes: of each, `struct rnic_plane_stats`, only of those that
    have some; migration: `struct rnic_migration_stats`, with path migration; collected: `struct
    rnic_path`, only where packets brought records of hops); `endpoint`: the daemon's counts and
    CPU time.
watch {interval_ms, all?} -> a line {at_ns, pairs: [...], endpoint: {...}} each interval_ms, as
    `stats` has it, until `cancel`, which is answered by {}. all: every connection's queue pairs.
cancel {} -> {} (nothing to cancel), or the answer of what it ended
close {qpns} -> {}
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ipaddress
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hostagent.pinned_maps import MapsError, PinnedMaps
from hostagent.rnic.connection import Connection
from hostagent.rnic.endpoint import Endpoint
from hostagent.rnic.endpoint_records import EndpointConfig, EndpointError, EndpointInterface
from hostagent.rnic.interface import (
    InterfaceError,
    gateway_of,
    largest_mtu,
    mac_number,
    mac_of,
    neighbour,
)
from hostagent.rnic.measuring import WHY
from hostagent.rnic.planes import MigrationStats

MAX_LINE = 1 << 24


class Service:
    """The daemon: one endpoint, many clients."""

    def __init__(self, endpoint: Endpoint, mtus: Sequence[int]) -> None:
        """`mtus`: the largest of a queue pair on each of the endpoint's interfaces."""
        self.endpoint = endpoint
        self.mtus = tuple(mtus)
        self._connections: set[Connection] = set()
        self._news = asyncio.Event()

    async def run(self, path: Path, stop: asyncio.Event) -> None:
        """Take clients at `path` until `stop`. Raises OSError."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self.endpoint.event_fd, self._told)
        server = await asyncio.start_unix_server(self._take, str(path), limit=MAX_LINE)
        print(f"ready: {self.endpoint.config.interface} by {self.endpoint.mode}", flush=True)
        try:
            await stop.wait()
        finally:
            loop.remove_reader(self.endpoint.event_fd)
            server.close()
            path.unlink(missing_ok=True)

    def _told(self) -> None:
        self.endpoint.clear_event()
        self._news.set()

    async def news(self, timeout_s: float) -> None:
        """Wait until the loop has something to tell, or `timeout_s`."""
        self._news.clear()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._news.wait(), timeout_s)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(self, reader, writer)
        self._connections.add(connection)
        try:
            await connection.serve()
        finally:
            self._connections.discard(connection)

    def all_pairs(self) -> dict[int, dict[str, Any]]:
        """Return every connection's queue pairs."""
        return {
            qpn: peer for connection in self._connections for qpn, peer in connection.pairs.items()
        }

    def snapshot(self, pairs: dict[int, dict[str, Any]]) -> dict[str, Any]:
        """Return what `stats` answers."""
        rows = []
        for qpn, peer in list(pairs.items()):
            row: dict[str, Any] = {
                "qpn": qpn,
                "peer_ip": peer.get("peer_ip"),
                "peer_qpn": peer.get("peer_qpn"),
                "connected": bool(peer),
                "failure": None,
            }
            if peer:
                stats = self.endpoint.pair_stats(qpn)
                row |= {**asdict(stats), "state": stats.state.name.lower()}
                row["udp_port"] = self.endpoint.udp_port(qpn)
                row["failure"] = WHY.get(stats.failure.name) if stats.failure else None
                row["rate_bps"] = stats.rate_bps or None
                cut = stats.first_cut_at
                row["first_cut_at"] = None if cut < 0 else self.endpoint.monotonic_ns(cut)
                if planes := self.endpoint.plane_stats(qpn):
                    row["planes"] = [plane.row(self.endpoint.monotonic_ns) for plane in planes]
                if seen := self.endpoint.path_seen(qpn):
                    row["collected"] = asdict(seen) | {"at": self.endpoint.monotonic_ns(seen.at)}
                if self.endpoint.migrates(qpn):
                    row["migration"] = self._migration(self.endpoint.migration_stats(qpn))
            rows.append(row)
        return {"pairs": rows, "endpoint": asdict(self.endpoint.stats())}

    def _migration(self, stats: MigrationStats) -> dict[str, Any]:
        row: dict[str, Any] = {**asdict(stats), "state": stats.state.name.lower()}
        row["cause"] = stats.cause.name.lower() if stats.cause else None
        for name in ("found_at", "migrated_at"):
            row[name] = None if row[name] < 0 else self.endpoint.monotonic_ns(row[name])
        return row


async def _serve(config: EndpointConfig, maps: PinnedMaps | None, path: Path) -> None:
    """Run the daemon until a signal. Raises what Endpoint does, and if its interface is lost."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    def failed() -> None:
        with contextlib.suppress(RuntimeError):  # the daemon is ending anyway
            loop.call_soon_threadsafe(stop.set)

    mtus = [largest_mtu(each.interface) for each in config.interfaces]
    with Endpoint(config, maps, failed) as endpoint:
        await Service(endpoint, mtus).run(path, stop)
        if endpoint.failure:
            raise EndpointError(endpoint.failure)


def _gateway_mac(interface: str, given: str | None) -> int:
    """Return where packets go to, 0 if there is no gateway: to the peers themselves then."""
    if given:
        return mac_number(given)
    gateway = gateway_of(interface)
    return 0 if gateway is None else neighbour(gateway, interface)


def _also(text: str) -> EndpointInterface:
    """Read one more interface: NAME,IP[,BPS[,GATEWAY_MAC]]. Raises ValueError, InterfaceError."""
    name, *rest = text.split(",")
    if not 1 <= len(rest) <= 3:
        raise ValueError(f"--also {text}: write INTERFACE,IP[,BPS[,GATEWAY_MAC]]")
    rate = int(rest[1]) if len(rest) > 1 else 0
    gateway = _gateway_mac(name, rest[2] if len(rest) > 2 else None)
    ip = int(ipaddress.IPv4Address(rest[0]))
    return EndpointInterface(name, ip, mac_of(name), gateway, rate)


def main(argv: list[str] | None = None) -> int:
    """Run the command line of the daemon; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m hostagent.rnic.service")
    parser.add_argument("--interface", required=True)
    parser.add_argument("--ip", type=ipaddress.IPv4Address, required=True)
    parser.add_argument("--socket", type=Path, required=True, help="a Unix socket, made here")
    parser.add_argument("--mac", help="default: the interface's")
    parser.add_argument("--gateway-mac", help="default: the default gateway's, else each peer's")
    parser.add_argument("--maps", type=Path, help="the host agent's pins")
    parser.add_argument("--af-packet", action="store_true", help="not AF_XDP")
    parser.add_argument("--line-rate", type=int, default=0, help="bits/s; 0: as fast as it can")
    parser.add_argument("--max-qps", type=int, default=1024, help="queue pairs (default 1024)")
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="INTERFACE,IP[,BPS[,GATEWAY_MAC]]",
        help="one more interface of the card",
    )
    arguments = parser.parse_args(argv)
    maps: PinnedMaps | None = None
    try:
        maps = PinnedMaps.open(arguments.maps) if arguments.maps else None
        config = EndpointConfig(
            arguments.interface,
            int(arguments.ip),
            mac_number(arguments.mac) if arguments.mac else mac_of(arguments.interface),
            _gateway_mac(arguments.interface, arguments.gateway_mac),
            arguments.line_rate,
            arguments.max_qps,
            arguments.af_packet,
            more=tuple(_also(text) for text in arguments.also),
        )
        asyncio.run(_serve(config, maps, arguments.socket))
    except (EndpointError, InterfaceError, MapsError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {arguments.socket}: {error.strerror}", file=sys.stderr)
        return 1
    finally:
        if maps is not None:
            maps.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
