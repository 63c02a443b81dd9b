"""Loads calculations, stateful arrays, actions, pipelines, checksums and the lists of fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from softswitch.codegen.expr_loader import ExprLoader, Symbols, source_of
from softswitch.codegen.expressions import Expr, FieldRef, HeaderField, Kind, StackElement
from softswitch.codegen.hashes import CRCS
from softswitch.codegen.json_reader import Node
from softswitch.codegen.model import (
    Action,
    ActionCall,
    ActionProfile,
    CalcInput,
    Calculation,
    Checksum,
    Conditional,
    Counter,
    CustomCrc,
    DefaultEntry,
    Entry,
    EntryKey,
    FieldList,
    LearnList,
    Meter,
    Param,
    Pipeline,
    PipelineNode,
    Register,
    Table,
    TableKey,
)
from softswitch.codegen.primitives import HASHES

MATCHES = ("exact", "lpm", "ternary", "range", "optional", "valid")
TABLE_MATCHES = ("exact", "lpm", "ternary", "range")
TABLE_TYPES = ("simple", "indirect", "indirect_ws")


class ControlLoader:
    """Fills its public members from the document; `load` goes first, then `pipeline` by name."""

    def __init__(self, root: Node, symbols: Symbols) -> None:
        self.root = root
        self.symbols = symbols
        self.calculations: dict[str, Calculation] = {}
        self.registers: tuple[Register, ...] = ()
        self.counters: tuple[Counter, ...] = ()
        self.meters: tuple[Meter, ...] = ()
        self.actions: tuple[Action, ...] = ()
        self.checksums: tuple[Checksum, ...] = ()
        self.learn_lists: tuple[LearnList, ...] = ()
        self.field_lists: tuple[FieldList, ...] = ()
        self.profiles: list[ActionProfile] = []
        self.tables: list[Table] = []
        self._actions_by_id: dict[int, Action] = {}
        self._pipelines: dict[str, Pipeline] = {}

    def load(self) -> None:
        """Read everything. Raises JsonError with the first error in the document."""
        root = self.root
        for node in root.list_of("calculations"):
            calc = self._calculation(node, node["name"].text())
            self.calculations[calc.name] = calc
        self.registers = tuple(
            Register(
                n["name"].text(), n["id"].number(), i, n["size"].count(), n["bitwidth"].width()
            )
            for i, n in enumerate(root.list_of("register_arrays"))
        )
        self.counters = tuple(
            self._counter(n, i) for i, n in enumerate(root.list_of("counter_arrays"))
        )
        self.meters = tuple(self._meter(n, i) for i, n in enumerate(root.list_of("meter_arrays")))
        self.actions = tuple(self._action(n, i) for i, n in enumerate(root.list_of("actions")))
        for node in root["pipelines"].items():
            pipeline = self._pipeline(node)
            self._pipelines[pipeline.name] = pipeline
        self.checksums = tuple(self._checksum(node) for node in root.list_of("checksums"))
        self.learn_lists = tuple(
            LearnList(n["name"].text(), n["id"].number(1), i, self._elements(n))
            for i, n in enumerate(root.list_of("learn_lists"))
        )
        self.field_lists = tuple(
            FieldList(number, self._elements(n))
            for number, n in _by_id(root.list_of("field_lists"), "field list")
        )

    def pipeline(self, name: str) -> Pipeline:
        """Return the pipeline called `name`.

        Raises JsonError without it: simple_switch needs it.
        """
        if name not in self._pipelines:
            raise self.root["pipelines"].error(
                f'no pipeline is named "{name}", which simple_switch runs'
            )
        return self._pipelines[name]

    def _elements(self, node: Node) -> tuple[FieldRef, ...]:
        fields = []
        for item in node["elements"].items():
            kind = item["type"].text()
            if kind == "field":
                fields.append(self.symbols.field_ref(item["value"]))
            elif kind != "hexstr":
                raise item["type"].error(f'unsupported list element type "{kind}"')
        return tuple(fields)

    def _calculation(self, node: Node, name: str) -> Calculation:
        algorithm = node["algo"].text()
        if algorithm not in HASHES:
            raise node["algo"].error(f'unsupported hash algorithm "{algorithm}"')
        inputs = []
        for item in node["input"].items():
            kind = item["type"].text()
            match kind:
                case "field":
                    ref = self.symbols.field_ref(item["value"])
                    inputs.append(CalcInput(kind, ref.header, ref.field))
                case "hexstr":
                    bits, value = item["bitwidth"].width(), item["value"].hex_number()
                    inputs.append(CalcInput(kind, value=value & ((1 << bits) - 1), bits=bits))
                case "header":
                    inputs.append(CalcInput(kind, self.symbols.header(item["value"]).name))
                case "payload":
                    inputs.append(CalcInput(kind))
                case _:
                    raise item["type"].error(f'unsupported input type "{kind}" of a calculation')
        return Calculation(name, algorithm, tuple(inputs), _custom_crc(node, algorithm))

    @staticmethod
    def _direct(node: Node) -> bool:
        flag = node.opt("is_direct")
        return flag is not None and flag.flag()

    def _counter(self, node: Node, index: int) -> Counter:
        direct = self._direct(node)
        binding = node.opt("binding") if direct else None
        table = binding.text() if binding is not None else None
        return Counter(
            node["name"].text(),
            node["id"].number(),
            index,
            0 if direct else node["size"].count(),
            table,
        )

    def _meter(self, node: Node, index: int) -> Meter:
        direct = self._direct(node)
        unit = node["type"].text()
        if unit not in ("bytes", "packets"):
            raise node["type"].error(f'expected "bytes" or "packets", found "{unit}"')
        binding = node.opt("binding") if direct else None
        target = node.opt("result_target") if direct else None
        return Meter(
            node["name"].text(),
            node["id"].number(),
            index,
            0 if direct else node["size"].count(),
            unit == "bytes",
            node["rate_count"].number(1),
            binding.text() if binding is not None else None,
            self.symbols.field_ref(target) if target is not None else None,
        )

    def _action(self, node: Node, index: int) -> Action:
        params = tuple(
            Param(p["name"].text(), p["bitwidth"].width(0)) for p in node.list_of("runtime_data")
        )
        loader = ExprLoader(self.symbols, len(params))
        primitives = tuple(loader.primitive(p) for p in node.list_of("primitives"))
        action = Action(node["name"].text(), node["id"].number(), index, params, primitives)
        if action.id in self._actions_by_id:
            raise node["id"].error(f"a second action with id {action.id}")
        self._actions_by_id[action.id] = action
        return action

    def _checksum(self, node: Node) -> Checksum:
        kind = node["type"].text()
        calculation = None
        if kind == "generic":
            calculation = self.symbols.object(node["calculation"], "calculation")
        elif kind != "ipv4":
            raise node["type"].error(f'unsupported checksum type "{kind}"')
        flags = [flag is None or flag.flag() for flag in (node.opt("verify"), node.opt("update"))]
        condition: Expr | None = None
        if_cond = node.opt("if_cond")
        if if_cond is not None:
            condition = ExprLoader(self.symbols).load(if_cond, Kind.BOOL)
        target = self.symbols.field_ref(node["target"])
        return Checksum(node["name"].text(), target, calculation, flags[0], flags[1], condition)

    # --- pipelines --------------------------------------------------------------------------

    def _pipeline(self, node: Node) -> Pipeline:
        name = node["name"].text()
        for item in node.list_of("action_profiles"):
            self._profile(item["name"].text(), item)
        groups = {
            key: list(node.list_of(key)) for key in ("tables", "conditionals", "action_calls")
        }
        names = {item["name"].text() for items in groups.values() for item in items}
        nodes: dict[str, PipelineNode] = {}

        def following(owner: Node, key: str) -> str | None:
            child = owner.opt(key)
            if child is not None and child.text() not in names:
                raise child.error(f'unknown control flow node "{child.value}"')
            return child.value if child is not None else None

        for item in groups["tables"]:
            table = self._table(item, name, names)
            self.tables.append(table)
            nodes[table.name] = table
        for item in groups["conditionals"]:
            expression = ExprLoader(self.symbols).load(item["expression"], Kind.BOOL)
            if (
                item.opt("true_next") is None
                and item.opt("false_next") is None
                and not ({"true_next", "false_next"} & item.object().keys())
            ):
                raise item.error('missing keys "true_next" and "false_next"')
            condition = Conditional(
                item["name"].text(),
                expression,
                following(item, "true_next"),
                following(item, "false_next"),
                source_of(item),
            )
            nodes[condition.name] = condition
        for item in groups["action_calls"]:
            action = self._action_by_id(item["action_id"])
            if action.params:
                raise item["action_id"].error(f'action "{action.name}" expects parameters')
            call = ActionCall(item["name"].text(), action, following(item, "next_node"))
            nodes[call.name] = call
        return Pipeline(name, following(node, "init_table"), nodes)

    def _action_by_id(self, node: Node) -> Action:
        action = self._actions_by_id.get(node.number())
        if action is None:
            raise node.error(f"no action has id {node.value}")
        return action

    def _profile(self, name: str, node: Node) -> None:
        selector = node.opt("selector")
        size = node.opt("max_size")
        calculation = self._calculation(selector, "") if selector is not None else None
        self.profiles.append(
            ActionProfile(
                name,
                node["id"].number(),
                len(self.profiles),
                size.count() if size is not None else 0,
                calculation,
            )
        )

    def _table(self, node: Node, pipeline: str, names: set[str]) -> Table:
        name = node["name"].text()
        key = tuple(self._key(item) for item in node["key"].items())
        lpm = [part for part in key if part.match == "lpm"]
        if len(lpm) > 1:
            raise node["key"].error("more than one lpm field")
        match_type = self._choice(node["match_type"], TABLE_MATCHES)
        table_type = self._choice(node["type"], TABLE_TYPES)
        if match_type == "exact" and any(p.match not in ("exact", "valid") for p in key):
            raise node["match_type"].error('"exact", but a key field is not')
        actions = self._table_actions(node)
        following, hit_miss = self._next(node, actions, names)
        default = node.opt("default_entry")
        entry_nodes = list(node.list_of("entries"))
        entries = tuple(self._entry(item, key) for item in entry_nodes)
        if entries and table_type != "simple":
            raise node["entries"].error(f'a table of type "{table_type}" has no entries of its own')
        base = node.opt("base_default_next")
        if base is not None and base.text() not in names:
            raise base.error(f'unknown control flow node "{base.value}"')
        max_size = node.opt("max_size")
        meter = node.opt("direct_meters")
        if meter is not None and not any(
            m.name == meter.text() and m.target is not None for m in self.meters
        ):
            raise meter.error(f'unknown direct meter array "{meter.value}"')
        return Table(
            name=name,
            id=node["id"].number(),
            index=len(self.tables),
            pipeline=pipeline,
            key=key,
            match_type=match_type,
            type=table_type,
            max_size=max(max_size.count() if max_size is not None else 0, len(entries)),
            with_counters=self._flag(node, "with_counters"),
            support_timeout=self._flag(node, "support_timeout"),
            direct_meter=meter.value if meter is not None else None,
            action_profile=self._table_profile(node) if table_type != "simple" else None,
            actions=actions,
            next={} if hit_miss else {a.id: following[a.name] for a in actions},
            next_is_hit_miss=hit_miss,
            hit_next=following.get("__HIT__"),
            miss_next=following.get("__MISS__"),
            base_default_next=base.value if base is not None else None,
            default_entry=self._default(default) if default is not None else None,
            entries=entries,
            immutable="entries" in node.object(),
        )

    @staticmethod
    def _flag(node: Node, key: str) -> bool:
        flag = node.opt(key)
        return flag is not None and flag.flag()

    @staticmethod
    def _choice(node: Node, choices: tuple[str, ...]) -> str:
        if node.text() not in choices:
            raise node.error(f'expected one of {", ".join(choices)}; found "{node.value}"')
        return str(node.value)

    def _key(self, node: Node) -> TableKey:
        match = self._choice(node["match_type"], MATCHES)
        target = node["target"]
        label = node.opt("name")
        if match == "valid":
            header = self.symbols.header(target).name
            return TableKey(
                label.text() if label is not None else header, match, header, None, 8, None
            )
        ref, element = self._key_target(target)
        field = self.symbols.field_type(ref)
        if field.varbit:
            raise target.error("a variable-length field can't be a key")
        mask = node.opt("mask")
        if mask is not None and not 0 <= mask.hex_number() < 1 << field.bits:
            raise mask.error(f"the mask {mask.text()} does not fit the key's {field.bits} bits")
        name = label.text() if label is not None else f"{ref.header}.{ref.field}"
        return TableKey(
            name,
            match,
            ref.header,
            ref.field,
            field.bits,
            mask.hex_number() if mask is not None else None,
            element,
        )

    def _key_target(self, node: Node) -> tuple[FieldRef, HeaderField | None]:
        """Return a field by name, or p4c's expression for a stack element's at a run-time index."""
        if not isinstance(node.value, dict):
            return self.symbols.field_ref(node), None
        expr = ExprLoader(self.symbols).load(node, Kind.DATA)
        if not isinstance(expr, HeaderField) or not isinstance(expr.header, StackElement):
            raise node.error("expected a field of a header stack's element")
        first = self.symbols.stacks[expr.header.stack].headers[0]
        return FieldRef(first.name, first.type.fields[expr.field].name), expr

    def _table_profile(self, node: Node) -> str:
        named = node.opt("action_profile")
        if named is not None:
            if not any(profile.name == named.text() for profile in self.profiles):
                raise named.error(f'unknown action profile "{named.value}"')
            return str(named.value)
        old = node.opt("act_prof_name")  # before version 2.? the table itself declared it
        if old is None:
            raise node.error('missing key "action_profile"')
        if not any(profile.name == old.text() for profile in self.profiles):
            self._profile(old.text(), node)
        return str(old.value)

    def _table_actions(self, node: Node) -> tuple[Action, ...]:
        ids = node.opt("action_ids")
        found: list[Action] = []
        for item in (node["actions"] if ids is None else ids).items():
            action = self._action_by_name(item) if ids is None else self._action_by_id(item)
            if any(other.id == action.id for other in found):
                raise item.error(f'a second action "{action.name}" of the table')
            found.append(action)
        return tuple(found)

    def _action_by_name(self, node: Node) -> Action:
        named = [action for action in self.actions if action.name == node.text()]
        if len(named) != 1:
            raise node.error(
                f'{len(named)} actions are named "{node.value}": "action_ids" is needed'
            )
        return named[0]

    @staticmethod
    def _next(
        node: Node, actions: tuple[Action, ...], names: set[str]
    ) -> tuple[dict[str, str | None], bool]:
        tables = node["next_tables"]
        members = tables.object()
        hit_miss = bool(members.keys() & {"__HIT__", "__MISS__"})
        wanted = {"__HIT__", "__MISS__"} if hit_miss else {action.name for action in actions}
        if members.keys() != wanted:
            raise tables.error(f"expected the keys {sorted(wanted)}, found {sorted(members)}")
        following: dict[str, str | None] = {}
        for key in members:
            target = tables.opt(key)
            if target is not None and target.text() not in names:
                raise target.error(f'unknown control flow node "{target.value}"')
            following[key] = target.value if target is not None else None
        return following, hit_miss

    def _args(self, node: Node, action: Action) -> tuple[int, ...]:
        items = node["action_data"].items()
        if len(items) != len(action.params):
            raise node["action_data"].error(
                f'action "{action.name}" takes {len(action.params)} arguments, found {len(items)}'
            )
        return tuple(
            item.hex_number() & ((1 << param.bits) - 1)
            for item, param in zip(items, action.params, strict=True)
        )

    def _default(self, node: Node) -> DefaultEntry:
        action = self._action_by_id(node["action_id"])
        return DefaultEntry(
            action,
            self._args(node, action),
            self._flag(node, "action_const"),
            self._flag(node, "action_entry_const"),
        )

    def _entry(self, node: Node, key: tuple[TableKey, ...]) -> Entry:
        parts = node["match_key"].items(len(key))
        fields = tuple(self._entry_key(part, field) for part, field in zip(parts, key, strict=True))
        action_entry = node["action_entry"]
        action = self._action_by_id(action_entry["action_id"])
        return Entry(fields, action, self._args(action_entry, action), node["priority"].number())

    @staticmethod
    def _entry_key(node: Node, field: TableKey) -> EntryKey:
        match = node["match_type"].text()
        if match != field.match and {match, field.match} != {"ternary", "optional"}:
            raise node["match_type"].error(f'expected "{field.match}", found "{match}"')
        limit = 1 << field.bits

        def number(name: str) -> int:
            value = node[name].hex_number()
            if not 0 <= value < limit:
                raise node[name].error(f"does not fit {field.bits} bits")
            return value

        match match:
            case "valid":
                return EntryKey(match, int(node["key"].flag()))
            case "exact":
                return EntryKey(match, number("key"))
            case "lpm":
                return EntryKey(
                    match, number("key"), prefix_length=node["prefix_length"].number(0, field.bits)
                )
            case "range":
                return EntryKey(match, number("start"), high=number("end"))
            case _:
                return EntryKey(match, number("key"), mask=number("mask"))


def _by_id(nodes: Iterable[Node], what: str) -> Iterator[tuple[int, Node]]:
    """Yield the nodes with their ids, each of which may stand once."""
    seen: set[int] = set()
    for node in nodes:
        number = node["id"].number()
        if number in seen:
            raise node["id"].error(f"a second {what} with id {number}")
        seen.add(number)
        yield number, node


def _custom_crc(node: Node, algorithm: str) -> CustomCrc | None:
    """Return the calculation's own "crc", an extension of BMv2's JSON (BMv2 sets it over
    Thrift).
    """
    crc = node.opt("crc")
    if crc is None:
        return None
    if algorithm not in CRCS or not algorithm.endswith("_custom"):
        raise crc.error(f"{algorithm} has no parameters")
    highest = (1 << CRCS[algorithm].bits) - 1
    return CustomCrc(
        crc["polynomial"].number(0, highest),
        crc["initial"].number(0, highest),
        crc["final"].number(0, highest),
        crc["reflect_data"].flag(),
        crc["reflect_remainder"].flag(),
    )
