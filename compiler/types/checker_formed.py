"""Which types can be formed of which: type arguments, parts of tuples, elements of value sets.

Pure questions about types; the checker asks them and reports. And lists in `select` taken apart.
"""

from __future__ import annotations

from compiler.syntax import ast
from compiler.types import types as ty


def mentions(t: ty.Type, kind: type[ty.Type], name: str) -> bool:
    """Return whether the declared type `name` of class `kind` occurs anywhere in `t`.

    Signatures of controls and parsers count: a type that is specialised with one of them and
    occurs in its parameters would contain itself.
    """
    match t:
        case ty.StructLike() | ty.Extern() | ty.Package():
            if isinstance(t, kind) and t.name == name:
                return True
            return any(mentions(each, kind, name) for each in t.args)
        case ty.Parser() | ty.Control():
            if isinstance(t, kind) and t.name == name:
                return True
            return any(mentions(param.type, kind, name) for param in t.params)
        case ty.Stack() | ty.ListType() | ty.SetType():
            return mentions(t.element, kind, name)
        case ty.Tuple():
            return any(mentions(each, kind, name) for each in t.elements)
        case _:
            return False


def fits_in_tuple(t: ty.Type) -> bool:
    """Return whether a tuple can have an element of type `t`."""
    return not isinstance(t, ty.Behaviour | ty.Void | ty.DontCare)


def fits_in_array(t: ty.Type) -> bool:
    """Return whether there are arrays of `t`, beside stacks of headers and header unions."""
    match ty.underlying(t):
        case ty.Struct() as struct:
            return all(fits_in_array(each.type) for each in struct.fields)
        case ty.Tuple() as several:
            return all(fits_in_array(each) for each in several.elements)
        case ty.Stack() as array:
            return array.is_array
        case other:
            return isinstance(other, ty.Bit | ty.Int | ty.Bool | ty.Enum | ty.Error)


def fits_in_value_set(t: ty.Type) -> bool:
    """Return whether the control plane can fill a value set of `t`."""
    match ty.underlying(t):
        case ty.Struct() as struct:
            return all(fits_in_value_set(each.type) for each in struct.fields)
        case ty.Tuple() as pair:
            return all(fits_in_value_set(each) for each in pair.elements)
        case other:
            return isinstance(other, ty.Bit | ty.Int | ty.Bool | ty.Enum | ty.Error | ty.TypeVar)


def has_block_body(t: ty.Type) -> bool:
    """Return whether `t` is one control or parser, with its body, rather than a type of them."""
    return isinstance(t, ty.Control | ty.Parser) and isinstance(
        t.decl, ast.ControlDecl | ast.ParserDecl
    )


def flatten_lists(select: ast.Select) -> None:
    """Flatten `select(a, {b, c})` with `(1, {2, 3})` to `select(a, b, c)` with `(1, 2, 3)`."""
    if len(select.exprs) < 2:
        return
    for at in reversed(range(len(select.exprs))):
        whole = select.exprs[at]
        if not isinstance(whole, ast.ListExpr):
            continue
        for case in select.cases:
            if len(case.keysets) != len(select.exprs):
                continue
            part = case.keysets[at]
            if isinstance(part, ast.Wildcard | ast.DefaultKey):
                case.keysets[at : at + 1] = [type(part)(part.pos) for _ in whole.elements]
            elif isinstance(part, ast.ListExpr):
                case.keysets[at : at + 1] = part.elements
        select.exprs[at : at + 1] = whole.elements
