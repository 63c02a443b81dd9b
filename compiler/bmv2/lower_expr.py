"""Lowering of expressions: from the checked syntax tree to scalar `ir` expressions and places.

Calls inside expressions write code first and leave their result in a temporary; operands that
such a call could change are saved before it, so that evaluation is left to right.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from compiler.bmv2 import fold, ir
from compiler.bmv2.lower_frame import Code, Frame, Region
from compiler.bmv2.places import (
    NO_BITS,
    ONLY_EXTRACTED,
    SCALARS,
    SIMPLE,
    ElementPlace,
    HeaderPlace,
    HeaderValue,
    InvalidValue,
    LastPlace,
    NextPlace,
    StackPlace,
    StackValue,
    StructValue,
    UnionPlace,
    Unset,
    Value,
    has_no_bits,
    header_fields,
    header_member,
    scalar_type,
    stack_element,
    union_member,
)
from compiler.errors import CompileError, NotSupported, Pos
from compiler.passes import effects
from compiler.syntax import ast
from compiler.syntax.walk import has_side_effects
from compiler.types import types as ty

if TYPE_CHECKING:
    from compiler.bmv2.lower_program import ProgramLowering

_SIMPLE_BINARY = {
    ast.BinaryOp.MUL, ast.BinaryOp.DIV, ast.BinaryOp.MOD, ast.BinaryOp.ADD, ast.BinaryOp.SUB,
    ast.BinaryOp.ADD_SAT, ast.BinaryOp.SUB_SAT, ast.BinaryOp.SHL, ast.BinaryOp.SHR,
    ast.BinaryOp.LT, ast.BinaryOp.LE, ast.BinaryOp.GT, ast.BinaryOp.GE,
    ast.BinaryOp.BIT_AND, ast.BinaryOp.BIT_XOR, ast.BinaryOp.BIT_OR,
}  # fmt: skip


class ExprLowering(ABC):
    """Lowers expressions into `code`, with the names of `frame`."""

    def __init__(self, program: ProgramLowering, code: Code, frame: Frame) -> None:
        self.program = program
        self.code = code
        self.frame = frame

    # ------------------------------------------------------------ entry points

    def type_of(self, expr: ast.Expr) -> ty.Type:
        """Return the semantic type of `expr` here (inside a generic function: for this call)."""
        assert expr.type is not None
        return ty.substitute(expr.type, self.frame.types)

    def scalar(self, expr: ast.Expr) -> ir.Expr:
        """Lower a scalar expression and return its value."""
        value = self.lower(expr)
        if isinstance(value, SCALARS):
            return value
        raise NotSupported.at(expr.pos, f"a value of type {expr.type} here")

    def constant(self, expr: ast.Expr) -> ir.Const:
        """Return the value of an expression that must be known at compile time."""
        value = self.lower(expr)
        if isinstance(value, ir.Const):
            return value
        raise CompileError.at(expr.pos, "this must be a compile-time constant")

    def simple(self, expr: ast.Expr) -> ir.Expr:
        """Lower as `scalar` does, to a constant, field or action parameter: what every primitive
        takes.
        """
        return self.simplify(self.scalar(expr), expr.pos)

    def simplify(self, value: ir.Expr, pos: Pos) -> ir.Expr:
        """Return `value` itself if simple, else a new temporary that holds it."""
        bare = fold.same_number(value)
        return bare if isinstance(bare, SIMPLE) else self.to_temporary(value, pos)

    def to_temporary(self, value: ir.Expr, pos: Pos) -> ir.Field:
        """Assign `value` to a new temporary and return that."""
        if self.code.region is Region.OTHER:
            raise NotSupported.at(pos, "a computation here")
        if value.type.kind in (ir.Kind.VARBIT, ir.Kind.STRING) or not value.type.width:
            raise NotSupported.at(pos, "a copy of a varbit, a string or a value without bits")
        temporary = self.program.layout.scalar("tmp", value.type)
        self.code.emit(ir.Op("assign", (temporary, value), pos))
        return temporary

    def operands(self, exprs: Sequence[ast.Expr]) -> list[Value]:
        """Lower sub-expressions, left to right: values are saved where a later one runs code."""
        effects = [has_side_effects(e) for e in exprs]
        values: list[Value] = []
        for i, expr in enumerate(exprs):
            value = self.lower(expr)
            if any(effects[i + 1 :]) and not isinstance(value, ir.Const | ir.ActionParam):
                value = self.copy_of(value, self.type_of(expr), expr.pos)
            values.append(value)
        return values

    def scalars(self, exprs: Sequence[ast.Expr]) -> list[ir.Expr]:
        """Lower as `operands` does, for scalar expressions."""
        values = self.operands(exprs)
        result: list[ir.Expr] = []
        for expr, value in zip(exprs, values, strict=True):
            if not isinstance(value, SCALARS):
                raise NotSupported.at(expr.pos, f"a value of type {expr.type} here")
            result.append(value)
        return result

    def copy_of(self, value: Value, t: ty.Type, pos: Pos) -> Value:
        """Copy `value` to a new temporary and return that."""
        if isinstance(value, SCALARS):
            return value if has_no_bits(value.type) else self.to_temporary(value, pos)
        place = self.program.layout.local("tmp", t, pos)
        self.assign(place, value, pos)
        return place

    @abstractmethod
    def assign(self, target: Value, value: Value, pos: Pos) -> None:
        """Write code that assigns `value` to `target` (see `lower_assign`)."""

    @abstractmethod
    def call_value(self, call: ast.Call) -> Value:
        """Write code for a call, and give its result (see `lower_call`)."""

    @abstractmethod
    def branch(self, cond: ast.Expr, then: ir.Block, otherwise: ir.Block) -> None:
        """Write code that goes on in `then` or `otherwise` (see `lower_stmt`)."""

    # ------------------------------------------------------------ dispatch

    def lower(self, expr: ast.Expr) -> Value:
        """Lower any expression and return its value; code for its side effects is written."""
        t = self.type_of(expr)
        if expr.const_value is not None:
            return self._known(expr.const_value, t)
        match expr:
            case ast.Name():
                return self._name(expr)
            case ast.Member():
                return self._member(expr)
            case ast.Index():
                return self._index(expr)
            case ast.Slice():
                return self._slice(expr)
            case ast.Unary():
                return self._unary(expr)
            case ast.Binary():
                return self._binary(expr)
            case ast.Ternary():
                return self._ternary(expr)
            case ast.Cast():
                return self._cast(expr)
            case ast.ListExpr() | ast.StructExpr():
                return self._aggregate(expr)
            case ast.InvalidExpr():
                return InvalidValue()
            case ast.DefaultExpr():
                return default_value(t, expr.pos)
            case ast.Wildcard():
                return Unset()
            case ast.Call():
                return self.call_value(expr)
            case _:
                raise NotSupported.at(expr.pos, f"this expression ({type(expr).__name__})")

    def _known(self, value: ast.ConstValue, t: ty.Type) -> ir.Const | ir.Text:
        if isinstance(value, str):
            return ir.Text(value)
        scalar = scalar_type(t)
        if scalar is None:  # an `int` of arbitrary precision
            return ir.Const(int(value), ir.bit(0))
        return ir.Const(int(value), scalar)

    # ------------------------------------------------------------ names and members

    def _name(self, expr: ast.Name) -> Value:
        decl = expr.decl
        assert decl is not None
        found = self.frame.lookup(decl)
        if found is not None:
            return found
        match decl:
            case ast.ConstDecl(init=init):
                return self.lower(init)
            case ast.InstanceDecl():
                return self.program.extern_object(decl, self.frame, expr.pos)
            case ast.Parameter():
                return self.program.constructor_argument(decl, self.frame, expr.pos)
            case _:
                raise NotSupported.at(expr.pos, f"{expr.name} as a value")

    def _member(self, expr: ast.Member) -> Value:
        match expr.kind:
            case ast.MemberKind.ENUM_MEMBER | ast.MemberKind.ERROR_MEMBER:
                decl = expr.decl
                assert isinstance(decl, ast.EnumMember)
                return ir.Const(decl.index, ir.BIT32, decl)
            case ast.MemberKind.TABLE_HIT | ast.MemberKind.TABLE_MISS:
                return self.condition_value(expr)
            case ast.MemberKind.TABLE_ACTION_RUN:
                raise NotSupported.at(expr.pos, "action_run outside of a switch")
            case _:
                pass
        base = self.lower(expr.base)
        match expr.kind:
            case ast.MemberKind.FIELD | ast.MemberKind.TUPLE_FIELD:
                return self.field(base, expr.member, expr.pos)
            case ast.MemberKind.STACK_NEXT if isinstance(base, StackPlace):
                return NextPlace(base)
            case ast.MemberKind.STACK_LAST if isinstance(base, StackPlace):
                if self.code.region is Region.PARSER:
                    return LastPlace(base)
                return ElementPlace(base, ir.LastIndex(base.name))
            case ast.MemberKind.STACK_LAST_INDEX if isinstance(base, StackPlace):
                return ir.LastIndex(base.name)
            case _:
                raise NotSupported.at(expr.pos, f".{expr.member} here")

    def field(self, base: Value, name: str, pos: Pos) -> Value:
        """Return `base.name` for a struct, header or union."""
        match base:
            case StructValue(fields) | HeaderValue(_, fields):
                return fields[name]
            case HeaderPlace(header, t):
                found = t.field_named(name)
                assert found is not None
                return header_member(header, name, found.type)
            case ElementPlace(stack, index):
                return _element_member(stack, index, base.type, name)
            case LastPlace(stack) if isinstance(stack.element, ty.Header):
                return _last_member(stack, stack.element, name)
            case UnionPlace():
                return union_member(base, name)
            case NextPlace(stack, None) if isinstance(stack.element, ty.HeaderUnion):
                return NextPlace(stack, name)
            case NextPlace():
                raise CompileError.at(pos, ONLY_EXTRACTED)
            case InvalidValue():
                raise NotSupported.at(pos, "a field of {#}")
            case _:
                raise NotSupported.at(pos, f"field {name} of this expression")

    def _index(self, expr: ast.Index) -> Value:
        base = self.lower(expr.base)
        index = self.scalar(expr.index)
        array = isinstance(base, StructValue)
        if array or (isinstance(base, StackPlace) and not isinstance(base.element, ty.Header)):
            index = self._fixed_value_of(expr.index, index)
        if isinstance(base, StructValue | HeaderValue) and isinstance(index, ir.Const):
            return list(base.fields.values())[index.value]
        if isinstance(base, StackValue) and isinstance(index, ir.Const):
            return base.elements[index.value]
        if array:
            raise CompileError.at(
                expr.index.pos, "BMv2 has no arrays at run time: an index must be a constant"
            )
        if not isinstance(base, StackPlace):
            raise NotSupported.at(expr.pos, "an index into this expression")
        if isinstance(index, ir.Const):
            if not 0 <= index.value < base.size:
                raise CompileError.at(
                    expr.index.pos, f"index {index.value} is outside of the stack's {base.size}"
                )
            return stack_element(base, index.value)
        if not isinstance(base.element, ty.Header):
            raise CompileError.at(
                expr.index.pos, "BMv2 takes only constant indices into a stack of header unions"
            )
        if isinstance(index, ir.LastIndex):
            return ElementPlace(base, index)
        return ElementPlace(base, fold.bounded_index(index, base.size))

    def _fixed_value_of(self, expr: ast.Expr, value: ir.Expr) -> ir.Expr:
        """Return `value` of `expr`, or its constant number: parts of BMv2 take constants only."""
        frame: Frame | None = self.frame
        while frame is not None and frame.instance is None:
            frame = frame.parent
        if frame is None or frame.instance is None or isinstance(value, ir.Const):
            return value
        known = effects.fixed_value(expr, frame.instance.decl)
        return value if known is None else ir.Const(known, value.type)

    def _slice(self, expr: ast.Slice) -> Value:
        if expr.plus:
            base, low = self.scalars([expr.base, expr.lo])
            width = self.constant(expr.hi).value
            shifted = fold.binary(">>", base, low, base.type)
            return fold.convert(shifted, ir.bit(width))
        high, low_bound = self.slice_bounds(expr)
        return fold.slice_bits(self.scalar(expr.base), high, low_bound)

    def slice_bounds(self, expr: ast.Slice) -> tuple[int, int]:
        """Return the highest and the lowest bit of a slice at a constant place."""
        if not expr.plus:
            return self.constant(expr.hi).value, self.constant(expr.lo).value
        low = self.lower(expr.lo)
        if not isinstance(low, ir.Const):
            raise NotSupported.at(expr.pos, "assignment to a slice with a run-time position")
        return low.value + self.constant(expr.hi).value - 1, low.value

    # ------------------------------------------------------------ operators

    def _unary(self, expr: ast.Unary) -> ir.Expr:
        operand = self.scalar(expr.operand)
        match expr.op:
            case ast.UnaryOp.NOT:
                return fold.negate(operand)
            case ast.UnaryOp.COMPLEMENT:
                return fold.complement(operand)
            case ast.UnaryOp.MINUS:
                return fold.minus(operand)
            case ast.UnaryOp.PLUS:
                return operand

    def _binary(self, expr: ast.Binary) -> Value:
        if expr.op in (ast.BinaryOp.AND, ast.BinaryOp.OR):
            if has_side_effects(expr.right):
                return self.condition_value(expr)
            left, right = self.scalars([expr.left, expr.right])
            return fold.binary("and" if expr.op is ast.BinaryOp.AND else "or", left, right, ir.BOOL)
        if expr.op in (ast.BinaryOp.EQ, ast.BinaryOp.NE):
            a, b = self.operands([expr.left, expr.right])
            equal = self.equal(a, b, expr.pos)
            return equal if expr.op is ast.BinaryOp.EQ else _not_equal(equal)
        left, right = self.scalars([expr.left, expr.right])
        if expr.op in (ast.BinaryOp.DIV, ast.BinaryOp.MOD):
            left = self._fixed_value_of(expr.left, left)
            right = self._fixed_value_of(expr.right, right)
        return self.operator(expr.op, left, right, self.type_of(expr), expr.pos)

    def operator(
        self, op: ast.BinaryOp, left: ir.Expr, right: ir.Expr, t: ty.Type, pos: Pos
    ) -> ir.Expr:
        """Return `left op right` of scalars, for the operators that take scalars only."""
        if op is ast.BinaryOp.CONCAT:
            return fold.concat(left, right)
        if op in (ast.BinaryOp.AND, ast.BinaryOp.OR):
            return fold.binary("and" if op is ast.BinaryOp.AND else "or", left, right, ir.BOOL)
        assert op in _SIMPLE_BINARY
        if op in (ast.BinaryOp.DIV, ast.BinaryOp.MOD):
            return self._divide(op, left, right, pos)
        result = scalar_type(t)
        return fold.binary(op.value, left, right, result or left.type)

    def _divide(self, op: ast.BinaryOp, left: ir.Expr, right: ir.Expr, pos: Pos) -> ir.Expr:
        """Lower a quotient or remainder: of constants, or by a power of 2 (a shift or a mask)."""
        if isinstance(right, ir.Const) and right.value > 0:
            if isinstance(left, ir.Const):
                return fold.binary(op.value, left, right, left.type)
            if right.value.bit_count() == 1 and left.type.kind is ir.Kind.BIT:
                if op is ast.BinaryOp.MOD:
                    mask = ir.Const(right.value - 1, left.type)
                    return fold.binary("&", left, mask, left.type)
                amount = ir.Const(right.value.bit_length() - 1, left.type)
                return fold.binary(">>", left, amount, left.type)
        raise CompileError.at(
            pos, f'BMv2 has no "{op.value}" at run time, except by a constant power of 2'
        )

    def equal(self, a: Value, b: Value, pos: Pos) -> ir.Expr:
        """Lower `a == b` for scalars, structs, headers (invalid ones are equal) and stacks."""
        if isinstance(a, SCALARS) and isinstance(b, SCALARS):
            return fold.binary("==", a, b, ir.BOOL)
        if isinstance(a, StructValue) and isinstance(b, StructValue):
            return self._all_equal(list(a.fields.values()), list(b.fields.values()), pos)
        if isinstance(a, StackPlace | StackValue) and isinstance(b, StackPlace | StackValue):
            return self._all_equal(elements_of(a), elements_of(b), pos)
        if isinstance(a, UnionPlace) and isinstance(b, UnionPlace):
            names = [f.name for f in a.type.fields]
            return self._all_equal(
                [union_member(a, n) for n in names], [union_member(b, n) for n in names], pos
            )
        if a == InvalidValue() or b == InvalidValue():
            other = b if a == InvalidValue() else a
            return fold.negate(self.is_valid(other, pos))
        t = _header_type(a) or _header_type(b)
        if t is None:
            raise NotSupported.at(pos, "a comparison of these values")
        valid_a, valid_b = self.is_valid(a, pos), self.is_valid(b, pos)
        neither = fold.binary("and", fold.negate(valid_a), fold.negate(valid_b), ir.BOOL)
        fields = self._all_equal(
            [self.field(a, f.name, pos) for f in t.fields],
            [self.field(b, f.name, pos) for f in t.fields],
            pos,
        )
        both = fold.binary("and", fold.binary("and", valid_a, valid_b, ir.BOOL), fields, ir.BOOL)
        return fold.binary("or", neither, both, ir.BOOL)

    def _all_equal(self, a: Sequence[Value], b: Sequence[Value], pos: Pos) -> ir.Expr:
        result: ir.Expr = fold.TRUE
        for x, y in zip(a, b, strict=True):
            result = fold.binary("and", result, self.equal(x, y, pos), ir.BOOL)
        return result

    def is_valid(self, value: Value, pos: Pos) -> ir.Expr:
        """Return `value.isValid()`."""
        match value:
            case HeaderPlace(name, _):
                return ir.valid(name)
            case UnionPlace(name, _):
                return ir.UnionValid(name)
            case HeaderValue():
                return fold.TRUE
            case InvalidValue():
                return fold.FALSE
            case ElementPlace(stack, bounded):
                index = fold.unbounded_index(bounded)
                result: ir.Expr = fold.FALSE
                for i in range(min(stack.size, fold.greatest(index) + 1)):
                    here = fold.binary("==", index, fold.const(i, index.type), ir.BOOL)
                    valid = ir.valid(stack_element(stack, i).name)
                    result = fold.binary(
                        "or", result, fold.binary("and", here, valid, ir.BOOL), ir.BOOL
                    )
                return result
            case _:
                raise NotSupported.at(pos, "isValid() of this expression")

    def _ternary(self, expr: ast.Ternary) -> Value:
        known = expr.cond.const_value
        if isinstance(known, bool):
            return self.lower(expr.then if known else expr.otherwise)
        t = self.type_of(expr)
        branches = has_side_effects(expr.then) or has_side_effects(expr.otherwise)
        if not branches and scalar_type(t) is not None:
            cond, then, otherwise = self.scalars([expr.cond, expr.then, expr.otherwise])
            return fold.mux(cond, then, otherwise)
        result = self.program.layout.local("tmp", t, expr.pos)
        then_block, else_block = ir.Block(expr.then.pos), ir.Block(expr.otherwise.pos)
        join = ir.Block(expr.pos)
        self.branch(expr.cond, then_block, else_block)
        for block, arm in ((then_block, expr.then), (else_block, expr.otherwise)):
            self.code.start(block)
            self.assign(result, self.lower(arm), arm.pos)
            self.code.goto(join)
        self.code.start(join)
        return result

    def condition_value(self, expr: ast.Expr) -> ir.Expr:
        """Lower a bool whose evaluation branches (table hits, `&&` before a call) into a
        temporary.
        """
        result = self.program.layout.scalar("tmp", ir.BOOL)
        yes, no, join = ir.Block(expr.pos), ir.Block(expr.pos), ir.Block(expr.pos)
        self.branch(expr, yes, no)
        for block, value in ((yes, fold.TRUE), (no, fold.FALSE)):
            self.code.start(block)
            self.code.emit(ir.Op("assign", (result, value), expr.pos))
            self.code.goto(join)
        self.code.start(join)
        return result

    def _cast(self, expr: ast.Cast) -> Value:
        value = self.lower(expr.operand)
        t = self.type_of(expr)
        scalar = scalar_type(t)
        if isinstance(value, SCALARS) and scalar is not None:
            return fold.convert(value, scalar)
        return retarget(value, t)

    # ------------------------------------------------------------ aggregates

    def _aggregate(self, expr: ast.ListExpr | ast.StructExpr) -> Value:
        t = self.type_of(expr)
        if isinstance(expr, ast.ListExpr):
            values = self.operands(expr.elements)
            if isinstance(t, ty.Stack):
                missing = t.size - len(values)
                values += [default_value(t.element, expr.pos) for _ in range(missing)]
                if t.is_array:
                    return StructValue({str(i): value for i, value in enumerate(values)})
                return StackValue(tuple(values))
            if isinstance(t, ty.ListType):
                return StructValue({str(i): value for i, value in enumerate(values)})
            names = _component_names(t)
            given = dict(zip(names, values, strict=False))
        else:
            lowered = self.operands([f.value for f in expr.fields])
            given = {f.name: v for f, v in zip(expr.fields, lowered, strict=True)}
        fields: dict[str, Value] = {}
        for name, component in _components(t):
            found = given.get(name)
            fields[name] = default_value(component, expr.pos) if found is None else found
        return HeaderValue(t, fields) if isinstance(t, ty.Header) else StructValue(fields)


# ---------------------------------------------------------------- values by type


def _components(t: ty.Type) -> list[tuple[str, ty.Type]]:
    if isinstance(t, ty.Tuple):
        return [(str(i), e) for i, e in enumerate(t.elements)]
    if isinstance(t, ty.StructLike):
        return [(f.name, f.type) for f in t.fields]
    return []


def _component_names(t: ty.Type) -> list[str]:
    return [name for name, _ in _components(t)]


def default_value(t: ty.Type, pos: Pos) -> Value:
    """Return P4's default value of a type (spec 7.3): zeros, false, NoError, invalid headers."""
    scalar = scalar_type(t)
    if scalar is not None:
        return ir.Const(0, scalar)
    match t:
        case ty.Header() | ty.HeaderUnion():
            return InvalidValue()
        case ty.Stack(element=element, size=size) if t.is_array:
            return StructValue({str(i): default_value(element, pos) for i in range(size)})
        case ty.Stack(size=size):
            return StackValue(tuple(InvalidValue() for _ in range(size)))
        case ty.Struct() | ty.Tuple():
            return StructValue({n: default_value(c, pos) for n, c in _components(t)})
        case _:
            raise NotSupported.at(pos, f"the default value of {t}")


