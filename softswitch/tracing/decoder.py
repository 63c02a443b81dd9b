"""From the core's raw records to packets' traces with names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import PurePath

from softswitch.codegen.gen_pipeline import ENDLESS
from softswitch.codegen.gen_trace import conditionals, states
from softswitch.codegen.model import Action, Bmv2Program, Source, Table, TableKey
from softswitch.core.tracing import GAP, WHOLE, FieldPlace, Record, RecordKind
from softswitch.tracing import records as r
from softswitch.tracing.phv import PhvLayout

NO_ACTION = 0xFFFFFFFF
_HIT, _GROUP = 1, 2
_LIMB = 8

_ORIGINS = (
    "received",
    "ingress clone",
    "egress clone",
    "replica",
    "resubmitted",
    "recirculated",
    "duplicate",
)
_OUTCOMES = (
    r.Outcome.SENT,
    r.Outcome.TO_CPU,
    r.Outcome.DROPPED_IN_INGRESS,
    r.Outcome.DROPPED_IN_EGRESS,
    r.Outcome.QUEUE_FULL,
    r.Outcome.PORT_DOWN,
    r.Outcome.NO_SUCH_PORT,
    r.Outcome.NO_SUCH_QUEUE,
    r.Outcome.NO_ROOM_TO_RECIRCULATE,
    r.Outcome.NO_SUCH_GROUP,
    r.Outcome.RESUBMITTED,
    r.Outcome.RECIRCULATED,
    r.Outcome.GONE,
    r.Outcome.LOST,
    r.Outcome.BUFFER_FULL,
    r.Outcome.PAUSE,
)
_USES = {
    RecordKind.REGISTER_READ: "register read",
    RecordKind.REGISTER_WRITE: "register write",
    RecordKind.COUNT: "counter",
    RecordKind.METER: "meter",
}


class ProgramNames:
    """What one program's numbers mean."""

    def __init__(self, program: Bmv2Program, places: Sequence[FieldPlace]) -> None:
        self.program = program
        self.phv = PhvLayout(program, places)
        self.states = states(program)
        self.conditionals = conditionals(program)
        self.errors = {code: name for name, code in program.errors.items()}
        self.egress_spec = next(
            (f"{h}.{f}" for (h, f), m in program.std_fields.items() if m == "egress_spec"), ""
        )
        self.own_fields = {
            f"{h}.{f}"
            for (h, f), member in program.std_fields.items()
            if member in ("parser_error", "checksum_error")
        }
        registers = [register.name for register in program.registers]
        self.arrays = {
            RecordKind.REGISTER_READ: registers,
            RecordKind.REGISTER_WRITE: registers,
            RecordKind.COUNT: [counter.name for counter in program.counters],
            RecordKind.METER: [meter.name for meter in program.meters],
        }


@dataclass(slots=True)
class _OpenBranch:
    number: int
    origin: str
    parent: int | None
    phv: bytearray
    steps: list[r.Step] = field(default_factory=list)
    uses: list[r.Use] = field(default_factory=list)
    awaits: int | None = None  # the action that the last lookup started
    queued_ps: int = 0
    dropper: str = ""
    endless: str = ""


@dataclass(slots=True)
class _OpenPacket:
    begin: Record
    mask: int
    whole: bool = True
    branches: dict[int, _OpenBranch] = field(default_factory=dict)
    running: int = 0

    def trace(self) -> r.PacketTrace:
        return r.PacketTrace(
            self.begin.packet,
            self.begin.at_ps,
            self.begin.c,
            self.begin.x,
            self.begin.data,
            tuple(
                r.Branch(b.number, b.origin, b.parent, tuple(b.steps))
                for b in self.branches.values()
            ),
            self.whole,
        )


@dataclass(frozen=True, slots=True)
class Decoded:
    """A packet's trace, and the tracers that took it (bit t: tracer t)."""

    trace: r.PacketTrace
    tracers: int


