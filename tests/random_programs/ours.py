"""Runs a case with our compiler and our switch, and says where that differs from the oracle."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from compiler import CompileError, compile_p4
from compiler.driver import CompileResult
from softswitch import Switch
from softswitch.codegen import Bmv2Program, build_pipeline
from softswitch.codegen.build import BuildError
from softswitch.p4runtime import schema
from softswitch.p4runtime.names import MatchValue, Names, UnknownName
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.status import PipelineError, WriteError
from tests.random_programs import model as m
from tests.random_programs import printer
from tests.random_programs.draw_packets import Case, moment_us
from tests.random_programs.oracle import Entries, Oracle, Sent
from tests.random_programs.types import Bits, width_of

NS_PER_US = 1000


@dataclass(frozen=True)
class Finding:
    """Something that is not as it must be; `kind` stays the same while a program shrinks."""

    kind: str
    text: str

    @property
    def line(self) -> str:
        """The text in one line."""
        return " | ".join(part.strip() for part in self.text.splitlines())[:300]


@dataclass(frozen=True)
class Target:
    """Which build of the core runs, and whether pipelines are built with the sanitizers."""

    module: ModuleType | None = None
    sanitize: bool = False
    cache_dir: Path | None = None


def check(case: Case, target: Target) -> Finding | None:
    """Compile, run, compare. Nothing but a Finding comes of what goes wrong in the product."""
    try:
        compiled = compile_text(printer.program(case.program))
    except CompileError as error:
        return Finding("refused " + _first_words(str(error)), str(error))
    except Exception as error:  # any other one is a fault of the compiler: that is the test
        return Finding(f"compiler {type(error).__name__}", f"{type(error).__name__}: {error}")
    try:
        prepared = prepare(compiled, target)
    except (BuildError, PipelineError) as error:
        return Finding(f"build {type(error).__name__}", str(error))
    except Exception as error:
        return Finding(f"build {type(error).__name__}", f"{type(error).__name__}: {error}")
    return run_case(case, prepared, target)


def compile_text(text: str) -> CompileResult:
    """Compile a program given as text. Raises CompileError."""
    with tempfile.TemporaryDirectory(prefix="weft-random-") as scratch:
        source = Path(scratch, "program.p4")
        source.write_text(text)
        return compile_p4(source)


def prepare(compiled: CompileResult, target: Target) -> Pipeline:
    """Build a compiled program. Raises PipelineError, BuildError."""
    device_config = compiled.json_text.encode()
    program = Bmv2Program.from_json(device_config)
    library = build_pipeline(program, cache_dir=target.cache_dir, sanitize=target.sanitize)
    return Pipeline(
        compiled.p4info, device_config, program, schema.bind(compiled.p4info, program), library
    )


def run_case(case: Case, prepared: Pipeline, target: Target) -> Finding | None:
    """Run a built program's case on our switch, and compare with the oracle packet by packet."""
    oracle = Oracle(case.program, case.entries)
    with Switch(module=target.module) as switch:
        switch.load(prepared)
        switch.run_until(moment_us(0) * NS_PER_US)
        try:
            for update in updates(switch.names, case.program, case.entries):
                switch.write([update])
        except (WriteError, UnknownName) as error:
            return Finding(f"write {type(error).__name__}", str(error))
        for at, (port, data) in enumerate(case.packets):
            wanted = oracle.run(port, data, moment_us(at))
            switch.inject(port, data, moment_us(at) * NS_PER_US)
            outputs = switch.run_until(moment_us(at + 1) * NS_PER_US - 1)
            got = [(output.port, output.packet) for output in outputs]
            if not agree(wanted, got):
                return Finding("output", difference(at, port, data, wanted, got))
        told = [(digest.name, row) for digest in switch.digests for row in digest.rows]
        if told != oracle.digests:
            return Finding("digest", f"{told}, not {oracle.digests}")
        found = _registers(switch, case, oracle)
        return found or counters(switch.names, case, oracle, lambda of: list(switch.read(of)))


