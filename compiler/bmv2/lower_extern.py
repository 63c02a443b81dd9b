"""Lowering of v1model's extern functions and of methods of its extern objects.

Each becomes one BMv2 primitive. Values that BMv2 reads later than P4 means (digests) or
would skip while their header is invalid (hashes) are copied to temporaries first, as p4c does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from compiler.bmv2 import ir
from compiler.bmv2.layout import STANDARD_METADATA
from compiler.bmv2.lower_frame import Region
from compiler.bmv2.places import (
    NO_BITS,
    SCALARS,
    SIMPLE,
    ExternObject,
    HeaderPlace,
    HeaderValue,
    StructValue,
    Value,
    header_member,
    scalar_type,
)
from compiler.errors import CompileError, NotSupported, Pos
from compiler.syntax import ast
from compiler.types import types as ty

if TYPE_CHECKING:
    from compiler.bmv2.lower_stmt import StmtLowering

HASH_ALGORITHMS = frozenset(
    {"crc32", "crc32_custom", "crc16", "crc16_custom", "random", "identity", "csum16", "xor16"}
)
NOTHING = StructValue({})

Handler: TypeAlias = "Callable[[StmtLowering, ast.Call], None]"
MethodHandler: TypeAlias = "Callable[[StmtLowering, ast.Call, ExternObject], None]"


def function(body: StmtLowering, call: ast.Call) -> Value:
    """Lower a call of an extern function."""
    assert call.decl is not None
    handler = _FUNCTIONS.get(call.decl.name)
    if handler is None:
        raise _unknown(body, call, f"the extern function {call.decl.name}")
    if body.code.region is Region.OTHER:
        raise CompileError.at(call.pos, f"{call.decl.name} can't be called here")
    if body.in_parser() and call.decl.name not in _IN_PARSER:
        raise CompileError.at(call.pos, f"{call.decl.name} can't be called in a parser")
    handler(body, call)
    return NOTHING


def method(body: StmtLowering, call: ast.Call) -> Value:
    """Lower a call of a method of an extern object."""
    assert call.decl is not None
    assert call.receiver is not None
    target = body.lower(call.receiver)
    if not isinstance(target, ExternObject):
        raise NotSupported.at(call.pos, "a method of this object")
    handler = _METHODS.get((target.type.name, call.decl.name))
    if handler is None:
        raise _unknown(body, call, f"the method {target.type.name}.{call.decl.name}")
    if body.in_parser() or body.code.region is Region.OTHER:
        raise CompileError.at(call.pos, f"{target.type.name}.{call.decl.name} can't be called here")
    handler(body, call, target)
    return NOTHING


def _unknown(body: StmtLowering, call: ast.Call, what: str) -> CompileError:
    """Return the error of a call of what v1model lacks: at its declaration, or where p4c reports
    it.

    That is at the call in parsers and where the result is used.
    """
    assert call.decl is not None
    places = [(call.decl.pos, "declared here"), (call.pos, "called here")]
    inside = body.in_parser() or body.code.region is Region.OTHER
    if inside or not isinstance(call.type, ty.Void):
        places.reverse()
    (pos, _), other = places
    return CompileError.at(pos, f"v1model does not have {what}", notes=(other,))


def argument(call: ast.Call, index: int) -> ast.Expr:
    """Return the argument number `index` of a checked call."""
    arg = call.binding[index].arg
    assert arg is not None
    return arg


def _simple_arguments(body: StmtLowering, call: ast.Call, *indices: int) -> list[ir.Expr]:
    exprs = [argument(call, i) for i in indices]
    values = body.scalars(exprs)
    return [body.simplify(v, e.pos) for v, e in zip(values, exprs, strict=True)]


def _emit(body: StmtLowering, name: str, pos: Pos, *args: ir.Arg) -> None:
    body.code.emit(ir.Op(name, args, pos))


def _destination(
    body: StmtLowering, call: ast.Call, index: int
) -> tuple[ir.Field, Callable[[], None]]:
    """Return the field for an `out` argument, and a function that stores the result after the
    call.
    """
    target = argument(call, index)
    if isinstance(target, ast.Wildcard):
        scalar = ir.BIT32
        t = call.binding[index].param.type
        width = ty.width_of(t)
        if width:
            scalar = ir.bit(width)
        return body.program.layout.scalar("tmp", scalar), lambda: None
    if not isinstance(target, ast.Slice):
        place = body.lower(target)
        if isinstance(place, ir.Field):
            return place, lambda: None
        if not isinstance(place, SCALARS):
            raise CompileError.at(
                target.pos, "BMv2 can't write a struct as a result: give a field to write to"
            )
        temporary = body.program.layout.scalar("tmp", place.type)
        return temporary, lambda: body.assign(place, temporary, call.pos)
    width = ty.width_of(body.type_of(target))
    assert width is not None
    sliced = body.program.layout.scalar("tmp", ir.bit(width))
    return sliced, lambda: body.store(target, sliced, call.pos)


def leaves(value: Value, pos: Pos) -> list[ir.Expr]:
    """Return the scalars of a list, struct or header, in order."""
    match value:
        case StructValue(fields) | HeaderValue(_, fields):
            return [leaf for v in fields.values() for leaf in leaves(v, pos)]
        case HeaderPlace(name, t):
            return [
                leaf for f in t.fields for leaf in leaves(header_member(name, f.name, f.type), pos)
            ]
        case _ if isinstance(value, SCALARS):
            return [] if value is NO_BITS else [value]
        case _:
            raise CompileError.at(
                pos,
                "BMv2 can't put a header stack or header union into a hash, digest or message as "
                "a whole: name its headers or fields",
            )


def _copied(body: StmtLowering, expr: ast.Expr, *, constants: bool) -> list[ir.Expr]:
    """Return the leaves of `expr`, copied so that BMv2 takes their value now (`constants`: these
    too).
    """
    result: list[ir.Expr] = []
    for leaf in leaves(body.lower(expr), expr.pos):
        stays = leaf.type.kind is ir.Kind.VARBIT or (isinstance(leaf, ir.Const) and not constants)
        result.append(leaf if stays else body.to_temporary(leaf, expr.pos))
    return result


# ---------------------------------------------------------------- functions


def _mark_to_drop(body: StmtLowering, call: ast.Call) -> None:
    """Lower mark_to_drop, for a copy of the metadata by way of the original.

    The drop port is an option of the switch, so only the original can be marked.
    """
    target = body.lower(argument(call, 0)) if call.binding else None
    copies: list[tuple[Value, ir.Field, ir.Field]] = []
    for name in ("egress_spec", "mcast_grp") if isinstance(target, StructValue) else ():
        assert isinstance(target, StructValue)
        place = target.fields[name]
        assert isinstance(place, ir.Field)
        original = ir.Field(STANDARD_METADATA, name, place.type)
        if place != original:
            copies.append((place, original, body.to_temporary(original, call.pos)))
    _emit(body, "mark_to_drop", call.pos, ir.HeaderRef("header", STANDARD_METADATA))
    for place, original, before in copies:
        body.assign(place, original, call.pos)
        body.assign(original, before, call.pos)


def _hash(body: StmtLowering, call: ast.Call) -> None:
    algorithm = enum_name(body, argument(call, 1))
    if algorithm not in HASH_ALGORITHMS:
        raise NotSupported.at(argument(call, 1).pos, f"hash algorithm {algorithm}")
    if scalar_type(body.type_of(argument(call, 3))) is not None:
        raise CompileError.at(argument(call, 3).pos, "a hash takes a list or a struct: {...}")
    target, finish = _destination(body, call, 0)
    (base,) = _simple_arguments(body, call, 2)
    inputs = _copied(body, argument(call, 3), constants=False)
    (maximum,) = _simple_arguments(body, call, 4)
    calculation = body.program.calculation(algorithm, inputs, False, call.pos)
    _emit(
        body,
        "modify_field_with_hash_based_offset",
        call.pos,
        target,
        base,
        ir.Named("calculation", calculation),
        maximum,
    )
    finish()


def _digest(body: StmtLowering, call: ast.Call) -> None:
    (receiver,) = _simple_arguments(body, call, 0)
    data = argument(call, 1)
    if isinstance(body.type_of(data), ty.Header):
        raise CompileError.at(data.pos, "a digest takes a list or a struct, not a header")
    fields = _copied(body, data, constants=True)
    if any(f.type.kind is ir.Kind.VARBIT for f in fields):
        raise CompileError.at(data.pos, "BMv2 can't put a varbit field into a digest")
    number = body.program.learn_list(call, fields)
    _emit(body, "generate_digest", call.pos, receiver, ir.Const(number, ir.bit(0)))


def _random(body: StmtLowering, call: ast.Call) -> None:
    target, finish = _destination(body, call, 0)
    low, high = _simple_arguments(body, call, 1, 2)
    _emit(body, "modify_field_rng_uniform", call.pos, target, low, high)
    finish()


def _truncate(body: StmtLowering, call: ast.Call) -> None:
    _emit(body, "truncate", call.pos, *_simple_arguments(body, call, 0))


def _clone(body: StmtLowering, call: ast.Call) -> None:
    preserving = call.decl is not None and call.decl.name == "clone_preserving_field_list"
    number = _field_list(body, call, 2) if preserving else body.program.empty_field_list("fl")
    kind = enum_name(body, argument(call, 0))
    region = {"I2E": Region.INGRESS, "E2E": Region.EGRESS}[kind]
    if body.code.region is not region:
        where = region.name.lower()
        raise CompileError.at(call.pos, f"a clone of type {kind} can only be made in {where}")
    (session,) = _simple_arguments(body, call, 1)
    where = "ingress" if kind == "I2E" else "egress"
    name = f"clone_{where}_pkt_to_egress"
    _emit(body, name, call.pos, session, ir.Const(number, ir.bit(0)))


def _again(name: str, region: Region) -> Handler:
    def handler(body: StmtLowering, call: ast.Call) -> None:
        if body.code.region is not region:
            raise CompileError.at(call.pos, f"{name} can only be called in {region.name.lower()}")
        number = _field_list(body, call, 0)
        _emit(body, name, call.pos, ir.Const(number, ir.bit(0)))

    return handler


def _field_list(body: StmtLowering, call: ast.Call, index: int) -> int:
    wanted = body.constant(argument(call, index)).value
    return body.program.field_list(wanted, call.pos)


def _log_msg(body: StmtLowering, call: ast.Call) -> None:
    text = body.lower(argument(call, 0))
    assert isinstance(text, ir.Text)
    values: list[ir.Expr] = []
    if len(call.binding) > 1:
        data = argument(call, 1)
        if scalar_type(body.type_of(data)) is not None:
            raise CompileError.at(data.pos, "log_msg takes a list of values: {...}")
        values = [
            v if isinstance(v, SIMPLE) and not v.type.is_bool else body.to_temporary(v, data.pos)
            for v in leaves(body.lower(data), data.pos)
        ]
    _emit(body, "log_msg", call.pos, text, ir.Vector(tuple(values)))


def _check(name: str) -> Handler:
    def handler(body: StmtLowering, call: ast.Call) -> None:
        _emit(body, name, call.pos, body.scalar(argument(call, 0)))

    return handler


_IN_PARSER = frozenset({"log_msg", "assert", "assume"})
_FUNCTIONS: dict[str, Handler] = {
    "mark_to_drop": _mark_to_drop,
    "hash": _hash,
    "digest": _digest,
    "random": _random,
    "truncate": _truncate,
    "clone": _clone,
    "clone_preserving_field_list": _clone,
    "resubmit_preserving_field_list": _again("resubmit", Region.INGRESS),
    "recirculate_preserving_field_list": _again("recirculate", Region.EGRESS),
    "log_msg": _log_msg,
    "assert": _check("assert"),
    "assume": _check("assume"),
}


# ---------------------------------------------------------------- methods


def _count(body: StmtLowering, call: ast.Call, target: ExternObject) -> None:
    (index,) = _simple_arguments(body, call, 0)
    _emit(body, "count", call.pos, ir.Named("counter_array", target.name), index)


def _count_direct(body: StmtLowering, call: ast.Call, target: ExternObject) -> None:
    """Do nothing: BMv2 counts at every lookup of the table, not in the action."""


def _execute_meter(body: StmtLowering, call: ast.Call, target: ExternObject) -> None:
    (index,) = _simple_arguments(body, call, 0)
    result, finish = _destination(body, call, 1)
    _emit(body, "execute_meter", call.pos, ir.Named("meter_array", target.name), index, result)
    finish()


def _read_direct_meter(body: StmtLowering, call: ast.Call, target: ExternObject) -> None:
    place, finish = _destination(body, call, 0)
    body.program.direct_meter_target(target, place, call.pos)
    finish()


def _register_read(body: StmtLowering, call: ast.Call, target: ExternObject) -> None:
    result, finish = _destination(body, call, 0)
    (index,) = _simple_arguments(body, call, 1)
    _emit(body, "register_read", call.pos, result, ir.Named("register_array", target.name), index)
    finish()


def _register_write(body: StmtLowering, call: ast.Call, target: ExternObject) -> None:
    index, value = _simple_arguments(body, call, 0, 1)
    _emit(body, "register_write", call.pos, ir.Named("register_array", target.name), index, value)


OBJECTS = frozenset(
    {
        "counter", "direct_counter", "meter", "direct_meter", "register", "action_profile",
        "action_selector", "Checksum16",
    }
)  # fmt: skip
"""v1model's extern objects."""

_METHODS: dict[tuple[str, str], MethodHandler] = {
    ("counter", "count"): _count,
    ("direct_counter", "count"): _count_direct,
    ("meter", "execute_meter"): _execute_meter,
    ("direct_meter", "read"): _read_direct_meter,
    ("register", "read"): _register_read,
    ("register", "write"): _register_write,
}


def enum_name(body: StmtLowering, expr: ast.Expr) -> str:
    """Name of the enum member that `expr` is at compile time."""
    value = body.constant(expr)
    if value.member is None:
        raise NotSupported.at(expr.pos, "an enum value that is not a member's name")
    return value.member.name
