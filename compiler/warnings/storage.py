"""Where values live, as sets of bits: what the warnings on data flow compute with.

Each variable and parameter gets a run of bits, one for each scalar in it and for each header's
validity, and a run of header bits, one for each header and header union in it. A `Place` is a part
of such a variable. A set of uninitialised scalars is then an int, as is a set of valid headers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from compiler.syntax import ast
from compiler.syntax.walk import below
from compiler.types import types as ty

Body: TypeAlias = ast.ControlDecl | ast.ParserDecl | ast.FunctionDecl | ast.ActionDecl
"""What declares variables."""


@dataclass(eq=False, slots=True)
class Place:
    """A variable or a part of one.

    `bits` are its scalars, `fixed` those of them that say which headers are valid or where a
    stack ends: they have a value from the start. `plain` are the scalars outside of headers
    (an empty struct has a bit, which is not plain).
    `header` is the header bit of a header or union itself (else 0), `headers` all inside.
    """

    type: ty.Type
    bits: int = 0
    fixed: int = 0
    plain: int = 0
    header: int = 0
    headers: int = 0
    fields: dict[str, Place] = field(default_factory=dict)
    elements: list[Place] = field(default_factory=list)

    @property
    def parts(self) -> Sequence[Place]:
        """Fields or elements."""
        return self.elements or list(self.fields.values())


class Storage:
    """The places of declarations, made when first asked for."""

    def __init__(self) -> None:
        self._places: dict[ast.Node, Place | None] = {}
        self._variables: dict[ast.Node, list[ast.VarDecl]] = {}
        self._next_bit = 0
        self._next_header = 0

    def of(self, decl: ast.Node | None) -> Place | None:
        """Return the place of a variable or parameter; None if it holds no value that changes."""
        if not isinstance(decl, ast.VarDecl | ast.Parameter) or decl.type is None:
            return None
        if decl not in self._places:
            self._places[decl] = self._make(decl.type)
        return self._places[decl]

    def variables(self, decl: Body) -> list[ast.VarDecl]:
        """Return the variables that `decl` declares; of a control, without those of its actions."""
        if decl not in self._variables:
            match decl:
                case ast.ParserDecl(locals=own, states=states):
                    nodes = below([*own, *states])
                case ast.ControlDecl(locals=own, body=body):
                    nodes = below([*(d for d in own if isinstance(d, ast.VarDecl)), body])
                case _:
                    nodes = below(decl.body)
            self._variables[decl] = [node for node in nodes if isinstance(node, ast.VarDecl)]
        return self._variables[decl]

    def _bit(self) -> int:
        self._next_bit += 1
        return 1 << (self._next_bit - 1)

    def _header_bit(self) -> int:
        self._next_header += 1
        return 1 << (self._next_header - 1)

    def _make(self, of: ty.Type) -> Place | None:
        match of:
            case ty.Struct(fields=()):
                return Place(of, bits=self._bit())
            case ty.StructLike():
                return self._of_fields(of)
            case ty.Stack():
                place = Place(of)
                place.elements = [p for _ in range(of.size) if (p := self._make(of.element))]
                self._sum(place)
                last = self._bit()
                place.bits |= last
                place.fixed |= last
                return place
            case ty.Tuple() if of.elements:
                place = Place(of)
                place.elements = [self._make(each) or Place(each, bits=0) for each in of.elements]
                self._sum(place)
                return place
            case ty.Behaviour() | ty.Void() | ty.TypeVar() | ty.Function() | ty.Table():
                return None
            case _:
                bit = self._bit()
                return Place(of, bits=bit, plain=bit)

    def _of_fields(self, of: ty.StructLike) -> Place:
        place = Place(of)
        for each in of.fields:
            inner = self._make(each.type)
            if inner is not None:
                place.fields[each.name] = inner
        self._sum(place)
        if isinstance(of, ty.Header):
            valid = self._bit()
            place.bits |= valid
            place.fixed |= valid
        if not isinstance(of, ty.Struct):
            place.header = self._header_bit()
            place.headers |= place.header
            place.plain = 0
        return place

    @staticmethod
    def _sum(place: Place) -> None:
        for part in place.parts:
            place.bits |= part.bits
            place.fixed |= part.fixed
            place.plain |= part.plain
            place.headers |= part.headers


def union(sets: Iterable[int]) -> int:
    """Return all that is in any of some sets of bits."""
    total = 0
    for each in sets:
        total |= each
    return total


def bits_of(places: Iterable[Place]) -> int:
    """Return all scalars of some places."""
    return union(place.bits for place in places)


def headers_of(places: Iterable[Place]) -> int:
    """Return all headers in some places."""
    return union(place.headers for place in places)


def member(places: Iterable[Place], name: str) -> list[Place]:
    """Return the field of this name of each place; of a stack, of each of its elements."""
    found = []
    for place in places:
        if isinstance(place.type, ty.Stack):
            found += member(place.elements, name)
        elif name in place.fields:
            found.append(place.fields[name])
    return found


def element(places: Iterable[Place], index: int) -> list[Place]:
    """Return the element of each stack or tuple; those that are too short are left out."""
    return [p.elements[index] for p in places if 0 <= index < len(p.elements)]


def all_elements(places: Iterable[Place]) -> list[Place]:
    """Return all elements of each."""
    return [each for place in places for each in place.elements]
