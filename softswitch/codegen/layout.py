"""Where a program's values live in C: the packet header vector's structs and how to name them.

`struct phv` begins with `struct wp_std`, then metadata, then headers. Fields of up to 64 bits are
integers in host order, wider ones limbs with the least significant first, a varbit field its length
in bits and its bytes. Stacks that are indexed at run time have one element more, which takes what
is out of bounds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from softswitch.codegen.expressions import VALID_FIELD
from softswitch.codegen.graph import back_edges
from softswitch.codegen.model import Bmv2Program, Field, Header, HeaderType

C_WORDS = frozenset(
    [
        "auto",
        "break",
        "case",
        "char",
        "const",
        "continue",
        "default",
        "do",
        "double",
        "else",
        "enum",
        "extern",
        "float",
        "for",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "register",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "typedef",
        "union",
        "unsigned",
        "void",
        "volatile",
        "while",
        "asm",
        "typeof",
        "linux",
        "unix",
        "valid",
        "std",
        "phv",
        "p",
        "ctx",
        "args",
        "entry",
        "table",
        "bool",
        "true",
        "false",
        "main",
        "env",
    ]
)
STD_64 = frozenset(
    {"enq_timestamp", "deq_timedelta", "ingress_global_timestamp", "egress_global_timestamp"}
)
LIMB = 64


def limbs(bits: int) -> int:
    """Return the number of 64-bit words that `bits` bits take."""
    return (bits + LIMB - 1) // LIMB


def storage_bits(bits: int) -> int:
    """Return the width of the C integer that holds a field of 0..64 bits."""
    return next(size for size in (8, 16, 32, 64) if bits <= size)


PASS_STEPS = 16384
"""Most backward steps of one pass through ingress or egress, where a graph has a cycle: as many as
a parser may take. Backward jumps of actions count among them."""


class Names:
    """Hands out C identifiers, distinct within one scope."""

    def __init__(self, taken: frozenset[str] = C_WORDS) -> None:
        self._taken = set(taken)

    def take(self, name: str) -> str:
        """Return an identifier that resembles `name` and is not in use yet."""
        base = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "x"
        if base[0].isdigit():
            base = "_" + base
        chosen, n = base, 1
        while chosen in self._taken:
            n += 1
            chosen = f"{base}_{n}"
        self._taken.add(chosen)
        return chosen


def comment(text: str) -> str:
    """Return `text` made safe inside a C comment."""
    return text.replace("*/", "* /").replace("/*", "/ *").replace("\n", " ")


@dataclass(frozen=True)
class Place:
    """A field in C: `code` is the lvalue (of limbs: the array; of varbit: the bytes), `bits` its
    width, `bound` the most bytes of a varbit field and `length` its bit count's lvalue."""

    code: str
    bits: int
    signed: bool = False
    saturating: bool = False
    bound: int = 0
    length: str = ""

    @property
    def varbit(self) -> bool:
        """Whether the length is only known at run time."""
        return bool(self.length)