class Decoder:
    """Puts records together; a packet is given out when everything made of it has ended."""

    def __init__(self) -> None:
        self._programs: dict[int, ProgramNames] = {}
        self._open: dict[int, _OpenPacket] = {}

    def add_program(self, number: int, names: ProgramNames) -> None:
        """Add the names that records of program `number` refer to."""
        self._programs[number] = names
        used = {packet.begin.program for packet in self._open.values()} | {number}
        for old in [n for n in self._programs if n < number - 1 and n not in used]:
            del self._programs[old]

    def knows(self, number: int) -> bool:
        """Return whether a program's names are there."""
        return number in self._programs

    def unfinished(self) -> list[Decoded]:
        """Return the unfinished packets as far as they got; they go on."""
        return [Decoded(packet.trace(), packet.mask) for packet in self._open.values()]

    def give_up(self, before_ps: int | None = None) -> list[Decoded]:
        """Take packets out (those that arrived before `before_ps`) though they have not ended."""
        found = [
            number
            for number, packet in self._open.items()
            if before_ps is None or packet.begin.at_ps < before_ps
        ]
        packets = [self._open.pop(number) for number in found]
        return [Decoded(packet.trace(), packet.mask) for packet in packets]

    def forget(self, tracer: int) -> None:
        """Take unfinished packets from this tracer."""
        for packet in self._open.values():
            packet.mask &= ~(1 << tracer)

    def feed(self, records: Iterable[Record]) -> list[Decoded]:
        """Take records in order; return the packets that are complete now."""
        done = []
        for record in records:
            if record.flags & GAP:
                for packet in self._open.values():
                    packet.whole = False
            if record.kind is RecordKind.UNLOADED:
                done += self.give_up()
                continue
            found = self._packet(record)
            if found is not None and self._take(found, record) and found.running == 0:
                del self._open[record.packet]
                done.append(Decoded(found.trace(), found.mask))
        return done

    def _packet(self, record: Record) -> _OpenPacket | None:
        begins = record.kind is RecordKind.BEGIN and record.packet == record.branch
        if begins and record.program in self._programs:
            self._open[record.packet] = _OpenPacket(record, record.y)
        return self._open.get(record.packet)

    def _take(self, packet: _OpenPacket, record: Record) -> bool:
        """Take one record of a packet; return True when it ended a branch."""
        names = self._programs.get(record.program)
        if names is None:
            return False
        if record.kind is RecordKind.BEGIN:
            parent = packet.branches.get(record.b)
            packet.branches[record.branch] = _OpenBranch(
                len(packet.branches),
                _ORIGINS[record.a],
                None if parent is None else parent.number,
                bytearray(names.phv.size),
            )
            packet.running += 1
            return False
        branch = packet.branches.get(record.branch)
        if branch is None:
            return False  # its begin was lost
        _BranchReader(names, branch).read(record)
        if record.kind is RecordKind.END:
            packet.running -= 1
            return True
        return False


