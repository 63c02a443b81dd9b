"""Ingress and egress as BMv2 JSON: tables, conditionals, and hidden tables for plain code.

A block of statements becomes an action run by a table without keys (`tbl_..`), as p4c does it;
an `if` becomes a conditional; tables lead on by action, by hit or miss, or simply on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from compiler.bmv2 import graph, ir
from compiler.bmv2.code import CodeWriter
from compiler.bmv2.expr import Json, condition, field_ref, hexstr, value
from compiler.bmv2.layout import unique
from compiler.bmv2.lower_program import Pipeline, ProgramLowering
from compiler.bmv2.lower_table import KeyMatch, LoweredAction, LoweredKey, LoweredTable
from compiler.errors import CompileError


@dataclass
class ActionList:
    """All actions of the JSON with their ids."""

    code: CodeWriter
    written: list[Json] = field(default_factory=list)
    _ids: dict[int, int] = field(default_factory=dict)
    _hidden_names: set[str] = field(default_factory=set)

    def id_of(self, action: LoweredAction) -> int:
        """Return the id of a program's action, which is written on first use."""
        found = self._ids.get(id(action))
        if found is None:
            params = [{"name": n, "bitwidth": t.width} for n, t in action.params]
            found = self._add(action.name, params, self.code.action_body(action.entry))
            self._ids[id(action)] = found
        return found

    def hidden(self, stem: str, block: ir.Block) -> tuple[int, str]:
        """Add an action with the operations of `block`; return its id and name."""
        line = block.ops[0].pos.line if block.ops else block.pos.line
        name = unique(f"{stem}{line}", self._hidden_names)
        only = ir.Block(block.pos, ops=block.ops, end=ir.Stop())
        return self._add(name, [], self.code.action_body(only)), name

    def _add(self, name: str, params: list[Json], body: list[Json]) -> int:
        number = len(self.written)
        self.written.append(
            {"name": name, "id": number, "runtime_data": params, "primitives": body}
        )
        return number


@dataclass
class Counters:
    """Ids that count on over both pipelines."""

    tables: int = 0
    conditionals: int = 0
    profiles: int = 0


