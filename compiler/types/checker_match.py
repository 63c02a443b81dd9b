"""Keysets, select expressions, parser states, and tables (spec sections 8.15, 13, 14.2)."""

from __future__ import annotations

from compiler.errors import BUILTIN_POS, Pos
from compiler.syntax import ast
from compiler.types import types as ty
from compiler.types.checker_base import GaveUp, counted, describe
from compiler.types.checker_call import Signature, calls_in
from compiler.types.checker_convert import is_compile_time, same_expression, type_of
from compiler.types.checker_formed import flatten_lists
from compiler.types.checker_methods import InitializerChecker
from compiler.types.scope import suggestion

_SELECT_TYPES = (ty.Bit, ty.Int, ty.Bool, ty.Error, ty.Enum)
_KEY_TYPES = (*_SELECT_TYPES, ty.Varbit)

# Table properties that v1model on BMv2 knows, beside key, actions, entries and default_action.
_PROPERTIES = frozenset({"size", "implementation", "counters", "meters", "support_timeout"})

# Which extern a property's value must be an instance of.
_PROPERTY_EXTERNS = {
    "counters": ("direct_counter",),
    "meters": ("direct_meter",),
    "implementation": ("action_profile", "action_selector"),
}


class MatchChecker(InitializerChecker):
    """Everything that matches values against sets."""

    # ------------------------------------------------------------ keysets

    def keysets(self, keysets: list[ast.Expr], wanted: list[ty.Type], pos: Pos) -> list[ast.Expr]:
        """Return the checked keysets, each of its key's type; a lone `_`/`default` is for all."""
        if len(keysets) == 1 and isinstance(keysets[0], ast.Wildcard | ast.DefaultKey):
            keysets[0].type = ty.DONT_CARE if len(wanted) != 1 else wanted[0]
            return keysets
        if len(keysets) == 1 and (len(wanted) > 1 or isinstance(keysets[0], ast.ListExpr)):
            whole = self._whole_keyset(keysets[0], wanted)
            if whole is not None:
                return whole
        if len(keysets) != len(wanted):
            self._fail(
                pos,
                f"this matches {counted(len(keysets), 'value')}, "
                f"but there {'is' if len(wanted) == 1 else 'are'} {counted(len(wanted), 'key')}",
            )
        return [self._keyset(k, t) for k, t in zip(keysets, wanted, strict=True)]

    def _whole_keyset(self, keyset: ast.Expr, wanted: list[ty.Type]) -> list[ast.Expr] | None:
        """Return the keysets of a value set of structs or tuples, or of a list, which covers all
        keys.
        """
        if isinstance(keyset, ast.Mask | ast.Range):
            return None
        checked = self.value(keyset)
        if isinstance(checked, ast.ListExpr):
            return None if len(checked.elements) != len(wanted) else [
                self._keyset(e, t) for e, t in zip(checked.elements, wanted, strict=True)
            ]  # fmt: skip
        if isinstance(checked.type, ty.SetType):
            element = checked.type.element
            if _flattened(element) == [part for t in wanted for part in _flattened(t)]:
                return [checked]
            self._fail(keyset.pos, f"a value set of {element} does not fit these keys")
        return None

    def _keyset(self, keyset: ast.Expr, wanted: ty.Type) -> ast.Expr:
        what = "matched value"
        match keyset:
            case ast.Wildcard() | ast.DefaultKey():
                keyset.type = wanted
                return keyset
            case ast.Mask():
                base = wanted.base if isinstance(wanted, ty.SerEnum) else wanted
                if not isinstance(ty.underlying(base), ty.Bit | ty.Int):
                    self._fail(keyset.pos, f"a key of type {wanted} can't be matched by a mask")
                keyset.value = self.value_of(keyset.value, base, what)
                keyset.mask = self.value_of(keyset.mask, base, "mask")
            case ast.Range():
                base = wanted.base if isinstance(wanted, ty.SerEnum) else wanted
                if not isinstance(ty.underlying(base), ty.Bit | ty.Int):
                    self._fail(keyset.pos, f"a key of type {wanted} can't be matched by a range")
                keyset.low = self.value_of(keyset.low, base, "start of the range")
                keyset.high = self.value_of(keyset.high, base, "end of the range")
                low, high = keyset.low.const_value, keyset.high.const_value
                if isinstance(low, int) and isinstance(high, int) and low > high:
                    self.reporter.warn(keyset.pos, f"the range {low} .. {high} is empty", "invalid")
            case _:
                checked = self.value(keyset)
                if isinstance(checked.type, ty.SetType):
                    return self._value_set(checked, wanted)
                return self.convert(checked, wanted, what)
        keyset.type = ty.SetType(wanted)
        return keyset

    def _value_set(self, checked: ast.Expr, wanted: ty.Type) -> ast.Expr:
        assert isinstance(checked.type, ty.SetType)
        element = checked.type.element
        if _flattened(element) != _flattened(wanted):
            self._fail(checked.pos, f"a value set of {element} does not fit a key of type {wanted}")
        return checked

    # ------------------------------------------------------------ parser states

    def states(self, decl: ast.ParserDecl) -> None:
        """Check all states of a parser; they may refer to each other in any order."""
        table = self._context.states
        for each in decl.states:
            if each.name in table:
                self.reporter.error(
                    each.pos,
                    f'state "{each.name}" is already declared',
                    [(table[each.name].pos, "first declared here")],
                )
                continue
            if each.name in ("accept", "reject"):
                self.reporter.error(each.pos, f'state "{each.name}" is built in')
            table[each.name] = each
            each.type = ty.State(each.name)
        if "start" not in table:
            self.reporter.error(decl.pos, f'parser "{decl.name}" has no state "start"')
        for name in ("accept", "reject"):
            table[name] = ast.ParserState(BUILTIN_POS, name, [], None)
        self._check_termination(decl)
        for each in decl.states:
            self.annotations(each.annotations)
            with self._nested():
                self.statements(each.statements)
                with self._guard():
                    self._transition(each)

    def _check_termination(self, decl: ast.ParserDecl) -> None:
        """Check that some path from start ends in accept or reject (the default without a
        transition).
        """
        table = self._context.states
        todo, seen = ["start"], {"start"}
        while todo:
            state = table.get(todo.pop())
            if state is None or state.name in ("accept", "reject") or state.transition is None:
                return
            if isinstance(state.transition, ast.Select):
                cases = _taken(state.transition)
                if not any(map(_matches_all, cases)):
                    return  # what no case takes is rejected
                targets = [case.target.name for case in cases]
            else:
                targets = [state.transition.name]
            todo += [name for name in targets if name not in seen]
            seen.update(targets)
        self.reporter.error(decl.pos, f'parser "{decl.name}" never reaches accept or reject')

    def _transition(self, state: ast.ParserState) -> None:
        transition = state.transition
        if transition is None:
            self.reporter.warn(
                state.pos,
                f'state "{state.name}" has no transition: it goes to reject',
                "parser-transition",
            )
        if isinstance(transition, ast.Name):
            self._target(transition)
        elif isinstance(transition, ast.Select):
            flatten_lists(transition)
            transition.exprs = [self.value(each) for each in transition.exprs]
            wanted = self._select_types(transition)
            for case in transition.cases:
                with self._guard():
                    case.keysets = self.keysets(case.keysets, wanted, case.pos)
                    for keyset in case.keysets:
                        self._check_select_keyset(keyset)
                with self._guard():
                    self._target(case.target)

    def _check_select_keyset(self, keyset: ast.Expr) -> None:
        for call in calls_in(keyset):
            self._fail(call.pos, "no call can stand in a keyset")
        for part in _parts(keyset):
            if not is_compile_time(part) and not isinstance(part.type, ty.SetType):
                self._fail(part.pos, "a matched value must be known while compiling")

    def _select_types(self, select: ast.Select) -> list[ty.Type]:
        wanted: list[ty.Type] = []
        for each in select.exprs:
            t = type_of(each)
            if isinstance(t, ty.InfInt):
                self._fail(each.pos, "a select expression needs a width, as in 8w1")
            if isinstance(each, ast.ListExpr) and len(select.exprs) == 1:
                select.exprs = each.elements
                return [type_of(inner) for inner in each.elements]
            if isinstance(t, ty.Tuple):
                self._unsupported(each.pos, "select on a tuple")
            unfit = isinstance(t, ty.Error | ty.NewType)
            if unfit or not isinstance(ty.underlying(t), (*_SELECT_TYPES, ty.TypeVar)):
                self._fail(each.pos, f"select can't match a value of type {t}")
            wanted.append(t)
        return wanted

    def _target(self, name: ast.Name) -> None:
        states = self._context.states
        state = states.get(name.name)
        if state is None:
            hint = suggestion(name.name, states)
            self._fail(name.pos, f'unknown state "{name.name}"{hint}')
        name.decl, name.type = state, ty.State(state.name)

    # ------------------------------------------------------------ tables

    def table(self, table: ast.TableDecl) -> None:
        """Check a table; its name is declared even where it is wrong."""
        self.annotations(table.annotations)
        table.type = ty.Table(table.name, table)
        self._declare(table)
        for key in table.keys or []:
            with self._guard():
                self._key(key)
        self._actions(table)
        with self._guard():
            self._default_action(table)
        for each in table.properties:
            with self._guard():
                self._property(each)
        if table.entries is not None:
            self._entries(table)

    def _default_action(self, table: ast.TableDecl) -> None:
        chosen, listed = table.default_action, table.actions_pos
        if chosen is None:
            self._require_no_action(table)
            return
        if listed is not None and (chosen.pos.line, chosen.pos.column) < (
            listed.line, listed.column
        ):  # fmt: skip
            self._fail(
                table.pos,
                f'"default_action" of table "{table.name}" must come after "actions"',
                ((chosen.pos, "it stands here"),),
            )
        self._action_use(table, chosen, "default_action")

    def _require_no_action(self, table: ast.TableDecl) -> None:
        """Check `NoAction`, the default of a table without `default_action`: it must be
        core.p4's.
        """
        found = self.globals.here("NoAction")
        if not found:
            self._fail(
                table.pos,
                f'table "{table.name}" has no "default_action", and there is no NoAction: '
                "#include <core.p4>",
            )
        if not isinstance(found[0], ast.ActionDecl) or found[0].params:
            self._fail(
                found[0].pos,
                "NoAction must be an action without parameters",
                ((table.pos, f'table "{table.name}" has it as default action'),),
            )

    def _key(self, key: ast.TableKey) -> None:
        self.annotations(key.annotations)
        kind = key.match_kind
        for member in self.match_kinds:
            if member.name == kind.name:
                kind.decl, kind.type = member, ty.MATCH_KIND
        key.expr = self.value(key.expr)
        if kind.decl is None:
            hint = suggestion(kind.name, [m.name for m in self.match_kinds])
            self._fail(kind.pos, f'unknown match kind "{kind.name}"{hint}')
        t = type_of(key.expr)
        named = any(annotation.name == "name" for annotation in key.annotations)
        if not named and not _has_control_plane_name(key.expr):
            self._fail(
                key.expr.pos,
                'this key has no name for the control plane: add @name("...") behind it',
            )
        if isinstance(t, ty.InfInt):
            self._fail(key.expr.pos, "a key needs a width, as in 8w1")
        if not isinstance(ty.underlying(t), _KEY_TYPES):
            self._fail(key.expr.pos, f"a key can't have type {t}")
        base = ty.underlying(t)
        if kind.name in ("lpm", "range") and not isinstance(base, ty.Bit | ty.Int):
            self._fail(key.expr.pos, f'a key of type {t} can\'t be matched as "{kind.name}"')

    def _actions(self, table: ast.TableDecl) -> None:
        if table.actions_pos is None:
            self.reporter.error(table.pos, f'table "{table.name}" has no property "actions"')
        seen: dict[str, Pos] = {}
        for ref in table.actions:
            self.annotations(ref.annotations)
            with self._guard():
                decl = self._action_named(ref)
                if ref.path.name in seen:
                    self._fail(
                        ref.pos,
                        f'action "{ref.path.name}" is listed twice in table "{table.name}"',
                        ((seen[ref.path.name], "first listed here"),),
                    )
                seen[ref.path.name] = ref.pos
                self._bind_listed(ref, decl)

    def _action_named(self, ref: ast.ActionRef) -> ast.ActionDecl:
        path = ref.path
        scope = self.globals if path.absolute else self._scope
        found = scope.lookup(path.name)
        if not found:
            names = [d.name for d in scope.visible() if isinstance(d, ast.ActionDecl)]
            self._fail(path.pos, f'unknown action "{path.name}"{suggestion(path.name, names)}')
        decl = found[0]
        path.decl = decl
        if not isinstance(decl, ast.ActionDecl):
            self._fail(path.pos, f'"{path.name}" is {describe(decl)}, not an action')
        if decl.type is None:
            raise GaveUp
        ref.decl, path.type = decl, decl.type
        return decl

    def _bind_listed(self, ref: ast.ActionRef, decl: ast.ActionDecl) -> None:
        """Check a name in `actions`: parameters with a direction are bound, others come at run
        time.
        """
        assert decl.type is not None
        params = decl.type.params
        directed = tuple(p for p in params if p.direction is not ty.Direction.NONE)
        for param in params[len(directed) :]:
            self._check_action_data(decl, param)
        args = ref.args or []
        if len(args) > len(params):
            self._fail(
                ref.pos, f'action "{decl.name}" takes {counted(len(params), "argument")}, '
                f"not {len(args)}"
            )  # fmt: skip
        if len(args) < len(directed):
            names = ", ".join(f'"{p.name}"' for p in directed[len(args) :])
            self._fail(
                ref.pos, f'action "{decl.name}" has parameters with a direction: bind {names} here'
            )
        if len(args) > len(directed):
            free = params[len(directed)]
            self._fail(
                args[len(directed)].pos,
                f'parameter "{free.name}" of action "{decl.name}" comes from the control plane: '
                "it can't be bound here",
            )
        ref.binding = self._bind_action(ref.pos, decl.name, directed, args)
        self.refuse_tables_in(ref.binding)

    def _check_action_data(self, decl: ast.ActionDecl, param: ty.Param) -> None:
        data = ty.underlying(param.type)
        if not isinstance(data, ty.Bit | ty.Int | ty.Bool | ty.Enum):
            self._fail(
                decl.pos if param.decl is None else param.decl.pos,
                f'parameter "{param.name}" of action "{decl.name}" is set by the control plane: '
                f"it can't have type {param.type}",
            )

    def _bind_action(
        self, pos: Pos, name: str, params: tuple[ty.Param, ...], args: list[ast.Argument]
    ) -> list[ast.Binding]:
        chosen = self.match_arguments(pos, name, params, args)
        return [self._bind_one(pos, Signature(name, params), p, a) for p, a in chosen]

    def _action_use(self, table: ast.TableDecl, ref: ast.ActionRef, where: str) -> None:
        """Check the action of `default_action` or an entry: listed in the table, and fully
        bound.
        """
        self.annotations(ref.annotations)
        decl = self._action_named(ref)
        listed = next((each for each in table.actions if each.decl is decl), None)
        if listed is None:
            if table.actions_pos is None:
                raise GaveUp
            self._fail(
                ref.pos,
                f'action "{decl.name}" of {where} is not in the actions of table "{table.name}"',
            )
        forbidden = "tableonly" if where == "default_action" else "defaultonly"
        if any(a.name == forbidden for a in listed.annotations):
            self._fail(ref.pos, f'action "{decl.name}" is @{forbidden}: it can\'t be used here')
        assert decl.type is not None
        params = decl.type.params
        args = ref.args or []
        directed = tuple(p for p in params if p.direction is not ty.Direction.NONE)
        free = params[len(directed) :]
        if directed and len(args) == len(params):
            self._check_same_arguments(listed, args)
        if directed and len(args) == len(free):
            bound = self._bind_action(ref.pos, f'action "{decl.name}"', free, args)
            ref.binding = [*listed.binding, *bound]
        else:
            ref.binding = self._bind_action(ref.pos, f'action "{decl.name}"', params, args)
        for binding in ref.binding:
            directionless = binding.param.direction is ty.Direction.NONE
            if directionless and binding.arg is not None and not is_compile_time(binding.arg):
                self._fail(binding.arg.pos, f'argument "{binding.param.name}" must be a constant')

    def _check_same_arguments(self, listed: ast.ActionRef, args: list[ast.Argument]) -> None:
        named = {arg.name: arg for arg in args}
        for binding, other in zip(listed.binding, args, strict=False):
            arg = named.get(binding.param.name, other)
            again = self.value(arg.value)
            same = binding.arg is not None and same_expression(binding.arg, again)
            if not same:
                self._fail(
                    arg.pos,
                    f'argument "{binding.param.name}" differs from the one in "actions"',
                )

    def _property(self, each: ast.Property) -> None:
        self.annotations(each.annotations)
        if each.value is None:
            return
        each.value = self.value(each.value)
        given = type_of(each.value)
        if each.name == "size":
            if not is_compile_time(each.value) or each.value.const_value is not None:
                each.value, size = self.check_constant_int(each.value, "size of a table")
                if size < 0:
                    self._fail(each.value.pos, f"the size of a table can't be negative ({size})")
        elif each.name in _PROPERTY_EXTERNS and isinstance(given, ty.Extern):
            wanted = _PROPERTY_EXTERNS[each.name]
            v1model = {"counter", "meter", "register", "direct_counter", "direct_meter"}
            if given.name in v1model and given.name not in wanted:
                self._fail(
                    each.value.pos,
                    f'table property "{each.name}" must be {" or ".join(wanted)}, not {given}',
                )
        elif each.name in _PROPERTY_EXTERNS:
            self._fail(each.value.pos, f'table property "{each.name}" can\'t be {given}')
        elif each.name == "support_timeout" and not isinstance(given, ty.Bool):
            self._fail(each.value.pos, f'table property "support_timeout" is bool, not {given}')
        elif each.name == "largest_priority_wins":
            if not isinstance(each.value.const_value, bool):
                self._fail(
                    each.value.pos, 'table property "largest_priority_wins" is true or false'
                )
        elif each.name == "priority_delta":
            each.value, delta = self.check_constant_int(each.value, "priority_delta")
            if delta <= 0:
                self._fail(each.value.pos, f"priority_delta must be positive, not {delta}")
        elif each.name not in _PROPERTIES:
            hint = suggestion(each.name, [*_PROPERTIES, "key", "actions", "default_action"])
            text = f'unknown table property "{each.name}"{hint}'
            self.reporter.warn(each.pos, text, "ignore-prop")

    # ------------------------------------------------------------ entries

    def _entries(self, table: ast.TableDecl) -> None:
        entries = table.entries or []
        self.annotations(table.entries_annotations)
        if not table.keys:
            if entries:
                self.reporter.error(table.pos, f'table "{table.name}" has entries but no "key"')
            return
        if any(key.expr.type is None or key.match_kind.decl is None for key in table.keys):
            return
        wanted = [type_of(key.expr) for key in table.keys]
        for entry in entries:
            self.annotations(entry.annotations)
            with self._guard():
                entry.keysets = self.keysets(entry.keysets, wanted, entry.pos)
                self._check_entry_keys(table.keys, entry)
                if entry.priority is not None:
                    entry.priority, _ = self.check_constant_int(entry.priority, "priority")
            with self._guard():
                self._action_use(table, entry.action, "this entry")
        with self._guard():
            self._check_priorities(table, table.keys, entries)

    def _check_priorities(
        self, table: ast.TableDecl, keys: list[ast.TableKey], entries: list[ast.Entry]
    ) -> None:
        prioritised = [entry for entry in entries if entry.priority is not None]
        if not prioritised:
            return
        if all(key.match_kind.name in ("exact", "lpm") for key in keys):
            self._fail(
                table.keys_pos or keys[0].pos,
                "entries of exact and lpm keys have no priorities",
                ((prioritised[0].pos, "a priority is given here"),),
            )
        if entries[0].priority is None:
            self._fail(entries[0].pos, "the first entry needs a priority, because others have one")
        if _property_value(table, "largest_priority_wins", default=1):
            step = _property_value(table, "priority_delta", default=1)
            self._refuse_negative_priority(table, entries, step)

    def _refuse_negative_priority(
        self, table: ast.TableDecl, entries: list[ast.Entry], step: int
    ) -> None:
        """Refuse negative priorities: an entry without one has that of the entry before, less
        `step`.
        """
        current = 0
        for entry in entries:
            if entry.priority is None:
                current -= step
            elif isinstance(entry.priority.const_value, int):
                current = entry.priority.const_value
            if current < 0:
                self._fail(
                    table.pos,
                    f'an entry of table "{table.name}" has the priority {current}: '
                    "none can be negative",
                    ((entry.pos, "this one"),),
                )

    def _check_entry_keys(self, keys: list[ast.TableKey], entry: ast.Entry) -> None:
        if len(entry.keysets) != len(keys):
            return
        for key, keyset in zip(keys, entry.keysets, strict=True):
            kind = key.match_kind.name
            match keyset:
                case ast.Mask():
                    shape, allowed = "a mask", kind in ("ternary", "lpm")
                case ast.Range():
                    shape, allowed = "a range", kind == "range"
                case ast.Wildcard() | ast.DefaultKey():
                    shape, allowed = '"_"', kind != "exact"
                case _:
                    shape, allowed = "a value", True
            if not allowed:
                self._fail(keyset.pos, f'a key matched as "{kind}" can\'t be {shape} in an entry')
            for part in _parts(keyset):
                if not is_compile_time(part):
                    self._fail(part.pos, "an entry's keys must be known while compiling")
            if isinstance(keyset, ast.Mask) and kind == "lpm":
                self._check_prefix(key, keyset)

    def _check_prefix(self, key: ast.TableKey, keyset: ast.Mask) -> None:
        mask = keyset.mask.const_value
        width = ty.width_of(type_of(key.expr))
        if not isinstance(mask, int) or width is None:
            return
        zeros = ((1 << width) - 1) & ~mask
        if zeros & (zeros + 1):
            self._fail(keyset.mask.pos, f"0x{mask:x} is no prefix: an lpm key needs one")