class _BranchReader:
    """Adds a record to a branch."""

    def __init__(self, names: ProgramNames, branch: _OpenBranch) -> None:
        self.names = names
        self.branch = branch

    def read(self, record: Record) -> None:
        branch = self.branch
        effects = r.Effects()
        if record.words or record.flags & WHOLE:
            effects = self.names.phv.apply(
                branch.phv, record.words, whole=bool(record.flags & WHOLE)
            )
        kind = record.kind
        match kind:
            case RecordKind.STATE:
                self._end_state(effects)
                branch.steps.append(r.State(self.names.states[record.a].name))
            case RecordKind.PARSED:
                self._end_state(effects)
                error = self.names.errors.get(record.b, str(record.b))
                branch.steps.append(r.Parsed(record.a, error, bool(record.c)))
            case RecordKind.CONDITION:
                node = self.names.conditionals[record.a]
                text = _balanced(node.source.text) if node.source is not None else node.name
                branch.steps.append(r.Condition(text, _where(node.source), bool(record.y)))
            case RecordKind.TABLE:
                self._lookup(record, effects)
            case RecordKind.ACTION:
                self._action(record.a, effects)
            case _ if kind in _USES:
                self._use(record)
            case RecordKind.LOG:
                text = record.data.decode(errors="replace")
                if record.a == ENDLESS:
                    branch.endless = text
                else:
                    branch.uses.append(r.Use("assertion failed" if record.a else "log", text))
            case _:
                self._core_step(record, effects)

    # --- the parser ---------------------------------------------------------------------------

    def _end_state(self, effects: r.Effects) -> None:
        """Assign what the parser did since the last state's begin to that state."""
        steps = self.branch.steps
        own = self.names.own_fields
        if any(change.field in own for change in effects.changes):
            kept = tuple(change for change in effects.changes if change.field not in own)
            effects = replace(effects, changes=kept)
        if effects and steps and isinstance(steps[-1], r.State):
            steps[-1] = replace(steps[-1], effects=effects)

    # --- tables and actions -------------------------------------------------------------------

    def _lookup(self, record: Record, effects: r.Effects) -> None:
        table = self.names.program.tables[record.a]
        size = sum(key.bytes for key in table.key)
        hit = bool(record.b & _HIT)
        key, rest = record.data[:size], record.data[size:]
        entry = b""
        if hit and size:
            entry, rest = rest[: 2 * size], rest[2 * size :]
        action = None
        if record.c != NO_ACTION:
            action = self.names.program.actions[record.c]
        priority = record.y - (1 << 64) if record.y >> 63 else record.y
        self.branch.steps.append(
            r.Lookup(
                table.name,
                _key(table, key, entry),
                hit,
                priority,
                None if action is None else action.name,
                () if action is None else _params(action, rest),
                bool(record.b & _GROUP),
                effects=effects,
            )
        )
        self.branch.awaits = None if action is None else action.index

    def _action(self, index: int, effects: r.Effects) -> None:
        branch = self.branch
        action = self.names.program.actions[index]
        uses, branch.uses = tuple(branch.uses), []
        last = branch.steps[-1] if branch.steps else None
        if branch.awaits == index and isinstance(last, r.Lookup):
            # What came with the lookup is the colour of a direct meter.
            both = r.Effects(
                last.effects.added + effects.added,
                last.effects.removed + effects.removed,
                last.effects.changes + effects.changes,
            )
            branch.steps[-1] = replace(last, uses=uses, effects=both)
            doer = f"action {action.name} of table {last.table}"
        else:
            source = next((p.source for p in action.primitives if p.source is not None), None)
            text = source.text if source is not None else ""
            where = _where(source)
            branch.steps.append(r.Call(action.name, where, text, uses, effects))
            doer = f"{text} ({where})" if where else action.name
        branch.awaits = None
        if any(change.field == self.names.egress_spec for change in effects.changes):
            branch.dropper = doer

    def _use(self, record: Record) -> None:
        name = self.names.arrays[record.kind][record.a]
        use = r.Use(_USES[record.kind], name, record.x, record.y)
        self.branch.uses.append(use)

    # --- the core's own steps -----------------------------------------------------------------

    def _core_step(self, record: Record, effects: r.Effects) -> None:
        branch = self.branch
        step: r.Step
        match record.kind:
            case RecordKind.INGRESS:
                step = r.Ingress(record.at_ps, record.a)
                branch.dropper = ""
            case RecordKind.ENQUEUE:
                branch.queued_ps = record.at_ps
                step = r.Enqueue(record.at_ps, record.a, record.b, record.c, record.x, record.y)
            case RecordKind.EGRESS:
                waited = record.at_ps - branch.queued_ps
                branch.dropper = ""
                step = r.Egress(record.at_ps, record.a, record.b, record.c, waited)
            case RecordKind.DEPARSED:
                step = r.Deparsed(record.a, record.x, effects)
            case RecordKind.CLONE:
                step = r.Clone(_ORIGINS[record.a].split()[0], record.b, bool(record.c))
            case RecordKind.REPLICATE:
                step = r.Replicate(record.a, record.b)
            case RecordKind.DIGEST:
                step = r.Digest(self.names.program.learn_lists[record.a].name)
            case RecordKind.END:
                outcome = _OUTCOMES[record.a] if record.a < len(_OUTCOMES) else r.Outcome.GONE
                why = self._why(outcome, record)
                step = r.End(outcome, record.at_ps, record.b, record.x, why)
            case _:
                return
        branch.steps.append(step)

    def _why(self, outcome: r.Outcome, record: Record) -> str:
        dropper = self.branch.dropper
        match outcome:
            case r.Outcome.DROPPED_IN_INGRESS | r.Outcome.DROPPED_IN_EGRESS if self.branch.endless:
                return self.branch.endless
            case r.Outcome.DROPPED_IN_INGRESS if dropper:
                return f"egress_spec was set to the drop port by {dropper}"
            case r.Outcome.DROPPED_IN_INGRESS:
                return "egress_spec was the drop port"
            case r.Outcome.DROPPED_IN_EGRESS:
                return f"egress_spec was set to the drop port by {dropper or 'the program'}"
            case r.Outcome.QUEUE_FULL:
                queued = [s for s in self.branch.steps if isinstance(s, r.Enqueue)]
                held = f" ({queued[-1].packets} packets, {queued[-1].bytes} B)" if queued else ""
                return f"the queue of port {record.b} is full{held}"
            case r.Outcome.PORT_DOWN:
                return f"port {record.b} is down"
            case r.Outcome.NO_SUCH_PORT:
                return f"there can be no port {record.b}"
            case r.Outcome.NO_SUCH_QUEUE:
                return f"port {record.b} has no queue of the priority that the program asked for"
            case r.Outcome.NO_ROOM_TO_RECIRCULATE:
                return "too many packets are on the recirculation path"
            case r.Outcome.NO_SUCH_GROUP:
                groups = [s for s in self.branch.steps if isinstance(s, r.Replicate)]
                return f"there is no multicast group {groups[-1].group}" if groups else ""
            case r.Outcome.GONE:
                return "the switch let it go without saying why"
            case r.Outcome.LOST:
                return f"the link of port {record.b} lost it, as configured"
            case _:
                return ""


