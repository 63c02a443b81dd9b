"""Built-in methods of headers and stacks, and the extra rules of core.p4's externs."""

from __future__ import annotations

from typing import NoReturn

from compiler.errors import Pos
from compiler.syntax import ast
from compiler.syntax.ast import CallKind
from compiler.types import types as ty
from compiler.types.checker_convert import type_of
from compiler.types.checker_expr import ExpressionChecker
from compiler.types.scope import suggestion

_HEADER_METHODS = {
    "isValid": CallKind.IS_VALID,
    "setValid": CallKind.SET_VALID,
    "setInvalid": CallKind.SET_INVALID,
}
_STACK_METHODS = {"push_front": CallKind.PUSH_FRONT, "pop_front": CallKind.POP_FRONT}

_PACKET_METHODS = {
    ("packet_in", "extract"): CallKind.PACKET_EXTRACT,
    ("packet_in", "lookahead"): CallKind.PACKET_LOOKAHEAD,
    ("packet_in", "advance"): CallKind.PACKET_ADVANCE,
    ("packet_in", "length"): CallKind.PACKET_LENGTH,
    ("packet_out", "emit"): CallKind.PACKET_EMIT,
}


class BuiltinChecker(ExpressionChecker):
    """Calls that the language itself defines."""

    def _no_arguments(self, call: ast.Call, name: str) -> None:
        if call.args:
            self._fail(call.pos, f"{name} takes no arguments")
        if call.type_args:
            self._fail(call.pos, f"{name} takes no type arguments")

    # ------------------------------------------------------------ headers and stacks

    def header_method(
        self, call: ast.Call, callee: ast.Member, given: ty.Header | ty.HeaderUnion
    ) -> None:
        """Check `isValid`, `setValid`, `setInvalid`."""
        kind = _HEADER_METHODS.get(callee.member)
        if kind is None or (isinstance(given, ty.HeaderUnion) and kind is not CallKind.IS_VALID):
            self._no_method(callee, given, list(_HEADER_METHODS))
        self._no_arguments(call, callee.member)
        if kind is not CallKind.IS_VALID:
            self.require_lvalue(callee.base, "can't change the validity of")
        call.kind = kind
        call.type = ty.BOOL if kind is CallKind.IS_VALID else ty.VOID

    def stack_method(self, call: ast.Call, callee: ast.Member, given: ty.Stack) -> None:
        """Check `push_front(n)`, `pop_front(n)`."""
        kind = _STACK_METHODS.get(callee.member)
        if given.is_array:
            self._no_method(callee, given, [])
        if kind is None:
            self._no_method(callee, given, list(_STACK_METHODS))
        if len(call.args) != 1:
            self._fail(call.pos, f"{callee.member} takes 1 argument, not {len(call.args)}")
        argument = call.args[0]
        argument.value, count = self.check_constant_int(
            argument.value, f"argument of {callee.member}"
        )
        if count <= 0:
            self._fail(argument.pos, f"the argument of {callee.member} must be positive")
        self.require_lvalue(callee.base, "can't change")
        call.kind, call.type = kind, ty.VOID

    def size_method(self, call: ast.Call, callee: ast.Member, given: ty.Type) -> None:
        """Check `minSizeInBits()` and its three sisters (spec section 9.1.1): constants."""
        self._no_arguments(call, callee.member)
        measured = given.type if isinstance(given, ty.TypeName) else given
        largest = callee.member.startswith("max")
        bits = size_in_bits(measured, largest=largest)
        if bits is None:
            self._fail(callee.member_pos, f"{measured} has no size")
        call.kind, call.type = CallKind.SIZE_IN_BITS, ty.INFINT
        call.const_value = bits if callee.member.endswith("Bits") else (bits + 7) // 8

    def _no_method(self, callee: ast.Member, given: ty.Type, names: list[str]) -> NoReturn:
        hint = suggestion(callee.member, names)
        if isinstance(given, ty.StructLike) and given.field_named(callee.member) is not None:
            hint = "; it is a field: leave out the ()"
        self._fail(callee.member_pos, f'{given} has no method "{callee.member}"{hint}')

    # ------------------------------------------------------------ packets

    def check_extern_method(self, call: ast.Call, callee: ast.Member, given: ty.Extern) -> None:
        """Check the rules that core.p4's packet methods have beyond their types."""
        kind = _PACKET_METHODS.get((given.name, callee.member))
        if kind is None:
            return
        call.kind = kind
        match kind:
            case CallKind.PACKET_EXTRACT:
                self._check_extract(call)
            case CallKind.PACKET_LOOKAHEAD:
                self._check_lookahead(call)
            case CallKind.PACKET_EMIT:
                self._check_emit(call)

    def _check_extract(self, call: ast.Call) -> None:
        target = call.binding[0]
        pos = target.arg.pos if target.arg is not None else call.pos
        extracted = target.param.type
        if not isinstance(extracted, ty.Header):
            if isinstance(target.arg, ast.Wildcard):
                return
            self._fail(pos, f"extract fills a header, not {extracted}")
        variable = [f for f in extracted.fields if isinstance(f.type, ty.Varbit)]
        if len(variable) > 1:
            first = variable[0].decl
            self._fail(
                pos if first is None else first.pos,
                f"header {extracted} has more than one varbit field: it can't be extracted",
                ((pos, "extracted here"),),
            )
        if len(call.binding) == 1 and variable:
            self._fail(
                pos,
                f'header {extracted} has the varbit field "{variable[0].name}": extract needs '
                "its size in bits as second argument",
            )
        if len(call.binding) == 2 and len(variable) != 1:
            self._fail(
                pos,
                f"extract with a size needs a header with one varbit field; "
                f"{extracted} has {len(variable)}",
            )

    def _check_lookahead(self, call: ast.Call) -> None:
        read = type_of(call)
        if isinstance(read, ty.TypeVar):
            return
        if isinstance(read, ty.Varbit) or size_in_bits(read, largest=True) is None:
            self._fail(call.pos, f"lookahead can't read {read}")
        if size_in_bits(read, largest=True) != size_in_bits(read, largest=False):
            self._fail(call.pos, f"lookahead reads types of fixed size, not {read}")

    def _check_emit(self, call: ast.Call) -> None:
        emitted = call.binding[0].param.type
        if not _emittable(emitted):
            pos = call.binding[0].arg.pos if call.binding[0].arg is not None else call.pos
            self._fail(pos, f"emit writes headers, stacks, unions and structs of them, "
                       f"not {emitted}")  # fmt: skip

    def check_extern_function(self, call: ast.Call, decl: ast.MethodDecl) -> None:
        """Check the rules of core.p4's functions, and warn of deprecated ones."""
        self.warn_deprecated(decl, call.pos)
        if decl.name == "verify" and len(decl.params) == 2:
            call.kind = CallKind.VERIFY
            if self._context.kind != "parser":
                self._fail(call.pos, "verify can only be called in a parser")
        elif decl.name == "static_assert":
            self._static_assert(call)

    def warn_deprecated(self, decl: ast.Decl, pos: Pos) -> None:
        """Say so where a `@deprecated` function or extern is used."""
        deprecated = decl.annotation("deprecated")
        if deprecated is not None:
            text = " ".join(str(value) for value in deprecated.values)
            self.reporter.warn(pos, f'"{decl.name}" is deprecated: {text}', "deprecated")

    def _static_assert(self, call: ast.Call) -> None:
        call.kind = CallKind.STATIC_ASSERT
        condition = call.binding[0].arg
        value = None if condition is None else condition.const_value
        if not isinstance(value, bool):
            self._fail(call.pos, "static_assert needs a condition known while compiling")
        if not value:
            message = call.binding[1].arg if len(call.binding) > 1 else None
            text = f": {message.const_value}" if message is not None else ""
            self._fail(call.pos, f"static_assert failed{text}")
        call.const_value = True


