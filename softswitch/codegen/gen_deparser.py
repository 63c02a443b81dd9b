"""Checksums and the deparser in C."""

from __future__ import annotations

from softswitch.codegen.cexpr import ExprGen
from softswitch.codegen.expressions import FieldRef
from softswitch.codegen.gen_actions import ActionGen
from softswitch.codegen.gen_calculations import CalculationGen, ipv4_key
from softswitch.codegen.layout import Layout
from softswitch.codegen.model import Checksum


class DeparserGen:
    """Writes checksum statements and the `deparse` function."""

    def __init__(
        self, layout: Layout, exprs: ExprGen, actions: ActionGen, calculations: CalculationGen
    ) -> None:
        self.layout = layout
        self.exprs = exprs
        self.actions = actions
        self.calculations = calculations
        self.program = layout.program

    def _call(self, checksum: Checksum) -> str:
        return self.calculations.call(
            ipv4_key(checksum.name) if checksum.calculation is None else checksum.calculation
        )

    def verify(self) -> list[str]:
        """Return the statements that verify checksums at the end of the parser."""
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
        """Return the `deparse` function."""
        lines = [
            "static uint32_t deparse(struct wp_ctx *ctx, struct wp_phv *phv, uint8_t *out)",
            "{",
            "    struct phv *p = (struct phv *)phv;",
            "    uint8_t *o = out;",
            "    (void)ctx, (void)p;",
        ]
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
        """Return an upper bound of the bytes that `deparse` writes."""
        return sum(
            max(h.type.fixed_bits // 8, h.type.max_bytes) for h in self.program.deparser.order
        )

    def copy(self, field: FieldRef, target: str, source: str) -> str:
        """Return a statement that copies a field between two header vectors."""
        a, b = (self.layout.field(field.header, field.field, x) for x in (target, source))
        if a.varbit:
            return f"{a.length} = {b.length}; memcpy({a.code}, {b.code}, sizeof {a.code});"
        if a.bits > 64:
            return f"memcpy({a.code}, {b.code}, sizeof {a.code});"
        return f"{a.code} = {b.code};"
