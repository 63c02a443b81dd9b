"""What differs between two answers, and what may.

Nothing is said here of what a program does with the time, with chance or with fields of headers
that are not there. What varies between runs of the reference in unlike environments (another
clock, seed, junk) is not defined by the program, and is not compared; all else is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from compat.parity.cases import Answer, Packet, Seen
from softswitch.p4runtime.named_updates import Json

Parts = tuple[tuple[str, bytes], ...]
"""An answer to one packet, flattened: (what, bytes), frames by port and in order first."""


@dataclass
class Loose:
    """What need not agree in a round: `shape` packets whose answers vary in kind, `bits` by packet
    (a mask a part, the 1 bits are compared), `cells` and `updates` that vary. The frames of one
    packet that leave `unordered` ports may come in any order."""

    shape: set[int] = field(default_factory=set)
    bits: dict[int, list[bytes]] = field(default_factory=dict)
    cells: set[str] = field(default_factory=set)
    updates: set[int] = field(default_factory=set)
    unordered: frozenset[int] = frozenset()

    def learn(self, one: Answer, other: Answer) -> None:
        """Learn from two runs of the same pairing: what differs is loose from now on."""
        self.shape |= one.undefined | other.undefined
        for number, (a, b) in enumerate(zip(one.seen, other.seen, strict=False)):
            if a != b:
                self._packet(number, parts(a, self.unordered), parts(b, self.unordered))
        for number in range(
            min(len(one.seen), len(other.seen)), max(len(one.seen), len(other.seen))
        ):
            self.shape.add(number)
        both = {*one.cells, *other.cells}
        self.cells |= {name for name in both if one.cells.get(name) != other.cells.get(name)}
        for number, (x, y) in enumerate(zip(one.refused, other.refused, strict=False)):
            if bool(x) != bool(y):
                self.updates.add(number)

    def _packet(self, number: int, a: Parts, b: Parts) -> None:
        if _shape(a) != _shape(b):
            self.shape.add(number)
            return
        masks = self.bits.setdefault(number, [b"\xff" * len(data) for _, data in a])
        if [len(mask) for mask in masks] != [len(data) for _, data in a]:
            self.shape.add(number)
            return
        for index, ((_, x), (_, y)) in enumerate(zip(a, b, strict=True)):
            masks[index] = bytes(
                m & ~(p ^ q) & 0xFF for m, p, q in zip(masks[index], x, y, strict=True)
            )


@dataclass(frozen=True)
class Difference:
    """One thing that differs: `packet` or `update` is its place in the round, None where it is none
    of them; `cell` the name of a counter's or register's cell."""

    packet: int | None
    text: str
    update: int | None = None
    cell: str = ""


def differences(reference: Answer, other: Answer, loose: Loose) -> list[Difference]:
    """Return what `other` does unlike the reference, in the order of appearance."""
    found: list[Difference] = []
    for number, (x, y) in enumerate(zip(reference.refused, other.refused, strict=False)):
        if bool(x) != bool(y) and number not in loose.updates:
            found.append(
                Difference(None, f"update {number}: {x or 'accepted'} / {y or 'accepted'}", number)
            )
    for number, (a, b) in enumerate(zip(reference.seen, other.seen, strict=False)):
        if number not in loose.shape:
            sides = parts(a, loose.unordered), parts(b, loose.unordered)
            text = "; ".join(_unlike(*sides, loose.bits.get(number)))
            if number in other.undefined:
                text = "leaves / is recirculated without end, or fails an assertion"
            if text:
                found.append(Difference(number, text))
    at = min(len(reference.seen), len(other.seen))
    if len(reference.seen) != len(other.seen):
        found.append(Difference(at, f"{reference.died or 'lives'} / {other.died or 'lives'}"))
    elif not loose.shape:  # an answer that varies leaves cells that vary with it
        found += _cells(reference, other, loose)
    return found


def unordered_ports(setup: Sequence[Json]) -> frozenset[int]:
    """Return the ports to which a multicast group sends several copies.

    P4Runtime leaves their order open.
    """
    found: set[int] = set()
    for update in setup:
        ports = [r["port"] for r in update.get("multicast_group", {}).get("replicas", ())]
        found.update(port for port in ports if ports.count(port) > 1)
    return frozenset(found)


def parts(seen: Seen, unordered: frozenset[int] = frozenset()) -> Parts:
    """Return an answer's parts in a fixed order."""
    result: list[tuple[str, bytes]] = []
    for port, frames in sorted(seen.frames.items()):
        ordered = sorted(frames) if port in unordered else frames
        result += [(f"port {port}", frame) for frame in ordered]
    for payload, metadata in seen.packet_ins:
        result.append(("packet-in", payload))
        result += [(f"metadata {name}", _word(value)) for name, value in metadata]
    for name, rows in seen.digests:
        for row in rows:
            result.append((f"digest {name}", b"".join(_word(value) for value in row)))
    return tuple(result)


