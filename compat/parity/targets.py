"""What a round can run on; and the fastest of it, the in-process switch."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from compat.parity.cases import CPU_PORT, PORTS, Answer, Json, Packet, Round, Seen
from compat.parity.coverage import Watched
from softswitch.codegen.build import build_c
from softswitch.codegen.generate import generate_c
from softswitch.core import CoreConfig, PortState
from softswitch.p4runtime import pipeline
from softswitch.p4runtime.named_updates import MalformedUpdate, NamedUpdates
from softswitch.p4runtime.names import UnknownName
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.status import WriteError
from softswitch.switch import Switch

STEP_NS = 300_000
"""Virtual time that each packet has to pass the switch; another pass takes 1 us."""

SHORTEST_FRAME = 14
"""Bytes of an Ethernet header: nothing shorter gets onto a link."""

MOST_CELLS = 4096
"""Cells of each register and counter that are compared."""

MOST_PASSES = 200
"""A packet that is recirculated or resubmitted more often counts as one that never leaves."""


class TargetError(Exception):
    """A target that can't be used; the message says why."""


class Target(Protocol):
    """A switch that rounds run on, each from a fresh start."""

    name: str
    live: bool
    prepared: Pipeline

    def run(self, round_: Round, hint: Sequence[Seen] | None = None, patience: int = 1) -> Answer:
        """Run a round. `hint`: what to expect; `patience` multiplies how long to wait for more."""
        ...

    def close(self) -> None:
        """End it."""
        ...


@dataclass(frozen=True)
class Environment:
    """What may differ between two runs without a program's knowledge: clock, chance, junk."""

    seed: int = 1
    start_ns: int = 1_000_000
    step_ns: int = STEP_NS
    queued_ns: int = 0
    """How long packets stay in the queues: egress sees another time than ingress."""
    vary_undefined: bool = False

    @staticmethod
    def varied(seed: int) -> Environment:
        """Return an environment unlike the usual one; another for each seed."""
        rng = random.Random(seed)
        return Environment(
            seed=rng.getrandbits(31) + 2,
            start_ns=rng.getrandbits(52),
            step_ns=(STEP_NS << rng.randrange(12)) + rng.getrandbits(16),
            queued_ns=1 + rng.getrandbits(19),
            vary_undefined=True,
        )


class InProcess:
    """Our switch in this process, under a virtual clock."""

    live = False

    def __init__(self, prepared: Pipeline, cache_dir: Path | None = None) -> None:
        self.name = "softswitch"
        self.prepared = prepared
        self.cache_dir = cache_dir
        self._scrambled: Pipeline | None = None

    def run(self, round_: Round, hint: Sequence[Seen] | None = None, patience: int = 1) -> Answer:
        """Run a round in the usual environment."""
        return self.run_in(Environment(), round_)

    def run_in(self, environment: Environment, round_: Round, *, cells: bool = True) -> Answer:
        """Run a round in an environment, and read its `cells` at the end."""
        with Switch(CoreConfig(cpu_port=CPU_PORT, seed=environment.seed)) as switch:
            switch.run_until(environment.start_ns)
            answer = Answer([], self._prepare(switch, environment, round_), {}, registers=True)
            for number, packet in enumerate(round_.packets):
                failures = switch.switch_stats().assert_failures
                seen, endless = self._whole(switch, packet, environment, round_)
                answer.seen.append(seen)
                # A failed assertion ends BMv2, an index beyond an array's end may do so.
                if endless or switch.switch_stats().assert_failures != failures:
                    answer.undefined.add(number)
            if cells:
                answer.cells = self._cells(switch)
            return answer

    def watch(self, round_: Round) -> list[Watched]:
        """Return what each packet met on its way."""
        usual = Environment()
        answered = []
        with Switch(CoreConfig(cpu_port=CPU_PORT)) as switch:
            self._prepare(switch, usual, round_)
            with switch.trace():
                for packet in round_.packets:
                    seen, endless = self._whole(switch, packet, usual, round_)
                    answered.append(seen.count > 0 and not endless)
            traced = switch.traced
        return [Watched.of(*one) for one in zip(traced, answered, strict=True)]

    def close(self) -> None:
        """Do nothing: no resource is held."""

    def _pipeline(self, environment: Environment) -> Pipeline:
        if not environment.vary_undefined:
            return self.prepared
        if self._scrambled is None:
            code = generate_c(self.prepared.program, vary_undefined=True)
            self._scrambled = replace(
                self.prepared, library=build_c(code, cache_dir=self.cache_dir)
            )
        return self._scrambled

    def _prepare(self, switch: Switch, environment: Environment, round_: Round) -> list[str]:
        """Load the program afresh and write the entries; why each was refused."""
        switch.load(self._pipeline(environment))
        updates = NamedUpdates(switch.names)
        return [refusal(switch, updates, update) for update in round_.setup]

    def _whole(
        self, switch: Switch, packet: Packet, environment: Environment, round_: Round
    ) -> tuple[Seen, bool]:
        """Return the outcome of a packet, and whether it was dropped in an endless loop."""
        before = switch.switch_stats()
        seen = self._packet(switch, packet, environment)
        after = switch.switch_stats()
        passes = after.recirculated + after.resubmitted - before.recirculated - before.resubmitted
        endless = passes > MOST_PASSES or after.endless_passes != before.endless_passes
        if endless:  # it would go on under the next packets
            self._prepare(switch, environment, round_)
        return seen, endless

    def _packet(self, switch: Switch, packet: Packet, environment: Environment) -> Seen:
        held = PORTS if environment.queued_ns else ()
        for port in held:
            switch.set_port(port, PortState.BLOCKED)
        if packet.metadata is None:
            switch.inject(packet.port, packet.data)
        else:
            switch.packet_out(packet.data, packet.metadata)
        outputs = switch.run_until(switch.now_ns + environment.queued_ns)
        for port in held:
            switch.set_port(port)
        outputs += switch.run_until(switch.now_ns + environment.step_ns)
        frames: dict[int, tuple[bytes, ...]] = {}
        for output in outputs:
            if output.port in PORTS and len(output.packet) >= SHORTEST_FRAME:
                frames[output.port] = (*frames.get(output.port, ()), output.packet)
        packet_ins = tuple(
            (p.payload, tuple(sorted(p.metadata.items()))) for p in switch.packet_ins
        )
        digests = tuple((digest.name, digest.rows) for digest in switch.digests)
        for digest in switch.digests:
            switch.acknowledge(digest)
        switch.packet_ins.clear()
        switch.digests.clear()
        return Seen(frames, packet_ins, digests)

    def _cells(self, switch: Switch) -> dict[str, int]:
        cells = counter_cells(switch.read(*counter_queries(self.prepared)), self.prepared)
        for register in self.prepared.schema.registers.values():
            for index in range(min(register.size, MOST_CELLS)):
                value = switch.core.register_get(register.index, index)
                if value:
                    cells[f"register {register.name}[{index}]"] = value
        return cells


