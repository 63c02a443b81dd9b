"""P4Info of a program: what the control plane sees, equal to p4c's byte for byte.

Two passes, as in p4c: all objects are entered into the symbol table (ids and aliases depend on
all of them), then messages are written in the order of the inlined program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from finsy.proto import p4i
from google.protobuf import text_format

from compiler.bmv2.lower_program import ProgramLowering
from compiler.bmv2.places import ExternObject
from compiler.errors import CompileError
from compiler.p4info.ids import ResourceType, number_members
from compiler.p4info.types import (
    add_annotations,
    add_documentation,
    byte_string,
    type_name,
    user_id,
    width,
)
from compiler.p4info.writer import MATCH_TYPES, P4InfoWriter
from compiler.passes.elaborate import (
    ARCHITECTURE,
    Instance,
    Item,
    apply_calls,
    flatten,
    is_local,
    local_name,
    table_actions,
)
from compiler.passes.key_names import key_name
from compiler.passes.usage import is_needed
from compiler.syntax import ast
from compiler.syntax.walk import below, expressions_of, statements_of, successors
from compiler.types import types as ty

_EXTERNS = {
    "counter": ResourceType.COUNTER,
    "direct_counter": ResourceType.DIRECT_COUNTER,
    "meter": ResourceType.METER,
    "direct_meter": ResourceType.DIRECT_METER,
    "register": ResourceType.REGISTER,
    "action_profile": ResourceType.ACTION_PROFILE,
    "action_selector": ResourceType.ACTION_PROFILE,
}
_DEFAULT_SIZE = 1024
_HEADING = "# proto-file: p4/config/v1/p4info.proto\n# proto-message: p4.config.v1.P4Info\n\n"


def to_text(info: p4i.P4Info) -> str:
    """Return the P4Info in protobuf's text format, with p4c's heading."""
    return _HEADING + str(text_format.MessageToString(info, as_utf8=False))


class P4InfoBuilder(P4InfoWriter):
    """Builds the P4Info of one lowered program."""

    def __init__(self, program: ProgramLowering) -> None:
        super().__init__(program)
        self._listed = {
            id(ref.decl)
            for role in ARCHITECTURE
            for item in flatten(program.blocks[role])
            if isinstance(item.decl, ast.TableDecl)
            for ref in table_actions(item.decl)
        }
        self._controls = [
            (program.blocks[role], list(self._items(role)))
            for role in ARCHITECTURE
            if role != "parser"
        ]
        self._value_sets = [
            item
            for item in flatten(program.blocks["parser"])
            if isinstance(item.decl, ast.ValueSetDecl) and item.decl in _selected(item.instance)
        ]
        self._digests_done: set[str] = set()
        self._actions_done: set[str] = set()
        self._tables_named: set[str] = set()

    def build(self) -> p4i.P4Info:
        """Build the message. Raises `CompileError` for bad `@id`s and the like."""
        self._collect()
        self._symbols.assign()
        for item in self._value_sets:
            self._value_set(item)
        for instance, items in self._controls:
            self._actions_and_digests(instance, items)
        for target in self._program.global_externs():
            self._extern(target)
        for _, items in self._controls:
            for item in items:
                if isinstance(item.decl, ast.TableDecl):
                    self._table(item)
                elif isinstance(item.decl, ast.InstanceDecl):
                    self._extern(self._object(item))
        for header in self._controller_headers():
            self._controller_header(header)
        self._package()
        return self._info

    # ------------------------------------------------------------ collection

    def _items(self, role: str) -> Iterator[Item]:
        """Yield a control's declarations as they stand after inlining: global actions first."""
        instance = self._program.blocks[role]
        items = list(flatten(instance))
        local = [i for i in items if self._is_listed(i)]
        seen: set[int] = set()
        for action in self._action_uses(instance, items):
            if id(action) not in seen and not any(i.decl is action for i in items):
                seen.add(id(action))
                yield Item(instance, action)
        yield from local

    def _is_listed(self, item: Item) -> bool:
        """Return whether P4Info lists an item; unused actions are left out.

        Unused externs are left out if their type is written as a typedef: p4c keeps unused externs,
        but does
        not look through the typedef to see that it is one.
        """
        match item.decl:
            case ast.ActionDecl():
                return self._used(item)
            case ast.InstanceDecl(call=call, type=ty.Extern(name=name)) as decl:
                ref = call.callee.ref if isinstance(call.callee, ast.TypeExpr) else None
                control = item.instance.decl
                if isinstance(ref, ast.NamedTypeRef) and isinstance(control, ast.ControlDecl):
                    return ref.name == name or is_needed(decl, control)
        return True

    def _action_uses(self, instance: Instance, items: list[Item]) -> Iterator[ast.ActionDecl]:
        """Yield the actions in the order in which tables and apply bodies name them."""
        for item in items:
            if isinstance(item.decl, ast.TableDecl):
                for ref in table_actions(item.decl):
                    if ref.decl is not None:
                        yield ref.decl
                if item.decl.default_action is None:
                    yield self._program.no_action(item.decl.pos)
        for call in apply_calls(instance):
            if isinstance(call.decl, ast.ActionDecl):
                yield call.decl

    def _used(self, item: Item) -> bool:
        """Return whether a table lists an action or the apply body calls it."""
        instance = item.instance
        if item.decl in instance.direct_actions:
            return True
        return self._in_table(item)

    def _in_table(self, item: Item) -> bool:
        if not is_local(item.instance, item.decl):
            return id(item.decl) in self._listed
        return any(
            ref.decl is item.decl
            for table in item.instance.used_tables
            for ref in table_actions(table)
        )

    def _controller_headers(self) -> Iterator[ast.HeaderDecl]:
        for decl in self._program.checked.program.decls:
            if isinstance(decl, ast.HeaderDecl) and decl.annotation("controller_header"):
                yield decl

    def _object(self, item: Item) -> ExternObject:
        assert isinstance(item.decl, ast.InstanceDecl)
        return self._program.extern_of(item.decl, item.instance)

    # ------------------------------------------------------------ symbols

    def _add(self, kind: ResourceType, name: str, decl: ast.Decl) -> None:
        self._symbols.add(kind, name, user_id(decl.annotations), decl.pos)

    def _collect(self) -> None:
        for item in self._value_sets:
            self._add(ResourceType.VALUE_SET, item.name, item.decl)
        for target in self._program.global_externs():
            if target.type.name in _EXTERNS:
                self._add(_EXTERNS[target.type.name], target.name, target.decl)
        for instance, items in self._controls:
            for item in items:
                self._collect_item(item)
            for call in _with_called(apply_calls(instance)):
                self._collect_digest(call)
        for header in self._controller_headers():
            self._add(ResourceType.CONTROLLER_HEADER, local_name(header), header)

    def _collect_item(self, item: Item) -> None:
        match item.decl:
            case ast.ActionDecl():
                self._add(ResourceType.ACTION, item.name, item.decl)
                for call in _calls(item.decl.body):
                    self._collect_digest(call)
            case ast.TableDecl():
                if item.name in self._tables_named:
                    raise CompileError.at(
                        item.decl.pos,
                        f'two instances of table "{item.decl.name}" have the control-plane name'
                        f' "{item.name}": without the dot before it, @name keeps them apart',
                    )
                self._tables_named.add(item.name)
                self._add(ResourceType.TABLE, item.name, item.decl)
                self._collect_table(item)
            case ast.InstanceDecl(type=ty.Extern(name=kind)) if kind in _EXTERNS:
                self._add(_EXTERNS[kind], self._object(item).name, item.decl)
            case _:
                pass

    def _collect_table(self, item: Item) -> None:
        table = self._program.table_named(item)
        for target in (table.implementation, table.counter, table.meter):
            if target is not None and self._program.made_in_place(target):
                self._add(_EXTERNS[target.type.name], target.name, target.decl)
        if table.implementation is not None:
            tables = self._profile_tables.setdefault(table.implementation.name, [])
            tables.append(item.name)

    def _collect_digest(self, call: ast.Call) -> None:
        if _is_digest(call):
            self._symbols.add(ResourceType.DIGEST, self._program.digest_name(call), None, call.pos)

    # ------------------------------------------------------------ messages

    def _actions_and_digests(self, instance: Instance, items: list[Item]) -> None:
        for item in items:
            if isinstance(item.decl, ast.ActionDecl):
                self._action(item, item.decl)
                for call in _calls(item.decl.body):
                    self._extern_function(call)
        for call in _with_called(apply_calls(instance)):
            self._extern_function(call)

    def _action(self, item: Item, decl: ast.ActionDecl) -> None:
        if decl.annotation("hidden") or item.name in self._actions_done:
            return
        self._actions_done.add(item.name)
        message = self._info.actions.add()
        self._preamble(message, ResourceType.ACTION, item.name, decl.annotations)
        params = self._run_time_params(item, decl)
        numbers = number_members([user_id(p.annotations) for p in params])
        for param, number in zip(params, numbers, strict=True):
            assert param.type is not None
            entry = message.params.add()
            entry.id = number
            entry.name = local_name(param)
            add_annotations(entry, param.annotations)
            add_documentation(entry, param.annotations)
            if not isinstance(param.type, ty.Enum):
                entry.bitwidth = width(param.type, param.pos)
            self._type_info()
            self._specs.spec(param.type, param.pos)
            name = type_name(param.type)
            if name is None and isinstance(param.type, ty.Enum):
                name = param.type.name
            if name is not None:
                entry.type_name.name = name

    def _run_time_params(self, item: Item, decl: ast.ActionDecl) -> list[ast.Parameter]:
        """Return the parameters that the control plane gives: none if only apply bodies call the
        action.
        """
        if not self._in_table(item):
            return []
        bound = {
            binding.param.name
            for table in item.instance.used_tables
            for ref in table.actions
            if ref.decl is decl
            for binding in ref.binding
        }
        return [p for p in decl.params if not p.direction and p.name not in bound]

    def _extern_function(self, call: ast.Call) -> None:
        if call.kind is not ast.CallKind.EXTERN_FUNCTION:
            return
        self._type_info()
        if not _is_digest(call):
            return
        name = self._program.digest_name(call)
        spec = self._specs.spec(_digest_type(call), call.pos)
        if name in self._digests_done:
            return
        self._digests_done.add(name)
        message = self._info.digests.add()
        self._preamble(message, ResourceType.DIGEST, name, [])
        message.type_spec.CopyFrom(spec)

    def _table(self, item: Item) -> None:
        decl = item.decl
        assert isinstance(decl, ast.TableDecl)
        if decl.annotation("hidden"):
            return
        table = self._program.table_named(item)
        message = self._info.tables.add()
        self._type_info()
        self._preamble(message, ResourceType.TABLE, item.name, decl.annotations)
        size = decl.prop("size")
        message.size = table.declared_size if size is not None else _DEFAULT_SIZE
        self._match_fields(message, decl)
        self._action_refs(message, item, decl)
        self._default_action(message, item, decl)
        if decl.entries is not None and decl.entries_const:
            message.is_const_table = True
        if decl.entries:
            message.has_initial_entries = True
            _require_values(decl.entries)
        self._table_resources(message, item)
        if table.support_timeout:
            message.idle_timeout_behavior = p4i.Table.NOTIFY_CONTROL

    def _match_fields(self, message: p4i.Table, decl: ast.TableDecl) -> None:
        keys = decl.keys or []
        numbers = number_members([user_id(k.annotations) for k in keys])
        for key, number in zip(keys, numbers, strict=True):
            kind = key.match_kind.name
            if kind == "selector":
                continue
            assert key.expr.type is not None
            entry = message.match_fields.add()
            entry.id = number
            entry.name = key_name(key)
            add_annotations(entry, key.annotations)
            add_documentation(entry, key.annotations)
            t = _key_type(key.expr)
            entry.bitwidth = width(t, key.pos)
            if kind in MATCH_TYPES:
                entry.match_type = MATCH_TYPES[kind]
            else:
                entry.other_match_type = kind
            self._specs.spec(t, key.pos)
            name = type_name(t)
            if name is not None:
                entry.type_name.name = name

    def _action_id(self, item: Item, decl: ast.ActionDecl) -> int:
        return self._symbols.id_of(ResourceType.ACTION, Item(item.instance, decl).name)

    def _action_refs(self, message: p4i.Table, item: Item, decl: ast.TableDecl) -> None:
        listed: list[tuple[ast.ActionDecl, list[ast.Annotation]]] = [
            (ref.decl, ref.annotations) for ref in decl.actions if ref.decl is not None
        ]
        if decl.default_action is None:
            no_action = self._program.no_action(decl.pos)
            if all(d is not no_action for d, _ in listed):
                only = ast.Annotation(decl.pos, "defaultonly")
                listed.append((no_action, [only]))
        for action, notes in listed:
            ref = message.action_refs.add()
            ref.id = self._action_id(item, action)
            add_annotations(ref, notes)
            names = {a.name for a in notes}
            if {"tableonly", "defaultonly"} <= names:
                raise CompileError.at(
                    notes[0].pos,
                    f"action {action.name} is both @tableonly and @defaultonly",
                )
            if "tableonly" in names:
                ref.scope = p4i.ActionRef.TABLE_ONLY
            elif "defaultonly" in names:
                ref.scope = p4i.ActionRef.DEFAULT_ONLY

    def _default_action(self, message: p4i.Table, item: Item, decl: ast.TableDecl) -> None:
        ref = decl.default_action
        action = ref.decl if ref is not None else self._program.no_action(decl.pos)
        assert action is not None
        number = self._action_id(item, action)
        if ref is not None and decl.default_action_const:
            message.const_default_action_id = number
        message.initial_default_action.action_id = number
        table = self._program.table_named(item)
        assert table.default is not None
        lowered, values = table.default
        run_time = [p for p in action.params if any(local_name(p) == n for n, _ in lowered.params)]
        for index, (param, value) in enumerate(zip(run_time, values, strict=True), start=1):
            assert param.type is not None
            argument = message.initial_default_action.arguments.add()
            own = user_id(param.annotations)
            argument.param_id = index if own is None else own
            argument.value = byte_string(value, max(width(param.type, param.pos), 1))

    def _table_resources(self, message: p4i.Table, item: Item) -> None:
        table = self._program.table_named(item)
        target = table.implementation
        if target is not None:
            message.implementation_id = self._symbols.id_of(
                ResourceType.ACTION_PROFILE, target.name
            )
            if self._program.made_in_place(target):
                self._profile(target)
        if table.counter is not None:
            message.direct_resource_ids.append(
                self._symbols.id_of(ResourceType.DIRECT_COUNTER, table.counter.name)
            )
            counter = self._info.direct_counters.add()
            self._counterlike(counter, ResourceType.DIRECT_COUNTER, table.counter)
            counter.direct_table_id = message.preamble.id
        if table.meter is not None:
            message.direct_resource_ids.append(
                self._symbols.id_of(ResourceType.DIRECT_METER, table.meter.name)
            )
            meter = self._info.direct_meters.add()
            self._counterlike(meter, ResourceType.DIRECT_METER, table.meter)
            meter.direct_table_id = message.preamble.id