def agree(wanted: Sequence[Sent], got: Sequence[tuple[int, bytes]]) -> bool:
    """Whether these packets are those, in whatever order: copies have none between each other."""
    left = list(got)
    for sent in sorted(wanted, key=lambda sent: -int.from_bytes(sent.mask, "big").bit_count()):
        found = next((at for at, output in enumerate(left) if sent.agrees(*output)), None)
        if found is None:
            return False
        del left[found]
    return not left


def difference(
    at: int, port: int, data: bytes, wanted: Sequence[Sent], got: Sequence[tuple[int, bytes]]
) -> str:
    """Say what was sent, what had to come and what came."""
    lines = [f"packet {at}: port {port}: {data.hex()}"]
    lines += [f"  expected port {sent.port}: {masked(sent)}" for sent in wanted] or [
        "  expected nothing"
    ]
    lines += [f"  got      port {to}: {out.hex()}" for to, out in got] or ["  got      nothing"]
    return "\n".join(lines)


def masked(sent: Sent) -> str:
    """Return the digits of a packet, `*` where not all bits are defined."""
    digits = zip(sent.data.hex(), sent.mask.hex(), strict=True)
    return "".join(digit if of == "f" else "*" for digit, of in digits)


def _registers(switch: Switch, case: Case, oracle: Oracle) -> Finding | None:
    """Compare the registers at the end."""
    for control in (case.program.ingress, case.program.egress):
        for register in control.registers:
            name = f"{control.name}.{register.name}"
            got = [switch.register_read(name, at) for at in range(register.size)]
            if got != oracle.registers[register.name]:
                wanted = oracle.registers[register.name]
                return Finding("register", f"{name}: {got}, not {wanted}")
    return None


Read = Callable[[p4r.Entity], list[p4r.Entity]]


def counters(names: Names, case: Case, oracle: Oracle, read: Read) -> Finding | None:
    """Packets and bytes of counters at the end, direct ones too."""
    for control in (case.program.ingress, case.program.egress):
        for counter in control.counters:
            name = f"{control.name}.{counter.name}"
            for at in range(counter.size):
                cell = p4r.CounterEntry(counter_id=names.counter_id(name))
                cell.index.index = at
                data = [e.counter_entry.data for e in read(p4r.Entity(counter_entry=cell))]
                got = [(one.packet_count, one.byte_count) for one in data]
                wanted = (oracle.counters[counter.name][at], oracle.counter_bytes[counter.name, at])
                if got != [wanted]:
                    return Finding("counter", f"{name}[{at}]: {got}, not {wanted}")
        for table in control.tables:
            found = _direct(names, control, table, oracle, read)
            if found is not None:
                return found
    return None


def _direct(
    names: Names, control: m.Control, table: m.Table, oracle: Oracle, read: Read
) -> Finding | None:
    if not table.counter or not _known(names, f"{control.name}.{table.name}"):
        return None
    for at, entry in enumerate(oracle.entries.tables.get(table.name, [])):
        message = table_entry(names, control, table, entry)
        message.ClearField("action")
        message.ClearField("meter_config")
        of = p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=message))
        data = [e.direct_counter_entry.data for e in read(of)]
        got = [(one.packet_count, one.byte_count) for one in data]
        wanted = oracle.hits.get((table.name, at), 0), oracle.hit_bytes[table.name, at]
        # Without match fields it is a request for all of the table's cells.
        if wanted not in got or (message.match and len(got) > 1):
            return Finding("counter", f"{table.counter} of entry {at}: {got}, not {wanted}")
    return None


# --- entries as P4Runtime has them ----------------------------------------------------------------


