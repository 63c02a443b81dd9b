"""Primitives as C statements, and actions as C functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from softswitch.codegen.cexpr import ExprGen
from softswitch.codegen.expressions import (
    Const,
    Expr,
    FieldRef,
    HeaderField,
    HeaderRef,
    LastField,
    ObjectRef,
    Op,
    RegisterRef,
    StackRef,
    Text,
    UnionMember,
    UnionStackRef,
    Vector,
)
from softswitch.codegen.gen_calculations import CalculationGen
from softswitch.codegen.gen_trace import TraceGen
from softswitch.codegen.layout import PASS_STEPS, Layout, Names, Place, comment, limbs
from softswitch.codegen.model import Action, Header, HeaderType, Primitive
from softswitch.codegen.pack import HeaderCode
from softswitch.codegen.ranges import U128

_BINARY = {
    "add": "+",
    "subtract": "-",
    "bit_xor": "^",
    "bit_or": "|",
    "bit_and": "&",
    "shift_left": "<<",
    "shift_right": ">>",
}
# BMv2 keeps 15 bits of a session id, and 16 of the ids of lists.
SESSION_MASK = 0x7FFF
LIST_MASK = 0xFFFF


def c_string(text: str) -> str:
    """Return `text` as a C string literal."""
    out = []
    for byte in text.encode():
        char = chr(byte)
        out.append(char if 32 <= byte < 127 and char not in '"\\?' else f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


class ActionGen:
    """Writes primitives and actions.

    `outside` is a statement for an index beyond an array's end, where one is wanted.
    """

    def __init__(
        self,
        layout: Layout,
        exprs: ExprGen,
        calculations: CalculationGen,
        trace: TraceGen,
        outside: str = "",
    ) -> None:
        self._outside = outside
        self.layout = layout
        self.trace = trace
        self.exprs = exprs
        self.program = layout.program
        self.headers = HeaderCode(layout)
        self.calculations = calculations
        names = Names()
        self.names = {a.id: "action_" + names.take(a.name) for a in self.program.actions}

    # --- stores -----------------------------------------------------------------------------

    def store(self, target: Expr, source: Expr) -> list[str]:
        """Assign target = source, cut to the target's width."""
        if isinstance(target, RegisterRef):
            return self._store_register(target.register, target.index, source)
        place = self.exprs.place(target)
        if place.varbit:
            raise self.exprs.error("a variable-length field is only assigned as a whole")
        if place.saturating:
            op = "sat_cast" if place.signed else "usat_cast"
            source = Op(op, source, Const(place.bits))
        if place.bits > 128 and isinstance(source, FieldRef | HeaderField | LastField):
            other = self.exprs.place(source)
            if other.bits == place.bits and not other.varbit:
                return [f"memmove({place.code}, {other.code}, sizeof {place.code});"]
        return self._store_place(place, source)

    def _store_place(self, place: Place, source: Expr) -> list[str]:
        value = self.exprs.modulo(source, place.bits)
        if value.repr.limbs:
            return [f"wpx_put_{value.repr.name}({place.code}, {value.code}, {limbs(place.bits)});"]
        if value.repr == U128:
            return [f"wpx_put128({place.code}, {value.code});"]
        return [f"{place.code} = {value.code};"]

    def store_code(self, target: Expr, code: str, bits: int) -> list[str]:
        """Assign target = a C expression of uint64_t that has at most `bits` bits."""
        if isinstance(target, RegisterRef):
            number, width, size = self.exprs.register(target.register)
            mask = f" & {(1 << width) - 1:#x}" if width < min(bits, 64) else ""
            cell = f"ctx->env->registers[{number}].cells + at * {limbs(width)}"
            lines = [
                f"uint64_t at = {self.exprs.index(target.index)};",
                f"if (at < {size}) {{",
                f"    uint64_t *cell = {cell};",
                f"    cell[0] = ({code}){mask};",
            ]
            lines += [f"    cell[{i}] = 0;" for i in range(1, limbs(width))]
            return ["{", *("    " + line for line in [*lines, "}"]), "}"]
        place = self.exprs.place(target)
        if place.bits > 64:
            return [f"{place.code}[0] = {code};"] + [
                f"{place.code}[{i}] = 0;" for i in range(1, limbs(place.bits))
            ]
        mask = f" & {(1 << place.bits) - 1:#x}" if place.bits < bits else ""
        return [f"{place.code} = ({code}){mask};" if mask else f"{place.code} = {code};"]

    def _store_register(self, name: str, index: Expr, source: Expr) -> list[str]:
        number, bits, size = self.exprs.register(name)
        value = self.exprs.modulo(source, bits)
        words = limbs(bits)
        cells = f"ctx->env->registers[{number}].cells"
        at = self.exprs.index(index)
        if words == 1:
            store = f"{cells}[at] = {value.code};"
        elif words == 2:
            store = f"wpx_put128({cells} + at * 2, {value.code});"
        else:
            store = f"wpx_put_{value.repr.name}({cells} + at * {words}, {value.code}, {words});"
        traced = self.trace.cell("REGISTER_WRITE", number, "at", f"{cells}[at * {words}]")
        if traced:
            store = f"{{ {store} {traced[0]} }}"
        return ["{", f"    uint64_t at = {at};", f"    if (at < {size}) {store}", "}"]

    # --- headers ----------------------------------------------------------------------------

    def set_valid(self, expr: Expr) -> list[str]:
        """Mark a header valid; the other members of its union become invalid."""
        lines = [f"{self.exprs.header(expr)}.valid = 1;"]
        return lines + self._others_invalid(expr)

    def _others_invalid(self, expr: Expr) -> list[str]:
        if isinstance(expr, HeaderRef):
            union_name = self.layout.union_of(expr.name)
            if union_name is None:
                return []
            union = self.program.unions[union_name]
            return [
                f"{self.layout.header(h.name)}.valid = 0;"
                for h in union.headers
                if h.name != expr.name
            ]
        if isinstance(expr, UnionMember):
            base, name = self.exprs.union(expr.union), self.exprs.program_union_type(expr.union)[0]
            members = self.layout.union_members(name)
            return [f"{base}.{m}.valid = 0;" for i, m in enumerate(members) if i != expr.member]
        return []

    def _metadata(self, expr: Expr) -> Header | None:
        if isinstance(expr, HeaderRef):
            header = self.program.headers[expr.name]
            return header if header.metadata else None
        return None

    def _copy_header(self, target: Expr, source: Expr) -> list[str]:
        if self._metadata(target) is None and self._metadata(source) is None:
            a, b = self.exprs.header(target), self.exprs.header(source)
            if a == b:
                return []
            return [
                f"if ({b}.valid) {{",
                f"    {a} = {b};",
                *("    " + line for line in self._others_invalid(target)),
                "} else {",
                f"    {a}.valid = 0;",
                "}",
            ]
        return self._copy_fields(target, source, self.exprs.header_type(target))

    def _copy_fields(self, target: Expr, source: Expr, of: HeaderType) -> list[str]:
        """Copy to or from metadata, field by field: they have structs of their own."""
        lines = []
        for i, field in enumerate(of.fields):
            if field.varbit:
                lines += self._copy_varbit(HeaderField(target, i), HeaderField(source, i))
            else:
                lines += self.store(HeaderField(target, i), HeaderField(source, i))
        if self._metadata(source) is not None:
            return lines + (self.set_valid(target) if self._metadata(target) is None else [])
        return [f"if ({self.exprs.valid(source)}) {{", *("    " + x for x in lines), "}"]

    def _copy_varbit(self, target: Expr, source: Expr) -> list[str]:
        a, b = self.exprs.place(target), self.exprs.place(source)
        size = f"wpx_clamp_u64({b.length} / 8, 0, {min(a.bound, b.bound)})"
        return [
            f"{a.length} = (uint32_t){size} * 8;",
            f"memmove({a.code}, {b.code}, {a.length} / 8);",
        ]

    def _add_header(self, expr: Expr, *, count: bool) -> list[str]:
        if self._metadata(expr) is not None:
            return []
        base = self.exprs.header(expr)
        of = self.exprs.header_type(expr)
        lines = [f"if (!{base}.valid) {{"]
        varbit = self.layout.type_field(of, of.varbit, base) if of.varbit is not None else None
        name = self.layout.type_name(of)
        if varbit is not None:
            lines.append(f"    uint32_t bits = {varbit.length};")
        lines.append(f"    memset(&{base}, 0, sizeof(struct {name}));")
        if varbit is not None:
            lines.append(f"    {varbit.length} = bits; /* add_header keeps the length */")
        lines += ["    " + line for line in self.set_valid(expr)]
        if count:
            lines.append(f"    ctx->packet_length += {self.headers.size(of, base)};")
        return [*lines, "}"]

    def _remove_header(self, expr: Expr) -> list[str]:
        if self._metadata(expr) is not None:
            return []
        base = self.exprs.header(expr)
        size = self.headers.size(self.exprs.header_type(expr), base)
        return [
            f"if ({base}.valid) {{",
            f"    ctx->packet_length -= {size};",
            f"    {base}.valid = 0;",
            "}",
        ]

    def _shift_stack(self, expr: Expr, count: Expr, push: bool) -> list[str]:
        """Write push_front and pop_front of P4_16: the whole stack moves, what comes in is
        invalid.
        """
        assert isinstance(expr, StackRef | UnionStackRef)
        array, following = self.layout.stack(expr.name), self.layout.stack_next(expr.name)
        size = self.layout.stack_size(expr.name)
        lines = [f"uint32_t n = (uint32_t)wpx_clamp_u64({self.exprs.index(count)}, 0, {size});"]
        item = f"sizeof {array}[0]"
        if push:
            lines += [
                f"memmove(&{array}[n], &{array}[0], ({size} - n) * {item});",
                f"memset(&{array}[0], 0, n * {item});",
                f"{following} = {following} + n < {size} ? {following} + n : {size};",
            ]
        else:
            lines += [
                f"memmove(&{array}[0], &{array}[n], ({size} - n) * {item});",
                f"memset(&{array}[{size} - n], 0, n * {item});",
                f"{following} -= {following} < n ? {following} : n;",
            ]
        return ["{", *("    " + line for line in lines), "}"]

    def _copy_stack(self, target: Expr, source: Expr) -> list[str]:
        names = [
            expr.name for expr in (target, source) if isinstance(expr, StackRef | UnionStackRef)
        ]
        a, b = (self.layout.stack(name) for name in names)
        if a == b:
            return []
        size = self.layout.stack_size(names[0])
        return [
            f"memcpy({a}, {b}, {size} * sizeof {a}[0]);",
            f"{self.layout.stack_next(names[0])} = {self.layout.stack_next(names[1])};",
        ]

    # --- primitives -------------------------------------------------------------------------

    def primitive(self, primitive: Primitive) -> list[str]:
        """Return the statements of one primitive.

        The action itself handles `_jump`, `_jump_if_zero`.
        """
        op = primitive.op
        args = cast("tuple[Expr, ...]", primitive.args)
        match op:
            case "assign" | "modify_field":
                return self.store(args[0], args[1])
            case "add_to_field" | "subtract_from_field":
                sign = "+" if op == "add_to_field" else "-"
                return self.store(args[0], Op(sign, args[0], args[1]))
            case _ if op in _BINARY:
                return self.store(args[0], Op(_BINARY[op], args[1], args[2]))
            case "assign_VL":
                return self._copy_varbit(args[0], args[1])
            case "assign_header" | "copy_header":
                return self._copy_header(args[0], args[1])
            case "assign_union":
                a, b = self.exprs.union(args[0]), self.exprs.union(args[1])
                return [f"{a} = {b};"] if a != b else []
            case "assign_header_stack" | "assign_union_stack":
                return self._copy_stack(args[0], args[1])
            case "push" | "pop":
                return self._shift_stack(args[0], args[1], op == "push")
            case "add_header":
                return self._add_header(args[0], count=True)
            case "add_header_fast":
                return self.set_valid(args[0]) if self._metadata(args[0]) is None else []
            case "remove_header":
                return self._remove_header(args[0])
            case "no_op":
                return []
            case _:
                return self._extern(op, primitive)

    def _extern(self, op: str, primitive: Primitive) -> list[str]:
        args = cast("tuple[Expr, ...]", primitive.args)
        number = self._number
        match op:
            case "exit":
                return ["ctx->exit_flag = 1;"]
            case "drop":
                return self._drop()
            case "mark_to_drop":
                return self._mark_to_drop(args[0])
            case "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress":
                session = number(args[0], SESSION_MASK)
                return [
                    f"ctx->clone_session = {session} | WP_CLONE_REQUEST;",
                    f"ctx->clone_field_list = {number(args[1], LIST_MASK)};",
                ]
            case "resubmit" | "recirculate":
                which = "resubmit" if op == "resubmit" else "recirc"
                name = f"ctx->{which}_field_list"
                listed = number(args[0], LIST_MASK)
                # BMv2 takes list 0 as no request
                return [f"{name} = {listed};", f"if ({name} != 0) {name} |= WP_FLAG_REQUEST;"]
            case "generate_digest":
                return [f"ctx->learn_list = {number(args[1], LIST_MASK)};"]
            case "truncate":
                return [
                    "{",
                    f"    uint64_t n = {self.exprs.index(args[0])};",
                    "    if (n < ctx->truncate_to) ctx->truncate_to = (uint32_t)n;",
                    "}",
                ]
            case "modify_field_with_hash_based_offset":
                return self._hash(args[0], args[1], primitive.args[2], args[3])
            case "modify_field_rng_uniform":
                return self._random(*args)
            case "count" | "execute_meter" | "register_read" | "register_write":
                return [*self._bounds(op, primitive), *self._stateful(op, primitive)]
            case "assert" | "assume":
                text = c_string(f"{op} failed")
                return [
                    f"if (!{self.exprs.condition(args[0])}) ctx->env->log(ctx, 1, {text}, 0, NULL);"
                ]
            case _:
                return self._log(primitive)

    def _drop(self) -> list[str]:
        owner = next(ref for ref, m in self.program.std_fields.items() if m == "egress_spec")
        mask = (1 << min(32, self.layout.field(*owner).bits)) - 1
        return [f"p->std.egress_spec = ctx->env->drop_port & {mask:#x};", "p->std.mcast_grp = 0;"]

    def _mark_to_drop(self, header: Expr) -> list[str]:
        """Write mark_to_drop for the given header, which may be a copy of the standard metadata: as
        in BMv2.
        """
        of = self.exprs.header_type(header)
        fields = {field.name: HeaderField(header, i) for i, field in enumerate(of.fields)}
        if "egress_spec" not in fields:
            raise self.exprs.error(f'mark_to_drop: "{of.name}" has no field "egress_spec"')
        lines = self.store_code(fields["egress_spec"], "ctx->env->drop_port", 32)
        if "mcast_grp" in fields:
            lines += self.store_code(fields["mcast_grp"], "0", 1)
        return lines

    def _number(self, expr: Expr, mask: int) -> str:
        """Return the low bits of an expression as uint32_t."""
        if isinstance(expr, Const):
            return f"{expr.value & mask:#x}u"
        return f"(uint32_t)({self.exprs.modulo(expr, mask.bit_length()).code})"

    def _hash(self, target: Expr, base: Expr, calc: object, size: Expr) -> list[str]:
        assert isinstance(calc, ObjectRef)
        call = self.calculations.call(calc.name)
        modulus = self.exprs.modulo(size, 64).code
        if isinstance(size, Const):
            modulus = f"UINT64_C({max(1, size.value & (2**64 - 1))})"
            return self.store_code(
                target, f"{call} % {modulus} + {self.exprs.modulo(base, 64).code}", 64
            )
        lines = [f"uint64_t most = {modulus};", "if (most == 0) most = 1; /* as BMv2 */"]
        lines += self.store_code(target, f"{call} % most + {self.exprs.modulo(base, 64).code}", 64)
        return ["{", *("    " + line for line in lines), "}"]

    def _random(self, target: Expr, low: Expr, high: Expr) -> list[str]:
        lines = [
            f"uint64_t low = {self.exprs.modulo(low, 64).code};",
            f"uint64_t high = {self.exprs.modulo(high, 64).code};",
            "if (low <= high) { /* else BMv2 leaves the field alone */",
            "    uint64_t r = ctx->env->random(ctx->env), n = high - low + 1;",
            "    if (n != 0) r = low + (uint64_t)((wpx_u128)r * n >> 64);",
        ]
        lines += ["    " + line for line in self.store_code(target, "r", 64)]
        return ["{", *("    " + line for line in [*lines, "}"]), "}"]

    def _bounds(self, op: str, primitive: Primitive) -> list[str]:
        """Return the bounds check of an array access, for builds that look for undefined
        behaviour.
        """
        place = 1 if op == "register_read" else 0
        array, index = primitive.args[place], cast(Expr, primitive.args[place + 1])
        assert isinstance(array, ObjectRef)
        sizes = {
            "count": {o.name: o.size for o in self.program.counters},
            "execute_meter": {o.name: o.size for o in self.program.meters},
        }
        registers = {o.name: o.size for o in self.program.registers}
        size = sizes.get(op, registers)[array.name]
        if not self._outside or self.exprs.range(index).high < size:
            return []
        return [f"if ({self.exprs.index(index)} >= {size}) {self._outside}"]

    def _stateful(self, op: str, primitive: Primitive) -> list[str]:
        args = primitive.args
        if op == "register_read":
            target, register, index = cast("tuple[Expr, ObjectRef, Expr]", args)
            return self._register_read(target, register.name, index)
        array = args[0]
        assert isinstance(array, ObjectRef)
        index = cast(Expr, args[1])
        if op == "register_write":
            return self._store_register(array.name, index, cast(Expr, args[2]))
        group = self.program.counters if op == "count" else self.program.meters
        found = next(o for o in group if o.name == array.name)
        lines = [f"uint64_t at = {self.exprs.index(index)}; /* {comment(array.name)} */"]
        if op == "count":
            lines += [
                f"if (at < {found.size}) {{",
                f"    struct wp_counter *c = &ctx->env->counters[{found.index}].cells[at];",
                "    c->packets++;",
                "    c->bytes += ctx->ingress_length;",
                *("    " + line for line in self.trace.cell("COUNT", found.index, "at")),
                "}",
            ]
        else:
            lines.append(f"if (at < {found.size}) {{")
            lines.append(f"    uint32_t colour = ctx->env->meter(ctx, {found.index}, at);")
            lines += [
                "    " + line
                for line in [
                    *self.store_code(cast(Expr, args[2]), "(uint64_t)colour", 2),
                    *self.trace.cell("METER", found.index, "at", "colour"),
                ]
            ]
            lines.append("}")
        return ["{", *("    " + line for line in lines), "}"]

    def _register_read(self, target: Expr, name: str, index: Expr) -> list[str]:
        number, bits, size = self.exprs.register(name)
        store = self.store(target, RegisterRef(name, index))
        cell = f"ctx->env->registers[{number}].cells[{self.exprs.index(index)} * {limbs(bits)}]"
        store = self.trace.cell("REGISTER_READ", number, self.exprs.index(index), cell) + store
        if self.exprs.range(index).high < size:
            return store
        return [
            f"if ({self.exprs.index(index)} < {size}) {{ /* else the field stays, as in BMv2 */",
            *("    " + line for line in store),
            "}",
        ]

    def _log(self, primitive: Primitive) -> list[str]:
        text, values = primitive.args
        assert isinstance(text, Text) and isinstance(values, Vector)
        if not values.items:
            return [f"ctx->env->log(ctx, 0, {c_string(text.value)}, 0, NULL);"]
        codes = ", ".join(self.exprs.modulo(v, 64).code for v in values.items)
        return [
            "{",
            f"    uint64_t values[] = {{{codes}}};",
            f"    ctx->env->log(ctx, 0, {c_string(text.value)}, {len(values.items)}, values);",
            "}",
        ]

    # --- actions ----------------------------------------------------------------------------

    def action(self, action: Action) -> str:
        """Return the C function of an action: `static void action_x(ctx, p, args)`."""
        self.exprs.params = action.params
        self.exprs.where = f'action "{action.name}"'
        params = ", ".join(f"{p.name}: {p.bits}" for p in action.params)
        body = self._sequence(action.primitives)
        self.exprs.params = ()
        self.exprs.where = ""
        head = (
            f"/* {comment(action.name)}({comment(params)}) */\n"
            f"static inline void {self.names[action.id]}(struct wp_ctx *ctx, struct phv *p, "
            f"const uint64_t *args)\n{{\n    (void)ctx, (void)p, (void)args;"
        )
        return "\n".join([head, *body, "}"])

    def _sequence(self, primitives: Sequence[Primitive]) -> list[str]:
        jumps = [p for p in primitives if p.op in ("_jump", "_jump_if_zero")]
        constant = {p.args[-1].value for p in jumps if isinstance(p.args[-1], Const)}
        every = any(not isinstance(p.args[-1], Const) for p in jumps)
        targets = set(range(len(primitives))) if every else constant
        lines: list[str] = []
        backward = every or any(
            p in jumps and cast(Const, p.args[-1]).value <= i for i, p in enumerate(primitives)
        )
        if backward and self.layout.steps is None:
            lines.append("    uint32_t jumps = 0;")
        for i, primitive in enumerate(primitives):
            if i in targets:
                lines.append(f"at_{i}:;")
            if primitive.op in ("_jump", "_jump_if_zero"):
                lines += ["    " + x for x in self._jump(i, primitive, len(primitives))]
            else:
                lines += ["    " + x for x in self.primitive(primitive)]
        return lines

    def _jump(self, at: int, primitive: Primitive, count: int) -> list[str]:
        target = cast(Expr, primitive.args[-1])
        if isinstance(target, Const):
            goto = [f"goto at_{target.value};" if target.value < count else "return;"]
            back = target.value <= at
        else:
            cases = " ".join(f"case {i}: goto at_{i};" for i in range(count))
            goto = [f"switch ({self.exprs.index(target)}) {{ {cases} default: return; }}"]
            back = True
        if back:
            # In a cycle an action's jumps are the pass's, or their product would be the bound.
            steps = self.layout.steps
            spent = f"++{steps} > {PASS_STEPS}" if steps else "++jumps > WPX_ACTION_JUMPS"
            goto.insert(0, f"if ({spent}) return;")
        if primitive.op == "_jump":
            return goto
        zero = self.exprs.condition(Op("d2b", None, cast(Expr, primitive.args[0])))
        return [f"if (!{zero}) {{", *("    " + line for line in goto), "}"]
