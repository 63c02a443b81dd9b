"""Operations and action bodies as BMv2 primitives."""

from __future__ import annotations

from compiler.bmv2 import fold, graph, ir
from compiler.bmv2.expr import Json, constant, header_element, lvalue, node, value
from compiler.bmv2.source_text import SourceText
from compiler.errors import Pos


class CodeWriter:
    """Writes operations as JSON; `source` gives the text for their source_info."""

    def __init__(self, source: SourceText) -> None:
        self.source = source

    def primitive(self, op: ir.Op) -> Json:
        """Write one primitive call."""
        params = [self._argument(arg) for arg in op.args]
        if op.name == "assign" and isinstance(op.args[0], ir.ElementField):
            params[0] = lvalue(op.args[0])
        return {"op": op.name, "parameters": params, **self.source.info(op.pos)}

    def _argument(self, arg: ir.Arg) -> Json:
        match arg:
            case ir.HeaderRef(kind, name, None):
                return {"type": kind, "value": name}
            case ir.HeaderRef(_, name, index):
                assert index is not None
                return {"type": "expression", "value": header_element(name, index)}
            case ir.Named(kind, name):
                return {"type": kind, "value": name}
            case ir.Vector(items):
                return {"type": "parameters_vector", "value": [value(i) for i in items]}
            case _:
                return value(arg)

    def parser_op(self, op: ir.AnyOp) -> Json:
        """Write one operation of a parser state."""
        match op:
            case ir.Extract(kind, target, _, member, length):
                where: Json = {
                    "type": kind,
                    "value": target if member is None else [target, member],
                }
                if length is None:
                    return {"op": "extract", "parameters": [where]}
                size = {"type": "expression", "value": node(length)}
                return {"op": "extract_VL", "parameters": [where, size]}
            case ir.Advance(bits, _):
                return {"op": "advance", "parameters": [value(bits)]}
            case ir.Verify(cond, error, _):
                return {"op": "verify", "parameters": [node(cond), node(error)]}
            case ir.Op("assign", (ir.Field() as target, source), _):
                return {"op": "set", "parameters": [lvalue(target), self._argument(source)]}
            case ir.Op():
                return {"op": "primitive", "parameters": [self.primitive(op)]}
            case ir.Inline():
                raise AssertionError("one action in a parser")

    def action_body(self, entry: ir.Block) -> list[Json]:
        """Write the primitives of an action; its branches become jumps."""
        graph.expand(entry)
        graph.simplify(entry)
        order = graph.topological(entry)
        labels: dict[int, int] = {}
        jumps: list[tuple[Json, ir.Block | None]] = []
        out: list[Json] = []

        def jump(name: str, target: ir.Block | None, pos: Pos, *args: Json) -> None:
            primitive = {"op": name, "parameters": list(args), **self.source.info(pos)}
            jumps.append((primitive, target))
            out.append(primitive)

        for number, block in enumerate(order):
            following = order[number + 1] if number + 1 < len(order) else None
            labels[id(block)] = len(out)
            for op in block.ops:
                assert isinstance(op, ir.Op)
                out.append(self.primitive(op))
            match block.end:
                case ir.Goto(target) if target is not following:
                    jump("_jump", target, block.pos)
                case ir.Branch(cond, then, otherwise, pos):
                    if otherwise is following:
                        jump("_jump_if_zero", then, pos, value(fold.negate(cond)))
                        continue
                    jump("_jump_if_zero", otherwise, pos, value(cond))
                    if then is not following:
                        jump("_jump", then, pos)
                case ir.Stop() if following is not None:
                    jump("_jump", None, block.pos)
                case _:
                    pass
        for primitive, goal in jumps:
            offset = len(out) if goal is None else labels[id(goal)]
            primitive["parameters"].append(constant(offset, 32))
        return out
