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
      cnp_interval_ns?, ack_class?, reorder_us?, interface?, interfaces?, path_choice?}
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
serve {qpns, operation, mode, size} -> {}
    The answering side, from now on: keeps receives posted (operation "send"), and in mode
    "latency" answers each message with one of `size`. To be called before the other end measures.
measure {qpns, operation, mode, size, count, depth?, duration_ms?, timeout_ms?, shared?}
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
    of it, counted from the start of the measurement.
    While it runs, the only request that is taken is `cancel` (or the end of the connection).
stats {} -> {pairs: [{qpn, peer_ip, peer_qpn, connected, failure, ...}], endpoint: {...}}
    The connection's queue pairs with all of `struct rnic_qp_stats` (udp_port: its first source
    port; rate_bps: congestion control's, null if it does not limit; first_cut_at: when that first
    lowered it, null if it never did); `endpoint`: the daemon's counts and CPU time.
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
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hostagent.algorithms import AlgorithmError, Parameters
from hostagent.pinned_maps import MapsError, PinnedMaps
from hostagent.rnic.binding import NO_CNPS, CardError, Operation, QueuePairConfig, Repeat
from hostagent.rnic.endpoint import Endpoint, EndpointError
from hostagent.rnic.endpoint_records import EndpointConfig, EndpointInterface, Task, TaskKind
from hostagent.rnic.interface import (
    InterfaceError,
    gateway_of,
    largest_mtu,
    mac_number,
    mac_of,
    mac_text,
    neighbour,
)
from hostagent.rnic.measurement import row, sums
from hostagent.rnic.path_kinds import PathKind

MAX_LINE = 1 << 24
DEFAULT_TIMEOUT_US = 200_000
DEFAULT_STALL_MS = 10_000
MAX_COUNT = 1 << 24
WHY = {
    "RETRY_EXCEEDED": "the peer does not answer (retries exceeded)",
    "RNR_EXCEEDED": "the peer posts no receive buffers",
    "REMOTE_ACCESS": "the peer refuses the address, length or key",
    "REMOTE_INVALID": "the peer refuses the request",
    "REMOTE_OPERATION": "the peer failed to carry out the request",
    "FLUSHED": "an earlier message failed",
    "LOCAL_LENGTH": "a message did not fit the posted buffer",
}
_OPERATIONS = {"send": Operation.SEND, "write": Operation.WRITE, "read": Operation.READ}
_REPEATS = {"go-back-n": Repeat.GO_BACK_N, "selective-repeat": Repeat.SELECTIVE}
_PATH_KEYS = ("kind", "idle_rounds", "rounds", "pause_ns")


def _path_settings(choice: Any) -> dict[str, Any]:
    """Return the fields of a queue pair that say how it chooses its paths."""
    if choice is None:
        return {}
    kinds = [kind.name.lower() for kind in PathKind if kind]
    said = choice if isinstance(choice, dict) else {}
    numbers = {f"path_{key}": said[key] for key in _PATH_KEYS[1:] if key in said}
    whole = all(type(value) is int and value >= 0 for value in numbers.values())
    if set(said) - set(_PATH_KEYS) or said.get("kind") not in kinds or not whole:
        raise RequestError(
            f"a path_choice is a mapping of {', '.join(_PATH_KEYS)}, its kind {', '.join(kinds)}, "
            f"the others whole numbers from 0 on; not {choice!r}"
        )
    return {"path_kind": PathKind[said["kind"].upper()], **numbers}


class RequestError(Exception):
    """A request is wrong; the message says what would be right."""


_REFUSALS = (RequestError, AlgorithmError, CardError, EndpointError, InterfaceError, MapsError)
_MISTAKES = (TypeError, KeyError, ValueError, OverflowError)