def _property_value(table: ast.TableDecl, name: str, *, default: int) -> int:
    """Return the constant number (or 0, 1 for bool) that a table property has."""
    found = table.prop(name)
    value = None if found is None or found.value is None else found.value.const_value
    return int(value) if isinstance(value, int) else default


def _parts(keyset: ast.Expr) -> list[ast.Expr]:
    """Return the values that a keyset consists of."""
    match keyset:
        case ast.Mask():
            return [keyset.value, keyset.mask]
        case ast.Range():
            return [keyset.low, keyset.high]
        case ast.Wildcard() | ast.DefaultKey():
            return []
        case _:
            return [keyset]


def _taken(select: ast.Select) -> list[ast.SelectCase]:
    """Return the cases up to the first default: p4c drops those after it (not those after `(_,
    _)`).
    """
    for at, case in enumerate(select.cases):
        if len(case.keysets) == 1 and _matches_all(case):
            return select.cases[: at + 1]
    return select.cases


def _matches_all(case: ast.SelectCase) -> bool:
    return all(isinstance(keyset, ast.Wildcard | ast.DefaultKey) for keyset in case.keysets)


def _has_control_plane_name(expr: ast.Expr) -> bool:
    """Return whether a key's name follows from its expression: a path, `isValid()`, slice or
    constant.
    """
    match expr:
        case ast.Name() | ast.IntLiteral() | ast.BoolLiteral():
            return True
        case ast.Member():
            return _has_control_plane_name(expr.base)
        case ast.Index():
            return _has_control_plane_name(expr.base)
        case ast.Slice():
            return not expr.plus and _has_control_plane_name(expr.base)
        case ast.Cast(implicit=True):
            return _has_control_plane_name(expr.operand)
        case ast.Call(kind=ast.CallKind.IS_VALID, receiver=ast.Expr() as receiver):
            return _has_control_plane_name(receiver)
        case ast.Binary(op=ast.BinaryOp.BIT_AND):
            sides = (expr.left, expr.right)
            return any(s.const_value is not None for s in sides) and any(
                _has_control_plane_name(s) for s in sides
            )
        case _:
            return False


def _flattened(t: ty.Type) -> list[ty.Type]:
    """Return the scalar types that a struct or tuple consists of, in order."""
    match t:
        case ty.StructLike():
            return [part for f in t.fields for part in _flattened(f.type)]
        case ty.Tuple():
            return [part for e in t.elements for part in _flattened(e)]
        case _:
            return [t]
