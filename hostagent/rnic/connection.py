"""One client of an endpoint's daemon: its requests (service.py), its queue pairs."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict
from typing import Any, Protocol

from hostagent.algorithms import Parameters
from hostagent.rnic.card_records import NO_CNPS, QueuePairConfig, Repeat
from hostagent.rnic.endpoint import Endpoint
from hostagent.rnic.endpoint_records import EndpointInterface
from hostagent.rnic.interface import mac_number, mac_text, neighbour
from hostagent.rnic.measuring import Measuring
from hostagent.rnic.path_kinds import PathKind
from hostagent.rnic.planes import NO_PLANES, PlaneConfig, PlaneUse
from hostagent.rnic.requests import REFUSED, RequestError, own_pairs, refusal

DEFAULT_TIMEOUT_US = 200_000
_REPEATS = {"go-back-n": Repeat.GO_BACK_N, "selective-repeat": Repeat.SELECTIVE}
_PLANE_KEYS = ("silence_us", "misses", "probe_us")
_MIGRATION_KEYS = ("first", "tries", "by_link", "switch_us", "return_us")
_PATH_KEYS = ("kind", "idle_rounds", "rounds", "pause_ns")


class Daemon(Protocol):
    """What a connection needs of the daemon that took it."""

    endpoint: Endpoint
    mtus: tuple[int, ...]

    async def news(self, timeout_s: float) -> None:
        """Wait until the loop has something to tell, or `timeout_s`."""

    def all_pairs(self) -> dict[int, dict[str, Any]]:
        """Return every connection's queue pairs."""

    def snapshot(self, pairs: dict[int, dict[str, Any]]) -> dict[str, Any]:
        """Return what `stats` answers."""


