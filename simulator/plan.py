"""From a run file to what the engine sends: flows, streams, messages, script, and their names."""

from __future__ import annotations

import numpy as np

from simulator.dag import FlowTable, MessageTable, Numbers
from simulator.frames import script_packets
from simulator.ideal import bounds
from simulator.mixes import mix_arrivals
from simulator.paths import OVERHEAD, Paths, PathTable
from simulator.spans import Spans
from topologies.model import Interface
from topologies.placement import find_interface
from topologies.randomness import Random
from topologies.workload_check import ALL, expand, incast_sources
from topologies.workload_model import (
    NEVER_PS,
    STREAM,
    Records,
    RunFile,
    ScriptPacket,
    StreamKind,
    Traffic,
)
from topologies.workload_schema import (
    CbrEntry,
    FlowSettings,
    IncastEntry,
    MessageEntry,
    MixEntry,
    ScriptEntry,
)

_PS = 10**12


def plan(run: RunFile, seed: int | None = None) -> Traffic:
    """Return what a run sends; `seed` (None: the file's) changes only what is random.

    Raises TopologyError where a random placement joins what no way joins.
    """
    return _Plan(run, run.seed if seed is None else seed).traffic()


class _Plan:
    def __init__(self, run: RunFile, seed: int) -> None:
        self.run = run
        self.seed = seed
        self.flows = FlowTable(Paths(run.topology))
        self.messages = MessageTable()
        self.streams: list[tuple[int, ...]] = []
        self.script: list[ScriptPacket] = []
        self.spans = Spans()

    def traffic(self) -> Traffic:
        for number, entry in enumerate(self.run.traffic):
            name = f"{entry.kind} {number}"
            if entry.cbr is not None:
                self._stream(number, entry.cbr, StreamKind.CBR)
            elif entry.poisson is not None:
                self._stream(number, entry.poisson, StreamKind.POISSON)
            elif entry.incast is not None:
                self._incast(name, number, entry.incast)
            elif entry.mix is not None:
                self._mix(name, number, entry.mix)
            elif entry.message is not None:
                self._message(name, number, entry.message)
            else:
                self._script(number, entry.script or [])
        return self._result()

    def _result(self) -> Traffic:
        flows = self.flows.records()
        table = self.flows.path_table()
        bound = bounds(self.run.topology, self.messages.arrays(), flows, table)
        return Traffic(
            topology=self.run.topology,
            flows=flows,
            streams=np.array(self.streams, dtype=STREAM),
            messages=bound.arrays,
            ideal_ps=bound.alone_ps,
            script=tuple(sorted(self.script, key=lambda packet: packet.at_ps)),
            spans=tuple(self.spans.finished(bound)),
            core_share=_top_share(table, bound.arrays.messages),
        )

    # --- the kinds of traffic --------------------------------------------------------------

    def _flow(
        self, source: Interface, target: Interface, channel: str, entry: FlowSettings, rate: int = 0
    ) -> int:
        return self.flows.flow(
            source,
            target,
            channel=channel,
            dscp=entry.dscp,
            queue=entry.queue,
            payload=entry.payload,
            udp_port=entry.udp_port,
            rate_bps=rate or None,
        )

    def _interfaces(self, names: list[str]) -> list[Interface]:
        found = (
            find_interface(self.run.topology, name, lambda _: None)
            for name in expand(self.run.topology, names)
        )
        return [interface for interface in found if interface is not None]

    def _stream(self, number: int, entry: CbrEntry, kind: StreamKind) -> None:
        for source in self._interfaces(entry.source):
            for target in self._interfaces(entry.to):
                if source == target:
                    continue
                flow = self._flow(source, target, f"traffic {number}", entry)
                payload = self.flows.payload_of(flow)
                interval_ps = -(-(payload + OVERHEAD) * 8 * _PS // entry.rate)
                seed = Random(self.seed, "stream", number, flow).word()
                stop = NEVER_PS if entry.stop is None else entry.stop
                row = (flow, int(kind), payload, seed, entry.start, stop, interval_ps)
                self.streams.append((*row, entry.packets or 0))

    def _incast(self, name: str, number: int, entry: IncastEntry) -> None:
        target = self._interfaces([entry.to])[0]
        sources = incast_sources(self.run.topology, entry)
        flows = np.array(
            [self._flow(s, target, f"traffic {number}", entry, entry.rate or 0) for s in sources]
        )
        if entry.persistent:
            size = np.array([self._until_the_end(source, entry.start) for source in sources])
            added = self.messages.add(flows, size, len(flows), start_ps=entry.start)
            self.spans.traffic(name, added, "persistent incast", entry.start)
            return
        size = np.full(len(flows), entry.bytes, dtype=np.int64)
        before: Numbers | None = None
        for round_number in range(entry.rounds):
            start_ps = entry.start + round_number * (entry.every or 0)
            added = self.messages.add(flows, size, len(flows), start_ps=start_ps)
            if before is not None and entry.every is None:
                # A round begins when the one before it has ended everywhere.
                self.messages.wait(np.repeat(added, len(before)), np.tile(before, len(added)))
            called = f"{name} round {round_number}" if entry.rounds > 1 else name
            self.spans.traffic(called, added, "incast")
            before = added

    def _until_the_end(self, source: Interface, start_ps: int) -> int:
        """Return more bytes than an interface can send until the run ends."""
        rate = self.run.topology.link_at(source.host, source.number).rate_bps
        return rate * max((self.run.until_ps or 0) - start_ps, _PS // rate) // (8 * _PS) + 1

    def _message(self, name: str, number: int, entry: MessageEntry) -> None:
        for source in self._interfaces(entry.source):
            for target in self._interfaces(entry.to):
                if source == target:
                    continue
                flow = self._flow(source, target, f"traffic {number}", entry, entry.rate or 0)
                gap = np.full(entry.count, entry.gap, dtype=np.int64)
                gap[0] = 0
                added = self.messages.add(
                    flow, entry.bytes, entry.count, start_ps=entry.start, gap_ps=gap
                )
                self.messages.wait(added[1:], added[:-1])
                self.spans.traffic(f"{name} {source.end}->{target.end}", added, "message")

    def _mix(self, name: str, number: int, entry: MixEntry) -> None:
        hosts = self._interfaces(entry.hosts or [ALL])
        arrivals = mix_arrivals(self.run.topology, hosts, entry, Random(self.seed, "mix", number))
        flows = np.array(
            [
                self._flow(hosts[a], hosts[b], f"traffic {number}.{i}", entry, entry.rate or 0)
                for i, (a, b) in enumerate(arrivals.pairs)
            ],
            dtype=np.int64,
        )
        count = len(flows)
        added = self.messages.add(flows, arrivals.sizes, count, start_ps=arrivals.at_ps)
        self.spans.traffic(name, added, f"mix {entry.sizes}")

    def _script(self, number: int, packets: list[ScriptEntry]) -> None:
        for i, packet in enumerate(packets):
            self.script += script_packets(self.run.topology, packet, number << 32 | i)


def _top_share(table: PathTable, messages: Records) -> float | None:
    """Return the share of the messages' bytes that cross the fabric's top."""
    total = int(messages["bytes"].sum())
    if not total:
        return None
    of_flow = np.zeros(len(table.top), dtype=np.int64)
    np.add.at(of_flow, messages["flow"].astype(np.int64), messages["bytes"].astype(np.int64))
    return int(of_flow[table.top].sum()) / total
