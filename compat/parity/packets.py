"""Packets made by walking the program's own parser.

At each state the headers that it extracts are written, with values that the round prefers; then a
transition is chosen, those taken seldom first, and the bits that it looks at are set. Most packets
so reach what they are meant for; some are cut short, some have a wrong checksum.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace

from compat.parity.cases import CPU_PORT, PORTS, Packet
from compat.parity.packet_draft import Draft
from compat.parity.values import RoundValues
from softswitch.codegen.expressions import FieldRef
from softswitch.codegen.model import (
    Advance,
    Checksum,
    Extract,
    HeaderType,
    ParseState,
    Set,
    Transition,
    Verify,
)
from softswitch.p4runtime.pipeline import Pipeline

MOST_STATES = 64
SHORTEST = 14
"""Bytes that a packet socket wants at least: an Ethernet header."""
LONGEST_ADVANCE_BITS = 8 * 256


@dataclass(frozen=True)
class Made:
    """A packet, and the draft that it was made of."""

    packet: Packet
    draft: Draft


class PacketMaker:
    """Makes the packets of one round."""

    def __init__(self, pipeline: Pipeline, values: RoundValues, rng: random.Random) -> None:
        self.program = pipeline.program
        self.schema = pipeline.schema
        self.values = values
        self.rng = rng
        self._taken: Counter[tuple[str, int]] = Counter()
        self._ingress = [
            FieldRef(header, field)
            for (header, field), member in self.program.std_fields.items()
            if member == "ingress_port"
        ]

    def packet(self) -> Packet:
        """Make one more packet."""
        return self.made().packet

    def made(self) -> Made:
        """Make one more packet, with its draft."""
        header = self.schema.packet_out
        if header is not None and self.rng.random() < 0.1:
            metadata = {f.name: self.rng.choice(self._ports(f.bitwidth)) for f in header.fields}
            draft = self._walk(CPU_PORT)
            return Made(self._sent(draft, Packet(CPU_PORT, b"", metadata)), draft)
        port = self.rng.choice(PORTS)
        draft = self._walk(port)
        return Made(self._sent(draft, Packet(port, b"")), draft)

    def varied(self, made: Made) -> Made:
        """Vary a packet: the same way through the parser, with another value in a field or two."""
        draft = deepcopy(made.draft, {id(self.program): self.program})
        fields = list(draft.fields())
        for field, at in self.rng.sample(
            fields, min(len(fields), self.rng.choice([0, 0, 1, 1, 2, 4]))
        ):
            draft.fill(at, self.values.pick(field, at[1]))
        return Made(self._sent(draft, made.packet), draft)

    def _ports(self, bits: int) -> list[int]:
        return [port % (1 << bits) for port in PORTS] + [0, self.rng.getrandbits(bits)]

    def _sent(self, draft: Draft, like: Packet) -> Packet:
        """Return the draft's packet, sent from where `like` comes from."""
        data = self._finish(draft)
        if like.metadata is not None:
            assert self.schema.packet_out is not None
            data = data[(self.schema.packet_out.bits + 7) // 8 :]
        return replace(like, data=data)

    # --- the walk -------------------------------------------------------------------------------

    def _walk(self, port: int) -> Draft:
        draft = Draft(self.program)
        for ref in self._ingress:
            draft.metadata[ref] = port
        parser, name = self.program.parser, self.program.parser.init_state
        for _ in range(MOST_STATES):
            if name is None:
                break
            state = parser.states[name]
            if not self._operations(draft, state):
                break
            name = self._follow(draft, state)
        return draft

    def _operations(self, draft: Draft, state: ParseState) -> bool:
        """Write what the state reads; False when the parser can't go on."""
        for op in state.ops:
            match op:
                case Extract():
                    if not self._extract(draft, op):
                        return False
                case Set(target, source):
                    draft.assign(target, source)
                case Verify(condition, _):
                    draft.satisfy(condition, self.rng.random() < 0.9)
                case Advance(bits):
                    count = min(draft.evaluate(bits) or 0, LONGEST_ADVANCE_BITS)
                    if count > 0:
                        draft.fill((draft.cursor, count), self.rng.getrandbits(count))
                        draft.cursor += count
        return True

    def _extract(self, draft: Draft, op: Extract) -> bool:
        target, of = op.target, op.target.type
        header: str | None = target.name
        if target.kind == "stack":
            header = draft.next_of(target.name)
        if header is None:
            return False
        places = draft.place(header, of, self._varbits(draft, op, of))
        for name, at in places.items():
            if at[1]:
                draft.fill(at, self.values.pick((of.name, name), at[1]))
        return True

    def _varbits(self, draft: Draft, op: Extract, of: HeaderType) -> int:
        if of.varbit is None:
            return 0
        length = draft.evaluate(op.length) if op.length is not None else None
        most = 8 * of.max_bytes - of.fixed_bits
        if length is None or not 0 <= length <= most:
            return 8 * self.rng.randrange(most // 8 + 1) if most > 0 else 0
        return length

    def _follow(self, draft: Draft, state: ParseState) -> str | None:
        choices = [t for t in state.transitions if t.kind != "parse_vset"]
        if not choices:
            return None
        weights = [
            (0.5 if t.next is None else 1.0) / (1 + self._taken[state.name, n])
            for n, t in enumerate(choices)
        ]
        (chosen,) = self.rng.choices(range(len(choices)), weights)
        self._taken[state.name, chosen] += 1
        transition = choices[chosen]
        if transition.kind == "hexstr":
            for at, value, mask in self._settings(draft, state, transition):
                old = draft.read(at) or 0
                draft.write(at, (old & ~mask) | (value & mask))
        return self._real(draft, state, choices, transition).next

    def _settings(
        self, draft: Draft, state: ParseState, transition: Transition
    ) -> Iterator[tuple[tuple[int, int], int, int]]:
        """Yield (place, value, mask) of each part of the key that the packet itself holds."""
        offset = 0
        for expr, bits in state.key:
            size = (bits + 7) // 8
            value = int.from_bytes(transition.value[offset : offset + size], "big")
            mask = (1 << bits) - 1
            if transition.mask is not None:
                mask &= int.from_bytes(transition.mask[offset : offset + size], "big")
            offset += size
            at = draft.locate(expr)
            if at is not None and mask:
                yield at, value, mask

    def _real(
        self, draft: Draft, state: ParseState, choices: list[Transition], chosen: Transition
    ) -> Transition:
        """Return the transition that the parser will take.

        The chosen one where the key is unknown.
        """
        key = b""
        for expr, bits in state.key:
            value = draft.evaluate(expr)
            if value is None:
                return chosen
            key += (value & ((1 << bits) - 1)).to_bytes((bits + 7) // 8, "big")
        number = int.from_bytes(key, "big")
        for transition in choices:
            if transition.kind != "hexstr":
                continue
            mask = int.from_bytes(transition.mask or b"\xff" * len(key), "big")
            if not (number ^ int.from_bytes(transition.value, "big")) & mask:
                return transition
        defaults = [t for t in choices if t.kind == "default"]
        return defaults[-1] if defaults else Transition("default", b"", None, "", None)

    # --- the end --------------------------------------------------------------------------------

    def _finish(self, draft: Draft) -> bytes:
        rng = self.rng
        parsed = (draft.cursor + 7) // 8
        length = rng.choice([0, rng.randrange(1, 24), 46, rng.randrange(200)])
        length = max(length, SHORTEST - parsed)
        draft.fill((8 * parsed, 8 * length), rng.getrandbits(8 * length) if length else 0)
        if rng.random() < 0.85:
            for checksum in self.program.checksums:
                if checksum.verify:
                    self._correct(draft, checksum, parsed)
        data = draft.to_bytes()
        if rng.random() < 0.08 and len(data) > SHORTEST:
            data = data[: rng.randrange(SHORTEST, len(data))]
        return data

    def _correct(self, draft: Draft, checksum: Checksum, parsed: int) -> None:
        """Give the packet the checksum that the program verifies, where it is the usual one."""
        at = draft.locate(checksum.target)
        calculation = self.program.calculations.get(checksum.calculation or "")
        if at is None or calculation is None or calculation.algorithm != "csum16":
            return
        text = ""
        for item in calculation.inputs:
            match item.kind:
                case "field":
                    text += self._bits_of(draft, item.header, item.field)
                case "header":
                    for field in self.program.headers[item.header].type.fields:
                        text += self._bits_of(draft, item.header, field.name)
                case "hexstr":
                    text += f"{item.value:0{item.bits}b}"
                case "payload":
                    payload = draft.to_bytes()[parsed:]
                    text += "".join(f"{byte:08b}" for byte in payload)
        text += "0" * (-len(text) % 16)
        total = sum(int(text[i : i + 16], 2) for i in range(0, len(text), 16))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        draft.write(at, ~total & 0xFFFF)

    def _bits_of(self, draft: Draft, header: str, field: str) -> str:
        ref = FieldRef(header, field)
        at = draft.locate(ref)
        if at is None:
            if not self.program.headers[header].metadata:
                return ""  # the fields of a header that is not there are left out
            return f"{draft.metadata.get(ref, 0):0{self.program.field(ref).bits}b}"
        return f"{draft.read(at) or 0:0{at[1]}b}" if at[1] else ""