def _emittable(t: ty.Type) -> bool:
    match t:
        case ty.Header() | ty.HeaderUnion() | ty.TypeVar():
            return True
        case ty.Stack():
            return not t.is_array
        case ty.Struct():
            return all(_emittable(f.type) for f in t.fields)
        case ty.Tuple():
            return all(_emittable(e) for e in t.elements)
        case _:
            return False


def size_in_bits(t: ty.Type, *, largest: bool) -> int | None:
    """Return the smallest or largest number of bits of a value of `t` in a packet.

    None if it has none.
    """
    t = ty.underlying(t)
    match t:
        case ty.Varbit():
            return t.width if largest else 0
        case ty.HeaderUnion():
            sizes = _sizes([f.type for f in t.fields], largest=largest)
            if sizes is None:
                return None
            return max(sizes, default=0) if largest else min(sizes, default=0)
        case ty.StructLike():
            sizes = _sizes([f.type for f in t.fields], largest=largest)
            return None if sizes is None else sum(sizes)
        case ty.Tuple():
            sizes = _sizes(list(t.elements), largest=largest)
            return None if sizes is None else sum(sizes)
        case ty.Stack():
            each = size_in_bits(t.element, largest=largest)
            return None if each is None else each * t.size
        case ty.Bit() | ty.Int() | ty.Bool():
            return ty.width_of(t)
        case _:
            return None


def _sizes(types: list[ty.Type], *, largest: bool) -> list[int] | None:
    found: list[int] = []
    for each in types:
        size = size_in_bits(each, largest=largest)
        if size is None:
            return None
        found.append(size)
    return found