class Client:
    """One connection: its requests, its queue pairs."""

    def __init__(
        self, service: Service, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.service = service
        self.endpoint = service.endpoint
        self._reader, self._writer = reader, writer
        self.pairs: dict[int, dict[str, Any]] = {}  # what is known of the peer
        self._running: asyncio.Task[None] | None = None
        self._cancelled = asyncio.Event()

    async def serve(self) -> None:
        """Answer until the connection closes, then forget its queue pairs."""
        try:
            while line := await self._reader.readline():
                await self._request(line)
        except (ConnectionError, ValueError, asyncio.LimitOverrunError):
            pass
        finally:
            self._cancelled.set()
            if self._running is not None:
                with contextlib.suppress(Exception):
                    await self._running
            for qpn in list(self.pairs):
                self.endpoint.close_pair(qpn)
            self._writer.close()

    def _answer(self, answer: dict[str, Any]) -> None:
        self._writer.write(json.dumps(answer).encode() + b"\n")

    async def _request(self, line: bytes) -> None:
        try:
            request = json.loads(line)
            command = request.pop("command")
        except (ValueError, KeyError, AttributeError, TypeError):
            self._answer({"error": "a request is a JSON object with a 'command'"})
            return
        if self._running is not None and not self._running.done():
            if command == "cancel":
                self._cancelled.set()
                await self._running
            else:
                self._answer({"error": "a measurement runs: only 'cancel' is taken"})
            return
        commands: dict[str, Callable[..., Any]] = {
            "info": self._info,
            "open": self._open,
            "connect": self._connect,
            "serve": self._serve,
            "stats": self._stats,
            "close": self._close,
            "set_ports": self._set_ports,
            "cancel": dict,
        }
        if command in ("measure", "watch"):
            self._cancelled.clear()
            work = self._measure(**request) if command == "measure" else self._watch(**request)
            self._running = asyncio.create_task(self._long(work))
        elif command in commands:
            self._answer(_guarded(commands[command], request))
        else:
            known = ", ".join([*commands, "measure", "watch"])
            self._answer({"error": f"there is no command {command!r}: {known}"})
        await self._writer.drain()

    async def _long(self, work: Awaitable[dict[str, Any]]) -> None:
        try:
            answer = await work
        except _REFUSALS as error:
            answer = {"error": str(error)}
        except _MISTAKES as error:
            answer = {"error": f"the request's fields are wrong: {error}"}
        with contextlib.suppress(ConnectionError):
            self._answer(answer)
            await self._writer.drain()

    # --- queue pairs ----------------------------------------------------------------------------

    def _info(self) -> dict[str, Any]:
        config = self.endpoint.config
        return {
            "interface": config.interface,
            "ip": str(ipaddress.IPv4Address(config.ip)),
            "mac": mac_text(config.mac),
            "mode": self.endpoint.mode,
            "mode_reason": self.endpoint.mode_reason,
            "mtu": min(self.service.mtus),
            "line_rate_bps": config.line_rate_bps,
            "max_qps": config.max_qps,
            "qps": len(self.endpoint.pairs),
            "kernel": self.endpoint.maps is not None,
            "interfaces": [
                {
                    "interface": each.interface,
                    "ip": str(ipaddress.IPv4Address(each.ip)),
                    "mac": mac_text(each.mac),
                    "mtu": mtu,
                    "line_rate_bps": each.line_rate_bps,
                }
                for each, mtu in zip(config.interfaces, self.service.mtus, strict=True)
            ],
        }

    def _open(
        self,
        qps: int = 1,
        buffer_bytes: int = 65536,
        mtu: int | None = None,
        udp_port: int | None = None,
        udp_ports: int = 1,
        repeat: str = "go-back-n",
        ack_every: int = 8,
        window: int = 0,
        timeout_us: int = DEFAULT_TIMEOUT_US,
        retries: int = 7,
        rnr_retries: int = 7,
        rate_bps: int = 0,
        dscp: int = 26,
        queue: int = 3,
        max_reads: int = 16,
        congestion_control: Parameters | None = None,
        cnp_interval_ns: int | None = None,
        ack_class: tuple[int, int] | None = None,
        reorder_us: int = 0,
        interface: int = 0,
        interfaces: str = "one",
        path_choice: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        if repeat not in _REPEATS:
            raise RequestError(f"no retransmission {repeat!r}: {', '.join(_REPEATS)}")
        numbers = self._numbers(interface, interfaces)
        lines = [self.endpoint.config.interfaces[number] for number in numbers]
        smallest, of_line = min((self.service.mtus[number], number) for number in numbers)
        if mtu is not None and mtu > smallest:
            name = self.endpoint.config.interfaces[of_line].interface
            raise RequestError(f"an MTU of {mtu} does not fit {name}: at most {smallest}")
        if udp_port is not None and not 1 <= udp_port <= 65536 - qps * max(1, udp_ports):
            raise RequestError(
                f"{qps} queue pairs with {udp_ports} UDP ports each, from {udp_port} on, "
                "do not fit 1 to 65535"
            )
        config = QueuePairConfig(
            qpn=1,
            mtu=mtu or smallest,
            udp_ports=udp_ports,
            dscp=dscp,
            queue=queue,
            repeat=_REPEATS[repeat],
            ack_every=ack_every,
            window_packets=window,
            reorder_ps=reorder_us * 1_000_000,
            retries=retries,
            rnr_retries=rnr_retries,
            timeout_ps=timeout_us * 1_000_000,
            rate_bps=rate_bps,
            max_reads=max_reads,
            cnp_interval_ns=NO_CNPS if cnp_interval_ns is None else cnp_interval_ns,
            ack_apart=ack_class is not None,
            ack_dscp=ack_class[0] if ack_class else 0,
            ack_queue=ack_class[1] if ack_class else 0,
            **_path_settings(path_choice),
            interface=numbers[0],
            interfaces=len(lines),
        )
        ways = [{"ip": str(ipaddress.IPv4Address(i.ip)), "mac": mac_text(i.mac)} for i in lines]
        opened: list[dict[str, Any]] = []
        try:
            for number in range(qps):
                pair = self.endpoint.open(
                    config,
                    buffer_bytes=buffer_bytes,
                    congestion_control=congestion_control,
                    udp_port=None if udp_port is None else udp_port + number * max(1, udp_ports),
                )
                self.pairs[pair.qpn] = {}
                several = {"ways": ways} if len(ways) > 1 else {}
                opened.append({**asdict(pair), **ways[0], **several})
        except Exception:
            self._forget(pair["qpn"] for pair in opened)
            raise
        return {"pairs": opened}

    def _numbers(self, interface: int, interfaces: str) -> range:
        """Return which of the card's interfaces a queue pair is to have."""
        if interfaces not in ("one", "all"):
            raise RequestError(f"interfaces are 'one' or 'all', not {interfaces!r}")
        there = len(self.endpoint.config.interfaces)
        if interfaces == "all":
            if interface:
                raise RequestError("'interface' is of queue pairs that have one, not all")
            return range(there)
        if not 0 <= interface < there:
            raise RequestError(f"no interface {interface}: the card has 0 to {there - 1}")
        return range(interface, interface + 1)

    def _forget(self, qpns: Iterable[int]) -> None:
        for qpn in qpns:
            self.endpoint.close_pair(qpn)
            self.pairs.pop(qpn, None)

    def _own(self, qpns: Iterable[int]) -> list[int]:
        found = list(qpns)
        for qpn in found:
            if qpn not in self.pairs:
                raise RequestError(f"there is no queue pair {qpn} of this connection")
        return found

    def _connect(self, pairs: list[dict[str, Any]]) -> dict[str, Any]:
        self._own(pair["qpn"] for pair in pairs)
        try:
            for pair in pairs:
                own = self.endpoint.interfaces_of(pair["qpn"])
                first = {"ip": pair["peer_ip"], "mac": pair.get("peer_mac")}
                ways = pair.get("peer_ways") or [first]
                if len(ways) > len(own):
                    raise RequestError(f"{len(ways)} interfaces of the peer, and {len(own)} here")
                self.endpoint.connect_ways(
                    pair["qpn"],
                    [self._address(*both) for both in zip(own, ways, strict=False)],
                    peer_qpn=pair["peer_qpn"],
                    peer_psn=pair["peer_psn"],
                )
                self.pairs[pair["qpn"]] = pair
        except Exception:
            self._forget(pair["qpn"] for pair in pairs)
            raise
        return {}

    def _address(self, own: EndpointInterface, way: dict[str, Any]) -> tuple[int, int]:
        """Return a peer's IP and MAC address as one of our interfaces reaches it."""
        ip = int(ipaddress.IPv4Address(way["ip"]))
        if way.get("mac"):
            return ip, mac_number(way["mac"])
        return ip, 0 if own.gateway_mac else neighbour(ip, own.interface)

    def _set_ports(self, pairs: list[dict[str, int]]) -> dict[str, Any]:
        wanted = [(pair["qpn"], pair["udp_port"]) for pair in pairs]
        before = [(qpn, self.endpoint.udp_port(qpn)) for qpn, _ in wanted]
        done = 0
        try:
            for qpn, port in wanted:
                self.endpoint.set_udp_port(qpn, port)
                done += 1
        except Exception:
            for qpn, port in before[:done]:
                self.endpoint.set_udp_port(qpn, port)
            raise
        return {}

    def _close(self, qpns: list[int]) -> dict[str, Any]:
        self._forget(self._own(qpns))
        return {}

    # --- work -----------------------------------------------------------------------------------

    def _task(self, kind: TaskKind, qpn: int, operation: str, size: int, **more: int) -> Task:
        peer = self.pairs[qpn]
        return Task(
            kind,
            _OPERATIONS[operation],
            size,
            rkey=peer.get("peer_rkey", 0),
            remote_address=peer.get("peer_address", 0),
            **more,
        )

    def _begin(self, tasks: dict[int, Task], shared: bool) -> None:
        if shared:
            self.endpoint.share(tasks)
            return
        begun: list[int] = []
        try:
            for qpn, task in tasks.items():
                self.endpoint.task(qpn, task)
                begun.append(qpn)
        except Exception:
            for qpn in begun:
                self.endpoint.end_task(qpn)
            raise

    def _serve(
        self, qpns: list[int], operation: str, mode: str = "bandwidth", size: int = 65536
    ) -> dict[str, Any]:
        _check(operation, mode)
        kind = TaskKind.ANSWER if mode == "latency" and operation != "read" else TaskKind.SERVE
        for qpn in self._own(qpns):
            self.endpoint.task(qpn, self._task(kind, qpn, operation, size, depth=1))
        return {}

    async def _measure(
        self,
        qpns: list[int],
        operation: str,
        mode: str = "bandwidth",
        size: int = 65536,
        count: int = 1000,
        depth: int = 128,
        duration_ms: int = 0,
        timeout_ms: int = DEFAULT_STALL_MS,
        shared: bool = False,
    ) -> dict[str, Any]:
        _check(operation, mode)
        own = self._own(qpns)
        if not 1 <= count <= MAX_COUNT or depth < 1 or not own:
            raise RequestError(f"count is from 1 to {MAX_COUNT}, depth and queue pairs at least 1")
        if mode == "latency" and len(own) > 1:
            raise RequestError(f"latency is measured on one queue pair, not {len(own)}")
        if mode == "latency" and shared:
            raise RequestError("messages are shared in mode 'bandwidth' alone")
        kind = TaskKind.LATENCY if mode == "latency" else TaskKind.BANDWIDTH
        before = {qpn: self.endpoint.pair_stats(qpn) for qpn in own}
        cpu_before = self.endpoint.stats().cpu_ns
        more = {"count": count, "depth": depth, "duration_ns": duration_ms * 1_000_000}
        tasks = {qpn: self._task(kind, qpn, operation, size, **more) for qpn in own}
        self._begin(tasks, shared)
        interrupted = not await self._until_done(own, timeout_ms / 1000)
        states = {qpn: self.endpoint.task_state(qpn, times=True) for qpn in own}
        cpu_ns = self.endpoint.stats().cpu_ns - cpu_before
        cancelled = self._cancelled.is_set()
        failures = [
            {"qpn": qpn, "why": WHY.get(state.failure.name, state.failure.name)}
            for qpn, state in states.items()
            if state.done and state.failure
        ]
        if interrupted and not cancelled:
            failures += [
                {"qpn": qpn, "why": f"nothing was completed for {timeout_ms} ms"}
                for qpn, state in states.items()
                if not state.done
            ]
        after = {qpn: self.endpoint.pair_stats(qpn) for qpn in own}
        rows = [row(qpn, states[qpn], before[qpn], after[qpn], size) for qpn in own]
        for qpn in own:
            self.endpoint.end_task(qpn)
        return {
            "mode": mode,
            "operation": operation,
            "size": size,
            "qps": len(own),
            **sums(list(states.values()), size, ends=mode == "bandwidth"),
            "times_ns": states[own[0]].times.tolist() if mode == "latency" else [],
            "cpu_ns": cpu_ns,
            "interrupted": interrupted and cancelled,
            "failures": failures,
            "pairs": rows,
        }

    async def _until_done(self, qpns: list[int], stall_s: float) -> bool:
        """Wait until all tasks are done; False if cancelled, or nothing moves for `stall_s`."""
        loop = asyncio.get_running_loop()
        completed, moved = -1, loop.time()
        while not self._cancelled.is_set():
            states = [self.endpoint.task_state(qpn) for qpn in qpns]
            if all(state.done for state in states):
                return True
            now = sum(state.completed for state in states)
            if now != completed:
                completed, moved = now, loop.time()
            elif loop.time() - moved > stall_s:
                return False
            await self.service.news(0.05)
        return False

    # --- looking --------------------------------------------------------------------------------

    def _stats(self) -> dict[str, Any]:
        return self.service.snapshot(self.pairs)

    async def _watch(self, interval_ms: int = 1000, all: bool = False) -> dict[str, Any]:
        if interval_ms < 10:
            raise RequestError("interval_ms is at least 10")
        while not self._cancelled.is_set():
            pairs = self.service.all_pairs() if all else self.pairs
            self._answer({"at_ns": time.monotonic_ns(), **self.service.snapshot(pairs)})
            await self._writer.drain()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._cancelled.wait(), interval_ms / 1000)
        return {}


def _check(operation: str, mode: str) -> None:
    if operation not in _OPERATIONS:
        raise RequestError(f"no operation {operation!r}: {', '.join(_OPERATIONS)}")
    if mode not in ("bandwidth", "latency"):
        raise RequestError(f"no mode {mode!r}: bandwidth, latency")


def _guarded(action: Callable[..., dict[str, Any]], request: dict[str, Any]) -> dict[str, Any]:
    try:
        return action(**request)
    except _REFUSALS as error:
        return {"error": str(error)}
    except _MISTAKES as error:
        return {"error": f"the request's fields are wrong: {error}"}


class Service:
    """The daemon: one endpoint, many clients."""

    def __init__(self, endpoint: Endpoint, mtus: Sequence[int]) -> None:
        """`mtus`: the largest of a queue pair on each of the endpoint's interfaces."""
        self.endpoint = endpoint
        self.mtus = tuple(mtus)
        self._clients: set[Client] = set()
        self._news = asyncio.Event()

    async def run(self, path: Path, stop: asyncio.Event) -> None:
        """Take clients at `path` until `stop`. Raises OSError."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self.endpoint.event_fd, self._told)
        server = await asyncio.start_unix_server(self._client, str(path), limit=MAX_LINE)
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

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Client(self, reader, writer)
        self._clients.add(client)
        try:
            await client.serve()
        finally:
            self._clients.discard(client)

    def all_pairs(self) -> dict[int, dict[str, Any]]:
        """Return every connection's queue pairs."""
        return {qpn: peer for client in self._clients for qpn, peer in client.pairs.items()}

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
            rows.append(row)
        return {"pairs": rows, "endpoint": asdict(self.endpoint.stats())}


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
    """Command line of the daemon; returns the exit code."""
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