def _word(value: int) -> bytes:
    return value.to_bytes(16 * (1 + value.bit_length() // 128), "big")


def _shape(of: Parts) -> list[tuple[str, int]]:
    return [(what, len(data)) for what, data in of]


def _unlike(a: Parts, b: Parts, masks: list[bytes] | None) -> Iterator[str]:
    if [what for what, _ in a] != [what for what, _ in b]:
        yield f"{_names(a)} / {_names(b)}"
        return
    if masks is not None and len(masks) != len(a):
        masks = None  # made from answers of another shape: they say nothing of these
    for index, ((what, x), (_, y)) in enumerate(zip(a, b, strict=True)):
        if len(x) != len(y):
            yield f"{what}: {len(x)} B / {len(y)} B: {x.hex()} / {y.hex()}"
            continue
        mask = masks[index] if masks is not None else b"\xff" * len(x)
        wrong = [n for n, (p, q, m) in enumerate(zip(x, y, mask, strict=False)) if (p ^ q) & m]
        if wrong:
            first, last = wrong[0], wrong[-1] + 1
            unlike = f"{x[first:last].hex()} / {y[first:last].hex()}"
            yield f"{what}, bytes {first}..{last - 1}: {unlike}"


def _names(of: Parts) -> str:
    return ", ".join(what for what, _ in of if not what.startswith("metadata")) or "nothing"


def _cells(reference: Answer, other: Answer, loose: Loose) -> Iterator[Difference]:
    for name in sorted({*reference.cells, *other.cells} - loose.cells):
        if name.startswith("register ") and not (reference.registers and other.registers):
            continue
        x, y = reference.cells.get(name, 0), other.cells.get(name, 0)
        if x != y:
            yield Difference(None, f"{name}: {x} / {y}", cell=name)


def without_varying_arrays(found: Sequence[Difference], loose: Loose) -> list[Difference]:
    """Return `found` without cells of arrays that have a cell which varies.

    A packet counted by a stale field may be counted in any cell: the junk of a few tries meets an
    entry's key seldom, what an earlier packet left in a header meets it often.
    """
    varying = {_array(name) for name in loose.cells}
    return [each for each in found if not each.cell or _array(each.cell) not in varying]


def _array(cell: str) -> str:
    return cell.partition("[")[0]


def compared_bits(answers: Sequence[Seen], loose: Loose) -> tuple[int, int]:
    """Return (packets whose answer is not compared at all, packets of which some bits are not)."""
    numbers = range(len(answers))
    masked = {n for n in loose.bits if any(set(mask) != {0xFF} for mask in loose.bits[n])}
    return len(loose.shape & set(numbers)), len((masked - loose.shape) & set(numbers))


def show(packet: Packet) -> str:
    """Describe a packet on one line."""
    if packet.metadata is not None:
        return f"packet-out {dict(packet.metadata)} {packet.data.hex()}"
    return f"port {packet.port}, {len(packet.data)} B: {packet.data.hex()}"


def show_update(update: Json) -> str:
    """Describe an update on one line."""
    ((name, body),) = [(key, value) for key, value in update.items() if key != "type"]
    words = [f"{key}={_plain(value)}" for key, value in body.items()]
    return f"{update['type']} {name} {' '.join(words)}"


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_plain(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_plain(item) for item in value) + "]"
    return str(value)
