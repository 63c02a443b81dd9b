"""Registers that a program changes in a way that BMv2 doesn't do atomically.

BMv2 holds a register array's lock for one action, p4c turns `read; if; write` into several, and
egress runs in four threads, by egress port. So of a register that egress reads and writes

- either each cell belongs to one port: the index is port, port * n + k with k < n, port << n | k
- or the read and the write are in one action, whatever the index
- and ingress, another thread still, doesn't write it unless all of that is one action too.

Only what can be shown is taken as given: an index that comes from a table's entry might be two
ports' the same. A write that can't follow a read of the same packet is no read-modify-write.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from softswitch.codegen.expressions import (
    Argument,
    FieldRef,
    ObjectRef,
    Op,
    RegisterRef,
    Ternary,
)
from softswitch.codegen.model import (
    Action,
    ActionCall,
    Bmv2Program,
    Conditional,
    Pipeline,
    Primitive,
    Source,
    Table,
)
from softswitch.lint_index import EGRESS_PORT, Range, is_one_ports, range_of

Step = tuple[str, int]  # a node of a pipeline, and an action that it may run


@dataclass(frozen=True)
class Access:
    """A read or a write of a register, at primitive `position` of an action in a node."""

    register: str
    index: Argument
    writes: bool
    step: Step
    action: Action
    position: int

    @property
    def source(self) -> Source | None:
        """Where the program says so."""
        return self.action.primitives[self.position].source


@dataclass(frozen=True)
class RegisterFinding:
    """A register that threads may change behind each other's backs."""

    source: Source | None
    message: str
    right: str


def register_findings(program: Bmv2Program) -> list[RegisterFinding]:
    """Return what is wrong with a program's registers, in the order of its lines."""
    ingress, egress = _Walk(program, program.ingress), _Walk(program, program.egress)
    found = [
        finding
        for register in program.registers
        for finding in _of_register(register.name, ingress, egress)
    ]
    return sorted(found, key=lambda each: (each.source.line if each.source else 0, each.message))


def _of_register(name: str, ingress: _Walk, egress: _Walk) -> Iterator[RegisterFinding]:
    for read, write in egress.split_changes(name):
        if egress.is_one_ports(read) and egress.is_one_ports(write):
            continue
        yield RegisterFinding(
            write.source,
            f"egress reads register {name}{_line(read)} and writes it in another action, and the "
            "index is not shown to be the egress port's own",
            "another egress thread may write in between: index it by standard_metadata."
            "egress_port, or put read, decision (as c ? a : b) and write into one action, "
            "or keep it in ingress",
        )
        return
    for here, there, other in ((egress, ingress, "ingress"), (ingress, egress, "egress")):
        change = next(here.split_changes(name), None)
        write_there = next((each for each in there.accesses(name) if each.writes), None)
        if change is not None and write_there is not None:
            yield RegisterFinding(
                change[1].source,
                f"{here.pipeline.name} reads register {name}{_line(change[0])} and writes it in "
                f"another action, and {other} writes it too{_line(write_there)}",
                "they are different threads: let one of them write it, or make each "
                "read-modify-write one action",
            )
            return


def _line(access: Access) -> str:
    return f" (line {access.source.line})" if access.source else ""


