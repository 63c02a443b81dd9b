"""Draws whole programs: types, parser, controls, tables, deparser."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from tests.random_programs import model as m
from tests.random_programs.draw_expressions import WIDTHS, Leaf, Sight
from tests.random_programs.draw_statements import headers_of, key_of, leaves_of
from tests.random_programs.draw_traffic import COLOR, HOPS, TrafficDraw
from tests.random_programs.types import (
    BOOL,
    Bits,
    Enum,
    Stack,
    Struct,
    Type,
    Varbit,
    bit,
    width_of,
)

PORTS = 8
FIRST = "hdr.h0"


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    statements: int = 6
    functions: int = 2
    actions: int = 3
    tables: int = 2
    headers: int = 3
    portable: bool = False
    """Leave out what p4c 1.2.5 refuses or crashes on by faults of its own (docs/parity.md)."""
    traffic: bool = False
    """Programs that make more packets of one."""


SMALL = Size()
PORTABLE = Size(portable=True)
TRAFFIC = Size(traffic=True)
PORTABLE_TRAFFIC = Size(portable=True, traffic=True)


def draw(seed: int, size: Size = SMALL) -> m.Program:
    """Return the program of a seed: always the same."""
    return ProgramDraw(seed, size).program()


class ProgramDraw(TrafficDraw):
    def __init__(self, seed: int, size: Size) -> None:
        chance = random.Random(seed)
        widths = [8, *chance.sample(WIDTHS, 4)]
        super().__init__(chance, widths, [], size.portable)
        self.seed, self.size, self.traffic = seed, size, size.traffic
        self.structs: list[Struct] = []
        self.sub_parsers: list[m.Parser] = []
        self.value_sets: dict[str, tuple[Bits, int]] = {}
        self.errors: list[str] = []

    def program(self) -> m.Program:
        """All of it."""
        self._draw_enums()
        headers = self._draw_headers()
        functions: list[m.Function] = []
        for _ in range(self.random.randrange(self.size.functions + 1)):
            functions.append(self.function(functions))
        metadata = self._draw_metadata()
        self.digests = self.draw_digests() if self.traffic else []
        self.structs += self.digests
        lists = self.draw_field_lists(metadata) if self.traffic else {}
        if self.chance(20):
            self.errors = ["Odd", "Strange"]
        parser = self._draw_parser(headers, metadata, functions)
        checksums = self._draw_checksums(headers)
        ingress = self._draw_control("In", headers, metadata, functions)
        egress = self._draw_control("Out", headers, metadata, functions)
        emits = self._draw_emits(headers)
        headers = self._add_dump(headers, metadata, egress)
        parser.params[0].type = headers
        made = m.Program(
            self.seed, self.enums, self.structs, headers, metadata, functions, parser,
            self.sub_parsers, self.value_sets, ingress, egress, emits, checksums, self.errors,
            list(self.digests), lists,
        )  # fmt: skip
        whole = m.Var(headers, m.HDR)
        if self.chance(30):
            made.emits = [whole]
        else:
            made.emits.append(m.Field(headers.fields[-1][1], whole, "dump"))
        return made

    # --- types ----------------------------------------------------------------------------------

    def _draw_enums(self) -> None:
        if self.chance(50):
            width = self.random.choice([width for width in self.widths if width < 33])
            count = min(1 << width, 3)
            values = self.random.sample(range(min(1 << width, 1 << 16)), count)
            members = tuple((f"M{at}", value) for at, value in enumerate(values))
            self.enums.append(Enum("Serial", members, width))

    def _header(self, name: str, varbit: bool = False) -> Struct:
        fields: list[tuple[str, Type]] = []
        for at in range(self.random.randint(2, 5)):
            fields.append((f"f{at}", self._field_type()))
        total = sum(width_of(of) for _, of in fields)
        if varbit:
            fields.append(("length", bit(8)))
        if total % 8:
            fields.insert(self.random.randrange(len(fields) + 1), ("pad", bit(8 - total % 8)))
        if varbit:
            fields.append(("var", Varbit(self.random.choice((32, 64, 320)))))
        made = Struct(name, tuple(fields), "header")
        self.structs.append(made)
        return made

    def _field_type(self) -> Type:
        serial = [enum for enum in self.enums if enum.width]
        if serial and self.chance(10):
            return self.random.choice(serial)
        if self.chance(5):
            return BOOL
        return self.bits_type()

    def _draw_headers(self) -> Struct:
        fields: list[tuple[str, Type]] = [("h0", self._header("h0_t"))]
        for at in range(1, self.random.randint(2, self.size.headers + 1)):
            same = [of for _, of in fields if isinstance(of, Struct) and of.kind == "header"]
            again = self.chance(30)
            of = self.random.choice(same) if again else self._header(f"h{at}_t")
            fields.append((f"h{at}", of))
        if self.chance(40):
            element = self._header("s_t") if self.chance(70) else fields[0][1]
            assert isinstance(element, Struct)
            fields.append(("s", Stack(element, self.random.choice((2, 2, 4)))))
        if self.chance(20):
            fields.append(("w", self._header("w_t", varbit=True)))
        if self.chance(20):
            members = (("a", self._header("ua_t")), ("b", self._header("ub_t")))
            union = Struct("u_t", members, "union")
            self.structs.append(union)
            fields.append(("u", union))
        return Struct("headers_t", tuple(fields))

    def _draw_metadata(self) -> Struct:
        fields: list[tuple[str, Type]] = [
            (f"m{at}", self.leaf_type()) for at in range(self.random.randint(3, 6))
        ]
        if self.chance(40):
            inner = Struct("inner_t", tuple((f"n{at}", self.leaf_type()) for at in range(2)))
            self.structs.append(inner)
            fields += [("in1", inner), ("in2", inner)]
        if self.traffic:
            fields += [(COLOR, bit(8)), (HOPS, bit(8))]
        return Struct("metadata_t", tuple(fields))

    def _add_dump(self, headers: Struct, metadata: Struct, egress: m.Control) -> Struct:
        """Add a last header with all of metadata, set at the end of egress, so that nothing
        hides.
        """
        leaves = leaves_of(m.Var(metadata, m.META), metadata)
        fields = [(f"d{at}", leaf.type) for at, leaf in enumerate(leaves)]
        pad = -sum(width_of(of) for _, of in fields) % 8
        if pad:
            fields.append(("pad", bit(pad)))
        dump = Struct("dump_t", tuple(fields), "header")
        self.structs.append(dump)
        headers = Struct(headers.name, (*headers.fields, ("dump", dump)))
        place = m.Field(dump, m.Var(headers, m.HDR), "dump")
        egress.body.append(m.SetValidity(place, True))
        for at, leaf in enumerate(leaves):
            egress.body.append(m.Assign(m.Field(leaf.type, place, f"d{at}"), leaf.expr))
        if pad:
            zero = m.Lit(bit(pad), 0)
            egress.body.append(m.Assign(m.Field(bit(pad), place, "pad"), zero))
        return headers

    # --- parser ---------------------------------------------------------------------------------

    def _draw_parser(
        self, headers: Struct, metadata: Struct, functions: list[m.Function]
    ) -> m.Parser:
        hdr, meta = m.Var(headers, m.HDR), m.Var(metadata, m.META)
        calls = functions if self.chance(30) and not self.portable else []
        sight = Sight(functions=calls, in_parser=True)
        sight.leaves = leaves_of(hdr, headers)
        if not (self.portable and self.traffic):
            # BMv2 parses an ingress clone's packet with metadata that another packet left.
            sight.leaves += self._metadata_leaves(meta, metadata)
        # A member of a stack is known by its index only after parsing.
        sight.leaves = [leaf for leaf in sight.leaves if "[" not in leaf.needs]
        locals_: list[m.Declare] = []
        if self.chance(30):
            of = self.bits_type()
            locals_.append(m.Declare(self.name("l"), of, self.literal(of)))
            sight.leaves.append(Leaf(m.Var(of, locals_[0].name), of))
        if self.chance(20):
            self.value_sets["vs"] = (bit(self.random.choice((8, 4))), 4)
        order = [(name, of) for name, of in headers.fields if name != "h0"]
        self.random.shuffle(order)
        names = ["start", *(f"p_{name}" for name, _ in order)]
        states = []
        for at, (name, of) in enumerate([("h0", headers.fields[0][1]), *order]):
            inner = sight.inner()
            if at:
                inner.valid = {FIRST}
            states.append(self._state(names[at], m.Field(of, hdr, name), names[at + 1 :], inner))
        params = [
            m.Param("out", m.HDR, headers),
            m.Param("inout", m.META, metadata),
            m.Param("inout", m.STD, m.STANDARD),
        ]
        return m.Parser("Parse", params, locals_, states)

    def _state(self, name: str, place: m.Field, after: list[str], sight: Sight) -> m.State:
        body: list[m.Stmt] = []
        of = place.type
        if self.chance(15):
            body += self.body(sight, 1, 0)
        match of:
            case Stack():
                body.append(m.Extract(place, next=True))
            case Struct(kind="union", fields=members):
                member, header = self.random.choice(members)
                body.append(m.Extract(m.Field(header, place, member)))
            case Struct() if any(isinstance(field, Varbit) for _, field in of.fields):
                body += self._variable(place, of)
            case Struct():
                if len(self.sub_parsers) < 1 and name != "start" and self.chance(20):
                    body.append(self._sub_parser(place))
                else:
                    body.append(m.Extract(place))
                sight.valid.add(f"hdr.{place.name}")
        if self.chance(30):
            body += self.body(sight, 1, 0)
        if self.chance(15):
            error = self.random.choice([*self.errors, "NoMatch", "HeaderTooShort"])
            condition = m.Binary(
                BOOL, "||", self.expr(BOOL, sight, 2), m.Lit(BOOL, self.chance(50))
            )
            body.append(m.Verify(condition, error))
        targets = [*after, "accept"]
        if isinstance(of, Stack):
            targets = [name, name, *targets]
        following = self._next(targets, sight)
        if following == name:
            following = "accept"
        elif isinstance(following, m.Select):
            taken = _reachable(following.cases)
            if all(case.state == name for case in taken):
                taken[-1].state = "accept"  # p4c refuses a parser without an end
        return m.State(name, body, following)

    def _variable(self, place: m.Field, of: Struct) -> list[m.Stmt]:
        """Extract a header whose length is given by what is ahead: its fixed part is read first."""
        bits_before = next(i for i, (name, _) in enumerate(of.fields) if name == "length")
        ahead = sum(width_of(field) for _, field in of.fields[:bits_before]) + 8
        look = m.Lookahead(bit(ahead))
        name = self.name("l")
        words = m.Slice(bit(4), m.Var(bit(ahead), name), 3, 0)
        length = m.Binary(bit(32), "<<", m.Cast(bit(32), words), m.Lit(bit(8), 3, bare=True))
        return [m.Declare(name, bit(ahead), look), m.Extract(place, length=length)]

    def _sub_parser(self, place: m.Field) -> m.Stmt:
        of = place.type
        inner = m.Param("out", "one", of)
        name = self.name("Sub")
        var = m.Var(of, "one")
        states = [m.State("start", [m.Extract(var)], "accept")]
        self.sub_parsers.append(m.Parser(name, [inner], [], states))
        return m.SubParser(name, [place])

    def _next(self, targets: list[str], sight: Sight) -> str | m.Select:
        if len(targets) == 1 or self.chance(15):
            return self.random.choice(targets)
        count = 1 if self.chance(70) else 2
        keys = [self._select_key(sight) for _ in range(count)]
        cases = []
        if self.value_sets and count == 1 and self.chance(50):
            of = self.value_sets["vs"][0]
            keys = [m.Lookahead(of)]
            cases.append(m.SelectCase([], self.random.choice(targets), "vs"))
        for _ in range(self.random.randint(1, 3)):
            matches = [self._match(width_of(key.type)) for key in keys]  # type: ignore[arg-type]
            cases.append(m.SelectCase(matches, self.random.choice(targets)))
        if self.chance(85):
            every = [m.Match("any") for _ in keys]
            cases.append(m.SelectCase(every, self.random.choice(targets)))
        return m.Select(keys, cases)

    def _select_key(self, sight: Sight) -> m.Expr:
        if self.chance(15):
            return m.Lookahead(bit(self.random.choice((1, 3, 8))))
        leaves = [
            leaf for leaf in sight.readable()
            if isinstance(leaf.type, Bits) and not leaf.type.signed and leaf.needs
        ]  # fmt: skip
        if not leaves:
            return m.Lookahead(bit(4))
        leaf = self.random.choice(leaves)
        assert isinstance(leaf.type, Bits)
        if leaf.type.width <= 4:
            return leaf.expr
        low = self.random.randrange(leaf.type.width - 2)
        key = m.Slice(bit(3), leaf.expr, low + 2, low)
        if self.chance(80):
            return key
        # Nothing that could be a constant: compilers take a select on one out, and its error.
        return m.Binary(bit(3), self.random.choice("+-^"), key, m.Lit(bit(3), 5))

    def _match(self, width: int) -> m.Match:
        top = (1 << width) - 1
        value = self.random.randint(0, top)
        if self.portable and width == 1:
            return m.Match("value", value)
        match self.random.randrange(5):
            case 0:
                return m.Match("mask", value, self.random.randint(int(self.portable), top))
            case 1:
                low, high = sorted((value, self.random.randint(0, top)))
                if self.portable and (low, high) == (0, top):
                    low = 1
                return m.Match("range", low, high)
            case 2:
                return m.Match("any") if width > 1 else m.Match("value", value)
        return m.Match("value", value)

    # --- controls -------------------------------------------------------------------------------

    def _draw_control(
        self, name: str, headers: Struct, metadata: Struct, functions: list[m.Function]
    ) -> m.Control:
        control = m.Control(name)
        lead = name[0].lower()
        sight = self._sight(control, headers, metadata, functions)
        for _ in range(self.random.randrange(3)):
            of = self.leaf_type()
            made = m.Declare(self.name("c"), of, self.literal(of))
            control.locals.append(made)
            sight.leaves.append(Leaf(m.Var(of, made.name), of))
        # In egress the order of copies is nowhere said, in BMv2's threads not in ingress either.
        if not (self.traffic and (self.portable or name == "Out")) and self.chance(40):
            of_bits = bit(self.random.choice([w for w in self.widths if w <= 64]))
            register = m.Register(f"{lead}reg", of_bits, self.random.choice((2, 4, 8)))
            control.registers.append(register)
        if self.chance(20):
            control.counters.append(m.Counter(f"{lead}cnt", 4))
        # Colors go by the order of packets, as registers do.
        if self.traffic and self.chance(50) and name == "In":
            control.meters.append(m.Meter(f"{lead}met", 2, self.chance(50)))
        for _ in range(self.random.randrange(self.size.actions + 1)):
            action = self.action(sight)
            control.actions.append(action)
            sight.actions.append(action)
        for _ in range(self.random.randrange(self.size.tables + 1)):
            control.tables.append(self._table(control, sight, f"{lead}t{len(control.tables)}"))
        sight.tables = [table.name for table in control.tables]
        sight.may_exit = self.chance(20)
        port = self.expr(bit(3), sight, 2)
        body = self.body(sight, self.random.randint(2, self.size.statements), 2)
        if self.traffic and self.chance(60):
            body += self.request(sight)
        # p4c refuses direct meters of tables that are never applied.
        metered = [table.name for table in control.tables if table.meter is not None]
        body += [m.Apply(table) for table in metered if table in sight.tables]
        guard = m.IsValid(m.Field(headers.fields[0][1], m.Var(headers, m.HDR), "h0"))
        control.body = [m.If(guard, body)] if body else []
        if name == "In":
            self._choose_port(control, port)
        return control

    def _choose_port(self, control: m.Control, port: m.Expr) -> None:
        spec = m.Field(bit(9), m.Var(m.STANDARD, m.STD), "egress_spec")
        control.body.insert(0, m.Assign(spec, m.Lit(bit(9), self.random.randrange(PORTS))))
        if self.chance(50):
            value = m.Cast(bit(9), port)
            guarded = control.body[-1]
            if isinstance(guarded, m.If):
                guarded.yes.insert(0, m.Assign(spec, value))

    def _sight(
        self, control: m.Control, headers: Struct, metadata: Struct, functions: list[m.Function]
    ) -> Sight:
        hdr, meta = m.Var(headers, m.HDR), m.Var(metadata, m.META)
        sight = Sight(functions=functions, control=control, valid={FIRST})
        sight.leaves = [*leaves_of(hdr, headers), *self._metadata_leaves(meta, metadata)]
        sight.headers = headers_of(hdr, headers)
        sight.stacks = [m.Field(of, hdr, n) for n, of in headers.fields if isinstance(of, Stack)]
        std = m.Var(m.STANDARD, m.STD)
        if control.name == "In":
            for field in ("ingress_port", "packet_length", "checksum_error", "parser_error"):
                of = dict(m.STANDARD.fields)[field]
                sight.leaves.append(Leaf(m.Field(of, std, field), of, writable=False))
        else:
            sight.leaves.append(Leaf(m.Field(bit(9), std, "egress_port"), bit(9), writable=False))
        if self.traffic:
            sight.leaves += self.standard_leaves(control)
        return sight

    def _metadata_leaves(self, meta: m.Var, metadata: Struct) -> list[Leaf]:
        return [
            replace(leaf, writable=leaf.writable and key_of(leaf.expr) != f"{m.META}.{HOPS}")
            for leaf in leaves_of(meta, metadata)
        ]

    # --- tables ---------------------------------------------------------------------------------

    def _table(self, control: m.Control, sight: Sight, name: str) -> m.Table:
        kinds = self.random.choice((
            ("exact",), ("exact",), ("lpm",), ("exact", "lpm"), ("ternary",), ("exact", "ternary"),
            ("range",), ("optional",), ("ternary", "range", "optional"), ("lpm", "ternary"),
        ))  # fmt: skip
        keys = [m.Key(f"k{at}", self._key(kind, sight), kind) for at, kind in enumerate(kinds)]
        usable = [
            action.name
            for action in control.actions
            if all(param.direction == "" for param in action.params)
            and action.name not in self.metered
        ]
        actions = [action for action in usable if self.chance(80)]
        inner = sight.inner()
        inner.in_action = True
        plain = m.Function(self.name("a"), [], None, self.body(inner, 1, 0))
        control.actions.append(plain)
        actions.append(plain.name)
        bound: dict[str, list[m.Expr]] = {}
        for action in control.actions:
            directed = [param for param in action.params if param.direction]
            if directed and self.chance(40):
                args = self.args(m.Function("", directed, None, []), sight, 1)
                if args is not None:
                    bound[action.name] = args
                    actions.append(action.name)
        made = m.Table(name, keys, actions, plain.name, [], self.chance(30), bound=bound)
        if self.chance(40):
            made.default = self.random.choice(actions)
            made.default_args = self.data(control, made.default)
        if self.traffic and self.chance(40) and control.name == "In":
            made.const_default, made.default, made.default_args = True, plain.name, []
            self.direct_meter(control, made, sight)
        if made.meter is None and self.chance(30):
            made.entries = self.entries(control, made, self.random.randint(1, 4), [])
            for at, entry in enumerate(made.entries):
                entry.priority = len(made.entries) - at
        elif self.chance(30):
            made.counter = f"{name}_count"
        return made

    def _key(self, kind: str, sight: Sight) -> m.Expr:
        found = [
            leaf for leaf in sight.readable()
            if isinstance(leaf.type, Bits) and not leaf.type.signed
            and (kind not in ("range", "lpm") or leaf.type.width <= 64)
            and not (self.portable and kind == "lpm" and leaf.type.width % 8)
        ]  # fmt: skip
        if not found or self.chance(25):
            whole = 8 if self.portable and kind == "lpm" else 1
            widths = [width for width in self.widths if width <= 64 and width % whole == 0]
            of = bit(self.random.choice(widths))
            return self.expr(of, sight, 2)
        return self.random.choice(found).expr

    def data(self, control: m.Control, action: str) -> list[int]:
        """Draw an action's data from the control plane."""
        made = next(known for known in control.actions if known.name == action)
        return [
            self.number(param.type) if isinstance(param.type, Bits) else 0
            for param in made.params
            if param.direction == ""
        ]

    def entries(
        self, control: m.Control, table: m.Table, count: int, seen: list[tuple[int, ...]]
    ) -> list[m.Entry]:
        """Entries, all with different keys and priorities, many for keys that were looked up."""
        made: list[m.Entry] = []
        known: set[tuple[int, ...]] = set()
        ranked = any(key.kind in ("ternary", "range", "optional") for key in table.keys)
        for _ in range(count):
            keys = self.random.choice(seen) if seen and self.chance(75) else None
            matches = []
            for at, key in enumerate(table.keys):
                assert key.expr.type is not None
                width = width_of(key.expr.type)
                value = self.random.getrandbits(width) if keys is None else keys[at]
                matches.append(self._entry_match(key.kind, value, width))
            same = tuple(
                canonical(match, key) for match, key in zip(matches, table.keys, strict=True)
            )
            if same in known:
                continue
            known.add(same)
            action = self.random.choice(table.actions)
            entry = m.Entry(matches, action, self.data(control, action))
            if table.meter is not None and self.chance(80):
                entry.rates = self.rates(table.meter.bytes)
            made.append(entry)
        priorities = self.random.sample(range(1, 1000), len(made))
        for entry, priority in zip(made, priorities, strict=True):
            entry.priority = priority if ranked else 0
        return made

    def _entry_match(self, kind: str, value: int, width: int) -> m.Match:
        top = (1 << width) - 1
        match kind:
            case "exact":
                return m.Match("value", value)
            case "lpm":
                return m.Match("prefix", value, self.random.randint(1, width))
            case "ternary":
                mask = self.random.choice((top, self.random.getrandbits(width), 0))
                return m.Match("mask", value & mask, mask) if mask else m.Match("any")
            case "range":
                if self.chance(10):
                    return m.Match("any")
                spread = self.random.getrandbits(self.random.randrange(width + 1))
                return m.Match("range", max(0, value - spread), min(top, value + spread))
        return m.Match("any") if self.chance(40) else m.Match("value", value)

    # --- the rest -------------------------------------------------------------------------------

    def _draw_checksums(self, headers: Struct) -> list[m.Checksum]:
        made: list[m.Checksum] = []
        for name, of in headers.fields:
            if not isinstance(of, Struct) or of.kind != "header" or not self.chance(15):
                continue
            place = m.Field(of, m.Var(headers, m.HDR), name)
            targets = [field for field, kind in of.fields if kind == bit(16)]
            if not targets:
                continue
            items: list[m.Expr] = [
                m.Field(kind, place, field)
                for field, kind in of.fields
                if field != targets[0] and isinstance(kind, Bits) and not kind.signed
            ]
            missing = -sum(width_of(item.type) for item in items) % 16  # type: ignore[arg-type]
            if missing:
                items.append(m.Lit(bit(missing), 0))
            target = m.Field(bit(16), place, targets[0])
            checksum = m.Checksum(m.IsValid(place), items, target, self.chance(60), self.chance(70))
            made.append(checksum)
        return made

    def _draw_emits(self, headers: Struct) -> list[m.Expr]:
        whole = m.Var(headers, m.HDR)
        made: list[m.Expr] = [m.Field(of, whole, name) for name, of in headers.fields]
        self.random.shuffle(made)
        if len(made) > 2 and self.chance(10):
            made.pop()
        return made


def _reachable(cases: list[m.SelectCase]) -> list[m.SelectCase]:
    """Return the cases up to the first that takes all."""
    for at, case in enumerate(cases):
        if case.matches and all(match.kind == "any" for match in case.matches):
            return cases[: at + 1]
    return cases


def canonical(match: m.Match, key: m.Key) -> tuple[int, ...]:
    """Return what makes two matches the same key."""
    assert key.expr.type is not None
    width = width_of(key.expr.type)
    match match.kind:
        case "prefix":
            shift = width - match.high
            return match.low >> shift << shift, match.high
        case "any":
            return (-1,)
    return match.low, match.high
