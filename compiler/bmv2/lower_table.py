"""Lowering of tables: keys, actions, default entry, constant entries, attached externs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from compiler.bmv2 import ir
from compiler.bmv2.lower_frame import Code, Frame
from compiler.bmv2.places import NO_BITS, SCALARS, ExternObject, Value, has_no_bits, scalar_type
from compiler.errors import CompileError, NotSupported, Pos
from compiler.passes.elaborate import Instance, Item, local_name
from compiler.passes.key_names import key_name
from compiler.syntax import ast
from compiler.syntax.walk import has_side_effects
from compiler.types import types as ty

if TYPE_CHECKING:
    from compiler.bmv2.lower_parser import BodyLowering
    from compiler.bmv2.lower_program import ProgramLowering

DEFAULT_SIZE = 1024
_STRENGTH = {"exact": 0, "lpm": 1, "ternary": 2, "optional": 2, "range": 3}


@dataclass(eq=False)
class LoweredAction:
    """An action as a table runs it: run-time parameters (name, bits) and code."""

    name: str
    decl: ast.ActionDecl
    params: list[tuple[str, ir.ScalarType]]
    entry: ir.Block
    pos: Pos


@dataclass(frozen=True)
class LoweredKey:
    """A key: BMv2's match type, the control plane's name, the field that is matched."""

    match_type: str
    name: str
    target: ir.Field
    optional: bool


@dataclass(frozen=True)
class KeyMatch:
    """What a constant entry matches one key with; which of the fields count depends on the key.

    exact: value; lpm: value, prefix; ternary: value, mask; range: low (value), high.
    """

    value: int
    mask: int = 0
    prefix: int = 0
    high: int = 0


@dataclass(frozen=True)
class LoweredEntry:
    """A constant entry; `priority` 1 is the highest."""

    matches: tuple[KeyMatch, ...]
    action: LoweredAction
    args: tuple[int, ...]
    priority: int
    pos: Pos


@dataclass(eq=False)
class LoweredTable:
    """A table of the program. `implementation` is its action profile or selector."""

    name: str
    decl: ast.TableDecl
    instance: Instance
    keys: list[LoweredKey] = field(default_factory=list)
    actions: list[LoweredAction] = field(default_factory=list)
    default: tuple[LoweredAction, tuple[int, ...]] | None = None
    default_const: bool = False
    entries: list[LoweredEntry] = field(default_factory=list)
    size: int = DEFAULT_SIZE
    declared_size: int = DEFAULT_SIZE
    implementation: ExternObject | None = None
    selector_inputs: list[ir.Field] = field(default_factory=list)
    counter: ExternObject | None = None
    meter: ExternObject | None = None
    support_timeout: bool = False
    prepare: list[tuple[ir.Field, ast.Expr]] = field(default_factory=list)

    @property
    def match_type(self) -> str:
        """BMv2's match type for the whole table: the strongest of its keys."""
        kinds = ["ternary" if k.optional else k.match_type for k in self.keys]
        return max(kinds, key=lambda kind: _STRENGTH[kind], default="exact")

    def action_named(self, decl: ast.ActionDecl, pos: Pos) -> LoweredAction:
        """Return this table's version of an action. Raises `CompileError` if it has none."""
        for action in self.actions:
            if action.decl is decl:
                return action
        raise CompileError.at(pos, f"action {decl.name} is not in table {self.decl.name}")


