"""Draws what makes more packets of one, and digests and meters.

Clones, multicast, resubmission and recirculation: every request asks first whether the packet has
not made too many before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.random_programs import model as m
from tests.random_programs.draw_expressions import Leaf, Sight
from tests.random_programs.draw_statements import StatementDraw
from tests.random_programs.types import BOOL, Bits, Struct, bit

HOPS: Final = "hops"
"""The field of metadata that counts how often a packet was sent back or cloned."""
COLOR: Final = "color"
"""Where direct meters are read to."""
MOST_HOPS = 2
LISTS = (1, 2, 3)
NUMBERS = range(1, 4)
"""Of clone sessions and multicast groups that are written; programs name others too."""


class TrafficDraw(StatementDraw):
    """Adds requests to the statements of controls. `traffic`: whether any are drawn.

    `hops` counts requests, and all field lists keep it; what keeps no fields is asked for only by
    packets that are new.
    """

    traffic = False
    digests: Sequence[Struct] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.metered: set[str] = set()
        """Actions that read a table's meter: no other table has them."""

    def more(self, sight: Sight) -> list[tuple[int, Callable[[], list[m.Stmt]]]]:
        if not self.traffic or sight.control is None or sight.in_loop:
            return []
        options: list[tuple[int, Callable[[], list[m.Stmt]]]] = [
            (8 if sight.control.name == "In" else 16, lambda: self.request(sight)),
        ]
        if sight.control.name == "In":
            options.append((4, lambda: self._multicast(sight)))
            options.append((5, lambda: self._digest(sight)))
        if sight.control.meters:
            options.append((6, lambda: self._meter(sight)))
        return options

    def draw_field_lists(self, metadata: Struct) -> dict[str, tuple[int, ...]]:
        """Which lists keep which field; all of them `hops`."""
        lists = {
            name: tuple(number for number in LISTS if self.chance(35))
            for name, of in metadata.fields
            if not isinstance(of, Struct)
        }
        return {**lists, HOPS: LISTS}

    def copies(self, ports: int) -> list[tuple[int, int]]:
        """Where the copies of a session or group go: (port, instance), each port once."""
        to = self.random.sample(range(ports), self.random.randint(1, 3))
        return [(port, self.random.randrange(4)) for port in to]

    def standard_leaves(self, control: m.Control) -> list[Leaf]:
        """Return what distinguishes packets and their copies.

        Not `packet_length` in egress, which in BMv2 counts headers set valid since.
        """
        names = ["instance_type", *(["egress_rid"] if control.name == "Out" else [])]
        fields = dict(m.STANDARD.fields)
        std = m.Var(m.STANDARD, m.STD)
        return [Leaf(m.Field(fields[n], std, n), fields[n], writable=False) for n in names]

    def request(self, sight: Sight) -> list[m.Stmt]:
        """Draw a clone, or the packet once more, unless it has been asked for too often."""
        assert sight.control is not None
        ingress = sight.control.name == "In"
        hops = m.Field(bit(8), m.Var(Struct("metadata_t", ()), m.META), HOPS)
        few = m.Binary(BOOL, "<", hops, m.Lit(bit(8), MOST_HOPS, bare=True))
        condition: m.Expr = few
        number: int | None = self.random.choice(LISTS)
        stmt: m.Stmt
        if self.chance(60):
            if self.chance(25):
                number, condition = None, self._new_packet(hops)
            stmt = m.Clone("I2E" if ingress else "E2E", self._number(32, sight), number)
        else:
            assert number is not None
            stmt = m.Again("resubmit" if ingress else "recirculate", number)
        if self.chance(50):
            condition = m.Binary(BOOL, "&&", condition, self.expr(BOOL, sight, 2))
        count = m.Assign(hops, m.Binary(bit(8), "+", hops, m.Lit(bit(8), 1)))
        return [m.If(condition, [count, stmt])]

    def _new_packet(self, hops: m.Expr) -> m.Expr:
        kind = m.Field(bit(32), m.Var(m.STANDARD, m.STD), "instance_type")
        zeros = [m.Binary(BOOL, "==", place, m.Lit(of, 0)) for place, of in (
            (hops, bit(8)), (kind, bit(32)),
        )]  # fmt: skip
        return m.Binary(BOOL, "&&", *zeros)

    def _number(self, width: int, sight: Sight) -> m.Expr:
        """Return a session or group: mostly one that is there."""
        of = Bits(width)
        if self.chance(75):
            return m.Lit(of, self.random.choice((*NUMBERS, *NUMBERS, 0, 9)))
        return m.Cast(of, self.expr(bit(2), sight, 2))

    def draw_digests(self) -> list[Struct]:
        """Return the types of one or two digests.

        BMv2's P4Runtime takes none with signed members.
        """
        made = []
        for at in range(self.random.randint(1, 2)):
            members = [self.bits_type() for _ in range(self.random.randint(1, 3))]
            if self.portable:
                members = [bit(of.width) for of in members]
            made.append(
                Struct(f"digest{at}_t", tuple((f"f{i}", of) for i, of in enumerate(members)))
            )
        return made

    def rates(self, bytes_: bool) -> m.Rates:
        """Return a meter's rates, some of a packet or few in the time of a case.

        Beside BMv2, whose time is the machine's, nothing but bursts.
        """
        unit = 100 if bytes_ else 1
        bursts = sorted(self.random.randrange(6) * unit for _ in range(2))
        if self.portable:
            return 0, bursts[0], 0, bursts[1]
        rates = sorted(self.random.choice((0, 1, 700, 3000, 9999)) * unit for _ in range(2))
        return rates[0], self.random.choice(bursts), rates[1], self.random.choice(bursts)

    def direct_meter(self, control: m.Control, table: m.Table, sight: Sight) -> None:
        """Make the table one with a direct meter, which its own actions read."""
        color = m.Field(bit(8), m.Var(Struct("metadata_t", ()), m.META), COLOR)
        table.meter = m.Meter(f"{table.name}_meter", 0, self.chance(50))
        table.color = color
        table.actions, table.bound = [], {}
        for _ in range(self.random.randint(1, 2)):
            action = self.action(sight)
            action.params = [param for param in action.params if param.direction == ""]
            inner = sight.inner()
            inner.in_action = True
            for param in action.params:
                place = m.Var(param.type, param.name)
                inner.leaves.append(Leaf(place, param.type, writable=False))
            read = m.ReadMeter(table.meter.name, color)
            action.body = [read, *self.body(inner, self.random.randint(1, 2), 0)]
            control.actions.append(action)
            table.actions.append(action.name)
            self.metered.add(action.name)

    def _digest(self, sight: Sight) -> list[m.Stmt]:
        of = self.random.choice(self.digests)
        return [m.Digest(of, [self.expr(type_, sight, 2) for _, type_ in of.fields])]

    def _meter(self, sight: Sight) -> list[m.Stmt]:
        assert sight.control is not None
        meter = self.random.choice(sight.control.meters)
        targets = [
            leaf for leaf in sight.readable()
            if leaf.writable and isinstance(leaf.type, Bits)
            and 2 <= leaf.type.width <= 64 and not leaf.type.signed
        ]  # fmt: skip
        if not targets:
            return []
        index = self.expr(bit((meter.size - 1).bit_length()), sight, 1)
        return [m.ExecuteMeter(meter.name, index, self.random.choice(targets).expr)]

    def _multicast(self, sight: Sight) -> list[m.Stmt]:
        place = m.Field(bit(16), m.Var(m.STANDARD, m.STD), "mcast_grp")
        return [m.Assign(place, self._number(16, sight))]
