"""Runs a test on a switch, statement by statement; what came out is compared at the end."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from compat.stf import entries
from compat.stf.expectations import Came, Row, compare
from compat.stf.replication import Replication
from compat.stf.statements import (
    CELL_BITS,
    Add,
    CheckCounter,
    Command,
    Expect,
    NoPacket,
    Packet,
    Remove,
    SetDefault,
    Statement,
    StfError,
    Wait,
    number,
)
from softswitch.core import Session
from softswitch.p4runtime.names import Names, UnknownName
from softswitch.p4runtime.protos import p4r

PER_SECOND = 1_000_000
"""BMv2's command line has meter rates by microsecond, P4Runtime by second."""

_CONDITIONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}


class NotOnTarget(Exception):
    """The target has no way to do what a statement asks for; the message says why."""


class StfTarget(Protocol):
    """A switch that runs the program of the test."""

    name: str
    names: Names

    def write(self, update: p4r.Update) -> str:
        """Write one update; return why it was refused, "" when it was not."""
        ...

    def read(self, entity: p4r.Entity) -> list[p4r.Entity]:
        """Read all that the entity selects."""
        ...

    def packet(self, port: int, data: bytes) -> None:
        """Send a packet into a port."""
        ...

    def wait(self) -> None:
        """Let everything that is under way happen."""
        ...

    def outputs(self) -> list[tuple[int, bytes]] | None:
        """Return what came out since the last call; None when that is known at the end only."""
        ...

    def end(self) -> list[tuple[int, bytes]]:
        """Return what came out since the last call; no packet follows."""
        ...

    def session_zero(self, session: Session | None) -> None:
        """Set mirroring session 0. Raises NotOnTarget, StfError."""
        ...

    def register_read(self, name: str, index: int) -> int:
        """Read a cell of a register. Raises NotOnTarget."""
        ...

    def register_write(self, name: str, index: int, value: int) -> None:
        """Set a cell of a register. Raises NotOnTarget."""
        ...


@dataclass(frozen=True, slots=True)
class Result:
    """What a test came to: its rows by line, and what was said by commands that read."""

    rows: tuple[Row, ...]
    said: tuple[tuple[int, str], ...]

    @property
    def ok(self) -> bool:
        """Whether everything was as the test wants it."""
        return all(row.ok for row in self.rows)


def run(script: Sequence[Statement], target: StfTarget) -> Result:
    """Run a test. Raises StfError for a statement that can't be carried out on this program, and
    NotOnTarget for one that this target has no way to do."""
    return _Run(target).run(script)