class Layout:
    """The C layout of one program's packet header vector.

    `steps`: the lvalue of a pass's backward steps; None where no pipeline has a cycle.
    """

    def __init__(self, program: Bmv2Program) -> None:
        self.program = program
        self._type_names = Names()
        self._types: dict[str, str] = {}
        self._fields: dict[str, dict[str, str]] = {}
        self._lvalues: dict[str, str] = {}
        self._stacks: dict[str, str] = {}
        self._union_of: dict[str, str] = {}
        self._declarations: list[str] = []
        self._metadata: dict[str, dict[str, str]] = {}
        for header_type in program.header_types.values():
            self._types[header_type.name] = self._type_names.take(header_type.name)
            names = Names()
            self._fields[header_type.name] = {
                f.name: names.take(f.name) for f in header_type.fields
            }
        self._place()

    def _place(self) -> None:
        program, names = self.program, Names()
        members: list[str] = []
        grouped: dict[str, str] = {}
        self._union_types: dict[str, tuple[str, list[str]]] = {}
        for union in program.unions.values():
            if union.type.name not in self._union_types:
                member_names = Names()
                self._union_types[union.type.name] = (
                    self._type_names.take(union.type.name),
                    [member_names.take(name) for name, _ in union.type.members],
                )
        in_stack = {u.name for s in program.union_stacks.values() for u in s.unions}
        for ustack in program.union_stacks.values():
            name = names.take(ustack.name)
            self._stacks[ustack.name] = name
            members.append(
                f"    struct {self._union_types[ustack.type.name][0]} "
                f"{name}[{len(ustack.unions)} + 1];\n    uint32_t {name}_next;"
            )
            for i, union in enumerate(ustack.unions):
                grouped[union.name] = f"{name}[{i}]"
        for union in program.unions.values():
            ctype, member_names_of = self._union_types[union.type.name]
            if union.name not in in_stack:
                name = names.take(union.name)
                members.append(f"    struct {ctype} {name};")
                grouped[union.name] = name
            self._lvalues["union " + union.name] = grouped[union.name]
            for header, member in zip(union.headers, member_names_of, strict=True):
                self._lvalues[header.name] = f"{grouped[union.name]}.{member}"
                self._union_of[header.name] = union.name
        for stack in program.stacks.values():
            name = names.take(stack.name)
            self._stacks[stack.name] = name
            extra = " + 1" if stack.dynamic else ""
            members.append(
                f"    struct {self.type_name(stack.type)} "
                f"{name}[{len(stack.headers)}{extra}];\n    uint32_t {name}_next;"
            )
            for i, header in enumerate(stack.headers):
                self._lvalues[header.name] = f"{name}[{i}]"
        metadata: list[str] = []
        for header in program.headers.values():
            if header.name in self._lvalues:
                continue
            name = names.take(header.name)
            self._lvalues[header.name] = name
            if header.metadata:
                metadata.append(self._metadata_member(header, name))
            else:
                members.append(f"    struct {self.type_name(header.type)} {name};")
        self.steps: str | None = None
        if any(back_edges(p.init_node, p.successors) for p in (program.ingress, program.egress)):
            name = names.take("backward_steps")
            members.append(f"    uint32_t {name}; /* of this pass */")
            self.steps = f"p->{name}"
        self._members = [text for text in metadata if text] + members

    def _metadata_member(self, header: Header, name: str) -> str:
        """Return the struct of metadata, without the fields that live in wp_std."""
        lines = [
            self._field_member(header.type, field)
            for field in header.type.fields
            if (header.name, field.name) not in self.program.std_fields
        ]
        if not lines:
            return ""
        body = "\n".join("    " + line for line in lines)
        return f"    struct {{ /* {comment(header.name)} */\n{body}\n    }} {name};"

    def _field_member(self, header_type: HeaderType, field: Field) -> str:
        name = self._fields[header_type.name][field.name]
        if field.varbit:
            return f"    uint32_t {name}_bits;\n    uint8_t {name}[{self.bound(header_type)} + 1];"
        if field.bits > LIMB:
            return f"    uint64_t {name}[{limbs(field.bits)}]; /* {field.bits} bits */"
        size = storage_bits(field.bits)
        exact = "" if size == field.bits else f" /* {field.bits} bits */"
        return f"    uint{size}_t {name};{exact}"

    @staticmethod
    def bound(header_type: HeaderType) -> int:
        """Return the largest size in bytes of the type's varbit field."""
        return max(0, header_type.max_bytes - header_type.fixed_bits // 8)

    def type_name(self, header_type: HeaderType) -> str:
        """Return the struct tag of a header type."""
        return self._types[header_type.name]

    def declarations(self) -> str:
        """Return the structs of header types and unions in use, then `struct phv`."""
        used = {h.type.name: h.type for h in self.program.headers.values() if not h.metadata}
        parts = []
        for header_type in used.values():
            body = "\n".join(self._field_member(header_type, f) for f in header_type.fields)
            parts.append(
                f"struct {self.type_name(header_type)} {{ "
                f"/* {comment(header_type.name)} */\n    uint8_t valid;\n{body}\n}};"
            )
        for union in {u.type.name: u.type for u in self.program.unions.values()}.values():
            ctype, names = self._union_types[union.name]
            body = "\n".join(
                f"    struct {self.type_name(of)} {name};"
                for name, (_, of) in zip(names, union.members, strict=True)
            )
            parts.append(f"struct {ctype} {{ /* at most one member is valid */\n{body}\n}};")
        body = "\n".join(self._members)
        parts.append(f"struct phv {{\n    struct wp_std std;\n{body}\n}};")
        return "\n\n".join(parts)

    # --- naming values ----------------------------------------------------------------------

    def header(self, name: str, phv: str = "p") -> str:
        """Return the lvalue of a header instance."""
        return f"{phv}->{self._lvalues[name]}"

    def union(self, name: str) -> str:
        """Return the lvalue of a header union."""
        return f"p->{self._lvalues['union ' + name]}"

    def union_of(self, header: str) -> str | None:
        """Return the union that a header is a member of."""
        return self._union_of.get(header)

    def union_member(self, union_type: str, member: int) -> str:
        """Return the name of a union's member by position."""
        return self._union_types[union_type][1][member]

    def union_members(self, union_type: str) -> list[str]:
        """Return the names of a union's members."""
        return self._union_types[union_type][1]

    def stack(self, name: str) -> str:
        """Return the array of a header stack or union stack."""
        return f"p->{self._stacks[name]}"

    def stack_next(self, name: str) -> str:
        """Return how many elements of a stack are in use."""
        return f"p->{self._stacks[name]}_next"

    def stack_size(self, name: str) -> int:
        """Return the number of elements of a stack."""
        program = self.program
        if name in program.stacks:
            return len(program.stacks[name].headers)
        return len(program.union_stacks[name].unions)

    def valid(self, header: str) -> str:
        """Return an expression that is not 0 when the header is valid; metadata always are."""
        return "1" if self.program.headers[header].metadata else f"{self.header(header)}.valid"

    def type_field(self, header_type: HeaderType, field: Field, base: str) -> Place:
        """Return the place of a field of the header whose lvalue is `base`."""
        name = self._fields[header_type.name][field.name]
        code = f"{base}.{name}"
        if field.varbit:
            return Place(code, 0, bound=self.bound(header_type), length=f"{code}_bits")
        return Place(code, field.bits, field.signed, field.saturating)

    def field(self, header: str, name: str, phv: str = "p") -> Place:
        """Return the place of a header instance's field.

        `$valid$` of metadata is the constant 0.
        """
        instance = self.program.headers[header]
        member = self.program.std_fields.get((header, name))
        if name == VALID_FIELD:
            return Place("0" if instance.metadata else f"{self.header(header, phv)}.valid", 1)
        field = instance.type.field(name)
        assert field is not None
        if member is not None:
            room = 64 if member in STD_64 else 32
            return Place(f"{phv}->std.{member}", min(field.bits, room), field.signed)
        return self.type_field(instance.type, field, self.header(header, phv))

    def has_struct(self, header: Header) -> bool:
        """Return whether a metadata header has fields that don't live in wp_std."""
        return any((header.name, f.name) not in self.program.std_fields for f in header.type.fields)
