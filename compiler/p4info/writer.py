"""Messages of P4Info that depend on no table: externs, value sets, packet metadata, the package."""

from __future__ import annotations

from typing import Any

from finsy.proto import p4i, p4t

from compiler.bmv2.lower_program import ProgramLowering
from compiler.bmv2.places import ExternObject
from compiler.errors import CompileError, NotSupported, Pos
from compiler.p4info.ids import ResourceType, SymbolTable, number_members
from compiler.p4info.types import (
    TypeSpecs,
    add_annotations,
    add_documentation,
    field_name,
    flat_fields,
    int_value,
    string_value,
    type_name,
    user_id,
    width,
)
from compiler.passes.elaborate import Item, local_name
from compiler.syntax import ast
from compiler.types import types as ty

MATCH_TYPES = {
    "exact": p4i.MatchField.EXACT,
    "lpm": p4i.MatchField.LPM,
    "ternary": p4i.MatchField.TERNARY,
    "range": p4i.MatchField.RANGE,
    "optional": p4i.MatchField.OPTIONAL,
}
_COUNTER_UNITS = {
    "packets": p4i.CounterSpec.PACKETS,
    "bytes": p4i.CounterSpec.BYTES,
    "packets_and_bytes": p4i.CounterSpec.BOTH,
}
_METER_UNITS = {"packets": p4i.MeterSpec.PACKETS, "bytes": p4i.MeterSpec.BYTES}