class _Walk:
    """A pipeline's accesses, and which can come after which."""

    def __init__(self, program: Bmv2Program, pipeline: Pipeline) -> None:
        self.program = program
        self.pipeline = pipeline

    @cached_property
    def steps(self) -> dict[Step, tuple[Action, str | None]]:
        """Every action that a node may run, and the node behind it; nodes that are reached only."""
        found: dict[Step, tuple[Action, str | None]] = {}
        for name in _reached(self.pipeline, self.pipeline.init_node):
            node = self.pipeline.nodes[name]
            for action, behind in _actions(node):
                if action is not None:
                    found[name, action.id] = (action, behind)
        return found

    def accesses(self, register: str) -> list[Access]:
        """Return what touches a register, in no order that means anything."""
        return [access for access in self._all if access.register == register]

    @cached_property
    def _all(self) -> list[Access]:
        return [
            Access(register, index, writes, step, action, position)
            for step, (action, _) in self.steps.items()
            for position, primitive in enumerate(action.primitives)
            for register, index, writes in _touched(primitive)
        ]

    def split_changes(self, register: str) -> Iterator[tuple[Access, Access]]:
        """Yield reads, each with a write that can follow it in another action."""
        accesses = self.accesses(register)
        for write in (each for each in accesses if each.writes):
            for read in (each for each in accesses if not each.writes):
                if write.step[0] in self._after(read.step):
                    yield read, write

    def _after(self, step: Step) -> set[str]:
        return _reached(self.pipeline, self.steps[step][1])

    def is_one_ports(self, access: Access) -> bool:
        """Say whether the cell that is touched is shown to belong to the egress port alone."""
        return is_one_ports(self._range(access.index, access.step, access.action, access.position))

    def _range(
        self, value: Argument, step: Step, action: Action, position: int, depth: int = 0
    ) -> Range | None:
        def of_field(ref: FieldRef) -> Range | None:
            if self.program.std_fields.get((ref.header, ref.field)) == EGRESS_PORT:
                return Range(1, 0, 0)
            found = self._assigned(ref, step, action, position, depth)
            if found is not None:
                return found
            return Range(0, 0, (1 << self.program.field(ref).bits) - 1)

        return range_of(value, of_field)

    def _assigned(
        self, ref: FieldRef, step: Step, action: Action, position: int, depth: int
    ) -> Range | None:
        """Return what a field holds there, where all that may have set it is known."""
        if depth > 8:  # assignments that go round
            return None
        before = [(action, step, n) for n in range(position) if _assigns(action.primitives[n], ref)]
        jump = next(
            (n for n, p in enumerate(action.primitives) if p.op.startswith("_jump")), position
        )
        certain = [item for item in before if item[2] < jump]
        if certain:
            # Behind a jump an assignment may or may not have happened: all that may count.
            sources = [certain[-1], *(item for item in before if item[2] >= jump)]
        elif before:
            return None
        else:
            sources = self._only_assignment(ref, step)
        ranges = []
        for in_action, in_step, at in sources:
            primitive = in_action.primitives[at]
            if primitive.op not in ("assign", "modify_field"):
                return None
            ranges.append(self._range(primitive.args[1], in_step, in_action, at, depth + 1))
        if not ranges or any(each != ranges[0] for each in ranges):
            return None
        return ranges[0]

    def _only_assignment(self, ref: FieldRef, step: Step) -> list[tuple[Action, Step, int]]:
        """Return the pipeline's one assignment to a field, if it always comes before `step`."""
        all_of_it = [
            (action, there, n)
            for there, (action, _) in self.steps.items()
            for n, primitive in enumerate(action.primitives)
            if _assigns(primitive, ref)
        ]
        if len(all_of_it) != 1 or all_of_it[0][1] == step:
            return []
        without = _reached(self.pipeline, self.pipeline.init_node, without=all_of_it[0][1])
        return [] if step[0] in without else all_of_it


def _reached(pipeline: Pipeline, start: str | None, without: Step | None = None) -> set[str]:
    """Return the nodes that a packet at `start` can reach, `without` taking one step."""
    seen: set[str] = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name is None or name in seen:
            continue
        seen.add(name)
        for action, behind in _actions(pipeline.nodes[name]):
            if without is None or action is None or (name, action.id) != without:
                todo.append(behind)
    return seen


def _actions(node: Table | Conditional | ActionCall) -> list[tuple[Action | None, str | None]]:
    """Return the actions that a node may run and where each leads; None is no action."""
    match node:
        case Conditional():
            return [(None, node.true_next), (None, node.false_next)]
        case ActionCall():
            return [(node.action, node.next)]
    if node.fixed_action is not None:
        return [(node.fixed_action, behind) for behind in _behind(node, node.fixed_action)]
    found: list[tuple[Action | None, str | None]] = [
        (action, behind) for action in node.actions for behind in _behind(node, action)
    ]
    if node.default_entry is None:
        miss = node.miss_next if node.next_is_hit_miss else node.base_default_next
        found.append((None, miss))
    return found


def _behind(node: Table, action: Action) -> list[str | None]:
    if node.next_is_hit_miss:
        return list(dict.fromkeys((node.hit_next, node.miss_next)))
    return [node.next.get(action.id, node.base_default_next)]


def _touched(primitive: Primitive) -> Iterator[tuple[str, Argument, bool]]:
    """Yield (register, index, whether it is written) of a primitive."""
    match primitive.op, primitive.args:
        case "register_read", (_, ObjectRef(_, name), index):
            yield name, index, False
        case "register_write", (ObjectRef(_, name), index, _):
            yield name, index, True
    for place, argument in enumerate(primitive.args):
        for ref in _cells(argument):
            # The target of assign and its kin is their first argument; register_read's as well.
            yield ref.register, ref.index, place == 0
            if place == 0 and primitive.op in ("add_to_field", "subtract_from_field"):
                yield ref.register, ref.index, False


def _cells(argument: Argument) -> Iterator[RegisterRef]:
    match argument:
        case RegisterRef():
            yield argument
            yield from _cells(argument.index)
        case Op():
            if argument.left is not None:
                yield from _cells(argument.left)
            yield from _cells(argument.right)
        case Ternary(cond, left, right):
            for each in (cond, left, right):
                yield from _cells(each)


def _assigns(primitive: Primitive, ref: FieldRef) -> bool:
    """Say whether a primitive may change a field."""
    if primitive.op in ("register_write", "count", "log_msg", "assert", "assume", "no_op"):
        return False
    if primitive.op == "execute_meter":
        return primitive.args[2] == ref
    if not primitive.args:
        return False
    target = primitive.args[0]
    return target == ref or getattr(target, "name", None) == ref.header
