"""Lowering of assignments: scalars, bit slices, structs, headers, stacks and unions."""

from __future__ import annotations

from dataclasses import replace

from compiler.bmv2 import fold, ir
from compiler.bmv2.lower_expr import ExprLowering, elements_of
from compiler.bmv2.lower_frame import Region
from compiler.bmv2.places import (
    NO_BITS,
    ONLY_EXTRACTED,
    SCALARS,
    ElementPlace,
    HeaderPlace,
    HeaderValue,
    InvalidValue,
    LastPlace,
    NextPlace,
    SlicePlace,
    StackPlace,
    StackValue,
    StructValue,
    UnionPlace,
    Unset,
    Value,
    overlap,
    stack_element,
    union_member,
)
from compiler.errors import CompileError, NotSupported, Pos
from compiler.syntax import ast
from compiler.syntax.walk import has_side_effects
from compiler.types import types as ty


class AssignLowering(ExprLowering):
    """Adds `assign` and the header operations to the lowering of expressions."""

    def assign_statement(self, stmt: ast.Assign) -> None:
        """Lower `left = right` and `left op= right`; the target is evaluated first (spec 12.2)."""
        if isinstance(self.type_of(stmt.left), ty.ListType):
            raise CompileError.at(stmt.pos, "a list is what it was declared as: it can't change")
        runs_code = has_side_effects(stmt.right)
        target = self.place(stmt.left, fixed=runs_code or stmt.op is not None)
        if stmt.op is None:
            self.assign(target, self.lower(stmt.right), stmt.pos)
            return
        left = self.read(target)
        if not isinstance(left, SCALARS):
            raise NotSupported.at(stmt.pos, f"{stmt.op.value}= on this type")
        if runs_code:
            left = self.to_temporary(left, stmt.left.pos)
        right = self.scalar(stmt.right)
        self.assign(
            target, self.operator(stmt.op, left, right, self.type_of(stmt.left), stmt.pos), stmt.pos
        )

    def place(self, target: ast.Expr, *, fixed: bool) -> Value:
        """Return the place of an l-value expression. `fixed`: run-time indices are evaluated
        now.
        """
        if not isinstance(target, ast.Slice):
            found = self.lower(target)
            return self.fixed(found, target.pos) if fixed else found
        high, low = self.slice_bounds(target)
        base = self.place(_without_slices(target), fixed=fixed)
        if not isinstance(base, SCALARS):
            raise CompileError.at(target.pos, "a slice of something that is no scalar")
        offset = _slice_offset(self, target.base)
        return SlicePlace(base, high + offset, low + offset)

    def fixed(self, place: Value, pos: Pos) -> Value:
        """Return `place` with its run-time index, if any, in a temporary."""
        match place:
            case ir.ElementField(stack, index, position, t) if not isinstance(index, ir.Const):
                return ir.ElementField(stack, self._fixed_index(index, pos), position, t)
            case ElementPlace(stack_place, index) if not isinstance(index, ir.Const):
                return ElementPlace(stack_place, self._fixed_index(index, pos))
            case _:
                return place

    def _fixed_index(self, index: ir.Expr, pos: Pos) -> ir.Expr:
        saved = self.to_temporary(fold.unbounded_index(index), pos)
        if isinstance(index, ir.Mux) and index.bounds:
            return fold.bounded_index(saved, _number(index.otherwise) + 1)
        return saved

    def read(self, place: Value) -> Value:
        """Return the value at a place."""
        if isinstance(place, SlicePlace):
            return fold.slice_bits(place.base, place.high, place.low)
        return place

    def store(self, target: ast.Expr, value: Value, pos: Pos) -> None:
        """Assign to an l-value expression, which may be a bit slice."""
        self.assign(self.place(target, fixed=False), value, pos)

    def assign(self, target: Value, value: Value, pos: Pos) -> None:
        """Write code that assigns `value` to the place `target`."""
        if target in (value, NO_BITS) or isinstance(target, Unset):
            return
        value = self.read(value)
        match target:
            case SlicePlace(base, high, low):
                if not isinstance(value, SCALARS):
                    raise CompileError.at(pos, "a slice takes a scalar value")
                self.assign(base, fold.insert_bits(base, high, low, value), pos)
            case ir.Field() | ir.ElementField():
                self._assign_scalar(target, value, pos)
            case StructValue(fields) if isinstance(value, StructValue):
                source = self._detached(target, value, pos)
                assert isinstance(source, StructValue)
                for (_, place), item in zip(fields.items(), source.fields.values(), strict=True):
                    self.assign(place, item, pos)
            case HeaderPlace() | LastPlace():
                self._assign_header(target, value, pos)
            case ElementPlace():
                after = self._if_inside(target, pos)
                self._assign_header(target, value, pos)
                self._go_on(after)
            case UnionPlace():
                self._assign_union(target, value, pos)
            case StackPlace():
                self._assign_stack(target, value, pos)
            case NextPlace():
                raise CompileError.at(pos, ONLY_EXTRACTED)
            case _:
                raise NotSupported.at(pos, "assignment to this expression")

    def _assign_scalar(self, target: ir.Field | ir.ElementField, value: Value, pos: Pos) -> None:
        if not isinstance(value, SCALARS):
            raise NotSupported.at(pos, "this value in an assignment")
        if target.type.kind is ir.Kind.VARBIT:
            self.code.emit(ir.Op("assign_VL", (target, value), pos))
            return
        if isinstance(target, ir.ElementField):  # nothing is written outside of the stack
            value = fold.mux(fold.is_inside(target.index), value, _last(target))
        self.code.emit(ir.Op("assign", (target, value), pos))

    def _detached(self, target: Value, value: Value, pos: Pos) -> Value:
        """Return `value`, saved first if assigning `target` part by part would change it."""
        if not overlap(target, value):
            return value
        match value:
            case StructValue(fields):
                return StructValue({n: self._saved(v, pos) for n, v in fields.items()})
            case HeaderValue(t, fields):
                return HeaderValue(t, {n: self._saved(v, pos) for n, v in fields.items()})
            case _:
                return value

    def _saved(self, value: Value, pos: Pos) -> Value:
        match value:
            case ir.Const() | ir.ActionParam() | ir.Text():
                return value
            case StructValue(fields):
                return StructValue({n: self._saved(v, pos) for n, v in fields.items()})
            case HeaderPlace(_, t):
                copy = self.program.layout.local("tmp", t, pos)
                self.assign(copy, value, pos)
                return copy
            case ir.Field(type=ir.ScalarType(kind=ir.Kind.VARBIT)):
                raise NotSupported.at(pos, "a varbit field that overlaps its target")
            case _ if isinstance(value, SCALARS):
                return self.to_temporary(value, pos)
            case _:
                return value

    def _assign_header(
        self, target: HeaderPlace | ElementPlace | LastPlace, value: Value, pos: Pos
    ) -> None:
        match value:
            case ElementPlace(index=index) if fold.is_inside(index) != fold.TRUE:
                self._assign_element(target, value, pos)
            case HeaderPlace() | ElementPlace() | LastPlace():
                args = (header_ref(target, pos), header_ref(value, pos))
                self.code.emit(ir.Op("assign_header", args, pos))
            case InvalidValue():
                self.set_validity(target, False, pos)
            case HeaderValue(t):
                source = self._detached(target, value, pos)
                assert isinstance(source, HeaderValue)
                self.set_validity(target, True, pos)
                for name in (f.name for f in t.fields):
                    self.assign(self.field(target, name, pos), source.fields[name], pos)
            case _:
                raise NotSupported.at(pos, "this value for a header")

    def _assign_element(
        self, target: HeaderPlace | ElementPlace | LastPlace, value: ElementPlace, pos: Pos
    ) -> None:
        """Lower `target = stack[index]`: an invalid header where the index is outside of the
        stack.
        """
        bounded = self.fixed(value, pos)
        assert isinstance(bounded, ElementPlace)
        inside = fold.is_inside(bounded.index)
        if self.in_parser():
            inside = self.to_temporary(inside, pos)
        then, otherwise, after = ir.Block(pos), ir.Block(pos), ir.Block(pos)
        self.code.terminate(ir.Branch(inside, then, otherwise, pos))
        self.code.start(then)
        args = (header_ref(target, pos), header_ref(bounded, pos))
        self.code.emit(ir.Op("assign_header", args, pos))
        self.code.goto(after)
        self.code.start(otherwise)
        self.code.emit(ir.Op("remove_header", (header_ref(target, pos),), pos))
        self._go_on(after)

    def _assign_union(self, target: UnionPlace, value: Value, pos: Pos) -> None:
        match value:
            case UnionPlace(name, _):
                kind = "header_union"
                args = (ir.HeaderRef(kind, target.name), ir.HeaderRef(kind, name))
                self.code.emit(ir.Op("assign_union", args, pos))
            case InvalidValue():
                self.reset(target, pos)
            case _:
                raise NotSupported.at(pos, "this value for a header union")

    def _assign_stack(self, target: StackPlace, value: Value, pos: Pos) -> None:
        if isinstance(value, StackPlace):
            unions = isinstance(target.element, ty.HeaderUnion)
            kind = "header_union_stack" if unions else "header_stack"
            args = (ir.HeaderRef(kind, target.name), ir.HeaderRef(kind, value.name))
            name = "assign_union_stack" if unions else "assign_header_stack"
            self.code.emit(ir.Op(name, args, pos))
        elif isinstance(value, StackValue):
            for i, item in enumerate(value.elements):
                self.assign(stack_element(target, i), item, pos)
        else:
            raise NotSupported.at(pos, "this value for a header stack")

    def _if_inside(self, target: ElementPlace, pos: Pos) -> ir.Block | None:
        """Go on only if a run-time index is inside of its stack; where to go on after that."""
        inside = fold.is_inside(target.index)
        if isinstance(inside, ir.Const):
            return None
        if self.in_parser() and not isinstance(inside, ir.Field):
            inside = self.to_temporary(inside, pos)
        then, after = ir.Block(pos), ir.Block(pos)
        self.code.terminate(ir.Branch(inside, then, after, pos))
        self.code.start(then)
        return after

    def _go_on(self, after: ir.Block | None) -> None:
        if after is not None:
            self.code.goto(after)
            self.code.start(after)

    # ------------------------------------------------------------ header operations

    def set_validity(self, target: Value, valid: bool, pos: Pos) -> None:
        """Lower `setValid` / `setInvalid`; a union member made valid makes its siblings invalid."""
        if isinstance(target, HeaderValue | InvalidValue | Unset):
            raise CompileError.at(pos, "setValid and setInvalid need a header variable")
        if isinstance(target, UnionPlace):
            raise NotSupported.at(pos, "setValid or setInvalid of a header union")
        after = self._if_inside(target, pos) if isinstance(target, ElementPlace) else None
        name = "add_header" if valid else "remove_header"
        self.code.emit(ir.Op(name, (header_ref(target, pos),), pos))
        self._go_on(after)

    def shift_stack(self, stack: Value, count: int, push: bool, pos: Pos) -> None:
        """Lower `push_front` and `pop_front`."""
        if not isinstance(stack, StackPlace):
            raise NotSupported.at(pos, "push_front or pop_front of this expression")
        unions = isinstance(stack.element, ty.HeaderUnion)
        kind = "header_union_stack" if unions else "header_stack"
        amount = ir.Const(count, ir.bit(0))
        self.code.emit(
            ir.Op("push" if push else "pop", (ir.HeaderRef(kind, stack.name), amount), pos)
        )

    def reset(self, place: Value, pos: Pos) -> None:
        """Make every header in `place` invalid: the start value of `out` parameters and locals."""
        match place:
            case HeaderPlace():
                self.set_validity(place, False, pos)
            case UnionPlace(_, t):
                for f in t.fields:
                    self.reset(union_member(place, f.name), pos)
            case StackPlace():
                for element in elements_of(place):
                    self.reset(element, pos)
            case StructValue(fields):
                for field in fields.values():
                    self.reset(field, pos)
            case _:
                pass

    def in_parser(self) -> bool:
        """Return whether the code being written is a parser's."""
        return self.code.region is Region.PARSER


