"""Calculations, checksums and the deparser in C."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from softswitch.codegen.cexpr import ExprGen
from softswitch.codegen.expressions import FieldRef
from softswitch.codegen.gen_actions import ActionGen
from softswitch.codegen.hashes import call_name
from softswitch.codegen.layout import Layout, Names, Place, comment
from softswitch.codegen.model import CalcInput, Calculation, Checksum
from softswitch.codegen.pack import Piece, append, const_pieces, field_pieces, store


@dataclass
class _Group:
    """Consecutive inputs that are present or absent together: `header` is None when always."""

    header: str | None
    pieces: list[Piece]
    varbit: Place | None = None

    @property
    def bits(self) -> int:
        return sum(piece.bits for piece in self.pieces)


class CalculationGen:
    """Writes `calc_<name>(ctx, p)` functions, which return the hash as uint64_t.

    The input is built as BMv2 does it: fields bit by bit in order, those of invalid headers left
    out, the last byte filled up with zeros, then the payload.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.program = layout.program
        self._names = Names()
        self.algorithms: set[str] = set()

    def name(self, label: str) -> str:
        """A C function name for a calculation."""
        return "calc_" + self._names.take(label)

    def _groups(self, inputs: Iterable[CalcInput]) -> list[_Group]:
        groups: list[_Group] = []

        def add(header: str | None, pieces: list[Piece], varbit: Place | None = None) -> None:
            last = groups[-1] if groups else None
            if last is not None and last.header == header and varbit is None and (
                    last.varbit is None):
                last.pieces += pieces
            else:
                groups.append(_Group(header, pieces, varbit))

        for item in inputs:
            match item.kind:
                case "hexstr":
                    add(None, const_pieces(item.value, item.bits))
                case "field":
                    self._field(item.header, item.field, add)
                case "header":
                    for field in self.program.headers[item.header].type.fields:
                        self._field(item.header, field.name, add)
        return groups

    def _field(self, header: str, field: str, add: object) -> None:
        owner = None if self.program.headers[header].metadata else header
        place = self.layout.field(header, field)
        assert callable(add)
        if place.varbit:
            add(owner, [], place)
        else:
            add(owner, field_pieces(place))

    def _bound(self, groups: list[_Group]) -> int:
        return sum(group.bits + (group.varbit.bound * 8 if group.varbit else 0)
                   for group in groups) // 8 + 1

    def function(self, name: str, calc: Calculation) -> str:
        """The C function of one calculation."""
        self.algorithms.add(calc.algorithm)
        groups = self._groups(calc.inputs)
        payload = any(item.kind == "payload" for item in calc.inputs)
        lines = [f"/* {comment(calc.name or name)}: {calc.algorithm} */",
                 f"static uint64_t {name}(const struct wp_ctx *ctx, const struct phv *p)", "{",
                 f"    uint8_t buf[{self._bound(groups)}];", "    (void)ctx, (void)p;"]
        fixed = all(group.header is None and group.varbit is None for group in groups)
        aligned = all(group.bits % 8 == 0 for group in groups)
        if fixed:
            pieces = [piece for group in groups for piece in group.pieces]
            lines += ["    " + line for line in store(pieces, "buf")]
            total = sum(piece.bits for piece in pieces)
            lines.append(f"    const uint32_t n = {(total + 7) // 8};")
        elif aligned:
            lines += self._aligned(groups)
        else:
            lines += self._bitwise(groups)
        call = call_name(calc.algorithm)
        if payload:
            lines += ["    uint32_t m = ctx->data_len - ctx->parsed_len;",
                      "    if (m > ctx->truncate_to) m = ctx->truncate_to;",
                      f"    return {call}(buf, n, ctx->data + ctx->parsed_len, m);"]
        else:
            lines.append(f"    return {call}(buf, n, NULL, 0);")
        return "\n".join([*lines, "}"])

    def _guard(self, group: _Group, body: list[str]) -> list[str]:
        if group.header is None:
            return ["    " + line for line in body]
        return [f"    if ({self.layout.valid(group.header)}) {{",
                *("        " + line for line in body), "    }"]

    def _aligned(self, groups: list[_Group]) -> list[str]:
        lines = ["    uint32_t n = 0;"]
        for group in groups:
            if group.varbit is not None:
                size = f"{group.varbit.length} / 8"
                body = [f"memcpy(buf + n, {group.varbit.code}, {size});", f"n += {size};"]
            else:
                body = [*store(group.pieces, "(buf + n)"), f"n += {group.bits // 8};"]
            lines += self._guard(group, body)
        return lines

    def _bitwise(self, groups: list[_Group]) -> list[str]:
        lines = ["    uint32_t bit = 0;", "    memset(buf, 0, sizeof buf);"]
        for group in groups:
            if group.varbit is not None:
                body = append(group.varbit, "buf")
            else:
                body = [f"wpx_append(buf, &bit, {piece.code}, {piece.bits});"
                        for piece in group.pieces]
            lines += self._guard(group, body)
        return [*lines, "    const uint32_t n = (bit + 7) / 8;"]


