"""Implicit conversions, constants and l-values (spec sections 6.7, 8.11, 8.13)."""

from __future__ import annotations

from abc import abstractmethod
from typing import NoReturn

from compiler.errors import Pos
from compiler.syntax import ast
from compiler.types import constants, unify
from compiler.types import types as ty
from compiler.types.checker_base import GaveUp, counted, describe
from compiler.types.checker_types import TypeChecker
from compiler.types.scope import suggestion

_UNTYPED = (ast.ListExpr, ast.StructExpr, ast.DefaultExpr, ast.InvalidExpr, ast.Ternary)


class Converter(TypeChecker):
    """`convert(expr, type)` and what it needs to know about expressions."""

    @abstractmethod
    def expr(self, expr: ast.Expr) -> ast.Expr:
        """Return the checked `expr`; see `checker_expr`."""

    def value(self, expr: ast.Expr) -> ast.Expr:
        """Return the checked `expr`, which must have a value: no type, action, table or
        function.
        """
        expr = self.expr(expr)
        if isinstance(expr.type, ty.TypeName):
            name = expr.name if isinstance(expr, ast.Name) else str(expr.type.type)
            self._fail(expr.pos, f'"{name}" is a type, not a value')
        if isinstance(expr.type, ty.Action | ty.Table | ty.Function | ty.State):
            kind = describe(expr.decl) if isinstance(expr, ast.Name) and expr.decl else "no value"
            hint = "; call it with (...)" if isinstance(expr.type, ty.Function) else ""
            self._fail(expr.pos, f'"{expr.type.name}" is {kind}, not a value{hint}')
        if isinstance(expr.type, ty.Void):
            self._fail(expr.pos, "this call returns nothing: it has no value")
        return expr

    def value_of(self, expr: ast.Expr, t: ty.Type, what: str) -> ast.Expr:
        """Return the checked `expr` as a `t`. `what` names its role: "argument \"x\" of f"."""
        return self.convert(self.value(expr), t, what)

    def assigned_value(self, expr: ast.Expr, t: ty.Type, what: str) -> ast.Expr:
        """Convert as `value_of` does, but let a number become a new type, as p4c does in
        assignments.
        """
        checked = self.value(expr)
        of_number = isinstance(t, ty.NewType) and isinstance(ty.underlying(t), ty.Bit | ty.Int)
        if of_number and isinstance(checked.type, ty.InfInt):
            return self._implicit_cast(checked, t)
        return self.convert(checked, t, what)

    # ------------------------------------------------------------ conversion

    def convert(self, expr: ast.Expr, t: ty.Type, what: str) -> ast.Expr:
        """Convert the checked `expr` to type `t`. Raises where no implicit conversion exists."""
        given = type_of(expr)
        if isinstance(t, ty.Unknown):
            raise GaveUp
        untyped = isinstance(expr, ast.Ternary) or is_untyped(expr)
        if untyped and (given != t or isinstance(t, ty.Tuple)):
            return self._convert_untyped(expr, t, what)
        if given == t:
            return expr
        if isinstance(t, ty.InfInt) and isinstance(given, ty.Bit | ty.Int):
            if expr.const_value is None:
                self._refuse_int(expr.pos, given)
            return self._implicit_cast(expr, t)
        if unify.converts(given, t):
            if isinstance(given, ty.Behaviour):
                return expr
            return self._implicit_cast(expr, t)
        return self._mismatch(expr, t, what)

    def _refuse_int(self, pos: Pos, given: ty.Type) -> NoReturn:
        self._fail(
            pos,
            f"a run-time value ({given}) can't become int, which has no width and so exists while "
            "compiling only: cast to bit<w> or int<w>",
        )

    def _mismatch(self, expr: ast.Expr, t: ty.Type, what: str) -> ast.Expr:
        given = type_of(expr)
        hint = ""
        if isinstance(given, ty.Bit | ty.Int) and isinstance(t, ty.Bit | ty.Int):
            if type(given) is type(t):
                hint = f"; the widths differ, write a cast: ({t})"
            else:
                hint = "; signed and unsigned don't mix without a cast"
        elif unify.castable(given, t):
            hint = f"; write a cast: ({t})"
        elif isinstance(given, ty.Parser | ty.Control) and type(given) is type(t):
            hint = self._signature_difference(given, t)
        self._fail(expr.pos, f"{what} must have type {t}, not {given}{hint}")

    def _signature_difference(self, given: ty.Parser | ty.Control, wanted: ty.Type) -> str:
        if not isinstance(wanted, ty.Parser | ty.Control):
            return ""
        if len(given.params) != len(wanted.params):
            return (
                f"; {given.name} has {counted(len(given.params), 'parameter')}, "
                f"{wanted.name} needs {len(wanted.params)}"
            )
        for index, (g, w) in enumerate(zip(given.params, wanted.params, strict=True)):
            if g.direction is not w.direction or not unify.unify(w.type, g.type, {}):
                return f'; parameter {index + 1} is "{g}" where "{w}" is needed'
        return ""

    def _implicit_cast(self, expr: ast.Expr, t: ty.Type) -> ast.Expr:
        value = expr.const_value
        if isinstance(expr.type, ty.InfInt):
            if isinstance(value, int):
                value = self.fit(value, ty.underlying(t), expr.pos)
            elif not is_compile_time(expr):
                self._fail(expr.pos, f"an int without a width must be constant to become {t}")
        cast = ast.Cast(expr.pos, None, expr, implicit=True)
        cast.type, cast.const_value = t, value
        return cast

    def fit(self, value: int, t: ty.Type, pos: Pos) -> int:
        """Wrap `value` to `t`, with a warning if that changes it."""
        wrapped = constants.wrap(value, t)
        if wrapped != value:
            text = f"value {value} does not fit in {t}, it becomes {wrapped}"
            kind = "overflow"
            if value < 0 and isinstance(t, ty.Bit):
                kind = "mismatch"
                text = f"negative value {value} in unsigned {t}, it becomes {wrapped}"
            self.reporter.warn(pos, text, kind)
        return wrapped

    def _convert_untyped(self, expr: ast.Expr, t: ty.Type, what: str) -> ast.Expr:
        match expr:
            case ast.Ternary():
                if not isinstance(expr.then, _UNTYPED) and not isinstance(expr.otherwise, _UNTYPED):
                    if unify.converts(type_of(expr), t):
                        return self._implicit_cast(expr, t) if expr.type != t else expr
                    return self._mismatch(expr, t, what)
                expr.then = self.convert(expr.then, t, what)
                expr.otherwise = self.convert(expr.otherwise, t, what)
                expr.type = t
            case ast.ListExpr():
                self._convert_list(expr, t, what)
            case ast.StructExpr():
                self._convert_struct(expr, t, what)
            case ast.DefaultExpr():
                if not unify.has_default(t):
                    self._fail(expr.pos, f"{t} has no default value: ... can't stand for it")
                expr.type = t
            case ast.InvalidExpr():
                if not isinstance(t, ty.Header | ty.HeaderUnion):
                    self._fail(expr.pos, f"{{#}} is an invalid header; {what} needs {t}")
                expr.type = t
        return expr

    def _convert_list(self, expr: ast.ListExpr, t: ty.Type, what: str) -> None:
        wanted: list[tuple[str, ty.Type]]
        match t:
            case ty.Struct() | ty.Header():
                wanted = [(f'field "{f.name}" of {t}', f.type) for f in t.fields]
            case ty.Tuple():
                wanted = [(f"element {i} of {what}", e) for i, e in enumerate(t.elements)]
            case ty.Stack():
                wanted = [(f"element {i} of {what}", t.element) for i in range(t.size)]
            case ty.ListType():
                self._fail(expr.pos, f"{what} has type {t}: write a cast: ({t}){{...}}")
            case _:
                self._fail(expr.pos, f"{what} must have type {t}, not a list {{...}}")
        if len(wanted) < len(expr.elements) or (len(wanted) > len(expr.elements) and not expr.rest):
            self._fail(
                expr.pos,
                f"{what} of type {t} needs {counted(len(wanted), 'element')}, "
                f"not {len(expr.elements)}",
            )
        expr.elements = [
            self.convert(element, each, text)
            for element, (text, each) in zip(expr.elements, wanted, strict=False)
        ]
        for text, each in wanted[len(expr.elements) :]:
            if not unify.has_default(each):
                self._fail(expr.pos, f"{text} has no default value: ... can't stand for it")
        expr.type = t

    def as_list(self, expr: ast.ListExpr, t: ty.ListType) -> ast.Expr:
        """Check `(list<T>){...}`: nothing becomes a list without a cast."""
        expr.elements = [
            self.convert(element, t.element, f"element {i} of the list")
            for i, element in enumerate(expr.elements)
        ]
        expr.type = t
        return expr

    def _convert_struct(self, expr: ast.StructExpr, t: ty.Type, what: str) -> None:
        if not isinstance(t, ty.Struct | ty.Header):
            self._fail(expr.pos, f"{what} must have type {t}, not a struct expression {{...}}")
        seen: set[str] = set()
        for each in expr.fields:
            wanted = t.field_named(each.name)
            if wanted is None:
                names = [f.name for f in t.fields]
                self._fail(
                    each.pos, f'{t} has no field "{each.name}"{suggestion(each.name, names)}'
                )
            if each.name in seen:
                self._fail(each.pos, f'field "{each.name}" is given twice')
            seen.add(each.name)
            each.value = self.convert(each.value, wanted.type, f'field "{each.name}" of {t}')
        missing = [f for f in t.fields if f.name not in seen]
        if missing and not expr.rest:
            names = [f'"{f.name}"' for f in missing]
            self._fail(expr.pos, f"{t} also needs {', '.join(names)}")
        for each_missing in missing:
            if not unify.has_default(each_missing.type):
                self._fail(expr.pos, f'field "{each_missing.name}" of {t} has no default value')
        expr.type = t

    # ------------------------------------------------------------ constants

    def check_constant_int(self, expr: ast.Expr, what: str) -> tuple[ast.Expr, int]:
        """Return the checked `expr` and its value. Raises where it is no compile-time number."""
        expr = self.value(expr)
        value = expr.const_value
        if isinstance(value, bool) or not isinstance(value, int):
            if isinstance(ty.underlying(type_of(expr)), ty.Bit | ty.Int | ty.InfInt):
                if is_compile_time(expr):
                    self._fail(
                        expr.pos,
                        f"the {what} must be a number that the text gives: no constructor's "
                        "parameter, which differs from instance to instance",
                    )
                self._fail(expr.pos, f"the {what} must be known while compiling")
            self._fail(expr.pos, f"the {what} must be a number, not {expr.type}")
        return expr, value

    def check_constant_of(self, expr: ast.Expr, t: ty.Type) -> ast.Expr:
        """Check `expr`, convert it to `t`, and require that it is known while compiling."""
        checked = self.assigned_value(expr, t, "constant")
        if not is_compile_time(checked):
            self._fail(checked.pos, "this value must be known while compiling")
        return checked

    # ------------------------------------------------------------ l-values

    def require_lvalue(self, expr: ast.Expr, what: str) -> None:
        """Raise where `expr` can't be written. `what` begins the message: "can't assign to"."""
        match expr:
            case ast.Name():
                self._require_writable(expr, what)
            case ast.Member(kind=ast.MemberKind.FIELD | ast.MemberKind.TUPLE_FIELD):
                self.require_lvalue(expr.base, what)
            case ast.Member(kind=ast.MemberKind.STACK_NEXT | ast.MemberKind.STACK_LAST):
                self.require_lvalue(expr.base, what)
            case ast.Index() | ast.Slice():
                self.require_lvalue(expr.base, what)
            case _:
                self._fail(expr.pos, f"{what} this expression: it is no l-value")

    def _require_writable(self, name: ast.Name, what: str) -> None:
        match name.decl:
            case ast.VarDecl():
                return
            case ast.Parameter(direction="out" | "inout"):
                return
            case ast.Parameter() as param:
                kind = f'"{param.direction}" parameter' if param.direction else "parameter"
                hint = "" if param.direction else " without direction"
                self._fail(name.pos, f'{what} {kind} "{param.name}"{hint}: it is read-only')
            case ast.ConstDecl():
                self._fail(name.pos, f'{what} constant "{name.name}"')
            case None:
                raise GaveUp
            case decl:
                self._fail(name.pos, f'{what} "{name.name}": it is {describe(decl)}')


