"""What the warnings on data flow know at a point, and what reading and writing does to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from compiler.errors import Pos, Reporter
from compiler.syntax import ast, walk
from compiler.types import types as ty
from compiler.warnings import storage as warnings_storage
from compiler.warnings.storage import Place, Storage, all_elements, bits_of, headers_of, union


@dataclass(slots=True)
class State:
    """What is known at a point. `unset`: scalars that may have no value yet; `valid`, `invalid`:
    headers surely so; `silenced`: headers that an `isValid()` asked for. `dead`: nothing gets here.
    """

    unset: int = 0
    valid: int = 0
    invalid: int = 0
    silenced: int = 0
    dead: bool = False

    def copy(self) -> State:
        """Copy the state for another branch."""
        return State(self.unset, self.valid, self.invalid, self.silenced, self.dead)

    def join(self, other: State) -> State:
        """Return what is known where two branches meet; the caller sets what was silenced."""
        return State(
            self.unset | other.unset,
            self.valid & other.valid,
            self.invalid & other.invalid,
            0,
            self.dead and other.dead,
        )


class Values(ABC):
    """The state, with the warnings when a value is read."""

    def __init__(self, reporter: Reporter, storage: Storage) -> None:
        self._reporter = reporter
        self._storage = storage
        self._state = State()
        self._quiet = False
        self._seen: set[tuple[Pos, str]] = set()

    @abstractmethod
    def _call(self, call: ast.Call) -> None:
        """Evaluate a call: its arguments, and what it does to what is known."""

    def _warn(self, pos: Pos, text: str, code: str) -> None:
        if not self._quiet and (pos, code) not in self._seen:
            self._seen.add((pos, code))
            self._reporter.warn(pos, text, code)

    def _forget(self, place: Place | None) -> None:
        if place is not None:
            self._state.unset = (self._state.unset | place.bits) & ~place.fixed

    # ------------------------------------------------------------ reading

    def _read(self, expr: ast.Expr, *, whole: bool = True) -> list[Place]:
        """Read an expression; not `whole` if only a part of it is wanted. Returns what is read."""
        match expr:
            case ast.Name():
                place = self._storage.of(expr.decl)
                places = [] if place is None else [place]
            case ast.Member(base=base):
                places = self._read_member(expr, base)
                if expr.kind is not ast.MemberKind.FIELD:
                    return places
            case ast.Index(base=base, index=index):
                if not isinstance(index.const_value, int):
                    self._read(index)
                    places = self._read(base, whole=False)
                else:
                    places = warnings_storage.element(
                        self._read(base, whole=False), index.const_value
                    )
            case ast.Slice(base=base):
                if expr.plus:
                    self._read(expr.lo)
                return self._read(base)
            case ast.Call():
                self._call(expr)
                return []
            case ast.Cast(operand=operand):
                return self._read(operand)
            case _:
                for child in walk.children(expr):
                    self._read(child)
                return []
        if whole:
            self._check_set(expr, places)
        return places

    def _read_member(self, expr: ast.Member, base: ast.Expr) -> list[Place]:
        match expr.kind:
            case ast.MemberKind.FIELD:
                places = self._read(base, whole=False)
                self._check_valid(base)
                return warnings_storage.member(places, expr.member)
            case ast.MemberKind.STACK_NEXT:
                places = self._read(base, whole=False)
                self._warn(expr.pos, "reading an element before it has a value", "uninitialized")
                return places
            case ast.MemberKind.ENUM_MEMBER | ast.MemberKind.ERROR_MEMBER:
                return []
            case ast.MemberKind.STACK_LAST:
                return self._read(base, whole=False)
            case _:
                self._read(base, whole=False)
                return []

    def _write(self, expr: ast.Expr) -> None:
        """Go to what is written: of stacks with an index, and slices, something is read."""
        match expr:
            case ast.Member(base=base):
                if expr.kind in (ast.MemberKind.STACK_NEXT, ast.MemberKind.STACK_LAST):
                    self._read(base, whole=False)
                    return
                self._write(base)
                self._check_valid(base)
            case ast.Index(base=base, index=index):
                if not isinstance(index.const_value, int):
                    self._read(index)
                    self._read(base, whole=False)
            case ast.Slice(base=base):
                if expr.plus:
                    self._read(expr.lo)
                self._read(base)
            case ast.Cast(operand=operand):
                self._write(operand)
            case _:
                pass

    def _check_set(self, expr: ast.Expr, places: Sequence[Place]) -> None:
        if self._state.dead or not self._state.unset & bits_of(places):
            return
        if any(self._is_set_union(place) for place in places):
            return
        self._warn(expr.pos, f"{_text(expr)} may be uninitialized", "uninitialized-use")

    def _is_set_union(self, place: Place) -> bool:
        """Return whether one of a union's headers has a value: then the union has."""
        if isinstance(place.type, ty.HeaderUnion):
            return any(not self._state.unset & each.bits for each in place.parts)
        if isinstance(place.type, ty.Stack) and isinstance(place.type.element, ty.HeaderUnion):
            return all(self._is_set_union(each) for each in place.elements)
        return False

    def _check_valid(self, expr: ast.Expr) -> None:
        if not isinstance(expr.type, ty.Header):
            return
        known = self._known(self._places(expr))
        if known:
            return
        word = "a potentially invalid" if known is None else "an invalid"
        self._warn(expr.pos, f"accessing a field of {word} header {_text(expr)}", "invalid-header")

    # ------------------------------------------------------------ places

    def _places(self, expr: ast.Expr) -> list[Place]:
        """Return the places of a header: all elements of a stack whose index is not known."""
        match expr:
            case ast.Name():
                place = self._storage.of(expr.decl)
                return [] if place is None else [place]
            case ast.Member(base=base):
                places = self._places(base)
                if isinstance(base.type, ty.Stack):
                    return all_elements(places)
                return warnings_storage.member(places, expr.member)
            case ast.Index(base=base, index=index):
                places = self._places(base)
                if isinstance(index.const_value, int):
                    return warnings_storage.element(places, index.const_value)
                return all_elements(places)
            case ast.Cast(operand=operand):
                return self._places(operand)
            case _:
                return []

    def _written(self, expr: ast.Expr) -> list[Place]:
        """Return the places to which an assignment to `expr` gives a value."""
        if isinstance(expr, ast.Slice):
            return self._written(expr.base)
        return self._places(expr)

    # ------------------------------------------------------------ validity of headers

    def _set_headers(self, headers: int, *, valid: bool | None) -> None:
        """Set some headers to valid, invalid, or (None) unknown."""
        state = self._state
        state.silenced &= ~headers
        state.valid = state.valid | headers if valid else state.valid & ~headers
        state.invalid = state.invalid | headers if valid is False else state.invalid & ~headers

    def _set_validity(self, expr: ast.Expr, *, valid: bool | None) -> None:
        """Set the header or union that `expr` is."""
        places = self._places(expr)
        if valid is not True and _is_unknown_element(expr):
            return
        base = expr.base if isinstance(expr, ast.Member) else None
        if base is not None and isinstance(base.type, ty.HeaderUnion):
            if _is_unknown_element(base):
                if valid is not True:
                    return
            else:
                unions = self._places(base)
                self._set_headers(headers_of(unions), valid=False)
                self._set_headers(union(place.header for place in unions), valid=valid)
        self._set_headers(union(place.header for place in places), valid=valid)

    def _known(self, places: Sequence[Place]) -> bool | None:
        """Return the validity of a header that is one of `places`; valid if none is known."""
        headers = [place.header for place in places]
        valid = self._state.valid | self._state.silenced
        if not headers or any(each & valid for each in headers):
            return True
        return False if all(each & self._state.invalid for each in headers) else None

    def _copy_validity(self, left: ast.Expr, right: ast.Expr) -> None:
        if isinstance(left.type, ty.Header):
            self._set_validity(left, valid=self._validity(right))
            return
        for place in self._places(left):
            self._validity_from(place, right)

    def _validity(self, expr: ast.Expr) -> bool | None:
        if isinstance(expr, ast.InvalidExpr):
            return False
        if isinstance(expr, ast.Call | ast.ListExpr | ast.StructExpr | ast.DefaultExpr):
            return True
        return self._known(self._places(expr))

    def _validity_from(self, place: Place, expr: ast.Expr) -> None:
        """Copy what is known of the headers in a value to those of `place`."""
        if not place.headers:
            return
        match expr:
            case ast.InvalidExpr():
                self._set_headers(place.headers, valid=False)
            case ast.StructExpr(fields=fields) if isinstance(place.type, ty.Struct):
                for named in fields:
                    if named.name in place.fields:
                        self._validity_from(place.fields[named.name], named.value)
            case ast.ListExpr(elements=elements) if not place.header:
                for part, each in zip(place.parts, elements, strict=False):
                    self._validity_from(part, each)
            case ast.Call() | ast.StructExpr() | ast.ListExpr() | ast.DefaultExpr():
                self._set_headers(place.headers, valid=True)
            case ast.Ternary():
                self._set_headers(place.headers, valid=None)
            case _:
                self._validity_of_places(place, self._places(expr))

    def _validity_of_places(self, to: Place, places: Sequence[Place]) -> None:
        if isinstance(to.type, ty.Header):
            self._set_headers(to.header, valid=self._known(places))
            return
        if to.header:
            self._set_headers(to.header, valid=True)
        for number, part in enumerate(to.parts):
            same = [place.parts[number] for place in places if number < len(place.parts)]
            self._validity_of_places(part, same)

    def _copy_all(self, to: Place, places: Sequence[Place]) -> None:
        """Copy all that is known of a value to a place of the same type, scalar by scalar."""
        if len(places) != 1 or places[0].type != to.type:
            return
        source, state = places[0], self._state
        state.unset = (state.unset & ~to.bits) | _moved(state.unset, source.bits, to.bits)
        state.valid = (state.valid & ~to.headers) | _moved(state.valid, source.headers, to.headers)
        state.invalid = (state.invalid & ~to.headers) | _moved(
            state.invalid, source.headers, to.headers
        )


def _is_unknown_element(expr: ast.Expr) -> bool:
    if isinstance(expr, ast.Index):
        return not isinstance(expr.index.const_value, int)
    return isinstance(expr, ast.Member) and isinstance(expr.base.type, ty.Stack)


def _moved(bits: int, source: int, to: int) -> int:
    """Move the bits of one place to those of another one of the same type."""
    if not source or not to:
        return 0
    shift = to.bit_length() - source.bit_length()
    return (bits & source) << shift if shift >= 0 else (bits & source) >> -shift


def _text(expr: ast.Expr) -> str:
    """Format an l-value as the user would write it."""
    match expr:
        case ast.Name(name=name):
            return name
        case ast.Member(base=base, member=name):
            return f"{_text(base)}.{name}"
        case ast.Index(base=base, index=index):
            return f"{_text(base)}[{_text(index)}]"
        case ast.IntLiteral(text=text):
            return text
        case ast.Slice(base=base):
            return _text(base)
        case ast.Cast(operand=operand):
            return _text(operand)
        case _:
            return "..."
