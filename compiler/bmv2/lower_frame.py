"""What the lowering of a body stands on: the code being written and the names in scope."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from compiler.bmv2 import ir
from compiler.bmv2.places import Value
from compiler.errors import Pos
from compiler.passes.elaborate import Instance
from compiler.syntax import ast
from compiler.types import types as ty


class Region(Enum):
    """What kind of BMv2 object the code becomes."""

    PARSER = auto()
    INGRESS = auto()
    EGRESS = auto()
    OTHER = auto()  # checksum controls, deparser, constants: no code may be emitted


class Code:
    """A control-flow graph under construction. `current` is None where no packet can come."""

    def __init__(self, region: Region, entry: ir.Block) -> None:
        self.region = region
        self.entry = entry
        self.current: ir.Block | None = entry
        self.in_action = False
        self._entered: set[int] = {id(entry)}

    def emit(self, op: ir.AnyOp) -> None:
        """Append an operation to the current block."""
        if self.current is not None:
            self.current.ops.append(op)

    def terminate(self, end: ir.Terminator) -> None:
        """End the current block; nothing is reachable until `start`."""
        block = self.current
        if block is None:
            return
        block.end = end
        self._entered.update(id(target) for target in ir.successors(block))
        self.current = None

    def goto(self, target: ir.Block) -> None:
        """Continue in `target`, if this place is reachable."""
        self.terminate(ir.Goto(target))

    def start(self, block: ir.Block) -> None:
        """Go on writing `block`, if any terminator leads there."""
        assert self.current is None, "the block before was not terminated"
        self.current = block if id(block) in self._entered else None

    def force_start(self, block: ir.Block) -> None:
        """Go on writing `block` though nothing leads there yet (parser states, in any order)."""
        self._entered.add(id(block))
        self.current = block


@dataclass(eq=False)
class Frame:
    """Names of one inlined body: a control, parser, action or function.

    `parent` is the frame of the enclosing control for its actions. `copy_out` runs before an
    `exit` that leaves this frame: (destination, source) pairs. `loops` are the places where
    `break` and `continue` lead, the innermost loop last. `returned`, inside of a loop that became
    one action: the flag that a `return` sets, as the action can't leave the body it stands in.
    """

    instance: Instance | None
    parent: Frame | None = None
    values: dict[int, Value] = field(default_factory=dict)
    types: dict[ty.TypeVar, ty.Type] = field(default_factory=dict)
    return_to: ir.Block | None = None
    result: Value | None = None
    copy_out: list[tuple[Value, Value, Pos]] = field(default_factory=list)
    caller: Frame | None = None
    loops: list[tuple[ir.Block, ir.Block]] = field(default_factory=list)
    returned: ir.Field | None = None

    def lookup(self, decl: ast.Decl) -> Value | None:
        """Return the value of a variable or parameter here or in an enclosing frame."""
        frame: Frame | None = self
        while frame is not None:
            found = frame.values.get(id(decl))
            if found is not None:
                return found
            frame = frame.parent
        return None

    def home_of(self, decl: ast.Decl) -> Frame | None:
        """Return the frame whose control or parser declares `decl` (an action, table or
        instance).
        """
        frame: Frame | None = self
        while frame is not None:
            if frame.instance is not None and any(d is decl for d in frame.instance.decl.locals):
                return frame
            frame = frame.parent
        return None
