"""A case as a test in p4c's simple test format, for `weft stf` and p4c's own runner."""

from __future__ import annotations

from tests.random_programs import model as m
from tests.random_programs.draw_packets import Case, moment_us
from tests.random_programs.oracle import Entries, Oracle
from tests.random_programs.ours import masked
from tests.random_programs.types import Bits, width_of


def script(case: Case) -> str:
    """Entries, packets and what the oracle expects of them."""
    lines = []
    for control in (case.program.ingress, case.program.egress):
        for table in control.tables:
            for entry in case.entries.tables.get(table.name, []):
                lines.append(_add(control, table, entry))
    for name, values in case.entries.value_sets.items():
        lines.append(f"# value set {name}: {', '.join(map(str, values))} (not in this format)")
    lines += _replication(case.entries)
    oracle = Oracle(case.program, case.entries)
    for at, (port, data) in enumerate(case.packets):
        lines.append(f"packet {port} {data.hex()}")
        sent = oracle.run(port, data, moment_us(at))
        lines += [f"expect {one.port} {masked(one)}$" for one in sent] or ["no_packet"]
    return "\n".join(lines) + "\n"


def _replication(entries: Entries) -> list[str]:
    """Return a group for each clone session too, with ids that follow those of multicast groups."""
    beyond = max(entries.groups, default=0)
    groups = entries.groups | {beyond + at: to for at, to in entries.sessions.items()}
    lines = [f"mirroring_add_mc {session} {beyond + session}" for session in entries.sessions]
    node = 0
    for group, copies in groups.items():
        lines.insert(0, f"mc_mgrp_create {group}")
        for port, instance in copies:
            lines.append(f"mc_node_create {instance} {port}")
            lines.append(f"mc_node_associate {group} {node}")
            node += 1
    return lines


def _add(control: m.Control, table: m.Table, entry: m.Entry) -> str:
    ranked = any(key.kind in ("ternary", "range", "optional") for key in table.keys)
    keys, lead = [], ""
    for key, match in zip(table.keys, entry.matches, strict=True):
        assert key.expr.type is not None
        text = _match(match, width_of(key.expr.type))
        if match.kind == "range" and match.low != match.high:
            lead = "# a range is not in this format: "
        if text:
            keys.append(f"{key.name}:{text}")
    action = next(known for known in control.actions if known.name == entry.action)
    params = [param for param in action.params if param.direction == ""]
    data = ", ".join(
        f"{param.name}:{value & ((1 << param.type.width) - 1)}"
        for param, value in zip(params, entry.args, strict=True)
        if isinstance(param.type, Bits)
    )
    words = [f"{lead}add {control.name}.{table.name}"]
    words += [str(entry.priority - 1)] if ranked else []
    return " ".join([*words, *keys, f"{control.name}.{entry.action}({data})"])


def _match(match: m.Match, width: int) -> str:
    match match.kind:
        case "value":
            return str(match.low)
        case "mask":
            bits = range(width - 1, -1, -1)
            digits = [str(match.low >> at & 1) if match.high >> at & 1 else "*" for at in bits]
            return "0b" + "".join(digits)
        case "prefix":
            shift = width - match.high
            return f"{match.low >> shift << shift}/{match.high}"
        case "range":
            return str(match.low) if match.low == match.high else f"{match.low}..{match.high}"
    return ""
