"""A packet's trace as lines for a terminal or a failing test's report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv6Address

from softswitch.tracing import records as r

PS_PER_US = 1_000_000
_PORTS_BITS = 9
_METER_COLOURS = ("green", "yellow", "red")
_ADDRESS = re.compile(r"(^|[._])(src|dst|source|destination|ip|addr|address|next_?hop)", re.I)
_IP_WORD = re.compile(r"ip|addr|src|dst|source|destination", re.I)


@dataclass(frozen=True, slots=True)
class Style:
    """Escape sequences around kinds of words; all empty without colours."""

    title: str = ""
    good: str = ""
    bad: str = ""
    dim: str = ""
    end: str = ""


PLAIN = Style()
COLOURS = Style("\033[1m", "\033[32m", "\033[31m", "\033[2m", "\033[0m")


def value_text(name: str, bits: int, value: int) -> str:
    """Format a value as people write it: MAC and IPv4 addresses where width and name suggest
    one.
    """
    if bits == 48 and _is_mac(name):
        return ":".join(f"{byte:02x}" for byte in value.to_bytes(6, "big"))
    if bits == 32 and _is_ip(name):
        return ".".join(str(byte) for byte in value.to_bytes(4, "big"))
    if bits == 128 and _is_ip(name):
        return _ipv6(value)
    if bits <= _PORTS_BITS or value < 10:
        return str(value)
    if bits == 16 and re.search(r"type$", name, re.I):
        return f"{value:#06x}"
    if bits <= 32:
        return str(value)
    return f"{value:#x}"


def _is_mac(name: str) -> bool:
    return re.search(r"timestamp|time$", name, re.I) is None


def _is_ip(name: str) -> bool:
    last = name.rsplit(".", 1)[-1]
    return _ADDRESS.search(last) is not None or last.lower().endswith(("_ip", "addr"))


def _ipv6(value: int) -> str:
    return str(IPv6Address(value))


def render(trace: r.PacketTrace, style: Style = PLAIN, *, switch: str = "") -> str:
    """Format one block: a title, then a line a step, branches one after the other.

    `switch`: its name, for the title.
    """
    return "\n".join(_lines(trace, style, f"{switch} " if switch else ""))


def _lines(trace: r.PacketTrace, style: Style, switch: str) -> Iterator[str]:
    title = f"{switch}packet {trace.number}: {trace.length} B on port {trace.port}"
    yield f"{style.title}{title}{style.end} at {_time(trace.at_ps)}"
    if not trace.whole:
        yield f"  {style.bad}records of this packet were lost: the trace has gaps{style.end}"
    many = len(trace.branches) > 1
    for branch in trace.branches:
        if many:
            of = "" if branch.parent is None else f" of branch {branch.parent}"
            yield f"  {style.title}branch {branch.number}: {branch.origin}{of}{style.end}"
        for step in branch.steps:
            for line in _step(step, style):
                yield "    " * many + "  " * (not many) + line
        if branch.end is None:
            yield "    " * many + "  " * (not many) + f"{style.dim}still on its way{style.end}"


def _time(ps: int) -> str:
    """Format a time in its most readable unit, exact to the nanosecond."""
    if ps < 1000 * PS_PER_US:
        return f"{ps / PS_PER_US:.3f} us"
    if ps < PS_PER_US * PS_PER_US:
        return f"{ps / (1000 * PS_PER_US):.6f} ms"
    return f"{ps / (PS_PER_US * PS_PER_US):.9f} s"


def _step(step: r.Step, style: Style) -> Iterator[str]:
    match step:
        case r.Ingress(_, port):
            yield f"ingress     from port {port}"
        case r.State(name, effects):
            yield f"parser      {name}"
            yield from _effects(effects, style, extracted=True)
        case r.Parsed(consumed, error, checksum_error):
            if error != "NoError":
                yield f"parser      {style.bad}ended with {error}{style.end} after {consumed} B"
            else:
                yield f"parser      done: {consumed} B of headers"
            if checksum_error:
                yield f"            {style.bad}a checksum is wrong{style.end}"
        case r.Condition(text, where, value):
            answer = "true" if value else "false"
            yield f"if          {text}: {answer}{_at(where, style)}"
        case r.Lookup():
            yield from _lookup(step, style)
        case r.Call(action, where, text, uses, effects):
            yield f"do          {text or action}{_at(where, style)}"
            yield from _uses(uses, style)
            yield from _effects(effects, style)
        case r.Clone(kind, session, known):
            told = "" if known else f" {style.bad}(there is no such session: no clone){style.end}"
            yield f"clone       {kind} to egress, session {session}{told}"
        case r.Replicate(group, copies):
            yield f"replicate   multicast group {group}: {copies} copies"
        case r.Digest(name):
            yield f"digest      {name}"
        case r.Enqueue(_, port, priority, depth, packets, size):
            yield (
                f"queue       port {port}, priority {priority}: depth {depth} "
                f"({packets} packets, {size} B in front)"
            )
        case r.Egress(at_ps, port, priority, depth, waited_ps):
            yield (
                f"egress      port {port}, priority {priority} at {_time(at_ps)}: waited "
                f"{_time(waited_ps)}, depth {depth} left"
            )
        case r.Deparsed(header_bytes, length, effects):
            yield f"deparser    {header_bytes} B of headers, {length} B in all"
            yield from _effects(effects, style)
        case r.End():
            yield from _end(step, style)


def _at(where: str, style: Style) -> str:
    return f"  {style.dim}{where}{style.end}" if where else ""


def _lookup(step: r.Lookup, style: Style) -> Iterator[str]:
    answer = f"{style.good}hit{style.end}" if step.hit else f"{style.bad}miss{style.end}"
    yield f"table       {step.table}: {answer}"
    for key in step.key:
        value = value_text(key.name, key.bits, key.value)
        entry = f"  entry {_entry_text(key)}" if key.entry else ""
        yield f"              {key.name} = {value} ({key.match}){entry}"
    if step.priority:
        yield f"              entry's priority {step.priority}"
    if step.action is None:
        yield "            no action"
    else:
        values = ", ".join(f"{p.name} = {value_text(p.name, p.bits, p.value)}" for p in step.params)
        by = " (member selected by hash)" if step.from_group else ""
        default = "" if step.hit else " (default)"
        yield f"            {step.action}({values}){by}{default}"
    yield from _uses(step.uses, style)
    yield from _effects(step.effects, style)


def _entry_text(key: r.KeyValue) -> str:
    """Format the entry's side of a key like the key's own value."""

    def known(match: re.Match[str]) -> str:
        return value_text(key.name, key.bits, int(match.group(0), 16))

    return re.sub(r"0x[0-9a-f]+", known, key.entry)


def _uses(uses: tuple[r.Use, ...], style: Style) -> Iterator[str]:
    for use in uses:
        match use.kind:
            case "log":
                yield f'              log "{use.name}"'
            case "assertion failed":
                yield f"              {style.bad}{use.name}{style.end}"
            case "counter":
                yield f"              counter {use.name}[{use.index}]"
            case "meter":
                colour = _METER_COLOURS[use.value] if use.value < 3 else str(use.value)
                yield f"              meter {use.name}[{use.index}]: {colour}"
            case kind:
                arrow = "->" if kind == "register read" else "<-"
                yield f"              register {use.name}[{use.index}] {arrow} {use.value:#x}"


def _effects(effects: r.Effects, style: Style, *, extracted: bool = False) -> Iterator[str]:
    verb = "extracts" if extracted else "adds"
    for header in effects.added:
        values = ", ".join(
            f"{v.name} {value_text(f'{header.name}.{v.name}', v.bits, v.value)}"
            for v in header.fields
        )
        yield f"              {verb} {header.name}: {values}"
    for name in effects.removed:
        yield f"              removes {name}"
    for change in effects.changes:
        old = value_text(change.field, change.bits, change.before)
        new = value_text(change.field, change.bits, change.after)
        yield f"              {change.field}: {old} -> {new}"


def _end(step: r.End, style: Style) -> Iterator[str]:
    match step.outcome:
        case r.Outcome.SENT:
            told = f"{step.length} B on port {step.port}, there at {_time(step.at_ps)}"
            yield f"{style.good}sent{style.end}        {told}"
        case r.Outcome.TO_CPU:
            yield f"{style.good}sent{style.end}        to the controller (CPU port {step.port})"
        case outcome if outcome.dropped:
            _, _, what = outcome.value.partition("dropped")
            text = what.lstrip(": ")
            why = f": {step.why}" if step.why else ""
            yield f"{style.bad}dropped{style.end}     {text}{why}".rstrip()
        case outcome:
            yield f"{outcome.value}  {style.dim}goes on as another branch{style.end}"
