"""Calculations in C: the input of a hash or checksum as BMv2 builds it, then the algorithm."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from softswitch.codegen.hashes import call_name, custom_crc_code, hash_code
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


def selector_key(profile: str) -> str:
    """Return the key of the calculation that selects a profile's members."""
    return f"selector of {profile}"


def ipv4_key(checksum: str) -> str:
    """Return the key of the calculation of a checksum of the old type `ipv4`."""
    return f"checksum {checksum}"


class CalculationGen:
    """Writes `calc_<name>(ctx, p)` functions, which return the hash as uint64_t.

    The input is built as BMv2 does it: fields bit by bit in order, those of invalid headers left
    out, the last byte filled up with zeros, then the payload. Only calculations that `call` was
    asked for are written.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.program = layout.program
        self._names = Names()
        self._calls: dict[str, str] = {}
        self._calcs = dict(self.program.calculations)
        for profile in self.program.profiles:
            if profile.selector is not None:
                self._calcs[selector_key(profile.name)] = profile.selector
        for checksum in self.program.checksums:
            if checksum.calculation is None:
                self._calcs[ipv4_key(checksum.name)] = self._ipv4(checksum)

    def _ipv4(self, checksum: Checksum) -> Calculation:
        """Return the calculation over the whole header with its checksum field as 0."""
        header = self.program.headers[checksum.target.header]
        return Calculation(
            checksum.name,
            "csum16",
            tuple(
                CalcInput("hexstr", value=0, bits=field.bits)
                if field.name == checksum.target.field
                else CalcInput("field", header.name, field.name)
                for field in header.type.fields
            ),
        )

    def call(self, key: str) -> str:
        """Return a C expression for a calculation's result (by name, `selector_key`,
        `ipv4_key`).
        """
        if key not in self._calls:
            self._calls[key] = "calc_" + self._names.take(key)
        return f"{self._calls[key]}(ctx, p)"

    def has(self, key: str) -> bool:
        """Return whether there is such a calculation."""
        return key in self._calcs

    def functions(self) -> list[str]:
        """Return the CRC tables and the functions of the calculations that are called."""
        used = [key for key in self._calcs if key in self._calls]
        return [
            *hash_code({self._calcs[key].algorithm for key in used if not self._calcs[key].crc}),
            *(
                line
                for key in used
                if (crc := self._calcs[key].crc) is not None
                for line in custom_crc_code(self._calls[key], self._calcs[key].algorithm, crc)
            ),
            *(self._function(self._calls[key], self._calcs[key], key) for key in used),
        ]

    def _groups(self, inputs: Iterable[CalcInput]) -> list[_Group]:
        groups: list[_Group] = []

        def add(header: str | None, pieces: list[Piece], varbit: Place | None = None) -> None:
            last = groups[-1] if groups else None
            if (
                last is not None
                and last.header == header
                and varbit is None
                and (last.varbit is None)
            ):
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
        return (
            sum(group.bits + (group.varbit.bound * 8 if group.varbit else 0) for group in groups)
            // 8
            + 1
        )

    def _function(self, name: str, calc: Calculation, key: str) -> str:
        groups = self._groups(calc.inputs)
        payload = any(item.kind == "payload" for item in calc.inputs)
        lines = [
            f"/* {comment(key)}: {calc.algorithm} */",
            f"static uint64_t {name}(const struct wp_ctx *ctx, const struct phv *p)",
            "{",
            f"    uint8_t buf[{self._bound(groups)}];"
            if groups
            else "    const uint8_t *const buf = NULL; /* the payload only */",
            "    (void)ctx, (void)p;",
        ]
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
        call = call_name(calc.algorithm) if calc.crc is None else f"wpx_{name}"
        if payload:
            lines += [
                "    uint32_t m = ctx->data_len - ctx->parsed_len;",
                "    if (m > ctx->truncate_to) m = ctx->truncate_to;",
                f"    return {call}(buf, n, ctx->data + ctx->parsed_len, m);",
            ]
        else:
            lines.append(f"    return {call}(buf, n, NULL, 0);")
        return "\n".join([*lines, "}"])

    def _guard(self, group: _Group, body: list[str]) -> list[str]:
        if group.header is None:
            return ["    " + line for line in body]
        return [
            f"    if ({self.layout.valid(group.header)}) {{",
            *("        " + line for line in body),
            "    }",
        ]

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
                body = [
                    f"wpx_append(buf, &bit, {piece.code}, {piece.bits});" for piece in group.pieces
                ]
            lines += self._guard(group, body)
        return [*lines, "    const uint32_t n = (bit + 7) / 8;"]
