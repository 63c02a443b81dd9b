"""The lvalues that expressions name: headers, unions, fields, action data."""

from __future__ import annotations

from abc import abstractmethod

from softswitch.codegen.expressions import (
    Const,
    Expr,
    FieldRef,
    HeaderField,
    HeaderRef,
    LastField,
    LastUnionField,
    StackElement,
    UnionMember,
    UnionRef,
    UnionStackElement,
)
from softswitch.codegen.json_reader import JsonError
from softswitch.codegen.layout import Layout, Place, limbs
from softswitch.codegen.model import HeaderType, Param


class PlaceGen:
    """Names places in C.

    `params` are the action's parameters (their limbs are at `args`); `length_type` is set where
    locals mean the fields of the header at `h` instead; `where` goes into error messages.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.program = layout.program
        self.params: tuple[Param, ...] = ()
        self.length_type: HeaderType | None = None
        self.where = ""

    @abstractmethod
    def index(self, expr: Expr) -> str:
        """Return an expression as a non-negative 64-bit number."""

    def error(self, problem: str) -> JsonError:
        """Return the error that reports `problem` at the current place."""
        return JsonError(self.where or "document", problem)

    # --- places -----------------------------------------------------------------------------

    def header_type(self, expr: Expr) -> HeaderType:
        """Return the type of the header that an expression yields."""
        match expr:
            case HeaderRef(name):
                return self.program.headers[name].type
            case StackElement(stack, _):
                return self.program.stacks[stack].type
            case UnionMember(union, member):
                return self._union_members(union)[member][1]
            case _:
                raise self.error("expected a header")

    def _union_members(self, expr: Expr) -> tuple[tuple[str, HeaderType], ...]:
        return self.program_union_type(expr)[1]

    def program_union_type(self, expr: Expr) -> tuple[str, tuple[tuple[str, HeaderType], ...]]:
        """Return the name and members of the type of the union that an expression yields."""
        match expr:
            case UnionRef(name):
                of = self.program.unions[name].type
            case UnionStackElement(stack, _):
                of = self.program.union_stacks[stack].type
            case _:
                raise self.error("expected a header union")
        return of.name, of.members

    def _index(self, stack: str, index: Expr) -> str:
        size = self.layout.stack_size(stack)
        if isinstance(index, Const):
            return str(index.value if 0 <= index.value < size else size)
        return f"wpx_at({self.index(index)}, {size})"

    def header(self, expr: Expr) -> str:
        """Return the lvalue of the header that an expression yields."""
        match expr:
            case HeaderRef(name):
                return self.layout.header(name)
            case StackElement(stack, index):
                return f"{self.layout.stack(stack)}[{self._index(stack, index)}]"
            case UnionMember(union, member):
                name = self.program_union_type(union)[0]
                return f"{self.union(union)}.{self.layout.union_member(name, member)}"
            case _:
                raise self.error("expected a header")

    def union(self, expr: Expr) -> str:
        """Return the lvalue of the union that an expression yields."""
        match expr:
            case UnionRef(name):
                return self.layout.union(name)
            case UnionStackElement(stack, index):
                return f"{self.layout.stack(stack)}[{self._index(stack, index)}]"
            case _:
                raise self.error("expected a header union")

    def last(self, stack: str) -> str:
        """Return the lvalue of the last element in use; the spare element of an empty stack."""
        size, following = self.layout.stack_size(stack), self.layout.stack_next(stack)
        return f"{self.layout.stack(stack)}[wpx_at((uint64_t){following} - 1, {size})]"

    def valid(self, expr: Expr) -> str:
        """Return the condition that the header that an expression yields is valid."""
        if isinstance(expr, HeaderRef):
            return self.layout.valid(expr.name)
        return f"{self.header(expr)}.valid"

    def place(self, expr: Expr) -> Place:
        """Return the field that an expression names."""
        match expr:
            case FieldRef(header, field):
                return self.layout.field(header, field)
            case LastField(stack, field):
                of = self.program.stacks[stack].type
                found = of.field(field)
                assert found is not None
                return self.layout.type_field(of, found, self.last(stack))
            case LastUnionField(stack, member, field):
                union_type = self.program.union_stacks[stack].type
                of = union_type.members[member][1]
                found = of.field(field)
                assert found is not None
                name = self.layout.union_member(union_type.name, member)
                return self.layout.type_field(of, found, f"{self.last(stack)}.{name}")
            case HeaderField(HeaderRef(name), index):
                return self.layout.field(name, self.program.headers[name].type.fields[index].name)
            case HeaderField(header, index):
                of = self.header_type(header)
                return self.layout.type_field(of, of.fields[index], self.header(header))
            case _:
                raise self.error("expected a field")

    def local(self, index: int) -> Place:
        """Return a parameter of the action, or in `length_exp` a field of the header."""
        if self.length_type is not None:
            return self.layout.type_field(self.length_type, self.length_type.fields[index], "h[0]")
        offset = sum(limbs(param.bits) for param in self.params[:index])
        bits = self.params[index].bits
        return Place(f"args[{offset}]" if bits <= 64 else f"(args + {offset})", bits)