class _Run:
    def __init__(self, target: StfTarget) -> None:
        self._target = target
        self._schema = target.names.schema
        self._replication = Replication(self._write, target.session_zero)
        self._labels: dict[str, p4r.TableEntry] = {}
        self._rows: list[Row] = []
        self._came: list[Came] = []
        self._said: list[tuple[int, str]] = []
        self._sent = 0
        self._last: list[Came] | None = []

    def run(self, script: Sequence[Statement]) -> Result:
        for statement in script:
            try:
                self._do(statement)
            except (UnknownName, StfError) as error:
                raise StfError(str(error), statement.line) from None
            except NotOnTarget as error:
                raise NotOnTarget(f"line {statement.line}: {error}") from None
        self._came += [Came(port, data) for port, data in self._target.end()]
        expects = [s for s in script if isinstance(s, Expect)]
        ports = frozenset(s.port for s in script if isinstance(s, Packet | Expect))
        rows = [*self._rows, *compare(expects, self._came, ports)]
        return Result(tuple(sorted(rows, key=lambda row: row.line)), tuple(self._said))

    def _do(self, statement: Statement) -> None:
        match statement:
            case Add():
                entry = entries.table_entry(self._target.names, statement)
                self._accept(statement, p4r.Update.INSERT, p4r.Entity(table_entry=entry))
                if statement.label is not None:
                    self._labels[statement.label] = entry
            case SetDefault():
                entry = entries.default_entry(self._target.names, statement)
                self._accept(statement, p4r.Update.MODIFY, p4r.Entity(table_entry=entry))
            case Remove():
                self._remove(statement)
            case Packet():
                self._packet(statement)
            case NoPacket():
                self._no_packet(statement)
            case Wait():
                self._target.wait()
                self._collect()
            case CheckCounter():
                self._check_counter(statement)
            case Command():
                self._command(statement)

    # --- packets ------------------------------------------------------------------------------

    def _packet(self, statement: Packet) -> None:
        self._collect()
        self._sent, self._last = statement.line, []
        self._target.packet(statement.port, statement.data)
        self._collect()

    def _collect(self) -> None:
        """Take what came out; it belongs to the packet sent last."""
        outputs = self._target.outputs()
        if outputs is None:
            self._last = None
            return
        came = [Came(port, data, self._sent) for port, data in outputs]
        self._came += came
        if self._last is not None:
            self._last += came

    def _no_packet(self, statement: NoPacket) -> None:
        if self._last is None:
            return  # reported at the end, as unexpected packets
        got = ", ".join(f"port {came.port}: {came.data.hex().upper()}" for came in self._last)
        why = "not expected" if got else ""
        self._rows.append(Row(statement.line, "no packet", got or "nothing", why))

    # --- entries ------------------------------------------------------------------------------

    def _write(self, kind: p4r.Update.Type.ValueType, entity: p4r.Entity) -> None:
        refused = self._target.write(p4r.Update(type=kind, entity=entity))
        if refused:
            raise StfError(refused)

    def _accept(
        self, statement: Statement, kind: p4r.Update.Type.ValueType, entity: p4r.Entity
    ) -> None:
        """Write; an entry that the switch refuses makes the test fail, and does not end it."""
        refused = self._target.write(p4r.Update(type=kind, entity=entity))
        if refused:
            self._rows.append(Row(statement.line, statement.text, "refused", refused))

    def _remove(self, statement: Remove) -> None:
        if statement.label is not None:
            entry = self._labelled(statement.label)
            del self._labels[statement.label]
            self._write(p4r.Update.DELETE, p4r.Entity(table_entry=entry))
            return
        self._labels.clear()
        for table in self._schema.tables.values():
            if table.const_entries:
                continue
            wanted = p4r.Entity(table_entry=p4r.TableEntry(table_id=table.id))
            for entity in self._target.read(wanted):
                if not entity.table_entry.is_default_action:
                    self._write(p4r.Update.DELETE, entity)

    def _labelled(self, label: str) -> p4r.TableEntry:
        entry = self._labels.get(label)
        if entry is None:
            known = ", ".join(self._labels) or "none"
            raise StfError(f"no entry has the label {label!r}; labels: {known}")
        return entry

    # --- counters -----------------------------------------------------------------------------

    def _check_counter(self, statement: CheckCounter) -> None:
        packets, in_bytes = self._counter(statement.counter, statement.cell)
        value = in_bytes if statement.unit == "bytes" else packets
        if statement.unit is None:
            self._say(statement, f"{packets} packets, {in_bytes} bytes")
            return
        ok = _CONDITIONS[statement.condition](value, statement.number)
        wanted = f"{statement.counter}: {statement.unit} {statement.condition} {statement.number}"
        self._rows.append(Row(statement.line, wanted, str(value), "" if ok else "it is not"))

    def _counter(self, name: str, cell: int | str) -> tuple[int, int]:
        """Return (packets, bytes) of a cell by index, or of a direct counter by an entry's
        label.
        """
        if isinstance(cell, str):
            entry = self._labelled(cell)
            table = self._schema.tables[entry.table_id]
            names = [table.name, *([table.counter.name] if table.counter else [])]
            if not any(full.endswith(name) for full in names):
                raise StfError(f"entry {cell} is of table {table.name}, which {name!r} is not of")
            of = p4r.DirectCounterEntry(table_entry=_key_of(entry))
            found = self._target.read(p4r.Entity(direct_counter_entry=of))
            data = [entity.direct_counter_entry.data for entity in found]
        else:
            counter = entries.find(self._schema.counters.values(), name, "counter")
            cell_of = p4r.CounterEntry(counter_id=counter.id, index=p4r.Index(index=cell))
            found = self._target.read(p4r.Entity(counter_entry=cell_of))
            data = [entity.counter_entry.data for entity in found]
        if not data:
            raise StfError(f"{name}({cell}) has no counter")
        return data[0].packet_count, data[0].byte_count

    # --- BMv2's commands ----------------------------------------------------------------------

    def _command(self, statement: Command) -> None:
        words = statement.words
        match statement.name.partition("_")[0]:
            case "mirroring" | "mc":
                said = self._replication.command(statement.name, words)
            case "counter":
                said = self._counter_command(statement.name, words)
            case "register":
                said = self._register_command(statement.name, words)
            case _:
                said = self._meter_command(statement.name, words)
        if said:
            self._say(statement, said)

    def _say(self, statement: Statement, text: str) -> None:
        self._said.append((statement.line, text))

    def _counter_command(self, name: str, words: tuple[str, ...]) -> str:
        if name == "counter_read":
            packets, in_bytes = self._counter(words[0], number(words[1], "a cell", CELL_BITS))
            return f"{words[0]}[{words[1]}] = {packets} packets, {in_bytes} bytes"
        counter = entries.find(self._schema.counters.values(), words[0], "counter")
        entry = p4r.CounterEntry(counter_id=counter.id)
        if name == "counter_write":
            entry.index.index = number(words[1], "a cell", CELL_BITS)
        entry.data.packet_count = number(words[2], bits=63) if len(words) > 2 else 0
        entry.data.byte_count = number(words[3], bits=63) if len(words) > 3 else 0
        self._write(p4r.Update.MODIFY, p4r.Entity(counter_entry=entry))
        return ""

    def _register_command(self, name: str, words: tuple[str, ...]) -> str:
        register = entries.find(self._schema.registers.values(), words[0], "register")
        cells = range(register.size) if len(words) < 2 else [number(words[1])]
        if len(words) > 1 and not 0 <= cells[0] < register.size:
            raise StfError(f"register {register.name} has cells 0..{register.size - 1}")
        if name == "register_read":
            values = [str(self._target.register_read(register.name, index)) for index in cells]
            where = f"[{words[1]}]" if len(words) > 1 else ""
            return f"{words[0]}{where} = {', '.join(values)}"
        value = number(words[2]) if name == "register_write" else 0
        if value >> register.bitwidth:
            raise StfError(f"register {register.name}: {value} is more than its cells hold")
        for index in cells:
            self._target.register_write(register.name, index, value)
        return ""

    def _meter_command(self, name: str, words: tuple[str, ...]) -> str:
        meter = entries.find(self._schema.meters.values(), words[0], "meter")
        entry = p4r.MeterEntry(meter_id=meter.id)
        if name != "meter_array_set_rates":
            entry.index.index = number(words[1], "a cell", CELL_BITS)
        if name == "meter_get_rates":
            found = self._target.read(p4r.Entity(meter_entry=entry))
            configs = [entity.meter_entry.config for entity in found]
            return f"{words[0]}[{words[1]}] = " + "".join(
                f"{c.cir}/s:{c.cburst} {c.pir}/s:{c.pburst}" for c in configs
            )
        rates = words[1:] if name == "meter_array_set_rates" else words[2:]
        if len(rates) != 2:
            raise StfError(f"a meter takes two RATE:BURST, found {len(rates)}")
        (entry.config.cir, entry.config.cburst), (entry.config.pir, entry.config.pburst) = (
            _rate(text) for text in rates
        )
        self._write(p4r.Update.MODIFY, p4r.Entity(meter_entry=entry))
        return ""


def _key_of(entry: p4r.TableEntry) -> p4r.TableEntry:
    return p4r.TableEntry(table_id=entry.table_id, match=entry.match, priority=entry.priority)


def _rate(text: str) -> tuple[int, int]:
    """Parse a rate per second, and a burst."""
    rate, _, burst = text.partition(":")
    try:
        found = round(float(rate) * PER_SECOND), int(burst)
    except (ValueError, OverflowError):
        found = -1, -1
    if not all(0 <= each < 1 << 63 for each in found):
        raise StfError(f"a rate is RATE:BURST, such as 0.5:100, found {text!r}")
    return found
