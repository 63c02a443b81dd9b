"""Values worth trying: those that the program compares with, small ones, and some by chance.

Packets and entries of a round draw from the same few values, so that they meet.
"""

from __future__ import annotations

import dataclasses
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from softswitch.codegen.expressions import Const, FieldRef, Local, Op
from softswitch.codegen.model import Action, Bmv2Program, Conditional

Key = tuple[str, str]
"""A field of a header type: (type, field). Instances of one type share their values."""

_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
_CLONES = frozenset({"clone_ingress_pkt_to_egress", "clone_egress_pkt_to_egress"})


class ProgramValues:
    """The constants of a program, by the field that they are compared with or given to."""

    def __init__(self, program: Bmv2Program) -> None:
        self.program = program
        self.by_field: dict[Key, set[int]] = defaultdict(set)
        self.constants: set[int] = {0, 1}
        self.clone_sessions: set[int] = set()
        self.param_targets: dict[tuple[int, int], FieldRef] = {}
        for node in _walk(self._roots()):
            if isinstance(node, Const):
                self.constants.add(node.value)
            elif isinstance(node, Op) and node.op in _COMPARISONS:
                self._comparison(node)
        for action in program.actions:
            self._action(action)
        self._entries()
        self._selects()

    def key(self, ref: FieldRef) -> Key:
        """Return the key of a field of an instance."""
        return self.program.headers[ref.header].type.name, ref.field

    def of_width(self, bits: int) -> list[int]:
        """Return the program's constants that fit `bits` bits, in order."""
        return sorted(c for c in self.constants if 0 <= c < 1 << bits)

    def _roots(self) -> Iterator[object]:
        program = self.program
        yield program.parser.states
        yield program.actions
        yield [c.condition for c in program.checksums]
        for pipeline in (program.ingress, program.egress):
            yield [n.expression for n in pipeline.nodes.values() if isinstance(n, Conditional)]

    def _comparison(self, node: Op) -> None:
        for one, other in ((node.left, node.right), (node.right, node.left)):
            constants = [n.value for n in _walk([other]) if isinstance(n, Const)]
            for ref in _walk([one]):
                if isinstance(ref, FieldRef):
                    self.by_field[self.key(ref)].update(constants)

    def _action(self, action: Action) -> None:
        for primitive in action.primitives:
            if primitive.op in _CLONES and isinstance(primitive.args[0], Const):
                self.clone_sessions.add(primitive.args[0].value)
            if primitive.op in ("assign", "modify_field") and isinstance(
                primitive.args[0], FieldRef
            ):
                target = primitive.args[0]
                locals_ = [n for n in _walk([primitive.args[1]]) if isinstance(n, Local)]
                for local in locals_:
                    self.param_targets[action.id, local.index] = target
                if isinstance(primitive.args[1], Const):
                    self.by_field[self.key(target)].add(primitive.args[1].value)

    def _entries(self) -> None:
        for table in self.program.tables:
            for entry in table.entries:
                for key, given in zip(table.key, entry.key, strict=True):
                    if key.field is not None:
                        ref = FieldRef(key.header, key.field)
                        self.by_field[self.key(ref)].update({given.value, given.high})

    def _selects(self) -> None:
        for state in self.program.parser.states.values():
            for transition in state.transitions:
                at = 0
                for expr, bits in state.key:
                    size = (bits + 7) // 8
                    if transition.value and isinstance(expr, FieldRef):
                        value = int.from_bytes(transition.value[at : at + size], "big")
                        self.by_field[self.key(expr)].add(value)
                    at += size


class RoundValues:
    """The values that one round prefers. `pick` and `param` draw from them most of the time."""

    POOL = 4
    FAVOUR = 0.75

    def __init__(self, known: ProgramValues, rng: random.Random, ports: Iterable[int]) -> None:
        self.known = known
        self.rng = rng
        self.ports = list(ports)
        self._fields: dict[tuple[Key, int], list[int]] = {}
        self._widths: dict[int, list[int]] = {}
        std = known.program.std_fields
        self._members = {
            (known.program.headers[header].type.name, field): member
            for (header, field), member in std.items()
        }

    def pool(self, key: Key, bits: int) -> list[int]:
        """Return the round's values of a field."""
        found = self._fields.get((key, bits))
        if found is None:
            found = self._fields[key, bits] = self._make(key, bits)
        return found

    def pick(self, key: Key, bits: int) -> int:
        """Pick a value of a field: three times in four one that the round prefers."""
        if bits == 0:
            return 0
        rng = self.rng
        chance = rng.random()
        if chance < self.FAVOUR:
            return self.favourite(key, bits)
        if chance < self.FAVOUR + 0.1:
            return rng.randrange(min(4, 1 << bits))
        return rng.getrandbits(bits)

    def favourite(self, key: Key, bits: int) -> int:
        """Pick one of the round's values of a field, the first ones more often.

        Keys of many fields would hardly ever meet otherwise.
        """
        pool = self.pool(key, bits)
        return pool[min(self.rng.randrange(len(pool)) for _ in range(2))]

    def param(self, action_id: int, index: int, bits: int) -> int:
        """Pick a value of an action's parameter: one that suits the field that it is written to."""
        target = self.known.param_targets.get((action_id, index))
        if target is not None:
            key = self.known.key(target)
            if key in self._members or self.rng.random() < 0.8:
                return self.pick(key, self.known.program.field(target).bits) % (1 << bits)
        if self.rng.random() < 0.6:
            return self.rng.choice(self._width(bits))
        return self.rng.getrandbits(bits)

    def _make(self, key: Key, bits: int) -> list[int]:
        rng, member = self.rng, self._members.get(key)
        if member in ("ingress_port", "egress_port", "egress_spec"):
            return [
                *rng.sample(self.ports, len(self.ports)),
                rng.choice([5, 255, 510, 511]) % (1 << bits),
            ]
        if member == "mcast_grp":
            return [1, 2, 3]
        own = [v for v in sorted(self.known.by_field.get(key, ())) if 0 <= v < 1 << bits]
        values = rng.sample(own, min(len(own), self.POOL))
        near = [v + d for v in values for d in (-1, 1) if 0 <= v + d < 1 << bits]
        if near and rng.random() < 0.3:
            values.append(rng.choice(near))
        while len(values) < 2:
            values.append(rng.choice(self._width(bits)))
        values.append(rng.getrandbits(bits))
        rng.shuffle(values)
        return values

    def _width(self, bits: int) -> list[int]:
        found = self._widths.get(bits)
        if found is None:
            limit, rng = 1 << bits, self.rng
            constants = self.known.of_width(bits)
            found = [v for v in (0, 1, 2) if v < limit]
            found += rng.sample(constants, min(2, len(constants)))
            found += [rng.getrandbits(bits), rng.choice([limit - 1, limit >> 1, 3 % limit])]
            self._widths[bits] = found
        return found


def _walk(roots: Iterable[object]) -> Iterator[object]:
    """Yield every node of the dataclasses, lists and dicts below `roots`."""
    todo: list[Any] = list(roots)
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            todo += node.values()
        elif isinstance(node, list | tuple):
            todo += node
        elif dataclasses.is_dataclass(node):
            yield node
            todo += [getattr(node, f.name) for f in dataclasses.fields(node)]