def is_untyped(expr: ast.Expr) -> bool:
    """Return whether `expr` is a list, struct or invalid header that has no declared type yet."""
    match expr:
        case ast.ListExpr():
            return isinstance(expr.type, ty.Tuple)
        case ast.StructExpr():
            return isinstance(expr.type, ty.Struct) and expr.type.name.startswith("<")
        case ast.DefaultExpr() | ast.InvalidExpr():
            return isinstance(expr.type, ty.DontCare)
        case _:
            return False


def type_of(expr: ast.Expr) -> ty.Type:
    """Return the type of a checked expression."""
    if expr.type is None:
        raise GaveUp
    return expr.type


def is_compile_time(expr: ast.Expr) -> bool:
    """Return whether a checked expression is known while compiling (constructor parameters are)."""
    if expr.const_value is not None:
        return True
    match expr:
        case ast.Name(decl=ast.ConstDecl() | ast.InstanceDecl() | ast.EnumMember()):
            return True
        case ast.Name(decl=ast.Parameter(direction="") as param):
            # A constructor's, an action's (which the control plane sets) or an extern object.
            return param.type is not None
        case ast.Member(kind=ast.MemberKind.ENUM_MEMBER | ast.MemberKind.ERROR_MEMBER):
            return True
        case ast.Member(kind=ast.MemberKind.FIELD) | ast.Slice() | ast.Index():
            return is_compile_time(expr.base)
        case ast.Cast() | ast.Unary():
            return is_compile_time(expr.operand)
        case ast.Binary():
            return is_compile_time(expr.left) and is_compile_time(expr.right)
        case ast.Ternary():
            return all(map(is_compile_time, (expr.cond, expr.then, expr.otherwise)))
        case ast.ListExpr():
            return all(map(is_compile_time, expr.elements))
        case ast.StructExpr():
            return all(is_compile_time(each.value) for each in expr.fields)
        case ast.DefaultExpr() | ast.InvalidExpr():
            return True
        case ast.Call(kind=ast.CallKind.CONSTRUCTOR):
            return True
        case _:
            return False


