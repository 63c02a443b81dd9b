"""Names of table keys for the control plane, as p4c derives them from the key expressions."""

from __future__ import annotations

from compiler.errors import CompileError
from compiler.passes.elaborate import local_name
from compiler.syntax import ast
from compiler.types import types as ty


def key_name(key: ast.TableKey) -> str:
    """Return `@name`'s value, else the expression as a path: `hdr.ipv4.$valid$`, `m[1].f`,
    `x[7:0]`.

    Raises `CompileError` for an expression too complex to name, which then needs a `@name`.
    """
    for annotation in key.annotations:
        if annotation.name == "name":
            if len(annotation.values) != 1 or not isinstance(annotation.values[0], str):
                raise CompileError.at(annotation.pos, "@name takes one string")
            return annotation.values[0]
    name = _name(key.expr)
    if name is None:
        raise CompileError.at(
            key.expr.pos, 'this key is too complex to name: give it a @name("..")'
        )
    return name


def _name(expr: ast.Expr) -> str | None:
    match expr:
        case ast.Name(name=name):
            return name
        case ast.IntLiteral(text=text, value=value):
            return _number(text, value)
        case ast.Cast(operand=operand, implicit=True):
            return _name(operand)
        case ast.Member():
            return _member(expr)
        case ast.Index(base=base, index=index):
            return _join(_name(base), "[", _name(index), "]")
        case ast.Slice(base=base, hi=hi, lo=lo, plus=False):
            return _join(_name(base), "[", _name(hi), ":", _name(lo), "]")
        case ast.Binary(op=ast.BinaryOp.BIT_AND, left=left, right=right):
            return _join(_name(left), " & ", _name(right))
        case ast.Call(kind=ast.CallKind.IS_VALID, receiver=receiver) if receiver is not None:
            return _join(_name(receiver), ".$valid$")
        case _:
            return None


def _member(expr: ast.Member) -> str | None:
    name = expr.member
    if isinstance(expr.base.type, ty.StructLike) and isinstance(expr.decl, ast.FieldDecl):
        name = local_name(expr.decl)
    if name.startswith("."):
        return name[1:]
    return _join(_name(expr.base), ".", name)


def _number(text: str, value: int) -> str:
    """Format a number in the base it was written in, without its width."""
    digits = text.lower()
    for prefix, form in (("0x", "#x"), ("0b", "#b"), ("0o", "#o")):
        if prefix in digits:
            return format(value, form)
    return str(value)


def _join(*parts: str | None) -> str | None:
    if any(part is None for part in parts):
        return None
    return "".join(part for part in parts if part is not None)