class TableLowering:
    """Lowers one table in the scope of the control that declares it."""

    def __init__(self, program: ProgramLowering, body: BodyLowering, item: Item) -> None:
        assert isinstance(item.decl, ast.TableDecl)
        self.program = program
        self.body = body
        self.decl = item.decl
        self.table = LoweredTable(item.name, item.decl, item.instance)

    def lower(self) -> LoweredTable:
        """Lower the table with all its parts."""
        self._keys()
        self._actions()
        self._default()
        self._properties()
        self._entries()
        return self.table

    # ------------------------------------------------------------ keys

    def _keys(self) -> None:
        keys = self.decl.keys or []
        runs_code = [has_side_effects(key.expr) for key in keys]
        for number, key in enumerate(keys):
            kind = key.match_kind.name
            target = self._key_target(key, saved=any(runs_code[number + 1 :]))
            if kind == "selector":
                self.table.selector_inputs.append(target)
                continue
            if kind not in _STRENGTH:
                raise NotSupported.at(key.pos, f"match kind {kind}")
            optional = kind == "optional"
            self.table.keys.append(
                LoweredKey("ternary" if optional else kind, key_name(key), target, optional)
            )
        if sum(k.match_type == "lpm" for k in self.table.keys) > 1:
            raise CompileError.at(
                self.decl.pos, f"table {self.decl.name} has more than one lpm key"
            )

    def _key_target(self, key: ast.TableKey, saved: bool) -> ir.Field:
        """Return the field to match on: the key itself, or a temporary filled before the table.

        `saved`: always a temporary, because a later key runs code that may change this one.
        """
        expr = key.expr
        if not saved and (_is_path(expr) or _is_validity(expr)):
            value = self.body.lower(expr)
            if isinstance(value, ir.Field):
                if value.type.kind is ir.Kind.VARBIT:
                    raise CompileError.at(key.pos, "a varbit field can't be a table key")
                return value
        t = scalar_type(self.body.type_of(expr))
        if t is None or (t.width == 0 and not has_no_bits(t)):
            raise NotSupported.at(key.pos, f"a table key of type {expr.type}")
        if has_no_bits(t):
            return self.program.layout.empty_scalar("key")
        temporary = self.program.layout.scalar("key", t)
        self.table.prepare.append((temporary, expr))
        return temporary

    # ------------------------------------------------------------ actions

    def _actions(self) -> None:
        for ref in self.decl.actions:
            action = self.program.table_action(ref, self.body.frame)
            known = next((a for a in self.table.actions if a.name == action.name), None)
            if known is None:
                self.table.actions.append(action)
            elif known.decl is not action.decl:
                raise CompileError.at(
                    ref.pos, f'table {self.decl.name} has two actions with the name "{action.name}"'
                )
        if self.decl.default_action is None:
            self._no_action()

    def _no_action(self) -> LoweredAction:
        decl = self.program.no_action(self.decl.pos)
        for action in self.table.actions:
            if action.decl is decl:
                return action
        action = self.program.action_of(decl, [], self.body.frame)
        self.table.actions.append(action)
        return action

    def _default(self) -> None:
        ref = self.decl.default_action
        if ref is None:
            self.table.default = (self._no_action(), ())
            return
        assert ref.decl is not None
        action = self.table.action_named(ref.decl, ref.pos)
        self.table.default = (action, self._arguments(ref, action))
        self.table.default_const = self.decl.default_action_const

    def _arguments(self, ref: ast.ActionRef, action: LoweredAction) -> tuple[int, ...]:
        """Return the values of the run-time parameters in a default action or entry."""
        assert ref.decl is not None
        names = {name for name, _ in action.params}
        values: list[int] = []
        for param, binding in zip(ref.decl.params, ref.binding, strict=False):
            if local_name(param) in names and binding.arg is not None:
                value = self.body.constant(binding.arg)
                values.append(value.value & ((1 << value.type.width) - 1))
        if len(values) != len(action.params):
            raise CompileError.at(
                ref.pos, f"action {ref.decl.name} takes {len(action.params)} arguments here"
            )
        return tuple(values)

    # ------------------------------------------------------------ properties

    def _properties(self) -> None:
        for prop in self.decl.properties:
            match prop.name:
                case "size":
                    self.table.size = self._constant(prop) or DEFAULT_SIZE
                    self.table.declared_size = self.table.size
                case "implementation":
                    self.table.implementation = self._extern(
                        prop, ("action_profile", "action_selector")
                    )
                case "counters":
                    self.table.counter = self._extern(prop, ("direct_counter",))
                case "meters":
                    self.table.meter = self._extern(prop, ("direct_meter",))
                case "support_timeout":
                    self.table.support_timeout = bool(self._constant(prop))
                case "largest_priority_wins" | "priority_delta":
                    pass  # read with the entries
                case _:
                    pass  # reported by the checker, as all properties unknown to BMv2 are
        self._attach()

    def _attach(self) -> None:
        table = self.table
        for target in (table.counter, table.meter):
            if target is not None:
                self.program.attach(target, table)
        selector = table.implementation
        if selector is not None:
            self.program.attach_profile(selector, table)
        if table.selector_inputs and (selector is None or selector.type.name != "action_selector"):
            self.program.inform(
                table.decl.pos,
                f"table {table.decl.name} has selector keys but no action_selector as"
                " implementation: they are ignored",
            )
            table.selector_inputs.clear()

    def _constant(self, prop: ast.Property) -> int:
        if prop.value is None:
            raise CompileError.at(prop.pos, f"{prop.name} must be a constant")
        return self.body.constant(prop.value).value

    def _extern(self, prop: ast.Property, kinds: tuple[str, ...]) -> ExternObject:
        value: Value | None = None
        if isinstance(prop.value, ast.Call):
            if prop.value.kind is ast.CallKind.CONSTRUCTOR:
                value = self.program.anonymous_extern(prop, self.body.frame)
        elif prop.value is not None:
            value = self.body.lower(prop.value)
        if not isinstance(value, ExternObject) or value.type.name not in kinds:
            raise CompileError.at(prop.pos, f"{prop.name} must be an instance of {kinds[0]}")
        return value

    # ------------------------------------------------------------ entries

    def _entries(self) -> None:
        entries = self.decl.entries
        if entries is None:
            return
        self.table.size = len(entries) or self.table.size
        if entries and not self.decl.entries_const:
            self.program.inform(
                entries[0].pos,
                f"BMv2 lets no client change {self.decl.name}, though its entries are not const",
            )
        for number, entry in enumerate(self._by_precedence(entries), start=1):
            self.table.entries.append(self._entry(entry, number))

    def _by_precedence(self, entries: list[ast.Entry]) -> list[ast.Entry]:
        """Return the entries in the order in which they win (spec 14.2.1.4): as written, or by
        `priority`.
        """
        if all(entry.priority is None for entry in entries):
            return entries
        if self.decl.entries_const:
            raise CompileError.at(entries[0].pos, "const entries can't have priorities")
        wins, delta = self.decl.prop("largest_priority_wins"), self.decl.prop("priority_delta")
        largest = wins is None or bool(self._constant(wins))
        step = 1 if delta is None else self._constant(delta)
        current: int | None = None
        ranked: list[tuple[int, ast.Entry]] = []
        for entry in entries:
            if entry.priority is not None:
                current = self.body.constant(entry.priority).value
            elif current is None:
                raise CompileError.at(entry.pos, "the first entry must have a priority")
            else:
                current += -step if largest else step
            ranked.append((-current if largest else current, entry))
        return [entry for _, entry in sorted(ranked, key=lambda pair: pair[0])]

    def _entry(self, entry: ast.Entry, number: int) -> LoweredEntry:
        keys = [k for k in self.decl.keys or [] if k.match_kind.name != "selector"]
        keysets: list[ast.Expr] = list(entry.keysets)
        if len(keysets) == 1 and isinstance(keysets[0], ast.DefaultKey | ast.Wildcard):
            keysets = keysets * len(keys)
        matches = tuple(
            self._match(expr, key, lowered)
            for expr, key, lowered in zip(keysets, keys, self.table.keys, strict=True)
        )
        assert entry.action.decl is not None
        action = self.table.action_named(entry.action.decl, entry.action.pos)
        priority = number
        annotation = next((a for a in entry.annotations if a.name == "priority"), None)
        if annotation is not None and annotation.values:
            priority = int(annotation.values[0])
        return LoweredEntry(
            matches, action, self._arguments(entry.action, action), priority, entry.pos
        )

    def _match(self, expr: ast.Expr, key: ast.TableKey, lowered: LoweredKey) -> KeyMatch:
        width = lowered.target.type.width
        full = (1 << width) - 1
        wild = isinstance(expr, ast.DefaultKey | ast.Wildcard)
        kind = lowered.match_type
        if isinstance(key.expr.type, ty.Error) and not wild:
            raise CompileError.at(expr.pos, "BMv2 can't match an error in an entry of the program")
        if isinstance(expr, ast.Range):
            if kind != "range":
                raise CompileError.at(expr.pos, f"a range for a key that is matched {kind}")
            low, high = self._number(expr.low, full), self._number(expr.high, full)
            if low > high:
                raise CompileError.at(expr.pos, f"a range from {low} to {high} matches nothing")
            return KeyMatch(low, high=high)
        if isinstance(expr, ast.Mask):
            if kind not in ("ternary", "lpm") or lowered.optional:
                raise CompileError.at(expr.pos, f"a mask for a key that is matched {kind}")
            mask = self._number(expr.mask, full)
            value = self._number(expr.value, full) & mask
            return KeyMatch(value, mask, self._prefix(mask, width, kind, expr.pos))
        if wild:
            if kind == "exact":
                raise CompileError.at(expr.pos, "don't care for a key that is matched exactly")
            return KeyMatch(0, 0, 0, full)
        number = self._number(expr, full)
        return KeyMatch(number, full, width, number)

    def _number(self, expr: ast.Expr, full: int) -> int:
        return self.body.constant(expr).value & full

    def _prefix(self, mask: int, width: int, kind: str, pos: Pos) -> int:
        ones = mask.bit_count()
        if kind == "lpm" and mask != ((1 << ones) - 1) << (width - ones):
            raise CompileError.at(pos, "the mask of an lpm key must be a prefix")
        return ones


