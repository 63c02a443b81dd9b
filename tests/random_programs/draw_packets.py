"""Draws what a program is run with: packets, and entries for keys that packets bring."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.random_programs import model as m
from tests.random_programs.draw_program import PORTS, ProgramDraw
from tests.random_programs.draw_traffic import NUMBERS
from tests.random_programs.oracle import Entries, Oracle
from tests.random_programs.types import Stack, Struct, width_of
from tests.random_programs.values import Undefined

LONGEST_REST = 12
START_US, STEP_US = 1_000_000, 300


def moment_us(at: int) -> int:
    """When a packet arrives."""
    return START_US + at * STEP_US


@dataclass
class Case:
    """A program, what is written to it, and the packets it gets."""

    program: m.Program
    entries: Entries
    packets: list[tuple[int, bytes]]


def draw_case(program: m.Program, draw: ProgramDraw, packets: int) -> Case:
    """Packets by the program's seed; entries by what the packets are looked up with."""
    chance = random.Random(program.seed)
    size = sum(_bytes(of) for _, of in program.headers.fields[:-1])
    made = [(chance.randrange(PORTS), _packet(chance, size)) for _ in range(packets)]
    entries = Entries()
    if draw.traffic:
        entries.sessions = {number: draw.copies(PORTS) for number in NUMBERS}
        for control in (program.ingress, program.egress):
            for meter in control.meters:
                entries.meters |= {
                    (meter.name, at): draw.rates(meter.bytes)
                    for at in range(meter.size)
                    if draw.chance(80)
                }
        entries.groups = {number: draw.copies(PORTS) for number in NUMBERS}
    for _ in range(2):  # a second time: entries of the first lead to keys of others
        oracle = Oracle(program, entries)
        for at, (port, data) in enumerate(made):
            try:
                oracle.run(port, data, moment_us(at))
            except Undefined:
                continue
        for control in (program.ingress, program.egress):
            for table in control.tables:
                if not table.entries:
                    seen = oracle.seen.get(table.name, [])
                    found = draw.entries(control, table, chance.randint(1, 5), seen)
                    entries.tables[table.name] = found
        for name, (of, most) in program.value_sets.items():
            seen_values = oracle.seen_sets.get(name, []) or [0]
            values = {chance.choice(seen_values) & ((1 << of.width) - 1) for _ in range(2)}
            entries.value_sets[name] = sorted(values)[:most]
    return Case(program, entries, defined(program, entries, made))


def defined(
    program: m.Program, entries: Entries, packets: list[tuple[int, bytes]]
) -> list[tuple[int, bytes]]:
    """Return the packets but for those that use what the program never set."""
    packets = list(packets)
    while True:
        oracle = Oracle(program, entries)
        for at, (port, data) in enumerate(packets):
            try:
                oracle.run(port, data, moment_us(at))
            except Undefined:
                del packets[at]
                break
        else:
            return packets


def _bytes(of: object) -> int:
    match of:
        case Stack(element=element, size=size):
            return width_of(element) // 8 * size
        case Struct(kind="union", fields=members):
            return max(width_of(member) for _, member in members) // 8
        case Struct() as header:
            return width_of(header) // 8 + 4
    return 0


def _packet(chance: random.Random, headers: int) -> bytes:
    size = headers + chance.randrange(LONGEST_REST)
    match chance.randrange(10):
        case 0:
            size = chance.randrange(1, headers + 1)
        case 1:
            return bytes(size)
        case 2:
            return b"\xff" * size
        case 3:
            return bytes(chance.choice((0, 0, 1, 2, 0x80, 0xFF)) for _ in range(size))
    return chance.randbytes(size)
