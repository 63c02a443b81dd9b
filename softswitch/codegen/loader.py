"""Loads a whole document: types, instances, parser, deparser; `loader_control` has the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from softswitch.codegen.expr_loader import ExprLoader, Symbols
from softswitch.codegen.expressions import (
    VALID_FIELD,
    Const,
    Expr,
    Kind,
    LastField,
    LastUnionField,
)
from softswitch.codegen.json_reader import MOST_BITS, MOST_COUNT, JsonError, Node, read_document
from softswitch.codegen.loader_control import ControlLoader
from softswitch.codegen.model import (
    Advance,
    Bmv2Program,
    Deparser,
    Extract,
    ExtractTarget,
    Field,
    Header,
    HeaderStack,
    HeaderType,
    HeaderUnion,
    Parser,
    ParserCall,
    ParserOp,
    ParseState,
    Set,
    Transition,
    UnionStack,
    UnionType,
    ValueSet,
    Verify,
)

MAJOR_VERSION = 2
# A varbit field without max_length: BMv2 has room for 512 bytes of new headers in a packet.
DEFAULT_VARBIT_BYTES = 512
CORE_ERRORS = (
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
)
# Members of struct wp_std by the header that BMv2 knows them in.
STD_MEMBERS = {
    "standard_metadata": frozenset(
        {
            "ingress_port",
            "egress_spec",
            "egress_port",
            "instance_type",
            "packet_length",
            "parser_error",
            "checksum_error",
            "mcast_grp",
            "egress_rid",
            "priority",
            "qid",
            "enq_qdepth",
            "deq_qdepth",
            "clone_spec",
            "enq_timestamp",
            "deq_timedelta",
            "ingress_global_timestamp",
            "egress_global_timestamp",
        }
    ),
    "intrinsic_metadata": frozenset(
        {
            "mcast_grp",
            "egress_rid",
            "priority",
            "ingress_global_timestamp",
            "egress_global_timestamp",
        }
    ),
    "queueing_metadata": frozenset(
        {"enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth", "qid"}
    ),
}
REQUIRED_MEMBERS = ("ingress_port", "packet_length", "instance_type", "egress_spec", "egress_port")
ROOT_KEYS = ("header_types", "headers", "parsers", "deparsers", "actions", "pipelines")

T = TypeVar("T")


def load_program(source: dict[str, Any] | str | bytes | Path) -> Bmv2Program:
    """Read and check a BMv2 JSON document; see `Bmv2Program.from_json`."""
    root = read_document(source)
    for key in ROOT_KEYS:
        if key not in root.object():
            raise JsonError("document", f'no BMv2 JSON: missing key "{key}"')
    _check_version(root)
    try:
        return _Loader(root).program()
    except RecursionError:
        raise JsonError("document", "an expression is nested too deeply") from None


def _check_version(root: Node) -> None:
    meta = root.opt("__meta__")
    version = meta.opt("version") if meta is not None else None
    if version is not None:
        major = version.items(2)[0]
        if major.number() != MAJOR_VERSION:
            raise major.error(
                f"BMv2 JSON version {MAJOR_VERSION}.x is supported, found {major.value}"
            )


def _is_signed(node: Node) -> bool:
    """Return whether a field is signed; p4c writes 0 instead of false for fields of type bool."""
    return node.value != 0 if type(node.value) is int else node.flag()


class _Loader:
    def __init__(self, root: Node) -> None:
        self.root = root
        self.symbols = Symbols()
        self.types: dict[str, HeaderType] = {}
        self.headers_by_id: dict[int, Header] = {}
        self.union_types: dict[str, UnionType] = {}
        self.unions_by_id: dict[int, HeaderUnion] = {}

    def program(self) -> Bmv2Program:
        root, symbols = self.root, self.symbols
        self._types()
        self._headers()
        self._stacks()
        for kind, key in (
            ("calculation", "calculations"),
            ("meter_array", "meter_arrays"),
            ("counter_array", "counter_arrays"),
            ("register_array", "register_arrays"),
        ):
            symbols.objects[kind] = {node["name"].text() for node in root.list_of(key)}
        value_sets = {node["name"].text() for node in root.list_of("parse_vsets")}
        errors = self._errors()
        std_fields = self._std_fields()
        parser = self._one("parsers", "parser", lambda n: self._parser(n, value_sets))
        deparser = self._one("deparsers", "deparser", self._deparser)
        control = ControlLoader(root, symbols)
        control.load()
        stacks = {
            name: replace(stack, dynamic=name in symbols.dynamic)
            for name, stack in symbols.stacks.items()
        }
        program = root.opt("program")
        return Bmv2Program(
            name=program.text() if program is not None else "",
            header_types=self.types,
            headers=symbols.headers,
            stacks=stacks,
            unions=symbols.unions,
            union_stacks=symbols.union_stacks,
            errors=errors,
            enums=self._enums(),
            std_fields=std_fields,
            parser=parser,
            deparser=deparser,
            ingress=control.pipeline("ingress"),
            egress=control.pipeline("egress"),
            value_sets=self._value_sets(parser),
            calculations=control.calculations,
            checksums=control.checksums,
            registers=control.registers,
            counters=control.counters,
            meters=control.meters,
            learn_lists=control.learn_lists,
            field_lists=control.field_lists,
            actions=control.actions,
            profiles=tuple(control.profiles),
            tables=tuple(control.tables),
        )

    def _one(self, key: str, name: str, load: Callable[[Node], T]) -> T:
        found = [node for node in self.root.list_of(key) if node["name"].text() == name]
        if not found:
            raise self.root[key].error(f'no {key[:-1]} is named "{name}", which simple_switch runs')
        return load(found[0])

    # --- header types and instances ---------------------------------------------------------

    def _types(self) -> None:
        for node in self.root.list_of("header_types"):
            name = node["name"].text()
            if name in self.types:
                raise node["name"].error(f'a second header type "{name}"')
            self.types[name] = self._header_type(node, name)

    def _header_type(self, node: Node, name: str) -> HeaderType:
        fields: list[Field] = []
        for item in node["fields"].items():
            parts = item.items()
            if not 2 <= len(parts) <= 4:
                raise item.error(f"expected [name, width, signed], found {len(parts)} elements")
            signed = len(parts) > 2 and _is_signed(parts[2])
            saturating = len(parts) > 3 and parts[3].flag()
            if parts[1].value == "*":
                if any(field.varbit for field in fields):
                    raise item.error("a second variable-length field")
                fields.append(Field(parts[0].text(), 0, signed, saturating, varbit=True))
            else:
                bits = parts[1].width(2 if signed else 0)
                fields.append(Field(parts[0].text(), bits, signed, saturating))
            if any(field.name == fields[-1].name for field in fields[:-1]):
                raise parts[0].error(f'a second field "{fields[-1].name}"')
        fixed_bytes = (sum(field.bits for field in fields) + 7) // 8
        length_exp = node.opt("length_exp")
        max_length = node.opt("max_length")
        max_bytes = 0
        if any(field.varbit for field in fields):
            given = max_length.number(0, MOST_BITS // 8) if max_length is not None else 0
            max_bytes = given or fixed_bytes + DEFAULT_VARBIT_BYTES
            if max_bytes < fixed_bytes:
                raise node.error(
                    f"max_length {max_bytes} is less than the fixed {fixed_bytes} bytes"
                )
        length: Expr | None = None
        if length_exp is not None and max_bytes:
            length = ExprLoader(self.symbols, len(fields)).load(length_exp, Kind.DATA)
        return HeaderType(name, tuple(fields), max_bytes, length)

    def _headers(self) -> None:
        for node in self.root.list_of("headers"):
            name, type_name = node["name"].text(), node["header_type"].text()
            if type_name not in self.types:
                raise node["header_type"].error(f'unknown header type "{type_name}"')
            header = Header(
                name, node["id"].number(), self.types[type_name], node["metadata"].flag()
            )
            if not header.metadata and header.type.fixed_bits % 8 != 0:
                raise node.error(
                    f'header "{name}" has {header.type.fixed_bits} bits, not whole bytes'
                )
            if name in self.symbols.headers or header.id in self.headers_by_id:
                raise node.error(f'a second header with name "{name}" or id {header.id}')
            self.symbols.headers[name] = header
            self.headers_by_id[header.id] = header

    def _members(self, node: Node, types: list[HeaderType]) -> tuple[Header, ...]:
        members = []
        for item, wanted in zip(node.items(), types, strict=False):
            header = self.headers_by_id.get(item.number())
            if header is None:
                raise item.error(f"no header has id {item.value}")
            if header.type is not wanted:
                raise item.error(f'header "{header.name}" has not type "{wanted.name}"')
            members.append(header)
        return tuple(members)

    def _stacks(self) -> None:
        symbols = self.symbols
        for node in self.root.list_of("header_stacks"):
            name, type_name = node["name"].text(), node["header_type"].text()
            if type_name not in self.types:
                raise node["header_type"].error(f'unknown header type "{type_name}"')
            ids = node["header_ids"]
            of = self.types[type_name]
            headers = self._members(ids, [of] * len(ids.items()))
            if not headers:
                raise ids.error("a header stack needs at least one header")
            symbols.stacks[name] = HeaderStack(name, of, headers)
        for node in self.root.list_of("header_union_types"):
            members = []
            for item in node["headers"].items():
                member, type_node = item.items(2)
                if type_node.text() not in self.types:
                    raise type_node.error(f'unknown header type "{type_node.value}"')
                members.append((member.text(), self.types[type_node.value]))
            self.union_types[node["name"].text()] = UnionType(node["name"].text(), tuple(members))
        for node in self.root.list_of("header_unions"):
            union_type = self._union_type(node)
            ids = node["header_ids"]
            ids.items(len(union_type.members))
            headers = self._members(ids, [of for _, of in union_type.members])
            union = HeaderUnion(node["name"].text(), node["id"].number(), union_type, headers)
            symbols.unions[union.name] = union
            self.unions_by_id[union.id] = union
        for node in self.root.list_of("header_union_stacks"):
            union_type = self._union_type(node)
            unions = []
            for item in node["header_union_ids"].items():
                found = self.unions_by_id.get(item.number())
                if found is None or found.type is not union_type:
                    raise item.error(
                        f'no header union of type "{union_type.name}" has id {item.value}'
                    )
                unions.append(found)
            if not unions:
                raise node["header_union_ids"].error("a stack needs at least one union")
            name = node["name"].text()
            symbols.union_stacks[name] = UnionStack(name, union_type, tuple(unions))

    def _union_type(self, node: Node) -> UnionType:
        name = node["union_type"].text()
        if name not in self.union_types:
            raise node["union_type"].error(f'unknown header union type "{name}"')
        return self.union_types[name]

    def _std_fields(self) -> dict[tuple[str, str], str]:
        """Return the fields that live in struct wp_std: by their own names, then by alias, which
        wins.
        """
        members: dict[str, tuple[str, str]] = {}
        for owner, names in STD_MEMBERS.items():
            header = self.symbols.headers.get(owner)
            if header is not None and header.metadata:
                for field in header.type.fields:
                    if field.name in names:
                        members[field.name] = (owner, field.name)
        for node in self.root.list_of("field_aliases"):
            alias, target = node.items(2)
            owner, _, name = alias.text().rpartition(".")
            ref = self.symbols.field_ref(target)
            if name in STD_MEMBERS.get(owner, ()):
                if not self.symbols.headers[ref.header].metadata:
                    raise target.error(
                        f'"{alias.value}" needs a metadata field, found a header field'
                    )
                members[name] = (ref.header, ref.field)
        for name in REQUIRED_MEMBERS:
            if name not in members:
                raise self.root["headers"].error(f'missing field "standard_metadata.{name}"')
        return {ref: member for member, ref in members.items()}

    def _errors(self) -> dict[str, int]:
        errors: dict[str, int] = {}
        for node in self.root.list_of("errors"):
            name, code = node.items(2)
            if name.text() in errors or code.number(0, 2**31 - 1) in errors.values():
                raise node.error(f'error "{name.value}" or its code is there twice')
            errors[name.value] = code.value
        following = max(errors.values(), default=-1) + 1
        for core in CORE_ERRORS:
            if core not in errors:
                errors[core] = following
                following += 1
        return errors

    def _enums(self) -> dict[str, dict[str, int]]:
        enums: dict[str, dict[str, int]] = {}
        for node in self.root.list_of("enums"):
            entries = [entry.items(2) for entry in node["entries"].items()]
            enums[node["name"].text()] = {name.text(): value.number() for name, value in entries}
        return enums

    # --- parser and deparser ----------------------------------------------------------------

    def _deparser(self, node: Node) -> Deparser:
        order = tuple(self.symbols.header(item) for item in node["order"].items())
        loader = ExprLoader(self.symbols)
        primitives = tuple(loader.primitive(item) for item in node.list_of("primitives"))
        return Deparser(node["name"].text(), order, primitives)

    def _parser(self, node: Node, value_sets: set[str]) -> Parser:
        state_nodes = node["parse_states"].items()
        names = {state["name"].text() for state in state_nodes}
        states: dict[str, ParseState] = {}
        for state in state_nodes:
            name = state["name"].text()
            if name in states:
                raise state["name"].error(f'a second parse state "{name}"')
            states[name] = self._state(state, name, names, value_sets)
        init = node.opt("init_state")
        if init is not None and init.text() not in names:
            raise init.error(f'unknown parse state "{init.value}"')
        return Parser(node["name"].text(), init.value if init is not None else None, states)

    def _value_sets(self, parser: Parser) -> tuple[ValueSet, ...]:
        keys: dict[str, tuple[int, ...]] = {}
        for state in parser.states.values():
            key = tuple(bits for _, bits in state.key)
            for transition in state.transitions:
                if transition.kind == "parse_vset":
                    keys.setdefault(transition.value_set, key)
        found: list[ValueSet] = []
        for index, node in enumerate(self.root.list_of("parse_vsets")):
            name, size = node["name"].text(), node.opt("max_size")
            if any(other.name == name for other in found):
                raise node["name"].error(f'a second value set "{name}"')
            key = keys.get(name, ())
            # BMv2 itself does not look at the size
            limit = MOST_COUNT if size is None else size.count()
            found.append(ValueSet(name, index, limit, key))
        for state in parser.states.values():
            for transition in state.transitions:
                if transition.kind == "parse_vset" and keys[transition.value_set] != tuple(
                    bits for _, bits in state.key
                ):
                    raise self.root["parsers"].error(
                        f'value set "{transition.value_set}" is used with keys of different form'
                    )
        return tuple(found)

    def _state(self, node: Node, name: str, names: set[str], value_sets: set[str]) -> ParseState:
        ops = tuple(self._parser_op(op) for op in node.list_of("parser_ops"))
        key = tuple(self._key_part(part) for part in node.list_of("transition_key"))
        width = sum((bits + 7) // 8 for _, bits in key)
        transitions = []
        for item in node.list_of("transitions"):
            kind_node, value, mask = item.opt("type"), item.opt("value"), item.opt("mask")
            kind = kind_node.text() if kind_node is not None else "hexstr"
            if kind == "hexstr" and value is not None and value.value == "default":
                kind = "default"
            following = item.opt("next_state")
            if following is not None and following.text() not in names:
                raise following.error(f'unknown parse state "{following.value}"')
            target = following.value if following is not None else None
            match kind:
                case "default":
                    transitions.append(Transition(kind, b"", None, "", target))
                case "hexstr":
                    masked = mask.hex_bytes(width) if mask is not None else None
                    content = item["value"].hex_bytes(width)
                    transitions.append(Transition(kind, content, masked, "", target))
                case "parse_vset":
                    if item["value"].text() not in value_sets:
                        raise item["value"].error(f'unknown value set "{item["value"].value}"')
                    if mask is not None:
                        raise mask.error("a mask for a value set is not supported")
                    transitions.append(Transition(kind, b"", None, item["value"].value, target))
                case _:
                    raise item["type"].error(f'unsupported transition type "{kind}"')
        return ParseState(name, ops, key, tuple(transitions))

    def _key_part(self, node: Node) -> tuple[Expr, int]:
        kind, value = node["type"].text(), node["value"]
        symbols = self.symbols
        match kind:
            case "field":
                ref = symbols.field_ref(value)
                return ref, symbols.field_type(ref).bits
            case "stack_field":
                expr, _ = ExprLoader(symbols).any(node)
                if not isinstance(expr, LastField):
                    raise node.error("a select looks at fields: this is a whole header")
                field = symbols.stacks[expr.stack].type.field(expr.field)
                assert field is not None
                return expr, field.bits
            case "union_stack_field":
                stack_node, member_node, field_node = value.items(3)
                stack = symbols.union_stacks.get(stack_node.text())
                if stack is None:
                    raise stack_node.error(f'unknown header union stack "{stack_node.value}"')
                member = self._union_member(member_node, stack.type)
                found = stack.type.members[member][1].field(field_node.text())
                if found is None:
                    raise field_node.error(f'no field "{field_node.value}" in that header')
                symbols.dynamic.add(stack.name)
                return LastUnionField(stack.name, member, found.name), found.bits
            case "lookahead":
                expr = ExprLoader(symbols).lookahead(value)
                return expr, expr.bits
            case _:
                raise node["type"].error(f'unsupported transition key type "{kind}"')

    @staticmethod
    def _union_member(node: Node, union_type: UnionType) -> int:
        for index, (name, _) in enumerate(union_type.members):
            if name == node.text():
                return index
        raise node.error(f'header union type "{union_type.name}" has no member "{node.value}"')

    def _extract_target(self, node: Node) -> ExtractTarget:
        kind, value = node["type"].text(), node["value"]
        match kind:
            case "regular":
                header = self.symbols.header(value)
                if header.metadata:
                    raise value.error(f'"{header.name}" is metadata: no packet has it')
                return ExtractTarget(kind, header.name, 0, header.type)
            case "stack":
                stack = self.symbols.stack(value)
                return ExtractTarget(kind, stack.name, 0, stack.type)
            case "union_stack":
                stack_node, member_node = value.items(2)
                ustack = self.symbols.union_stacks.get(stack_node.text())
                if ustack is None:
                    raise stack_node.error(f'unknown header union stack "{stack_node.value}"')
                member = self._union_member(member_node, ustack.type)
                return ExtractTarget(kind, ustack.name, member, ustack.type.members[member][1])
            case _:
                raise node["type"].error(f'unsupported extract type "{kind}"')

    def _parser_op(self, node: Node) -> ParserOp:
        op, params = node["op"].text(), node["parameters"]
        loader = ExprLoader(self.symbols, in_parser=True)
        match op:
            case "extract":
                target = self._extract_target(params.items(1)[0])
                if target.type.varbit is not None and target.type.length_exp is None:
                    raise params.error("a header with a variable-length field needs extract_VL")
                return Extract(target, None)
            case "extract_VL":
                where, length = params.items(2)
                target = self._extract_target(where)
                if target.type.varbit is None:
                    raise where.error(
                        f'header type "{target.type.name}" has no variable-length field'
                    )
                return Extract(target, loader.load(length, Kind.DATA))
            case "set":
                left, right = params.items(2)
                if left["type"].text() != "field":
                    raise left["type"].error('expected "field"')
                field = self.symbols.field_ref(left["value"])
                if field.field == VALID_FIELD and self.symbols.headers[field.header].metadata:
                    raise left["value"].error(f'"{field.header}" is metadata: it has no validity')
                return Set(field, loader.load(right, Kind.DATA))
            case "verify":
                condition, error = params.items(2)
                code = Const(error.value) if isinstance(error.value, int) else None
                return Verify(
                    loader.load(condition, Kind.BOOL),
                    code if code is not None else loader.load(error, Kind.DATA),
                )
            case "shift":
                return Advance(Const(params.items(1)[0].width(0) * 8))
            case "advance":
                return Advance(loader.load(params.items(1)[0], Kind.DATA))
            case "primitive":
                return ParserCall(loader.primitive(params.items(1)[0]))
            case _:
                raise node["op"].error(f'unsupported parser operation "{op}"')
