"""Parser states as BMv2 JSON."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.bmv2 import graph, ir
from compiler.bmv2.code import CodeWriter
from compiler.bmv2.expr import Json, field_ref
from compiler.bmv2.layout import unique


class ParserWriter:
    """Writes the graph of a parser as states; `names` are the state names in use."""

    def __init__(self, code: CodeWriter, names: set[str]) -> None:
        self._code = code
        self._taken = names
        self._names: dict[int, str | None] = {}

    def write(self, entry: ir.Block) -> Json:
        """Write the parser object."""
        graph.simplify(entry)
        blocks = [b for b in ir.reachable(entry) if not _is_end(b)]
        if _is_end(entry):
            blocks = [entry]
        for block in blocks:
            self._names[id(block)] = block.name or unique("state", self._taken)
        states = [self._state(block, number) for number, block in enumerate(blocks)]
        return {
            "name": "parser",
            "id": 0,
            "init_state": self._names[id(entry)],
            "parse_states": states,
        }

    def _state(self, block: ir.Block, number: int) -> Json:
        keys: list[Json] = []
        match block.end:
            case ir.Goto(target):
                transitions = [self._default(target)]
            case ir.Branch(cond, then, otherwise, _):
                assert isinstance(cond, ir.Field)
                keys = [{"type": "field", "value": field_ref(cond)}]
                taken = self._case("0x01", None, then)
                transitions = [taken, self._default(otherwise)]
            case ir.Select(exprs, cases, _):
                keys = [_key(e) for e in exprs]
                transitions = self._cases(exprs, cases)
            case _:
                transitions = [self._default(None)]
        return {
            "name": self._names[id(block)],
            "id": number,
            "parser_ops": [self._code.parser_op(op) for op in block.ops],
            "transitions": transitions,
            "transition_key": keys,
        }

    def _cases(self, keys: Sequence[ir.Expr], cases: Sequence[ir.SelectTarget]) -> list[Json]:
        written: list[Json] = []
        for case in cases:
            if case.value_set is not None:
                written.append(
                    {
                        "type": "parse_vset",
                        "value": case.value_set,
                        "mask": None,
                        "next_state": self._name(case.target),
                    }
                )
                continue
            if all(match.mask == 0 for match in case.matches):
                written.append(self._default(case.target))
                break  # nothing after a default can match
            value, mask = _joined(keys, case.matches)
            written.append(self._case(value, mask, case.target))
        return written

    def _case(self, value: str, mask: str | None, target: ir.Block) -> Json:
        return {"type": "hexstr", "value": value, "mask": mask, "next_state": self._name(target)}

    def _default(self, target: ir.Block | None) -> Json:
        name = self._name(target) if target is not None else None
        return {"type": "default", "value": None, "mask": None, "next_state": name}

    def _name(self, block: ir.Block) -> str | None:
        return None if _is_end(block) else self._names[id(block)]


def _is_end(block: ir.Block) -> bool:
    return isinstance(block.end, ir.Stop) and not block.ops and block.name is None


def _key(e: ir.Expr) -> Json:
    match e:
        case ir.Field():
            return {"type": "field", "value": field_ref(e)}
        case ir.LastField(stack, name, _):
            return {"type": "stack_field", "value": [stack, name]}
        case _:
            raise AssertionError(f"not a select key: {e}")


def _joined(keys: Sequence[ir.Expr], matches: Sequence[ir.Match]) -> tuple[str, str | None]:
    """Return the value and mask of a case: all keys one after another, each padded to whole
    bytes.
    """
    value = mask = "0x"
    exact = True
    for key, match in zip(keys, matches, strict=True):
        digits = (key.type.width + 7) // 8 * 2
        full = (1 << key.type.width) - 1
        value += f"{match.value:0{digits}x}"
        mask += f"{full if match.mask is None else match.mask:0{digits}x}"
        exact = exact and match.mask is None
    return value, None if exact else mask