class P4InfoWriter:
    """What all messages share, and the messages of single objects."""

    def __init__(self, program: ProgramLowering) -> None:
        self._program = program
        self._info = p4i.P4Info()
        self._symbols = SymbolTable()
        self._specs = TypeSpecs(self._type_info, program.checked.errors)
        self._profile_tables: dict[str, list[str]] = {}

    def _type_info(self) -> p4t.P4TypeInfo:
        self._info.type_info.SetInParent()
        return self._info.type_info

    def _preamble(
        self,
        message: Any,
        kind: ResourceType,
        name: str,
        annotations: list[ast.Annotation],
        skip: frozenset[str] = frozenset(),
    ) -> None:
        message.preamble.id = self._symbols.id_of(kind, name)
        message.preamble.name = name
        message.preamble.alias = self._symbols.alias_of(name)
        add_annotations(message.preamble, annotations, skip)
        add_documentation(message.preamble, annotations)

    # ------------------------------------------------------------ extern instances

    def _counterlike(self, message: Any, kind: ResourceType, target: ExternObject) -> None:
        self._preamble(message, kind, target.name, target.decl.annotations)
        direct = kind in (ResourceType.DIRECT_COUNTER, ResourceType.DIRECT_METER)
        unit = self._program.constructor_value(target, 0 if direct else 1).member
        assert unit is not None
        counters = kind in (ResourceType.COUNTER, ResourceType.DIRECT_COUNTER)
        units = _COUNTER_UNITS if counters else _METER_UNITS
        message.spec.unit = units[unit.name]

    def _extern(self, target: ExternObject) -> None:
        self._type_info()
        match target.type.name:
            case "counter":
                counter = self._info.counters.add()
                self._counterlike(counter, ResourceType.COUNTER, target)
                counter.size = self._program.constructor_value(target, 0).value
            case "meter":
                meter = self._info.meters.add()
                self._counterlike(meter, ResourceType.METER, target)
                meter.size = self._program.constructor_value(target, 0).value
            case "register":
                register = self._info.registers.add()
                annotations = target.decl.annotations
                self._preamble(register, ResourceType.REGISTER, target.name, annotations)
                register.size = self._program.constructor_value(target, 0).value
                spec = self._specs.spec(target.type.args[0], target.decl.pos)
                register.type_spec.CopyFrom(spec)
            case "action_profile" | "action_selector":
                self._profile(target)
            case _:
                pass

    def _profile(self, target: ExternObject) -> None:
        selector = target.type.name == "action_selector"
        annotations = target.decl.annotations
        message = self._info.action_profiles.add()
        self._preamble(
            message,
            ResourceType.ACTION_PROFILE,
            target.name,
            annotations,
            frozenset({"max_group_size", "selector_size_semantics", "max_member_weight"}),
        )
        message.with_selector = selector
        message.size = self._program.constructor_value(target, 1 if selector else 0).value
        for annotation in annotations:
            if selector:
                self._selector_annotation(message, annotation, target.decl.pos)
            elif annotation.name in ("max_group_size", "selector_size_semantics"):
                text = f"@{annotation.name} is ignored without a selector"
                self._program.warn(target.decl.pos, text, "ignore")
        for name in sorted(self._profile_tables.get(target.name, [])):
            message.table_ids.append(self._symbols.id_of(ResourceType.TABLE, name))

    def _selector_annotation(self, message: p4i.ActionProfile, a: ast.Annotation, pos: Pos) -> None:
        match a.name:
            case "max_group_size":
                message.max_group_size = int_value(a)
            case "selector_size_semantics":
                semantics = string_value(a).lower()
                if semantics not in ("sum_of_weights", "sum_of_members"):
                    raise CompileError.at(
                        a.pos, "@selector_size_semantics takes sum_of_weights or sum_of_members"
                    )
                getattr(message, semantics).SetInParent()
            case "max_member_weight" if message.HasField("sum_of_members"):
                message.sum_of_members.max_member_weight = int_value(a)
            case "max_member_weight":
                text = "@max_member_weight is ignored without sum_of_members"
                self._program.warn(pos, text, "ignore")
            case _:
                pass

    # ------------------------------------------------------------ the rest

    def _value_set(self, item: Item) -> None:
        decl = item.decl
        assert isinstance(decl, ast.ValueSetDecl)
        message = self._info.value_sets.add()
        self._preamble(message, ResourceType.VALUE_SET, item.name, decl.annotations)
        size = decl.size.const_value
        assert isinstance(size, int)
        message.size = size
        element = decl.element
        if isinstance(element, ty.Struct):
            fields = element.fields
            numbers = number_members(
                [user_id(f.decl.annotations) if f.decl is not None else None for f in fields]
            )
            for f, number in zip(fields, numbers, strict=True):
                if isinstance(f.type, ty.Struct):
                    raise CompileError.at(
                        decl.pos if element.decl is None else element.decl.pos,
                        f"P4Runtime has no value sets of structs in structs ({f.name})",
                    )
                match = message.match.add()
                match.id = number
                match.name = field_name(f)
                match.bitwidth = width(f.type, decl.pos)
                annotations = f.decl.annotations if f.decl is not None else []
                match.match_type = _value_set_match(annotations)
                add_annotations(match, annotations, {"match"})
                add_documentation(match, annotations)
        elif isinstance(element, ty.SerEnum) and element.decl is not None:
            # As p4c has it: one match per member, though a packet's value is only one.
            for index, member in enumerate(element.decl.members, start=1):
                match = message.match.add()
                match.id = index
                match.name = member.name
                match.bitwidth = width(element, decl.pos)
                match.match_type = p4i.MatchField.EXACT
        elif isinstance(element, ty.Bit):
            match = message.match.add()
            match.id = 1
            match.bitwidth = element.width
            match.match_type = p4i.MatchField.EXACT
        else:
            raise NotSupported.at(decl.pos, f"a value set of {element} for the control plane")

    def _controller_header(self, decl: ast.HeaderDecl) -> None:
        if decl.annotation("hidden") or not isinstance(decl.type, ty.Header):
            return
        annotation = decl.annotation("controller_header")
        assert annotation is not None
        name = string_value(annotation)
        message = self._info.controller_packet_metadata.add()
        own = self._symbols.id_of(ResourceType.CONTROLLER_HEADER, local_name(decl))
        message.preamble.id = own
        message.preamble.name = message.preamble.alias = name
        add_annotations(message.preamble, decl.annotations)
        add_documentation(message.preamble, decl.annotations)
        self._type_info()
        fields = flat_fields(decl.type)
        numbers = number_members([user_id(notes) for _, _, notes in fields])
        for (field, t, notes), number in zip(fields, numbers, strict=True):
            if any(a.name == "hidden" for a in notes):
                continue
            entry = message.metadata.add()
            entry.id = number
            entry.name = field
            add_annotations(entry, notes)
            entry.bitwidth = width(t, decl.pos)
            self._specs.spec(t, decl.pos)
            named = type_name(t)
            if named is not None:
                entry.type_name.name = named

    def _package(self) -> None:
        main = self._program.checked.main
        package = self._info.pkg_info
        package.arch = "v1model"
        for annotation in main.annotations:
            for key, value in annotation.value_pairs:
                self._package_value(package, annotation, key, value)
        add_annotations(package, main.annotations, {"pkginfo", "platform_property"})
        add_documentation(package, main.annotations)

    def _package_value(
        self, package: p4i.PkgInfo, annotation: ast.Annotation, key: str, value: ast.ConstValue
    ) -> None:
        pos: Pos = annotation.pos
        if annotation.structured:
            return
        if annotation.name == "pkginfo":
            if key not in ("name", "version", "organization", "contact", "url", "arch"):
                self._program.warn(pos, f"unknown key {key} in @pkginfo", "unknown")
            elif not isinstance(value, str):
                raise CompileError.at(pos, f"@pkginfo: {key} must be a string")
            else:
                setattr(package, key, value)
        elif annotation.name == "platform_property":
            if not hasattr(package.platform_properties, key):
                self._program.warn(pos, f"unknown key {key} in @platform_property", "unknown")
            else:
                setattr(package.platform_properties, key, value)


def _value_set_match(annotations: list[ast.Annotation]) -> int:
    for annotation in annotations:
        if annotation.name == "match":
            kind = "".join(annotation.tokens)
            if kind not in MATCH_TYPES:
                raise NotSupported.at(annotation.pos, f"match type {kind} in a value set")
            return MATCH_TYPES[kind]
    return p4i.MatchField.EXACT