def _last(element: ir.ElementField) -> ir.ElementField:
    """Return the element that a bounded index beyond the stack denotes: the last one."""
    if not isinstance(element.index, ir.Mux) or not element.index.bounds:
        return element
    return replace(element, index=element.index.otherwise)


def _number(e: ir.Expr) -> int:
    assert isinstance(e, ir.Const)
    return e.value


def header_ref(value: Value, pos: Pos) -> ir.HeaderRef:
    """Return the reference to a header for a primitive's argument."""
    match value:
        case HeaderPlace(name, _):
            return ir.HeaderRef("header", name)
        case ElementPlace(stack, index):
            return ir.HeaderRef("header", stack.name, index)
        case LastPlace(stack):
            return ir.HeaderRef("header", stack.name, ir.LastIndex(stack.name))
        case _:
            raise NotSupported.at(pos, "this header expression")


def _without_slices(expr: ast.Expr) -> ast.Expr:
    while isinstance(expr, ast.Slice):
        expr = expr.base
    return expr


def _slice_offset(lowering: ExprLowering, expr: ast.Expr) -> int:
    """Return the position of bit 0 of a (nested) slice in the innermost value."""
    offset = 0
    while isinstance(expr, ast.Slice):
        offset += lowering.slice_bounds(expr)[1]
        expr = expr.base
    return offset