def _require_values(entries: list[ast.Entry]) -> None:
    """Check that P4Runtime, which has entries too, has values for these. Raises `CompileError`."""
    for entry in entries:
        for binding in entry.action.binding:
            if binding.arg is not None and binding.arg.type is not None:
                width(binding.arg.type, binding.arg.pos)


def _selected(instance: Instance) -> set[ast.Decl]:
    """Return the value sets that the reachable states of a parser name."""
    assert isinstance(instance.decl, ast.ParserDecl)
    states = {state.name: state for state in instance.decl.states}
    found: set[ast.Decl] = set()
    seen: set[str] = set()
    todo = ["start"]
    while todo:
        name = todo.pop()
        if name in seen or name not in states:
            continue
        seen.add(name)
        todo += successors(states[name])
        found.update(
            node.decl
            for node in below(states[name].transition)
            if isinstance(node, ast.Name) and isinstance(node.decl, ast.ValueSetDecl)
        )
    return found


def _calls(body: ast.Block) -> Iterator[ast.Call]:
    """Yield the calls in an action and in the actions and functions that it calls."""
    for stmt in statements_of(body):
        for expr in expressions_of(stmt):
            if isinstance(expr, ast.Call):
                yield from _with_called([expr])


def _with_called(calls: Iterable[ast.Call]) -> Iterator[ast.Call]:
    """Yield calls, each with those in the action or function that it calls, which p4c has
    inlined.
    """
    for call in calls:
        yield call
        match call.decl:
            case ast.ActionDecl(body=body) | ast.FunctionDecl(body=body):
                yield from _calls(body)


def _is_digest(call: ast.Call) -> bool:
    return (
        call.kind is ast.CallKind.EXTERN_FUNCTION
        and call.decl is not None
        and call.decl.name == "digest"
    )


def _digest_type(call: ast.Call) -> ty.Type:
    return call.binding[1].param.type


def _key_type(expr: ast.Expr) -> ty.Type:
    """Return the type of a key as written: without the conversions that the checker put in."""
    while isinstance(expr, ast.Cast) and expr.implicit:
        expr = expr.operand
    assert expr.type is not None
    return expr.type