def _where(source: Source | None) -> str:
    return "" if source is None else f"{_base(source.file)}:{source.line}"


@cache
def _base(file: str) -> str:
    return PurePath(file).name


def _balanced(text: str) -> str:
    """Return a condition without the bracket that closes it, or with "..." where the source goes
    on.
    """
    if text.endswith(")") and text.count(")") > text.count("("):
        return text[:-1]
    return f"{text} ..." if text.endswith(("&&", "||", "(")) else text


def _key(table: Table, key: bytes, entry: bytes) -> tuple[r.KeyValue, ...]:
    values, at = [], 0
    for part in table.key:
        value = int.from_bytes(key[at : at + part.bytes], "big")
        text = ""
        if entry:
            low = int.from_bytes(entry[at : at + part.bytes], "big")
            second = len(key) + at
            high = int.from_bytes(entry[second : second + part.bytes], "big")
            text = _entry(part, low, high)
        values.append(r.KeyValue(part.name, part.match, part.bits, value, text))
        at += part.bytes
    return tuple(values)


def _entry(part: TableKey, low: int, high: int) -> str:
    """Format an entry; `low` is the value, `high` the mask, but for ranges."""
    full = (1 << part.bits) - 1
    match part.match:
        case "lpm":
            return f"{low:#x}/{high.bit_count()}"
        case "ternary" | "optional":
            return "any" if high == 0 else f"{low:#x}" if high == full else f"{low:#x}&&&{high:#x}"
        case "range":
            return f"{low:#x}..{high:#x}"
        case _:
            return f"{low:#x}"


def _params(action: Action, limbs: bytes) -> tuple[r.Value, ...]:
    values, at = [], 0
    for param in action.params:
        size = (param.bits + 63) // 64 * _LIMB
        values.append(
            r.Value(param.name, param.bits, int.from_bytes(limbs[at : at + size], "little"))
        )
        at += size
    return tuple(values)
