"""The parser as one C function: a label a state, checks of the packet's length where it is read."""

from __future__ import annotations

from collections.abc import Sequence

from softswitch.codegen.cexpr import ExprGen
from softswitch.codegen.expressions import Const, Expr, HeaderRef, Lookahead
from softswitch.codegen.gen_actions import ActionGen
from softswitch.codegen.gen_trace import TraceGen
from softswitch.codegen.graph import back_edges, reachable
from softswitch.codegen.layout import Layout, Names, comment, limbs
from softswitch.codegen.model import (
    Advance,
    Extract,
    HeaderType,
    ParserCall,
    ParserOp,
    ParseState,
    Set,
    Transition,
    Verify,
)
from softswitch.codegen.pack import const_pieces, load


def _choices(state: ParseState) -> list[Transition]:
    """Return the transitions that can be taken, in order; the default one is last."""
    cases = [t for t in state.transitions if t.kind != "default"] if state.key else []
    defaults = [t for t in state.transitions if t.kind == "default"]
    return cases + (defaults[-1:] or [Transition("default", b"", None, "", None)])


class ParserGen:
    """Writes `parse`. `checksums` are the statements that verify checksums at its end."""

    def __init__(self, layout: Layout, exprs: ExprGen, actions: ActionGen, trace: TraceGen) -> None:
        self.layout = layout
        self.trace = trace
        self.exprs = exprs
        self.actions = actions
        self.program = layout.program
        names = Names()
        self.labels = {name: "state_" + names.take(name) for name in self.program.parser.states}
        init = self.program.parser.init_state
        self._reached = reachable(init, self._targets)
        self._loops = back_edges(init, self._targets)

    def _error(self, name: str) -> str:
        return f"{{ error = {self.program.errors[name]}; /* {name} */ goto done; }}"

    def _targets(self, name: str) -> list[str]:
        """Return the states that can follow: a value set may have any members."""
        choices = _choices(self.program.parser.states[name])
        return [t.next for t in choices if t.next is not None]

    def function(self, checksums: list[str], prologue: Sequence[str] = ()) -> str:
        """Return the whole `parse` function; `prologue` holds statements before its first state."""
        parser = self.program.parser
        no_error = self.program.errors["NoError"]
        lines = [
            "static void parse(struct wp_ctx *ctx, struct wp_phv *phv)",
            "{",
            "    struct phv *p = (struct phv *)phv;",
            "    const uint8_t *d = ctx->data;",
            "    const uint32_t len = ctx->data_len;",
            "    uint32_t pos = 0;",
            f"    uint32_t error = {no_error};",
        ]
        if self._loops:
            lines.append("    uint32_t steps = 0;")
        lines.append("    (void)p, (void)d, (void)len;")
        lines += ["    " + line for line in prologue]
        if parser.init_state is not None:
            lines.append(f"    goto {self.labels[parser.init_state]};")
            for name, state in parser.states.items():
                if name in self._reached:
                    lines += self._state(state)
        lines += [
            "    goto done;" if parser.init_state is None else "",
            "done:",
            "    ctx->parsed_len = pos;",
            "    ctx->parser_error = error;",
            "    ctx->checksum_error = 0;",
            *("    " + line for line in checksums),
            "}",
        ]
        return "\n".join(line for line in lines if line)

    def _state(self, state: ParseState) -> list[str]:
        self.exprs.where = f'parse state "{state.name}"'
        lines = [f"{self.labels[state.name]}: {{ /* {comment(state.name)} */"]
        lines += ["    " + line for line in self.trace.state(state.name)]
        for op in state.ops:
            lines += ["    " + line for line in self._op(op)]
        lines += ["    " + line for line in self._transitions(state)]
        self.exprs.where = ""
        return [*("    " + line for line in lines), "    }"]

    # --- operations -------------------------------------------------------------------------

    def _op(self, op: ParserOp) -> list[str]:
        match op:
            case Extract():
                return self._extract(op)
            case Set(target, Lookahead(offset, bits)):
                # BMv2 checks the bytes of the value, wherever it begins
                check = f"if (len - pos < {(bits + 7) // 8}) {self._error('PacketTooShort')}"
                return [check, *self.actions.store(target, Lookahead(offset, bits))]
            case Set(target, source):
                if self.program.field(target).varbit:
                    return self.actions._copy_varbit(target, source)
                return self.actions.store(target, source)
            case Verify(condition, error):
                code = self.exprs.modulo(error, 32).code
                return [
                    f"if (!{self.exprs.condition(condition)}) {{",
                    f"    error = (uint32_t)({code});",
                    "    goto done;",
                    "}",
                ]
            case Advance(bits):
                return self._advance(bits)
            case ParserCall(primitive):
                return self.actions.primitive(primitive)

    def _advance(self, bits: Expr) -> list[str]:
        short, bad = self._error("PacketTooShort"), self._error("ParserInvalidArgument")
        if isinstance(bits, Const):
            if bits.value % 8 or bits.value < 0:
                return [f"if (1) {bad}"]
            return [
                f"if (len - pos < UINT64_C({bits.value // 8})) {short}",
                f"pos += UINT32_C({bits.value // 8});" if bits.value < 2**35 else "",
            ]
        return [
            "{",
            f"    uint64_t n = {self.exprs.index(bits)};",
            f"    if (n % 8 != 0) {bad}",
            f"    if (len - pos < n / 8) {short}",
            "    pos += (uint32_t)(n / 8);",
            "}",
        ]

    def _extract(self, op: Extract) -> list[str]:
        target = op.target
        lines: list[str] = []
        match target.kind:
            case "regular":
                base = self.layout.header(target.name)
                after = self.actions._others_invalid(HeaderRef(target.name))
            case _:
                size = self.layout.stack_size(target.name)
                following = self.layout.stack_next(target.name)
                lines.append(f"if ({following} >= {size}) {self._error('StackOutOfBounds')}")
                base = f"{self.layout.stack(target.name)}[{following}]"
                after = []
                if target.kind == "union_stack":
                    of = self.program.union_stacks[target.name].type.name
                    union, member = base, self.layout.union_member(of, target.member)
                    base = f"{union}.{member}"
                    after = [
                        f"{union}.{name}.valid = 0;"
                        for name in self.layout.union_members(of)
                        if name != member
                    ]
                after.append(f"{following}++;")
        name = self.layout.type_name(target.type)
        if target.type.varbit is not None:
            return lines + self._extract_varbit(op, base, name) + after
        size = target.type.fixed_bits // 8
        if size:
            lines.append(f"if (len - pos < {size}) {self._error('PacketTooShort')}")
        lines += [f"extract_{name}(&{base}, d + pos);", f"pos += {size};" if size else "", *after]
        return [line for line in lines if line]

    def _extract_varbit(self, op: Extract, base: str, name: str) -> list[str]:
        of = op.target.type
        fixed = of.fixed_bits // 8
        bound = self.layout.bound(of)
        short, bad = self._error("PacketTooShort"), self._error("ParserInvalidArgument")
        lines = ["{"]
        if op.length is not None:
            lines += [f"    uint64_t n = {self._length(op.length)};"]
        else:
            assert of.length_exp is not None
            lines += [
                f"    if (len - pos < {fixed}) {short}",
                f"    struct {name} h[1];",
                "    memset(h, 0, sizeof h);",
                *("    " + line for line in self._head(of)),
                f"    uint64_t n = {self._own_length(of, of.length_exp)};",
            ]
        lines += [
            # BMv2 takes the length as an int, which saturates at a number that is not whole bytes
            f"    if (n % 8 != 0 || n > INT32_MAX) {bad}",
            f"    if (len - pos < {fixed} + n / 8) {short}",
            f"    if (n / 8 > {bound}) {self._error('HeaderTooShort')}",
            f"    extract_{name}(&{base}, d + pos, (uint32_t)n);",
            f"    pos += {fixed} + (uint32_t)(n / 8);",
            "}",
        ]
        return lines

    def _length(self, length: Expr) -> str:
        if self.exprs.range(length).low >= 0:
            return self.exprs.index(length)
        value = self.exprs.exact(length)
        wide = self.exprs.convert(value, value.repr)
        negative = (
            f"wpx_limbs_sign({wide}.l, {value.repr.limbs})" if value.repr.limbs else f"{wide} < 0"
        )
        return f"({negative}) ? UINT64_MAX : {self.exprs.index(length)}"

    def _head(self, of: HeaderType) -> list[str]:
        """Load the fields before the varbit one, which the header's own length may refer to."""
        lines, bit = [], 0
        for field in of.fields:
            if field.varbit:
                break
            place = self.layout.type_field(of, field, "h[0]")
            for i in range(limbs(field.bits)):
                width = min(64, field.bits - 64 * i)
                source = load("(d + pos)", bit + field.bits - 64 * i - width, width)
                target = place.code if field.bits <= 64 else f"{place.code}[{i}]"
                lines.append(f"{target} = {source};")
            bit += field.bits
        return lines

    def _own_length(self, of: HeaderType, length: Expr) -> str:
        self.exprs.length_type = of
        try:
            return self._length(length)
        finally:
            self.exprs.length_type = None

    # --- transitions ------------------------------------------------------------------------

    def _goto(self, state: ParseState, target: str | None) -> str:
        if target is None:
            return "goto done;"
        jump = f"goto {self.labels[target]};"
        if (state.name, target) in self._loops:
            return f"if (++steps > WPX_PARSE_STEPS) {self._error('ParserTimeout')} {jump}"
        return jump

    def _transitions(self, state: ParseState) -> list[str]:
        *cases, last = _choices(state)
        default = last.next
        if not state.key or not cases:
            return [self._goto(state, default)]
        parts, lines = self._key(state)
        if len(parts) == 1 and all(t.kind == "hexstr" and t.mask is None for t in cases):
            lines.append(f"switch ({parts[0][0]}) {{")
            seen: set[bytes] = set()
            for t in cases:
                if t.value not in seen:
                    seen.add(t.value)
                    value = int.from_bytes(t.value, "big")
                    lines.append(f"case {value:#x}: {self._goto(state, t.next)}")
            return [*lines, f"default: {self._goto(state, default)}", "}"]
        if any(t.kind == "parse_vset" for t in cases):
            names = ", ".join(name for name, _ in parts)
            lines.append(f"const uint64_t set_key[] = {{{names}}};")
        for t in cases:
            matches = self._in_set(t) if t.kind == "parse_vset" else self._matches(t, parts)
            lines.append(f"if ({matches}) {{ {self._goto(state, t.next)} }}")
        return [*lines, self._goto(state, default)]

    def _key(self, state: ParseState) -> tuple[list[tuple[str, int]], list[str]]:
        """Return the key as words of up to 8 bytes, (C name, bytes), and the statements that load
        them.
        """
        parts: list[tuple[str, int]] = []
        lines: list[str] = []
        for expr, bits in state.key:
            if isinstance(expr, Lookahead):
                codes = [
                    self.exprs._exact(
                        Lookahead(
                            expr.offset + max(0, bits - 64 * (i + 1)), min(64, bits - 64 * i)
                        ),
                        self.exprs.exact(Const(0)).repr,
                    )
                    for i in reversed(range(limbs(bits)))
                ]
            else:
                place = self.exprs.place(expr)
                if place.varbit:
                    raise self.exprs.error("a variable-length field can't be a transition key")
                words = limbs(bits)
                codes = [
                    place.code if words == 1 else f"{place.code}[{i}]"
                    for i in reversed(range(words))
                ]
            for code, piece in zip(codes, const_pieces(0, bits), strict=True):
                name = f"k{len(parts)}"
                lines.append(f"const uint64_t {name} = {code};")
                parts.append((name, (piece.bits + 7) // 8))
        return parts, lines

    def _in_set(self, transition: Transition) -> str:
        (index,) = (v.index for v in self.program.value_sets if v.name == transition.value_set)
        return f"wpx_in_set(&ctx->env->value_sets[{index}], set_key)"

    @staticmethod
    def _matches(transition: Transition, parts: list[tuple[str, int]]) -> str:
        terms, at = [], 0
        for name, size in parts:
            value = int.from_bytes(transition.value[at : at + size], "big")
            full = (1 << (8 * size)) - 1
            mask = full
            if transition.mask is not None:
                mask = int.from_bytes(transition.mask[at : at + size], "big")
            at += size
            if mask == full:
                terms.append(f"{name} == {value:#x}")
            elif mask:
                terms.append(f"({name} & {mask:#x}) == {value & mask:#x}")
        return " && ".join(terms) or "1"
