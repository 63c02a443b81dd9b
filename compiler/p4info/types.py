"""P4 types in P4Info: type specs, named types, annotations, documentation.

P4Runtime specification 1.4, chapters 6.4 (annotations, docs) and 8 (P4 data types).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from finsy.proto import p4t

from compiler.errors import CompileError, NotSupported, Pos
from compiler.passes.control_names import translation
from compiler.passes.elaborate import local_name
from compiler.syntax import ast
from compiler.types import types as ty

# Annotations whose body p4c parses into expressions, which it then prints with ", " between.
_PARSED = frozenset(
    {"noWarn", "deprecated", "field_list", "controller_header", "match", "priority", "pkginfo",
     "platform_property", "synchronous", "max_group_size"}
)  # fmt: skip
_ELSEWHERE = frozenset({"name", "id", "brief", "description"})


def add_annotations(
    message: Any, annotations: list[ast.Annotation], skip: Collection[str] = ()
) -> None:
    """Copy annotations into a P4Info message, except those that it represents otherwise."""
    for annotation in annotations:
        if annotation.structured:
            _structured(annotation, message.structured_annotations.add())
        elif annotation.name not in _ELSEWHERE and annotation.name not in skip:
            message.annotations.append(annotation_text(annotation))


def annotation_text(annotation: ast.Annotation) -> str:
    """Format an unstructured annotation as p4c prints it."""
    if not annotation.tokens:
        return f"@{annotation.name}"
    if annotation.name in _PARSED:
        body = " ".join(annotation.tokens).replace(" , ", ", ").replace(" = ", "=")
    else:
        body = " ".join(annotation.tokens)
    return f"@{annotation.name}({body})"


def _structured(annotation: ast.Annotation, message: Any) -> None:
    message.name = annotation.name
    for value in annotation.values:
        _expression(message.expression_list.expressions.add(), value)
    for key, value in annotation.value_pairs:
        pair = message.kv_pair_list.kv_pairs.add()
        pair.key = key
        _expression(pair.value, value)


def _expression(message: Any, value: ast.ConstValue) -> None:
    if isinstance(value, bool):
        message.bool_value = value
    elif isinstance(value, int):
        message.int64_value = value
    else:
        message.string_value = value


def add_documentation(message: Any, annotations: list[ast.Annotation]) -> None:
    """Set `doc` from `@brief` and `@description`."""
    for annotation in annotations:
        if annotation.name in ("brief", "description") and not annotation.structured:
            setattr(message.doc, annotation.name, string_value(annotation))


def string_value(annotation: ast.Annotation) -> str:
    """Return the one string that an annotation holds. Raises `CompileError` if it does not."""
    if len(annotation.values) != 1 or not isinstance(annotation.values[0], str):
        raise CompileError.at(annotation.pos, f"@{annotation.name} takes one string")
    return annotation.values[0]


def int_value(annotation: ast.Annotation) -> int:
    """Return the one number that an annotation holds. Raises `CompileError` if it does not."""
    values = annotation.values
    if len(values) != 1 or isinstance(values[0], bool) or not isinstance(values[0], int):
        raise CompileError.at(annotation.pos, f"@{annotation.name} takes one number")
    return values[0]


def user_id(annotations: list[ast.Annotation]) -> int | None:
    """Return the value of `@id`, if any. Raises `CompileError` for 0 and for what is no number."""
    for annotation in annotations:
        if annotation.name == "id":
            number = int_value(annotation)
            if number <= 0:
                raise CompileError.at(annotation.pos, f"{number} is not a valid @id")
            return number
    return None


# ---------------------------------------------------------------- widths and names


def width(t: ty.Type, pos: Pos) -> int:
    """Return the bits of a value as the control plane sees it: 0 for strings and errors."""
    translated = translation(t)
    if translated is not None:
        return translated[1] or 0
    if isinstance(t, ty.Error):
        return 0
    bits = ty.width_of(t)
    if bits is None:
        raise CompileError.at(pos, f"P4Runtime has no value of type {t} for the control plane")
    return bits


def type_name(t: ty.Type) -> str | None:
    """Name to write as `type_name`: of new types only."""
    return t.name if isinstance(t, ty.NewType) else None


def byte_string(value: int, bits: int) -> bytes:
    """Return a value as p4c writes it into P4Info: padded to the bytes of its width."""
    return (value & ((1 << bits) - 1)).to_bytes((bits + 7) // 8, "big")


# ---------------------------------------------------------------- type specs


class TypeSpecs:
    """Builds type specs; named types met on the way go into P4Info's `type_info`.

    `info` is called when `type_info` must exist, as p4c makes it on first use.
    """

    def __init__(self, info: Callable[[], p4t.P4TypeInfo], errors: list[ast.EnumMember]) -> None:
        self._info = info
        self._errors = errors

    def spec(self, t: ty.Type, pos: Pos) -> p4t.P4DataTypeSpec:
        """Return the type spec of `t`."""
        spec = p4t.P4DataTypeSpec()
        match t:
            case ty.Bit(width=bits):
                spec.bitstring.bit.bitwidth = bits
            case ty.Int(width=bits):
                spec.bitstring.int.bitwidth = bits
            case ty.Varbit(width=bits):
                spec.bitstring.varbit.max_bitwidth = bits
            case ty.Bool():
                spec.bool.SetInParent()
            case ty.Tuple(elements=elements):
                spec.tuple.SetInParent()
                for element in elements:
                    spec.tuple.members.add().CopyFrom(self.spec(element, pos))
            case ty.Struct():
                spec.struct.name = struct_name(t)
                self._struct(t, pos)
            case ty.Header():
                spec.header.name = struct_name(t)
                self._header(t, pos)
            case ty.HeaderUnion():
                spec.header_union.name = struct_name(t)
                self._union(t, pos)
            case ty.Stack(element=ty.Header() as element, size=size):
                spec.header_stack.header.name = struct_name(element)
                spec.header_stack.size = size
                self._header(element, pos)
            case ty.Stack(element=ty.HeaderUnion() as element, size=size):
                spec.header_union_stack.header_union.name = struct_name(element)
                spec.header_union_stack.size = size
                self._union(element, pos)
            case ty.Enum():
                spec.enum.name = t.name
                self._enum(t)
            case ty.SerEnum():
                spec.serializable_enum.name = t.name
                self._serializable(t)
            case ty.Error():
                spec.error.SetInParent()
                info = self._info()
                if not info.HasField("error"):
                    info.error.members.extend(m.name for m in self._errors)
            case ty.NewType():
                spec.new_type.name = t.name
                self._new_type(t, pos)
            case _:
                raise NotSupported.at(pos, f"type {t} for the control plane")
        return spec

    def _struct(self, t: ty.Struct, pos: Pos) -> None:
        structs = self._info().structs
        if struct_name(t) in structs:
            return
        members = p4t.P4StructTypeSpec()
        for f in t.fields:
            member = members.members.add()
            member.name = field_name(f)
            member.type_spec.CopyFrom(self.spec(f.type, pos))
        structs[struct_name(t)].CopyFrom(members)

    def _header(self, t: ty.Header, pos: Pos) -> None:
        headers = self._info().headers
        if struct_name(t) in headers:
            return
        members = p4t.P4HeaderTypeSpec()
        for name, field_type, _ in flat_fields(t):
            spec = self.spec(ty.underlying(field_type), pos)
            if not spec.HasField("bitstring"):
                raise NotSupported.at(pos, f"field {name} of header {t} for the control plane")
            member = members.members.add()
            member.name = name
            member.type_spec.CopyFrom(spec.bitstring)
        headers[struct_name(t)].CopyFrom(members)

    def _union(self, t: ty.HeaderUnion, pos: Pos) -> None:
        unions = self._info().header_unions
        if struct_name(t) in unions:
            return
        members = p4t.P4HeaderUnionTypeSpec()
        for f in t.fields:
            member = members.members.add()
            member.name = f.name
            member.header.CopyFrom(self.spec(f.type, pos).header)
        unions[struct_name(t)].CopyFrom(members)

    def _enum(self, t: ty.Enum) -> None:
        enums = self._info().enums
        if t.name not in enums and t.decl is not None:
            for m in t.decl.members:
                enums[t.name].members.add().name = m.name

    def _serializable(self, t: ty.SerEnum) -> None:
        enums = self._info().serializable_enums
        if t.name in enums or t.decl is None:
            return
        bits = ty.width_of(t.base) or 0
        enums[t.name].underlying_type.bitwidth = bits
        for m in t.decl.members:
            member = enums[t.name].members.add()
            member.name = m.name
            known = m.value.const_value if m.value is not None else None
            assert isinstance(known, int)
            member.value = byte_string(known, bits)

    def _new_type(self, t: ty.NewType, pos: Pos) -> None:
        types = self._info().new_types
        if t.name in types:
            return
        base: ty.Type = t
        while isinstance(base, ty.NewType):
            base = base.base
        translated = translation(t)
        spec = self.spec(base, pos)
        entry = types[t.name]
        if t.decl is not None:
            add_annotations(entry, t.decl.annotations, {"p4runtime_translation"})
        if translated is None:
            entry.original_type.CopyFrom(spec)
            return
        uri, bits = translated
        entry.translated_type.uri = uri
        if bits is None:
            entry.translated_type.sdn_string.SetInParent()
        else:
            entry.translated_type.sdn_bitwidth = bits


def flat_fields(t: ty.Header) -> list[tuple[str, ty.Type, list[ast.Annotation]]]:
    """Return the fields of a header with structs inside taken apart: name, type, annotations."""

    def walk(prefix: str, fields: tuple[ty.Field, ...]) -> None:
        for f in fields:
            name = prefix + field_name(f)
            if isinstance(f.type, ty.Struct):
                walk(f"{name}.", f.type.fields)
            else:
                found.append((name, f.type, f.decl.annotations if f.decl is not None else []))

    found: list[tuple[str, ty.Type, list[ast.Annotation]]] = []
    walk("", t.fields)
    return found


def struct_name(t: ty.StructLike) -> str:
    """Name of a type; of a generic one with its arguments, as p4c names it: `pair_bit8_bit16`."""
    if not t.args:
        return local_name(t.decl).removeprefix(".") if t.decl is not None else t.name
    arguments = [struct_name(a) if isinstance(a, ty.StructLike) else str(a) for a in t.args]
    plain = str.maketrans({"<": "", ">": "", " ": "", ",": "_", ".": "_"})
    return "_".join([t.name, *(argument.translate(plain) for argument in arguments)])


def field_name(f: ty.Field) -> str:
    """Return `@name`'s value, else the declared name of a field."""
    return local_name(f.decl) if f.decl is not None else f.name