class DeparserGen:
    """Writes checksum statements and the `deparse` function."""

    def __init__(self, layout: Layout, exprs: ExprGen, actions: ActionGen,
                 calculations: CalculationGen) -> None:
        self.layout = layout
        self.exprs = exprs
        self.actions = actions
        self.calculations = calculations
        self.program = layout.program
        self._ipv4: dict[str, str] = {}

    def functions(self) -> list[str]:
        """Functions for checksums of the old type `ipv4`: the whole header but its own field."""
        parts = []
        for checksum in self.program.checksums:
            if checksum.calculation is None:
                name = self.calculations.name(checksum.name)
                self._ipv4[checksum.name] = name
                header = self.program.headers[checksum.target.header]
                inputs = tuple(
                    CalcInput("field", header.name, field.name)
                    if field.name != checksum.target.field
                    else CalcInput("hexstr", value=0, bits=field.bits)
                    for field in header.type.fields)
                parts.append(self.calculations.function(
                    name, Calculation(checksum.name, "csum16", inputs)))
        return parts

    def _call(self, checksum: Checksum) -> str:
        name = (self._ipv4[checksum.name] if checksum.calculation is None
                else self.actions.calculations[checksum.calculation])
        return f"{name}(ctx, p)"

    def verify(self) -> list[str]:
        """Statements that verify checksums at the end of the parser."""
        lines = []
        for checksum in self.program.checksums:
            if checksum.verify:
                self.exprs.where = f'checksum "{checksum.name}"'
                field = self.exprs.exact(checksum.target)
                terms = [self.layout.valid(checksum.target.header)]
                if checksum.condition is not None:
                    terms.append(self.exprs.condition(checksum.condition))
                terms.append(f"{self._call(checksum)} != {field.code}")
                lines.append(f"if ({' && '.join(terms)}) ctx->checksum_error = 1;")
        self.exprs.where = ""
        return lines

    def _update(self) -> list[str]:
        lines = []
        for checksum in self.program.checksums:
            if not checksum.update:
                continue
            self.exprs.where = f'checksum "{checksum.name}"'
            store = self.actions.store_code(checksum.target, self._call(checksum), 64)
            terms = []
            if checksum.condition is not None:
                terms.append(self.exprs.condition(checksum.condition))
            if checksum.calculation is None:
                terms.append(self.layout.valid(checksum.target.header))
            if terms:
                store = [f"if ({' && '.join(terms)}) {{", *("    " + x for x in store), "}"]
            lines += store
        self.exprs.where = ""
        return lines

    def function(self) -> str:
        """The `deparse` function."""
        lines = ["static uint32_t deparse(struct wp_ctx *ctx, struct wp_phv *phv, uint8_t *out)",
                 "{", "    struct phv *p = (struct phv *)phv;", "    uint8_t *o = out;",
                 "    (void)ctx, (void)p;"]
        lines += ["    " + line for line in self._update()]
        for primitive in self.program.deparser.primitives:
            lines += ["    " + line for line in self.actions.primitive(primitive)]
        for header in self.program.deparser.order:
            if not header.metadata:
                base = self.layout.header(header.name)
                name = self.layout.type_name(header.type)
                lines.append(f"    if ({base}.valid) o = emit_{name}(&{base}, o);")
        return "\n".join([*lines, "    return (uint32_t)(o - out);", "}"])

    def max_header_bytes(self) -> int:
        """An upper bound of what `deparse` writes."""
        return sum(max(h.type.fixed_bits // 8, h.type.max_bytes)
                   for h in self.program.deparser.order)

    def copy(self, field: FieldRef, target: str, source: str) -> str:
        """A statement that copies a field between two header vectors."""
        a, b = (self.layout.field(field.header, field.field, x) for x in (target, source))
        if a.varbit:
            return (f"{a.length} = {b.length}; memcpy({a.code}, {b.code}, sizeof {a.code});")
        if a.bits > 64:
            return f"memcpy({a.code}, {b.code}, sizeof {a.code});"
        return f"{a.code} = {b.code};"