def retarget(value: Value, t: ty.Type) -> Value:
    """Return `value` of another type with the same shape (tuple to struct and the like)."""
    if isinstance(value, StructValue | HeaderValue) and _components(t):
        items = list(value.fields.values())
        fields = {
            name: retarget(item, component)
            for (name, component), item in zip(_components(t), items, strict=True)
        }
        return HeaderValue(t, fields) if isinstance(t, ty.Header) else StructValue(fields)
    return value


def elements_of(stack: StackPlace | StackValue) -> list[Value]:
    """Return all elements of a stack."""
    if isinstance(stack, StackValue):
        return list(stack.elements)
    return [stack_element(stack, i) for i in range(stack.size)]


def _header_type(value: Value) -> ty.Header | None:
    if isinstance(value, HeaderPlace | HeaderValue | ElementPlace):
        return value.type
    return None


def _not_equal(equal: ir.Expr) -> ir.Expr:
    if isinstance(equal, ir.Binary) and equal.op == "==":
        return fold.binary("!=", equal.left, equal.right, ir.BOOL)
    return fold.negate(equal)


def _element_member(stack: StackPlace, index: ir.Expr, header: ty.Header, name: str) -> Value:
    flat = header_fields(header)

    def place(path: str, t: ty.Type) -> Value:
        scalar = scalar_type(t)
        if scalar is None:
            assert isinstance(t, ty.Struct)
            return StructValue({f.name: place(f"{path}.{f.name}", f.type) for f in t.fields})
        if has_no_bits(scalar):
            return NO_BITS
        position = next(i for i, (n, _) in enumerate(flat) if n == path)
        return ir.ElementField(stack.name, index, position, scalar)

    found = header.field_named(name)
    assert found is not None
    return place(name, found.type)


def _last_member(stack: StackPlace, header: ty.Header, name: str) -> Value:
    def place(path: str, t: ty.Type) -> Value:
        scalar = scalar_type(t)
        if scalar is None:
            assert isinstance(t, ty.Struct)
            return StructValue({f.name: place(f"{path}.{f.name}", f.type) for f in t.fields})
        return NO_BITS if has_no_bits(scalar) else ir.LastField(stack.name, path, scalar)

    found = header.field_named(name)
    assert found is not None
    return place(name, found.type)