def constant_initializer(expr: ast.Expr) -> ast.Expr | None:
    """Return the expression behind a constant struct, list or member of one, if there is one."""
    match expr:
        case ast.Name(decl=ast.ConstDecl() as const):
            return constant_initializer(const.init) or const.init
        case ast.Member(kind=ast.MemberKind.FIELD):
            base = constant_initializer(expr.base)
            if isinstance(base, ast.StructExpr):
                for each in base.fields:
                    if each.name == expr.member:
                        return constant_initializer(each.value) or each.value
            if isinstance(base, ast.ListExpr) and isinstance(base.type, ty.StructLike):
                for each_field, element in zip(base.type.fields, base.elements, strict=False):
                    if each_field.name == expr.member:
                        return constant_initializer(element) or element
            return None
        case ast.Index(index=ast.Expr(const_value=int(index))):
            base = constant_initializer(expr.base)
            if isinstance(base, ast.ListExpr) and 0 <= index < len(base.elements):
                return constant_initializer(base.elements[index]) or base.elements[index]
            return None
        case ast.ListExpr() | ast.StructExpr():
            return expr
        case _:
            return None


def same_expression(a: ast.Expr, b: ast.Expr) -> bool:
    """Return whether two checked expressions are the same text, implicit casts aside."""
    while isinstance(a, ast.Cast) and a.implicit:
        a = a.operand
    while isinstance(b, ast.Cast) and b.implicit:
        b = b.operand
    if a.const_value is not None or b.const_value is not None:
        return a.const_value == b.const_value
    if type(a) is not type(b):
        return False
    match a, b:
        case ast.Name(), ast.Name():
            return a.decl is b.decl
        case ast.Member(), ast.Member():
            return a.member == b.member and same_expression(a.base, b.base)
        case ast.Index(), ast.Index():
            return same_expression(a.base, b.base) and same_expression(a.index, b.index)
        case ast.Slice(), ast.Slice():
            parts = zip((a.base, a.hi, a.lo), (b.base, b.hi, b.lo), strict=True)
            return all(same_expression(x, y) for x, y in parts)
        case ast.Unary(), ast.Unary():
            return a.op is b.op and same_expression(a.operand, b.operand)
        case ast.Cast(), ast.Cast():
            return a.type == b.type and same_expression(a.operand, b.operand)
        case ast.Binary(), ast.Binary():
            same = same_expression(a.left, b.left) and same_expression(a.right, b.right)
            return a.op is b.op and same
        case ast.Ternary(), ast.Ternary():
            parts = zip((a.cond, a.then, a.otherwise), (b.cond, b.then, b.otherwise), strict=True)
            return all(same_expression(x, y) for x, y in parts)
        case ast.Call(), ast.Call():
            arguments = zip(a.args, b.args, strict=False)
            return (
                len(a.args) == len(b.args)
                and same_expression(a.callee, b.callee)
                and all(same_expression(x.value, y.value) for x, y in arguments)
            )
        case ast.ListExpr(), ast.ListExpr():
            elements = zip(a.elements, b.elements, strict=False)
            return len(a.elements) == len(b.elements) and all(
                same_expression(x, y) for x, y in elements
            )
        case ast.StructExpr(), ast.StructExpr():
            others = {f.name: f.value for f in b.fields}
            return {f.name for f in a.fields} == set(others) and all(
                same_expression(f.value, others[f.name]) for f in a.fields
            )
        case _:
            return False
