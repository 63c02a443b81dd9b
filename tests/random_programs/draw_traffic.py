"""Draws what makes more packets of one: clones, multicast, resubmission, recirculation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.random_programs import model as m
from tests.random_programs.draw_expressions import Leaf, Sight
from tests.random_programs.draw_statements import StatementDraw
from tests.random_programs.types import BOOL, Bits, Struct, bit

HOPS: Final = "hops"
"""The field of metadata that counts how often a packet was sent back or cloned."""
MOST_HOPS = 2
LISTS = (1, 2, 3)
NUMBERS = range(1, 4)
"""Of clone sessions and multicast groups that are written; programs name others too."""


class TrafficDraw(StatementDraw):
    """Adds requests to the statements of controls. `traffic`: whether any are drawn.

    Every request asks first whether the packet has not made too many before. `hops` counts them,
    and all field lists keep it; what keeps no fields is asked for only by packets that are new.
    """

    traffic = False

    def more(self, sight: Sight) -> list[tuple[int, Callable[[], list[m.Stmt]]]]:
        if not self.traffic or sight.control is None or sight.in_loop:
            return []
        options: list[tuple[int, Callable[[], list[m.Stmt]]]] = [
            (8, lambda: self._request(sight)),
        ]
        if sight.control.name == "In":
            options.append((4, lambda: self._multicast(sight)))
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
        """What tells packets and their copies apart.

        Not `packet_length` in egress, which in BMv2 counts headers set valid since.
        """
        names = ["instance_type", *(["egress_rid"] if control.name == "Out" else [])]
        fields = dict(m.STANDARD.fields)
        std = m.Var(m.STANDARD, m.STD)
        return [Leaf(m.Field(fields[n], std, n), fields[n], writable=False) for n in names]

    def _request(self, sight: Sight) -> list[m.Stmt]:
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
        """A session or group: mostly one that is there."""
        of = Bits(width)
        if self.chance(50):
            return m.Lit(of, self.random.choice((*NUMBERS, *NUMBERS, 0, 9)))
        return m.Cast(of, self.expr(bit(2), sight, 2))

    def _multicast(self, sight: Sight) -> list[m.Stmt]:
        place = m.Field(bit(16), m.Var(m.STANDARD, m.STD), "mcast_grp")
        return [m.Assign(place, self._number(16, sight))]