def refusal(switch: Switch, updates: NamedUpdates, update: Json) -> str:
    """Write an update by name; why it was refused, "" when it was not."""
    try:
        switch.write([updates.update(update)])
    except (WriteError, UnknownName, MalformedUpdate) as error:
        return str(error)
    return ""


def counter_queries(prepared: Pipeline) -> list[p4r.Entity]:
    """Return the counters to read: all counters, of large arrays their first cells."""
    asked: list[p4r.Entity] = []
    for array in prepared.schema.counters.values():
        entries = [p4r.CounterEntry(counter_id=array.id)]
        if array.size > MOST_CELLS:
            indices = [p4r.Index(index=index) for index in range(MOST_CELLS)]
            entries = [p4r.CounterEntry(counter_id=array.id, index=index) for index in indices]
        asked += [p4r.Entity(counter_entry=entry) for entry in entries]
    for table in prepared.schema.tables.values():
        if table.counter is not None:
            of = p4r.DirectCounterEntry(table_entry=p4r.TableEntry(table_id=table.id))
            asked.append(p4r.Entity(direct_counter_entry=of))
    return asked


def counter_cells(entities: Iterable[p4r.Entity], prepared: Pipeline) -> dict[str, int]:
    """Return counter cells that are not 0, by name: what both kinds of counters hold."""
    cells: dict[str, int] = {}
    schema = prepared.schema
    for entity in entities:
        if entity.WhichOneof("entity") == "counter_entry":
            entry = entity.counter_entry
            counter = schema.counters[entry.counter_id]
            name, data = f"counter {counter.name}[{entry.index.index}]", entry.data
            packets, in_bytes = counter.packets, counter.bytes
        else:
            direct = entity.direct_counter_entry
            table = schema.tables[direct.table_entry.table_id]
            if table.counter is None:
                continue
            key = _entry_key(direct.table_entry, prepared)
            name, data = f"counter {table.counter.name}[{key}]", direct.data
            packets, in_bytes = table.counter.packets, table.counter.bytes
        if packets and data.packet_count:
            cells[f"{name} packets"] = data.packet_count
        if in_bytes and data.byte_count:
            cells[f"{name} bytes"] = data.byte_count
    return cells


def _entry_key(entry: p4r.TableEntry, prepared: Pipeline) -> str:
    """Return an entry's key, independent of the padding of its values."""
    if entry.is_default_action:
        return "default"
    fields = {field.id: field for field in prepared.schema.tables[entry.table_id].fields}
    parts = []
    for match in sorted(entry.match, key=lambda m: int(m.field_id)):
        kind = match.WhichOneof("field_match_type")
        values = [
            str(int.from_bytes(value, "big") if isinstance(value, bytes) else value)
            for _, value in getattr(match, kind).ListFields()
        ]
        parts.append(f"{fields[match.field_id].name}={'/'.join(values)}")
    if entry.priority:
        parts.append(f"priority {entry.priority}")
    return ", ".join(parts)


def prepare(json_text: str, p4info_text: str, cache_dir: Path | None = None) -> Pipeline:
    """Build a compiled program for our switch. Raises PipelineError."""
    info = pipeline.parse_p4info(p4info_text.encode(), "P4Info")
    return pipeline.prepare(info, json_text.encode(), cache_dir=cache_dir)
