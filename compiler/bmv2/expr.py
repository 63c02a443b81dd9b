"""Scalar expressions as BMv2 JSON.

BMv2 computes with unbounded integers and truncates only when it stores a value, so every result
that can leave its type's range is masked (`&`) or brought back (`two_comp_mod`). Booleans are
a type of their own in expressions (`d2b`, `b2d` convert) but numbers in fields.
JSON format 2.23: BMv2's docs/JSON_format.md, "The type value object".
"""

from __future__ import annotations

from typing import Any, TypeAlias

from compiler.bmv2 import fold, ir

Json: TypeAlias = dict[str, Any]

_LOGIC = {"and", "or"}
_IN_RANGE = {"&", "|", "^", "/", "%"}


def hexstr(value: int, width: int) -> str:
    """Return `0x..` padded to the bytes of `width` bits (0: no padding), with a sign in front."""
    digits = f"{abs(value):0{(width + 7) // 8 * 2}x}"
    return f"{'-' if value < 0 else ''}0x{digits}"


def constant(value: int, width: int = 0) -> Json:
    """Return the JSON of a number."""
    return {"type": "hexstr", "value": hexstr(value, width)}


def operation(op: str, left: Json | None, right: Json, **more: Json) -> Json:
    """Return an expression node."""
    return {"type": "expression", "value": {"op": op, "left": left, "right": right, **more}}


def condition(e: ir.Expr) -> Json:
    """Return a bool expression where BMv2 wants one (conditionals, verify, checksums)."""
    return _node(e)


def node(e: ir.Expr) -> Json:
    """Return an expression tree (not wrapped as an argument)."""
    return _node(e)


def field_ref(e: ir.Field) -> list[str]:
    """Return `[header, field]`."""
    return [e.header, e.name]


def value(e: ir.Expr) -> Json:
    """Return an argument that is read: bools become numbers; trees get the outer wrapper."""
    e = fold.same_number(e)
    match e:
        case ir.Const(number, t):
            return constant(number, t.width)
        case ir.Text(text):
            return {"type": "string", "value": text}
        case ir.Field():
            return {"type": "field", "value": field_ref(e)}
        case ir.ActionParam(index):
            return {"type": "runtime_data", "value": index}
        case ir.Lookahead(offset, t):
            return {"type": "lookahead", "value": [offset, t.width]}
        case _:
            tree = _node(e)
            if e.type.is_bool:
                tree = operation("b2d", None, tree)
            return {"type": "expression", "value": tree}


def lvalue(e: ir.Expr) -> Json:
    """Return an argument that is written."""
    match e:
        case ir.Field():
            return {"type": "field", "value": field_ref(e)}
        case ir.ElementField():
            return {"type": "expression", "value": _raw(e)}
        case _:
            raise AssertionError(f"not an l-value: {e}")


def _node(e: ir.Expr) -> Json:
    """Return the tree for `e`; for a bool, one of BMv2's bool type."""
    match e:
        case ir.Const(number, t):
            if t.is_bool:
                return {"type": "bool", "value": bool(number)}
            return constant(number, t.width)
        case ir.Field() | ir.ElementField() | ir.LastField() | ir.ActionParam():
            raw = _raw(e)
            if isinstance(e, ir.ElementField) and fold.is_inside(e.index) != fold.TRUE:
                zero = constant(0, e.type.width)
                raw = operation("?", raw, zero, cond=_node(fold.is_inside(e.index)))
            if isinstance(e, ir.ActionParam) and e.type.signed:
                return _clamp(raw, e.type)  # run-time data is unsigned
            return operation("d2b", None, raw) if e.type.is_bool else raw
        case ir.LastIndex(stack):
            return operation("last_stack_index", None, {"type": "header_stack", "value": stack})
        case ir.UnionValid(union):
            return operation("valid_union", None, {"type": "header_union", "value": union})
        case ir.Unary("not", operand, _):
            return operation("not", None, _node(operand))
        case ir.Unary("~", operand, t):
            return _clamp(operation("~", None, _node(operand)), t)
        case ir.Binary():
            return _binary(e)
        case ir.Mux(cond, then, otherwise, _):
            return operation("?", _node(then), _node(otherwise), cond=_node(cond))
        case ir.Convert(operand, t):
            return _convert(operand, t)
        case _:
            raise AssertionError(f"not in an expression: {e}")


def _raw(e: ir.Expr) -> Json:
    """Return what a field or parameter holds; bools are not converted."""
    match e:
        case ir.Field():
            return {"type": "field", "value": field_ref(e)}
        case ir.ElementField(stack, index, position, _):
            element = header_element(stack, index)
            return {
                "type": "expression",
                "value": {"op": "access_field", "left": element, "right": position},
            }
        case ir.LastField(stack, name, _):
            return {"type": "stack_field", "value": [stack, name]}
        case ir.ActionParam(index):
            return {"type": "local", "value": index}
        case _:
            raise AssertionError(f"no storage: {e}")


def header_element(stack: str, index: ir.Expr) -> Json:
    """Return `stack[index]` as an expression of header type."""
    return operation(
        "dereference_header_stack", {"type": "header_stack", "value": stack}, _node(index)
    )


def _binary(e: ir.Binary) -> Json:
    left, right = _node(e.left), _node(e.right)
    if e.op in ("|+|", "|-|"):
        plain = operation(e.op[1], left, right)
        cast = "sat_cast" if e.type.signed else "usat_cast"
        return operation(cast, plain, constant(e.type.width))
    if e.op in ("<<", ">>") and isinstance(e.right, ir.Const):
        right = constant(e.right.value)
    tree = operation(e.op, left, right)
    if e.op in _LOGIC or e.op in fold.COMPARISONS or e.op in _IN_RANGE or e.op == ">>":
        return tree
    return _clamp(tree, e.type)


def _clamp(tree: Json, t: ir.ScalarType) -> Json:
    """Return `tree` brought into the range of `t`."""
    if t.signed:
        return operation("two_comp_mod", tree, constant(t.width))
    return operation("&", tree, constant((1 << t.width) - 1, t.width))


def _convert(operand: ir.Expr, t: ir.ScalarType) -> Json:
    tree = _node(operand)
    return tree if fold.is_widening(operand.type, t) else _clamp(tree, t)
