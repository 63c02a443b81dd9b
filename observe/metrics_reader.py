"""Reads what switches count: P4Runtime's counters, and our switch's side channel where it is.

Only reads, and without arbitration: a ReadRequest names no election, so that no controller
learns of this one, and none can be displaced by it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

import grpc

from controller.errors import ControllerError, ReadFailed, SwitchUnreachable
from mechanisms.registry import all_counters
from observe.samples import (
    DROP_REASONS,
    FabricSample,
    PortSample,
    SwitchSample,
)
from softswitch.client_tls import ClientTls, channel
from softswitch.diagnostics import DiagnosticsClient, DiagnosticsError, Json
from softswitch.p4runtime.protos import p4i, p4r
from topologies import Topology

TIMEOUT_S = 10.0
PROGRAM_CHECK_S = 10.0  # how long a program that was replaced may go unnoticed
_SERVICE = "/p4.v1.P4Runtime"
_THREADS = 8

# Counters of p4src/fabric.p4 by alias. Indexes are ports, but for the last one.
_BY_PORT = ("port_marked", "roce_rx", "roce_nak_rx")
_PORT_TOTALS = ("port_rx", "port_tx")  # where there is no side channel
_BY_REASON = "dropped"

Cells = Mapping[int, tuple[int, int]]
"""A counter's cells: index -> (packets, bytes)."""


@dataclass(frozen=True)
class _Program:
    """What has to be known of the program that a switch runs."""

    cookie: int
    counters: Mapping[str, int]
    checked_at: float