def action_frame(
    bound: list[ast.Parameter], decl: ast.ActionDecl, home: Frame | None
) -> tuple[Frame, list[tuple[str, ir.ScalarType]]]:
    """Return the frame of an action run by a table, and its run-time parameters.

    `bound` are the parameters that the table's action list binds; the caller gives their values.
    """
    frame = Frame(None, parent=home)
    params: list[tuple[str, ir.ScalarType]] = []
    for param in decl.params:
        if any(param is each for each in bound):
            continue
        assert param.type is not None
        scalar = scalar_type(param.type)
        if scalar is None or scalar.kind in (ir.Kind.VARBIT, ir.Kind.STRING):
            raise NotSupported.at(param.pos, f"an action parameter of type {param.type}")
        if scalar.is_bool:
            raise CompileError.at(
                param.pos,
                f"BMv2 takes only bit<> and int<> from the control plane, not {param.type}",
            )
        empty = has_no_bits(scalar)
        frame.values[id(param)] = NO_BITS if empty else ir.ActionParam(len(params), scalar)
        params.append((local_name(param), scalar))
    return frame, params


def new_action_code(region_of: Code, pos: Pos) -> Code:
    """Code for an action used in the same pipeline as `region_of`."""
    code = Code(region_of.region, ir.Block(pos))
    code.in_action = True
    return code


def prepared(table: LoweredTable, body: BodyLowering) -> None:
    """Fill the temporaries that stand for computed keys, just before the table is applied."""
    for target, expr in table.prepare:
        value = body.lower(expr)
        if not isinstance(value, SCALARS):
            raise NotSupported.at(expr.pos, f"a table key of type {expr.type}")
        body.assign(target, value, expr.pos)


def _is_path(expr: ast.Expr) -> bool:
    match expr:
        case ast.Name():
            return True
        case ast.Member(kind=ast.MemberKind.FIELD, base=base):
            return _is_path(base)
        case ast.Index(base=base, index=index):
            return index.const_value is not None and _is_path(base)
        case ast.Cast(operand=operand):
            return _same_width(expr, operand) and _is_path(operand)
        case _:
            return False


def _same_width(a: ast.Expr, b: ast.Expr) -> bool:
    if a.type is None or b.type is None:
        return False
    return scalar_type(a.type) == scalar_type(b.type)


def _is_validity(expr: ast.Expr) -> bool:
    return (
        isinstance(expr, ast.Call)
        and expr.kind is ast.CallKind.IS_VALID
        and expr.receiver is not None
        and _is_path(expr.receiver)
        and isinstance(expr.receiver.type, ty.Header)
    )
