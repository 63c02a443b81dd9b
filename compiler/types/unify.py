"""Matching of types: inference of type arguments, and which conversions are implicit.

`unify` binds the type variables of a called declaration so that a parameter's type becomes the
argument's. Implicit conversions (spec section 8.11.2) are `int` to a sized number and a
serializable enum to its representation; lists and struct expressions convert field by field.
"""

from __future__ import annotations

from collections.abc import MutableMapping

from compiler.types import types as ty

Bindings = MutableMapping[ty.TypeVar, "ty.Type | None"]


def unify(wanted: ty.Type, given: ty.Type, bindings: Bindings) -> bool:
    """Make `wanted` equal `given` by binding the variables that are keys of `bindings`.

    A bound `int` gives way to a sized number. Returns False where the types can't be equal.
    """
    if isinstance(wanted, ty.TypeVar) and wanted in bindings:
        return _bind(wanted, given, bindings)
    if isinstance(given, ty.TypeVar) and given in bindings:
        return _bind(given, wanted, bindings)
    if wanted == given and not isinstance(wanted, ty.Behaviour):
        return True
    match wanted, given:
        case (ty.DontCare(), _) | (_, ty.DontCare()):
            return True
        case ty.Tuple(), ty.Tuple():
            return _unify_all(wanted.elements, given.elements, bindings)
        case ty.Stack(), ty.Stack():
            return wanted.size == given.size and unify(wanted.element, given.element, bindings)
        case ty.ListType(), ty.ListType():
            return unify(wanted.element, given.element, bindings)
        case ty.SetType(), ty.SetType():
            return unify(wanted.element, given.element, bindings)
        case ty.StructLike(), ty.StructLike():
            return (
                type(wanted) is type(given)
                and wanted.name == given.name
                and _unify_all(wanted.args, given.args, bindings)
            )
        case ty.Parser() as w, ty.Parser() as g:
            return unify_signatures(w, g, bindings)
        case ty.Control() as w, ty.Control() as g:
            return unify_signatures(w, g, bindings)
        case ty.Behaviour() as w, ty.Behaviour() as g:
            same = type(w) is type(g) and w.name == g.name
            return same and _unify_all(w.args, g.args, bindings)
        case _:
            return wanted == given


def unify_signatures(
    wanted: ty.Parser | ty.Control, given: ty.Parser | ty.Control, bindings: Bindings
) -> bool:
    """Return whether a parser or control has the parameters that a type asks for."""
    if len(wanted.params) != len(given.params):
        return False
    return all(
        w.direction is g.direction and unify(w.type, g.type, bindings)
        for w, g in zip(wanted.params, given.params, strict=True)
    )


def _unify_all(wanted: tuple[ty.Type, ...], given: tuple[ty.Type, ...], bindings: Bindings) -> bool:
    return len(wanted) == len(given) and all(
        unify(w, g, bindings) for w, g in zip(wanted, given, strict=True)
    )


def _bind(variable: ty.TypeVar, given: ty.Type, bindings: Bindings) -> bool:
    bound = bindings[variable]
    if bound is None:
        if given != variable:
            bindings[variable] = given
        return True
    if isinstance(bound, ty.InfInt) and is_number(given):
        bindings[variable] = given
        return True
    if isinstance(given, ty.InfInt) and is_number(bound):
        return True
    if isinstance(given, ty.SerEnum) and given.base == bound:
        return True
    return unify(bound, given, bindings)


def is_number(t: ty.Type) -> bool:
    """Return whether arithmetic is defined on `t`."""
    return isinstance(t, ty.Bit | ty.Int | ty.InfInt)


def converts(given: ty.Type, wanted: ty.Type) -> bool:
    """Return whether a value of type `given` can stand where `wanted` is needed (lists not
    included).
    """
    if given == wanted:
        return True
    match given, wanted:
        case ty.InfInt(), ty.Bit() | ty.Int():
            return True
        case ty.SerEnum(base=base), _:
            return base == wanted
        case ty.Behaviour(), ty.Behaviour():
            return unify(wanted, given, {})
        case _:
            return False


def castable(given: ty.Type, wanted: ty.Type) -> bool:
    """Return whether an explicit cast from `given` to `wanted` is legal (spec section 8.11.1)."""
    if given == wanted:
        return True
    match given, wanted:
        case ty.InfInt(), ty.SerEnum() | ty.NewType():
            return isinstance(ty.underlying(wanted), ty.Bit | ty.Int)
        case ty.SerEnum(base=a), ty.SerEnum(base=b):
            return a == b
        case ((ty.SerEnum() | ty.NewType()), _) if given.base == wanted:
            return True
        case _, (ty.SerEnum() | ty.NewType()):
            return wanted.base == given
        case (ty.Bit(), ty.Bit()) | (ty.Int(), ty.Int()):
            return True
        case (ty.Bit(a), ty.Int(b)) | (ty.Int(a), ty.Bit(b)):
            return a == b
        case ty.InfInt(), ty.Bit() | ty.Int() | ty.Bool():
            return True
        case (ty.Bit(1), ty.Bool()) | (ty.Bool(), ty.Bit(1)):
            return True
        case ((ty.Bit() | ty.Int()), ty.InfInt()):
            return True
        case _:
            return False


def has_default(t: ty.Type) -> bool:
    """Return whether `...` can make a value of `t` (spec section 7.3)."""
    t = ty.underlying(t)
    match t:
        case ty.StructLike():
            return all(has_default(f.type) for f in t.fields)
        case ty.Tuple():
            return all(has_default(e) for e in t.elements)
        case ty.Stack():
            return has_default(t.element)
        case _:
            return isinstance(
                t, ty.Bit | ty.Int | ty.InfInt | ty.Bool | ty.Error | ty.Enum | ty.Varbit
            )