class SwitchReader:
    """Reads one switch. `ports`: those in use, with their links' real rates (bit/s)."""

    def __init__(
        self,
        address: str,
        device_id: int,
        ports: Mapping[int, int],
        *,
        side_channel: bool,
        tls: ClientTls | None = None,
    ) -> None:
        """Nothing is sent before the first read. `address`: host:port of its P4Runtime server."""
        self._tls = tls
        self._address = address
        self._device_id = device_id
        self._rates = dict(ports)
        self._side_channel = side_channel
        self._connect()

    def _connect(self) -> None:
        self._channel = channel(self._address, self._tls)
        self._diagnostics = (
            DiagnosticsClient(self._address, timeout_s=TIMEOUT_S, tls=self._tls)
            if self._side_channel
            else None
        )
        self._program: _Program | None = None
        self._read = self._channel.unary_stream(
            f"{_SERVICE}/Read",
            request_serializer=p4r.ReadRequest.SerializeToString,
            response_deserializer=p4r.ReadResponse.FromString,
        )
        self._get_program = self._channel.unary_unary(
            f"{_SERVICE}/GetForwardingPipelineConfig",
            request_serializer=p4r.GetForwardingPipelineConfigRequest.SerializeToString,
            response_deserializer=p4r.GetForwardingPipelineConfigResponse.FromString,
        )

    def close(self) -> None:
        """End the connection."""
        if self._diagnostics is not None:
            self._diagnostics.close()
        self._channel.close()

    def sample(self) -> SwitchSample:
        """Read everything once; what can't be read is in the sample's `error`."""
        try:
            return self._sample()
        except (ControllerError, DiagnosticsError) as error:
            # Anew, because a connection that failed waits ever longer before it tries again.
            self.close()
            self._connect()
            return SwitchSample(time.monotonic_ns(), error=str(error))

    def _sample(self) -> SwitchSample:
        rows: Mapping[int, Json] = {}
        switch: Json = {}
        at_ns = time.monotonic_ns()
        if self._diagnostics is not None:
            # The switch's own time: an answer that is late on a busy machine must not make the
            # rates of the look before it too high, and its own too low.
            rows, at_ns = self._diagnostics.port_stats_at()
            switch = self._diagnostics.switch_stats()
        cells = self._counters(with_totals=self._diagnostics is None)
        return SwitchSample(
            at_ns=at_ns,
            ports={
                port: port_sample(port, rate, rows.get(port, {}), cells)
                for port, rate in self._rates.items()
            },
            drops=drop_counts(switch, cells),
            cpu_ns=switch["loop"]["cpu_ns"] if switch else None,
            began_ns=switch["epoch_us"] * 1000 - switch["now_ps"] // 1000 if switch else None,
        )

    def _counters(self, *, with_totals: bool) -> dict[str, Cells]:
        """Return the program's counters that we know, by alias; those it lacks are left out."""
        known = self._known_counters()
        wanted = [*_BY_PORT, *(_PORT_TOTALS if with_totals else ())]
        entities = [
            _cell(known[name], index) for name in wanted if name in known for index in self._rates
        ]
        if _BY_REASON in known:
            entities += [_cell(known[_BY_REASON], reason) for reason in DROP_REASONS]
        for counter in all_counters():
            if counter.name in known:
                every = [index for port in self._rates for index in counter.cells(port)]
                entities += [_cell(known[counter.name], index) for index in every]
        if not entities:
            return {}
        names = {number: name for name, number in known.items()}
        found: dict[str, dict[int, tuple[int, int]]] = {}
        request = p4r.ReadRequest(device_id=self._device_id, entities=entities)
        try:
            for reply in self._read(request, timeout=TIMEOUT_S):
                for entity in reply.entities:
                    entry = entity.counter_entry
                    cells = found.setdefault(names[entry.counter_id], {})
                    cells[entry.index.index] = (entry.data.packet_count, entry.data.byte_count)
        except grpc.RpcError as error:
            raise self._failure(error) from None
        return dict(found)

    def _known_counters(self) -> Mapping[str, int]:
        now = time.monotonic()
        program = self._program
        if program is not None and now < program.checked_at + PROGRAM_CHECK_S:
            return program.counters
        kinds = p4r.GetForwardingPipelineConfigRequest
        cookie = self._pipeline(kinds.COOKIE_ONLY).cookie.cookie
        if program is None or not cookie or cookie != program.cookie:
            info = self._pipeline(kinds.P4INFO_AND_COOKIE).p4info
            self._program = _Program(cookie, _counter_ids(info, self._rates), now)
        else:
            self._program = _Program(cookie, program.counters, now)
        return self._program.counters

    def _pipeline(self, kind: int) -> p4r.ForwardingPipelineConfig:
        request = p4r.GetForwardingPipelineConfigRequest(
            device_id=self._device_id,
            response_type=kind,  # type: ignore[arg-type]
        )
        try:
            reply: p4r.GetForwardingPipelineConfigResponse = self._get_program(
                request, timeout=TIMEOUT_S
            )
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                return p4r.ForwardingPipelineConfig()  # no program yet
            raise self._failure(error) from None
        return reply.config

    def _failure(self, error: grpc.RpcError) -> ControllerError:
        match error.code():
            case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.CANCELLED:
                return SwitchUnreachable(f"no switch answers on {self._address}")
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                return SwitchUnreachable(f"no answer from {self._address} in {TIMEOUT_S:g} s")
            case code:
                return ReadFailed(self._address, code.name, str(error.details()))


class FabricReader:
    """Reads all switches of a fabric. Use as a context manager, or call `close`."""

    def __init__(
        self,
        topology: Topology,
        addresses: Mapping[str, str],
        *,
        side_channel: bool,
        tls: ClientTls | None = None,
    ) -> None:
        """`addresses` by switch name; `side_channel`: whether the switches are our own."""
        self._readers = {
            switch.name: SwitchReader(
                addresses[switch.name],
                switch.device_id,
                {
                    port.number: topology.real_rate_bps(port.link)
                    for port in topology.ports_of(switch.name)
                },
                side_channel=side_channel,
                tls=tls,
            )
            for switch in topology.switches
        }
        threads = max(1, min(_THREADS, len(self._readers)))
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="weft-metrics")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all connections."""
        for reader in self._readers.values():
            reader.close()
        self._pool.shutdown(cancel_futures=True)

    def sample(self) -> FabricSample:
        """Read all switches, several at a time. One that does not answer holds up no other."""
        found = self._pool.map(lambda reader: reader.sample(), self._readers.values())
        return dict(zip(self._readers, found, strict=True))


def port_sample(port: int, rate_bps: int, row: Json, cells: Mapping[str, Cells]) -> PortSample:
    """Make a sample of a port's row of the side channel ({} without) and of the P4 counters."""

    def cell(counter: str) -> tuple[int, int] | tuple[None, None]:
        of_counter = cells.get(counter)
        return (None, None) if of_counter is None else of_counter.get(port, (0, 0))

    marked, _ = cell("port_marked")
    roce_packets, roce_bytes = cell("roce_rx")
    naks, _ = cell("roce_nak_rx")
    counters = _of_mechanisms(port, cells)
    if row:
        link = row["link"]
        return PortSample(
            rx_packets=row["rx_packets"],
            rx_bytes=row["rx_bytes"],
            tx_packets=row["tx_packets"],
            tx_bytes=row["tx_bytes"],
            rate_bps=link["rate_bps"],
            marked_packets=marked,
            roce_packets=roce_packets,
            roce_bytes=roce_bytes,
            roce_naks=naks,
            drops=_drops_of(row),
            queue_packets=row["depth_packets"],
            queue_bytes=row["depth_bytes"],
            queue_packets_max=row["max_depth_packets"],
            queue_limit_bytes=link["queue_bytes"],
            up=row["state"] != "down",
            counters=counters,
        )
    rx_packets, rx_bytes = cell("port_rx")
    tx_packets, tx_bytes = cell("port_tx")
    return PortSample(
        rx_packets=rx_packets or 0,
        rx_bytes=rx_bytes or 0,
        tx_packets=tx_packets or 0,
        tx_bytes=tx_bytes or 0,
        rate_bps=rate_bps,
        marked_packets=marked,
        roce_packets=roce_packets,
        roce_bytes=roce_bytes,
        roce_naks=naks,
        counters=counters,
    )