def updates(names: Names, program: m.Program, entries: Entries) -> list[p4r.Update]:
    """All entries of a case."""
    made = []
    for control in (program.ingress, program.egress):
        for table in control.tables:
            if not _known(names, f"{control.name}.{table.name}"):
                continue  # never applied
            for entry in entries.tables.get(table.name, []):
                message = table_entry(names, control, table, entry)
                entity = p4r.Entity(table_entry=message)
                made.append(p4r.Update(type=p4r.Update.INSERT, entity=entity))
    known_sets = {value_set.preamble.name for value_set in names.schema.p4info.value_sets}
    for name, values in entries.value_sets.items():
        if f"{program.parser.name}.{name}" not in known_sets:
            continue
        set_entry = p4r.ValueSetEntry(
            value_set_id=names.value_set_id(f"{program.parser.name}.{name}")
        )
        for value in values:
            member = set_entry.members.add()
            member.match.add(field_id=1).exact.value = _bytes(value)
        entity = p4r.Entity(value_set_entry=set_entry)
        made.append(p4r.Update(type=p4r.Update.MODIFY, entity=entity))
    return [*made, *_meters(names, program, entries), *_replication(entries), *_digests(names)]


def _meters(names: Names, program: m.Program, entries: Entries) -> list[p4r.Update]:
    made = []
    for control in (program.ingress, program.egress):
        for meter in control.meters:
            for at in range(meter.size):
                rates = entries.meters.get((meter.name, at))
                if rates is None:
                    continue
                cell = p4r.MeterEntry(meter_id=names.meter_id(f"{control.name}.{meter.name}"))
                cell.index.index = at
                _configure(cell.config, rates)
                entity = p4r.Entity(meter_entry=cell)
                made.append(p4r.Update(type=p4r.Update.MODIFY, entity=entity))
    return made


def _configure(config: p4r.MeterConfig, rates: m.Rates) -> None:
    config.cir, config.cburst, config.pir, config.pburst = rates


def _digests(names: Names) -> list[p4r.Update]:
    """Each message in a list of its own, at once."""
    made = []
    for number in names.schema.digests:
        entity = p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=number))
        entity.digest_entry.config.max_list_size = 1
        made.append(p4r.Update(type=p4r.Update.INSERT, entity=entity))
    return made


def _replication(entries: Entries) -> list[p4r.Update]:
    made = []
    for group, copies in entries.groups.items():
        entity = p4r.Entity()
        message = entity.packet_replication_engine_entry.multicast_group_entry
        message.multicast_group_id = group
        for port, instance in copies:
            message.replicas.add(egress_port=port, instance=instance)
        made.append(p4r.Update(type=p4r.Update.INSERT, entity=entity))
    for session, copies in entries.sessions.items():
        entity = p4r.Entity()
        clones = entity.packet_replication_engine_entry.clone_session_entry
        clones.session_id = session
        for port, instance in copies:
            clones.replicas.add(egress_port=port, instance=instance)
        made.append(p4r.Update(type=p4r.Update.INSERT, entity=entity))
    return made


def _known(names: Names, table: str) -> bool:
    return any(known.name == table for known in names.schema.tables.values())


def _bytes(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8 or 1, "big")


def table_entry(names: Names, control: m.Control, table: m.Table, entry: m.Entry) -> p4r.TableEntry:
    """One entry as a message."""
    match: dict[str, MatchValue] = {}
    for key, one in zip(table.keys, entry.matches, strict=True):
        assert key.expr.type is not None
        width = width_of(key.expr.type)
        value: MatchValue | None = matched(one, width)
        if value is not None:
            match[key.name] = value
    action = next(known for known in control.actions if known.name == entry.action)
    params = [param for param in action.params if param.direction == ""]
    data = {
        param.name: value & ((1 << param.type.width) - 1)
        for param, value in zip(params, entry.args, strict=True)
        if isinstance(param.type, Bits)
    }
    made = names.entry(
        f"{control.name}.{table.name}",
        match,
        f"{control.name}.{entry.action}",
        data,
        priority=entry.priority,
    )
    if entry.rates is not None:
        _configure(made.meter_config, entry.rates)
    return made


def matched(match: m.Match, width: int) -> MatchValue | None:
    """Return a match as Names takes it; None: left out."""
    match match.kind:
        case "value":
            return match.low
        case "mask" | "range":
            return match.low, match.high
        case "prefix":
            shift = width - match.high
            return match.low >> shift << shift, match.high
    return None


def _first_words(text: str) -> str:
    """Return the first words of an error, without the place and the program's names."""
    line = text.split("\n", 1)[0].split("error: ", 1)[-1]
    return " ".join(word for word in line.split() if word.isalpha())
