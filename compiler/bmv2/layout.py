"""BMv2's header types and instances: the program's headers, its metadata, locals, temporaries.

Scalars (user metadata and locals) are fields of one metadata instance, `scalars`; headers,
stacks and unions are instances of their own; `standard_metadata` has the architecture's fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler.bmv2 import ir
from compiler.bmv2.places import (
    NO_BITS,
    HeaderPlace,
    StackPlace,
    StructValue,
    UnionPlace,
    Value,
    has_no_bits,
    header_fields,
    scalar_type,
    stack_element,
    union_member,
)
from compiler.errors import CompileError, NotSupported, Pos
from compiler.passes.elaborate import local_name
from compiler.types import types as ty

STANDARD_METADATA = "standard_metadata"


@dataclass
class HeaderType:
    """A BMv2 header type; `max_length` in bytes if it has a varbit field."""

    name: str
    fields: list[tuple[str, ir.ScalarType]]
    max_length: int | None = None


@dataclass(frozen=True)
class HeaderInstance:
    name: str
    type_name: str
    metadata: bool


@dataclass(frozen=True)
class StackInstance:
    """A stack of headers, or of unions."""

    name: str
    type_name: str
    size: int
    of_unions: bool


@dataclass(frozen=True)
class UnionInstance:
    """A union with the names of its member headers."""

    name: str
    type_name: str
    members: tuple[str, ...]


@dataclass
class Layout:
    """All header types and instances of one program, in the order in which they are written."""

    scalars_name: str = "scalars"
    scalars: HeaderType = field(default_factory=lambda: HeaderType("scalars_0", []))
    types: dict[str, HeaderType] = field(default_factory=dict)
    headers: list[HeaderInstance] = field(default_factory=list)
    stacks: list[StackInstance] = field(default_factory=list)
    union_types: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    unions: list[UnionInstance] = field(default_factory=list)
    _used: set[str] = field(default_factory=lambda: {"scalars"})
    _scalar_names: set[str] = field(default_factory=set)
    _varbit_types: set[str] = field(default_factory=set)

    # ------------------------------------------------------------ scalars

    def scalar(self, hint: str, t: ir.ScalarType) -> ir.Field:
        """Add a scalar named after `hint`."""
        if t.width == 0:
            raise AssertionError("a scalar without bits")
        name = unique(hint, self._scalar_names)
        self.scalars.fields.append((name, t))
        return ir.Field(self.scalars_name, name, t)

    def empty_scalar(self, hint: str) -> ir.Field:
        """Add a scalar of `bit<0>` for a table to match on; it is never read or written."""
        name = unique(hint, self._scalar_names)
        self.scalars.fields.append((name, NO_BITS.type))
        return ir.Field(self.scalars_name, name, NO_BITS.type)

    def metadata(self, struct: ty.Struct, prefix: str, pos: Pos) -> StructValue:
        """Add the user metadata and return its places: its scalars are `prefix.field`."""
        value = self._place(struct, prefix, pos, exact=True)
        assert isinstance(value, StructValue)
        return value

    def local(self, hint: str, t: ty.Type, pos: Pos) -> Value:
        """Add a local variable or temporary of any type that a variable may have; return its
        place.
        """
        return self._place(t, hint, pos, exact=False)

    def _place(self, t: ty.Type, name: str, pos: Pos, *, exact: bool) -> Value:
        scalar = scalar_type(t)
        if scalar is not None and scalar.kind is ir.Kind.VARBIT:
            return self._varbit(name, scalar)
        if scalar is not None and has_no_bits(scalar):
            return NO_BITS
        if scalar is not None and scalar.kind is not ir.Kind.STRING and scalar.width > 0:
            if exact and name not in self._scalar_names:
                self._scalar_names.add(name)
                self.scalars.fields.append((name, scalar))
                return ir.Field(self.scalars_name, name, scalar)
            return self.scalar(f"{name}_0", scalar)
        match t:
            case ty.Struct(fields=fields):
                return StructValue(
                    {
                        f.name: self._place(f.type, f"{name}.{f.name}", pos, exact=exact)
                        for f in fields
                    }
                )
            case ty.Tuple(elements=elements):
                return StructValue(
                    {
                        str(i): self._place(e, f"{name}.{i}", pos, exact=exact)
                        for i, e in enumerate(elements)
                    }
                )
            case ty.Stack(element=element, size=size) if t.is_array:
                return StructValue(
                    {
                        str(i): self._place(element, f"{name}.{i}", pos, exact=exact)
                        for i in range(size)
                    }
                )
            case ty.Header() | ty.Stack() | ty.HeaderUnion():
                return self.instance(unique(name, self._used), t, pos)
            case _:
                raise NotSupported.at(pos, f"a variable of type {t}")

    def _varbit(self, name: str, scalar: ir.ScalarType) -> ir.Field:
        type_name = f"$varbit{scalar.width}"
        if type_name not in self.types:
            self.types[type_name] = HeaderType(
                type_name, [("field", scalar)], (scalar.width + 7) // 8
            )
        instance = unique(name, self._used)
        self.headers.append(HeaderInstance(instance, type_name, True))
        return ir.Field(instance, "field", scalar)

    # ------------------------------------------------------------ headers

    def standard_metadata(self, struct: ty.Struct) -> StructValue:
        """Add the architecture's metadata, under BMv2's name, padded to whole bytes."""
        places: dict[str, Value] = {}
        fields: list[tuple[str, ir.ScalarType]] = []
        for f in struct.fields:
            scalar = scalar_type(f.type)
            assert scalar is not None
            fields.append((f.name, scalar))
            places[f.name] = ir.Field(STANDARD_METADATA, f.name, scalar)
        pad = -sum(t.width for _, t in fields) % 8
        if pad:
            fields.append(("_padding", ir.bit(pad)))
        self.types[STANDARD_METADATA] = HeaderType(STANDARD_METADATA, fields)
        self._used.add(STANDARD_METADATA)
        return StructValue(places)

    def program_headers(self, struct: ty.Struct, pos: Pos) -> StructValue:
        """Add the struct of headers that parser and deparser share; return its places.

        Headers and unions come first, then stacks, each under its field's name.
        """
        places: dict[str, Value] = {}
        self._headers_of(struct, "", pos, places, stacks=False)
        self._headers_of(struct, "", pos, places, stacks=True)
        return _nest(struct, places, "")

    def _headers_of(
        self, struct: ty.Struct, prefix: str, pos: Pos, places: dict[str, Value], *, stacks: bool
    ) -> None:
        for f in struct.fields:
            name = prefix + f.name
            at = f.decl.pos if f.decl is not None else pos
            if isinstance(f.type, ty.Struct):
                self._headers_of(f.type, f"{name}.", pos, places, stacks=stacks)
            elif isinstance(f.type, ty.Stack) == stacks:
                array = isinstance(f.type, ty.Stack) and f.type.is_array
                if array or not isinstance(f.type, ty.Header | ty.HeaderUnion | ty.Stack):
                    raise CompileError.at(
                        at,
                        f"{f.name}: the struct of headers may hold only headers, header stacks, "
                        f"header unions and structs of them, not {f.type}",
                    )
                places[name] = self.instance(unique(name, self._used), f.type, at)

    def instance(
        self, name: str, t: ty.Header | ty.Stack | ty.HeaderUnion, pos: Pos
    ) -> HeaderPlace | StackPlace | UnionPlace:
        """Create the instances for a header, union or stack called `name` (already unique)."""
        if isinstance(t, ty.Header):
            self.headers.append(HeaderInstance(name, self.header_type(t, pos), False))
            return HeaderPlace(name, t)
        if isinstance(t, ty.HeaderUnion):
            return self._union(name, t, pos)
        assert isinstance(t.element, ty.Header | ty.HeaderUnion)
        stack = StackPlace(name, t.element, t.size)
        for i in range(t.size):
            self.instance(stack_element(stack, i).name, t.element, pos)
        self.stacks.append(
            StackInstance(name, type_name(t.element), t.size, isinstance(t.element, ty.HeaderUnion))
        )
        return stack

    def _union(self, name: str, t: ty.HeaderUnion, pos: Pos) -> UnionPlace:
        place = UnionPlace(name, t)
        members: list[tuple[str, str]] = []
        for f in t.fields:
            member = union_member(place, f.name)
            members.append((f.name, self.header_type(member.type, pos)))
            self.headers.append(HeaderInstance(member.name, members[-1][1], False))
        union_name = type_name(t)
        self.union_types.setdefault(union_name, members)
        self.unions.append(
            UnionInstance(name, union_name, tuple(f"{name}.{m}" for m, _ in members))
        )
        return place

    def header_type(self, t: ty.Header, pos: Pos) -> str:
        """Name of the BMv2 header type for `t`, made on first use.

        Raises `CompileError` for headers that BMv2 can't hold (not whole bytes, two varbits).
        """
        name = type_name(t)
        if name in (self.scalars.name, STANDARD_METADATA):
            name += "_t"  # those two are BMv2's own
        if name in self.types:
            return name
        at = t.decl.pos if t.decl is not None else pos
        fields = header_fields(t)
        varbits = [f for f in fields if f[1].kind is ir.Kind.VARBIT]
        if len(varbits) > 1:
            raise CompileError.at(at, f"header {t} has more than one varbit field")
        total = sum(f[1].width for f in fields)
        if total % 8:
            raise CompileError.at(
                at, f"header {t} has {total} bits: BMv2 takes only headers of whole bytes"
            )
        self.types[name] = HeaderType(name, fields, total // 8 if varbits else None)
        return name


def type_name(t: ty.Header | ty.HeaderUnion) -> str:
    """Return the control-plane name of a header or union type."""
    if t.decl is not None and not t.args:
        return local_name(t.decl).removeprefix(".")
    return str(t)


def unique(hint: str, used: set[str]) -> str:
    """Return `hint`, or `hint_0`, `hint_1`, ... (`x_0` counts on as `x_1`); the result is taken."""
    name = hint
    base, number = hint, 0
    if hint.endswith("_0"):
        base, number = hint[:-2], 1
    while name in used:
        name = f"{base}_{number}"
        number += 1
    used.add(name)
    return name


def _nest(struct: ty.Struct, places: dict[str, Value], prefix: str) -> StructValue:
    fields: dict[str, Value] = {}
    for f in struct.fields:
        if isinstance(f.type, ty.Struct):
            fields[f.name] = _nest(f.type, places, f"{prefix}{f.name}.")
        else:
            fields[f.name] = places[prefix + f.name]
    return StructValue(fields)