def _of_mechanisms(port: int, cells: Mapping[str, Cells]) -> dict[str, dict[str, int]]:
    """Return a port's cells of mechanisms' counters, by key and label."""
    return {
        counter.key: {
            label: cells[counter.name].get(index, (0, 0))[0]
            for index, label in counter.cells(port).items()
        }
        for counter in all_counters()
        if counter.name in cells
    }


# Counts of the switch (ws_stats) and of its packet loop (wd_stats) as reasons. What counts drops
# begins with drop_; ingress drops are counted by the program, reason by reason.
_DROP = "drop_"
_INGRESS = "ingress"
_SWITCH_REASONS = {
    "no_pipeline": "no_program",
    "recirculate": "recirculation_full",
    "bad_port": "no_such_port",
    "bad_priority": "no_such_queue",
}
_LOOP_DROPS = {"rx_dropped": "receive_overrun", "tx_errors": "send_error"}


def drop_counts(switch: Json, cells: Mapping[str, Cells]) -> dict[str, int]:
    """Return packets that ended inside a switch, by reason.

    `switch`: its SwitchStats ({} without). Ingress drops are one reason where the program has no
    counter of reasons.
    """
    drops = _drops_of(switch.get("switch", {}))
    drops = {_SWITCH_REASONS.get(reason, reason): count for reason, count in drops.items()}
    loop = switch.get("loop", {})
    drops |= {reason: loop[name] for name, reason in _LOOP_DROPS.items() if name in loop}
    by_reason = cells.get(_BY_REASON)
    if by_reason is None:
        return drops
    drops.pop(_INGRESS, None)
    told = {name: by_reason.get(index, (0, 0))[0] for index, name in DROP_REASONS.items()}
    return told | drops


def _drops_of(row: Json) -> dict[str, int]:
    return {
        name.removeprefix(_DROP): count for name, count in row.items() if name.startswith(_DROP)
    }


def _cell(counter: int, index: int) -> p4r.Entity:
    entry = p4r.CounterEntry(counter_id=counter, index=p4r.Index(index=index))
    return p4r.Entity(counter_entry=entry)


def _counter_ids(info: p4i.P4Info, ports: Collection[int]) -> dict[str, int]:
    """Return the ids of a program's counters by alias.

    Those are left out that are called like the fabric's and are too small to be them: any program
    may have a counter of that name.
    """
    last = dict.fromkeys((*_BY_PORT, *_PORT_TOTALS), max(ports, default=0))
    last[_BY_REASON] = max(DROP_REASONS)
    for counter in all_counters():
        cells = (index for port in ports for index in counter.cells(port))
        last[counter.name] = max(cells, default=0)
    return {
        counter.preamble.alias: counter.preamble.id
        for counter in info.counters
        if counter.size > last.get(counter.preamble.alias, 0)
    }