class PipelineWriter:
    """Writes one pipeline."""

    def __init__(
        self, program: ProgramLowering, actions: ActionList, counters: Counters, stem: str
    ) -> None:
        self._program = program
        self._actions = actions
        self._counters = counters
        self._stem = stem
        self._hidden: dict[int, tuple[int, str]] = {}
        self._nodes: dict[int, str] = {}
        self._applies: dict[int, tuple[ir.ApplyTable, Json]] = {}

    def write(self, pipeline: Pipeline, number: int) -> Json:
        """Write the pipeline object with everything in it."""
        graph.simplify(pipeline.entry)
        blocks = graph.topological(pipeline.entry)
        for block in blocks:
            if isinstance(block.end, ir.Branch):
                self._nodes[id(block)] = f"node_{self._counters.conditionals}"
                self._counters.conditionals += 1
        for block in blocks:
            if block.ops:
                self._hidden[id(block)] = self._actions.hidden(self._stem, block)
        tables: list[Json] = []
        conditionals: list[Json] = []
        for block in blocks:
            if block.ops:
                tables.append(self._hidden_table(block))
            if isinstance(block.end, ir.Branch):
                conditionals.append(self._conditional(block, block.end))
            elif isinstance(block.end, ir.ApplyTable):
                written = self._table(block.end)
                if written is not None:
                    tables.append(written)
        for table in pipeline.unreached:
            written = self._table(ir.ApplyTable(table, table.decl.pos))
            assert written is not None
            tables.append(written)
        return {
            "name": pipeline.name,
            "id": number,
            **self._actions.code.source.info(pipeline.pos),
            "init_table": self._entry_name(pipeline.entry),
            "tables": tables,
            "action_profiles": self._profiles(pipeline),
            "conditionals": conditionals,
        }

    # ------------------------------------------------------------ names of nodes

    def _entry_name(self, block: ir.Block | None) -> str | None:
        if block is None:
            return None
        if block.ops:
            return f"tbl_{self._hidden[id(block)][1]}"
        return self._end_name(block)

    def _end_name(self, block: ir.Block) -> str | None:
        match block.end:
            case ir.Branch():
                return self._nodes[id(block)]
            case ir.ApplyTable(table):
                return table.name
            case ir.Goto(target):
                return self._entry_name(target)
            case _:
                return None

    def _conditional(self, block: ir.Block, branch: ir.Branch) -> Json:
        name = self._nodes[id(block)]
        return {
            "name": name,
            "id": int(name.removeprefix("node_")),
            **self._actions.code.source.info(branch.pos),
            "expression": condition(branch.cond),
            "true_next": self._entry_name(branch.then),
            "false_next": self._entry_name(branch.otherwise),
        }

    # ------------------------------------------------------------ tables

    def _table_id(self) -> int:
        number = self._counters.tables
        self._counters.tables += 1
        return number

    def _hidden_table(self, block: ir.Block) -> Json:
        action_id, name = self._hidden[id(block)]
        following = self._end_name(block)
        return {
            "name": f"tbl_{name}",
            "id": self._table_id(),
            **self._actions.code.source.info(block.ops[0].pos),
            "key": [],
            "match_type": "exact",
            "type": "simple",
            "max_size": 1024,
            "with_counters": False,
            "support_timeout": False,
            "direct_meters": None,
            "action_ids": [action_id],
            "actions": [name],
            "base_default_next": following,
            "next_tables": {name: following},
            "default_entry": _default(action_id, True, ()),
        }

    def _table(self, apply: ir.ApplyTable) -> Json | None:
        table = apply.table
        following = self._following(apply)
        before = self._applies.get(id(table))
        if before is not None:
            if before[1] != following:
                raise CompileError.at(
                    table.decl.pos,
                    f"table {table.decl.name} is applied at two places that go on differently:"
                    " BMv2 can't do that",
                    notes=[(before[0].pos, "applied here"), (apply.pos, "and here")],
                )
            return None
        self._applies[id(table)] = (apply, following)
        return {
            "name": table.name,
            "id": self._table_id(),
            **self._actions.code.source.info(table.decl.pos),
            "key": [_key(k) for k in table.keys],
            "match_type": table.match_type,
            **_implementation(table),
            "max_size": table.size,
            "with_counters": table.counter is not None,
            "support_timeout": table.support_timeout,
            "direct_meters": table.meter.name if table.meter is not None else None,
            "action_ids": [self._actions.id_of(a) for a in table.actions],
            "actions": [a.name for a in table.actions],
            **following,
            **self._default_entry(table),
            **self._entries(table),
        }

    def _following(self, apply: ir.ApplyTable) -> Json:
        if apply.hit is not None or apply.miss is not None:
            return {
                "base_default_next": None,
                "next_tables": {
                    "__HIT__": self._entry_name(apply.hit),
                    "__MISS__": self._entry_name(apply.miss),
                },
            }
        # BMv2 takes base_default_next where no action runs: a miss without a default entry,
        # which P4 sees as NoAction.
        after = self._entry_name(apply.by_action.get("NoAction", apply.next))
        targets = {
            a.name: self._entry_name(apply.by_action.get(a.name, apply.next))
            for a in apply.table.actions
        }
        return {"base_default_next": after, "next_tables": targets}

    def _default_entry(self, table: LoweredTable) -> Json:
        assert table.default is not None
        action, args = table.default
        if table.implementation is not None:
            self._program.warn(
                table.decl.pos,
                f"BMv2 has no default_action for table {table.decl.name},"
                " which uses an action profile",
                "unsupported",
                back_end=True,
            )
            return {}
        entry = _default(self._actions.id_of(action), table.default_const, args)
        return {"default_entry": entry}

    def _entries(self, table: LoweredTable) -> Json:
        if table.decl.entries is None:
            return {}
        entries = [
            {
                **self._actions.code.source.info(e.pos),
                "match_key": [_match(k, m) for k, m in zip(table.keys, e.matches, strict=True)],
                "action_entry": {
                    "action_id": self._actions.id_of(e.action),
                    "action_data": [hex(a) for a in e.args],
                },
                "priority": e.priority,
            }
            for e in table.entries
        ]
        return {"entries": entries}

    def _profiles(self, pipeline: Pipeline) -> list[Json]:
        written: list[Json] = []
        applied = {id(apply.table) for apply, _ in self._applies.values()}
        for target, table in self._program.profiles.values():
            if id(table) not in applied:
                continue
            profile: Json = {
                "name": target.name,
                "id": self._counters.profiles,
                **self._actions.code.source.info(target.decl.pos),
            }
            self._counters.profiles += 1
            selector = target.type.name == "action_selector"
            size = self._program.constructor_value(target, 1 if selector else 0)
            profile["max_size"] = size.value
            if selector:
                algorithm = self._program.constructor_value(target, 0).member
                assert algorithm is not None
                profile["selector"] = {
                    "algo": algorithm.name,
                    "input": [value(f) for f in table.selector_inputs],
                }
            written.append(profile)
        return written


def _default(action_id: int, const: bool, args: Sequence[int]) -> Json:
    return {
        "action_id": action_id,
        "action_const": const,
        "action_data": [hex(a) for a in args],
        "action_entry_const": const,
    }


def _implementation(table: LoweredTable) -> Json:
    target = table.implementation
    if target is None:
        return {"type": "simple"}
    kind = "indirect_ws" if target.type.name == "action_selector" else "indirect"
    return {"type": kind, "action_profile": target.name}


def _key(key: LoweredKey) -> Json:
    return {
        "match_type": key.match_type,
        "name": key.name,
        "target": field_ref(key.target),
        "mask": None,
    }


def _match(key: LoweredKey, match: KeyMatch) -> Json:
    width = key.target.type.width
    first = hexstr(match.value, width)
    match key.match_type:
        case "exact":
            return {"match_type": "exact", "key": first}
        case "lpm":
            return {"match_type": "lpm", "key": first, "prefix_length": match.prefix}
        case "ternary":
            return {"match_type": "ternary", "key": first, "mask": hexstr(match.mask, width)}
        case _:
            return {"match_type": "range", "start": first, "end": hexstr(match.high, width)}
