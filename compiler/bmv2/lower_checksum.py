"""Lowering of the checksum controls: each call becomes a BMv2 checksum with its condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compiler.bmv2 import fold, ir
from compiler.bmv2.lower_extern import HASH_ALGORITHMS, argument, enum_name, leaves
from compiler.errors import CompileError, NotSupported, Pos
from compiler.syntax import ast

if TYPE_CHECKING:
    from compiler.bmv2.lower_parser import BodyLowering


@dataclass(frozen=True)
class Checksum:
    """A checksum that BMv2 verifies after parsing or updates before deparsing."""

    target: ir.Field
    calculation: str
    condition: ir.Expr
    verify: bool
    pos: Pos


def lower_checksums(body: BodyLowering, verify: bool) -> list[Checksum]:
    """Return the checksums of the VerifyChecksum or ComputeChecksum control that `body` stands in.

    Only calls of `verify_checksum` / `update_checksum` (and `.._with_payload`) may stand there,
    also under `if`: the condition is then part of the checksum's. Controls that hold nothing
    else may be applied.
    """
    assert body.frame.instance is not None
    decl = body.frame.instance.decl
    assert isinstance(decl, ast.ControlDecl)
    found: list[Checksum] = []
    _locals(body, decl)
    _statement(body, decl.body, fold.TRUE, verify, found)
    return found


def _locals(body: BodyLowering, control: ast.ControlDecl) -> None:
    for decl in control.locals:
        _local(body, decl)


def _local(body: BodyLowering, decl: ast.Decl) -> None:
    """Replace a variable by its initial value: nothing can be assigned in a checksum control."""
    if isinstance(decl, ast.VarDecl):
        if decl.init is None:
            raise NotSupported.at(decl.pos, "a variable without a value in a checksum control")
        body.frame.values[id(decl)] = body.lower(decl.init)


def _statement(
    body: BodyLowering, stmt: ast.Stmt, condition: ir.Expr, verify: bool, found: list[Checksum]
) -> None:
    match stmt:
        case ast.Block(statements=statements):
            for each in statements:
                _statement(body, each, condition, verify, found)
        case ast.If(cond=cond, then=then, otherwise=otherwise):
            own = body.scalar(cond)
            _statement(body, then, fold.binary("and", condition, own, ir.BOOL), verify, found)
            if otherwise is not None:
                other = fold.binary("and", condition, fold.negate(own), ir.BOOL)
                _statement(body, otherwise, other, verify, found)
        case ast.CallStmt(call=call) if call.kind is ast.CallKind.CONTROL_APPLY:
            decl, inner = body.applied(call)
            _locals(inner, decl)
            _statement(inner, decl.body, condition, verify, found)
        case ast.CallStmt(call=call):
            found.append(_checksum(body, call, condition, verify))
        case ast.DeclStmt(decl=decl):
            _local(body, decl)
        case ast.Empty():
            pass
        case _:
            word = "verify" if verify else "update"
            raise CompileError.at(stmt.pos, f"only calls of {word}_checksum can stand here")


def _checksum(body: BodyLowering, call: ast.Call, condition: ir.Expr, verify: bool) -> Checksum:
    word = "verify" if verify else "update"
    names = (f"{word}_checksum", f"{word}_checksum_with_payload")
    if call.decl is None or call.decl.name not in names:
        raise CompileError.at(call.pos, f"only {names[0]} and {names[1]} can be called here")
    own = fold.binary("and", condition, body.scalar(argument(call, 0)), ir.BOOL)
    data = argument(call, 1)
    inputs = leaves(body.lower(data), data.pos)
    for value in inputs:
        if not isinstance(value, ir.Field | ir.Const):
            raise CompileError.at(data.pos, "BMv2 takes only fields and constants into a checksum")
    target = body.lower(argument(call, 2))
    if not isinstance(target, ir.Field):
        raise NotSupported.at(argument(call, 2).pos, "a checksum that is not a field")
    algorithm = enum_name(body, argument(call, 3))
    if algorithm not in HASH_ALGORITHMS:
        raise NotSupported.at(argument(call, 3).pos, f"hash algorithm {algorithm}")
    calculation = body.program.calculation(
        algorithm, inputs, call.decl.name.endswith("_with_payload"), call.pos
    )
    return Checksum(target, calculation, own, verify, call.pos)