class Connection:
    """One connection: its requests, its queue pairs."""

    def __init__(
        self, daemon: Daemon, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._daemon = daemon
        self._endpoint = daemon.endpoint
        self._reader, self._writer = reader, writer
        self.pairs: dict[int, dict[str, Any]] = {}  # what is known of the peer
        self._running: asyncio.Task[None] | None = None
        self._cancelled = asyncio.Event()
        self._measuring = Measuring(self._endpoint, self.pairs, daemon.news, self._cancelled)

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
                self._endpoint.close_pair(qpn)
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
            "serve": self._measuring.serve,
            "compare": self._measuring.compare,
            "stats": self._stats,
            "close": self._close,
            "set_ports": self._set_ports,
            "drain": self._drain,
            "cancel": dict,
        }
        long: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {
            "measure": self._measuring.measure,
            "watch": self._watch,
        }
        if command in long:
            self._cancelled.clear()
            self._running = asyncio.create_task(self._long(long[command], request))
        elif command in commands:
            self._answer(_guarded(commands[command], request))
        else:
            known = ", ".join([*commands, *long])
            self._answer({"error": f"there is no command {command!r}: {known}"})
        await self._writer.drain()

    async def _long(self, action: Callable[..., Awaitable[Any]], request: dict[str, Any]) -> None:
        try:
            answer = await action(**request)
        except REFUSED as error:
            answer = refusal(error)
        with contextlib.suppress(ConnectionError):
            self._answer(answer)
            await self._writer.drain()

    # --- queue pairs ----------------------------------------------------------------------------

    def _info(self) -> dict[str, Any]:
        config = self._endpoint.config
        return {
            "interface": config.interface,
            "ip": str(ipaddress.IPv4Address(config.ip)),
            "mac": mac_text(config.mac),
            "mode": self._endpoint.mode,
            "mode_reason": self._endpoint.mode_reason,
            "mtu": min(self._daemon.mtus),
            "line_rate_bps": config.line_rate_bps,
            "max_qps": config.max_qps,
            "qps": len(self._endpoint.pairs),
            "kernel": self._endpoint.maps is not None,
            "interfaces": [
                {
                    "interface": each.interface,
                    "ip": str(ipaddress.IPv4Address(each.ip)),
                    "mac": mac_text(each.mac),
                    "mtu": mtu,
                    "line_rate_bps": each.line_rate_bps,
                }
                for each, mtu in zip(config.interfaces, self._daemon.mtus, strict=True)
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
        planes: dict[str, int] | None = None,
        collects: bool = False,
    ) -> dict[str, Any]:
        if repeat not in _REPEATS:
            raise RequestError(f"no retransmission {repeat!r}: {', '.join(_REPEATS)}")
        numbers = self._numbers(interface, interfaces)
        lines = [self._endpoint.config.interfaces[number] for number in numbers]
        smallest, of_line = min((self._daemon.mtus[number], number) for number in numbers)
        if mtu is not None and mtu > smallest:
            name = self._endpoint.config.interfaces[of_line].interface
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
            planes=_planes(planes),
        )
        ways = [{"ip": str(ipaddress.IPv4Address(i.ip)), "mac": mac_text(i.mac)} for i in lines]
        opened: list[dict[str, Any]] = []
        try:
            for number in range(qps):
                pair = self._endpoint.open(
                    config,
                    buffer_bytes=buffer_bytes,
                    congestion_control=congestion_control,
                    udp_port=None if udp_port is None else udp_port + number * max(1, udp_ports),
                    collects=bool(collects),
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
        there = len(self._endpoint.config.interfaces)
        if interfaces == "all":
            if interface:
                raise RequestError("'interface' is of queue pairs that have one, not all")
            return range(there)
        if not 0 <= interface < there:
            raise RequestError(f"no interface {interface}: the card has 0 to {there - 1}")
        return range(interface, interface + 1)

    def _forget(self, qpns: Iterable[int]) -> None:
        for qpn in qpns:
            self._endpoint.close_pair(qpn)
            self.pairs.pop(qpn, None)

    def _connect(self, pairs: list[dict[str, Any]]) -> dict[str, Any]:
        own_pairs((pair["qpn"] for pair in pairs), self.pairs)
        try:
            for pair in pairs:
                own = self._endpoint.interfaces_of(pair["qpn"])
                first = {"ip": pair["peer_ip"], "mac": pair.get("peer_mac")}
                ways = pair.get("peer_ways") or [first]
                if len(ways) > len(own):
                    raise RequestError(f"{len(ways)} interfaces of the peer, and {len(own)} here")
                self._endpoint.connect_ways(
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
        before = [(qpn, self._endpoint.udp_port(qpn)) for qpn, _ in wanted]
        done = 0
        try:
            for qpn, port in wanted:
                self._endpoint.set_udp_port(qpn, port)
                done += 1
        except Exception:
            for qpn, port in before[:done]:
                self._endpoint.set_udp_port(qpn, port)
            raise
        return {}

    def _drain(self, interface: int, on: bool = True) -> dict[str, Any]:
        self._endpoint.drain(interface, on)
        return {}

    def _close(self, qpns: list[int]) -> dict[str, Any]:
        self._forget(own_pairs(qpns, self.pairs))
        return {}

    # --- looking --------------------------------------------------------------------------------

    def _stats(self) -> dict[str, Any]:
        return self._daemon.snapshot(self.pairs)

    async def _watch(self, interval_ms: int = 1000, all: bool = False) -> dict[str, Any]:
        if interval_ms < 10:
            raise RequestError("interval_ms is at least 10")
        while not self._cancelled.is_set():
            pairs = self._daemon.all_pairs() if all else self.pairs
            self._answer({"at_ns": time.monotonic_ns(), **self._daemon.snapshot(pairs)})
            await self._writer.drain()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._cancelled.wait(), interval_ms / 1000)
        return {}


def _guarded(action: Callable[..., dict[str, Any]], request: dict[str, Any]) -> dict[str, Any]:
    try:
        return action(**request)
    except REFUSED as error:
        return refusal(error)


def _planes(told: Any) -> PlaneConfig:
    """Return what a queue pair makes of its interfaces."""
    if told is None:
        return NO_PLANES
    said = told if isinstance(told, dict) else {}
    if set(said) == set(_MIGRATION_KEYS) and all(
        type(n) in (int, bool) and n >= 0 for n in said.values()
    ):
        return PlaneConfig(
            PlaneUse.SINGLE,
            first=said["first"],
            tries=said["tries"],
            by_link=bool(said["by_link"]),
            switch_ps=said["switch_us"] * 1_000_000,
            return_ps=said["return_us"] * 1_000_000,
        )
    if set(said) != set(_PLANE_KEYS) or not all(type(n) is int and n > 0 for n in said.values()):
        raise RequestError(
            f"planes are a mapping of {', '.join(_PLANE_KEYS)}, whole numbers from 1 on; "
            f"not {told!r}"
        )
    return PlaneConfig(
        PlaneUse.SHARED,
        said["misses"],
        said["silence_us"] * 1_000_000,
        said["probe_us"] * 1_000_000,
    )


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
