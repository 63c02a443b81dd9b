"""What a program brings along: default actions and entries, installed when it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from softswitch.codegen import model as bmv2
from softswitch.codegen.model import Bmv2Program
from softswitch.core import Spec
from softswitch.p4runtime import actions, keys
from softswitch.p4runtime.core_errors import core_errors
from softswitch.p4runtime.schema import ActionRef
from softswitch.p4runtime.status import PipelineError
from softswitch.p4runtime.tables import TableStore

if TYPE_CHECKING:
    from softswitch.core import SwitchCore

MAX_PRIORITY = 2**31 - 1
"""BMv2 lets the smallest number win, P4Runtime the largest; BMv2's server subtracts from this."""


def install(core: SwitchCore, program: Bmv2Program, stores: Mapping[str, TableStore]) -> None:
    """Give every table of `program` its default action and entries.

    `stores` are the tables that P4Info knows, by name; the others (which p4c makes for code outside
    of tables) only exist in the core. Raises PipelineError for what neither can express.
    """
    for table in program.tables:
        store = stores.get(table.name)
        if store is None:
            _install_hidden(core, table)
        else:
            _install_known(store, table)


def _install_hidden(core: SwitchCore, table: bmv2.Table) -> None:
    default = table.default_entry
    if default is not None:
        with core_errors(f"default action of {table.name!r}"):
            core.table_set_default(table.index, Spec.of_action(default.action.index, default.args))
    for entry in table.entries:
        key = _key(table, entry)
        with core_errors(f"initial entry of {table.name!r}"):
            core.table_insert(
                table.index,
                key.key,
                key.mask,
                key.priority,
                Spec.of_action(entry.action.index, entry.args),
            )


def _install_known(store: TableStore, table: bmv2.Table) -> None:
    refs = {ref.index: ref for ref in store.table.actions.values()}
    if table.default_entry is not None:
        default = table.default_entry
        store.install_default(_call(table, refs, default.action, default.args))
    for entry in table.entries:
        call = _call(table, refs, entry.action, entry.args)
        store.install(_key(table, entry), call, const=store.table.const_entries)


def _call(
    table: bmv2.Table,
    refs: Mapping[int, ActionRef],
    action: bmv2.Action,
    args: tuple[int, ...],
) -> actions.ActionCall:
    ref = refs.get(action.index)
    if ref is None:
        raise PipelineError(
            f"table {table.name!r}: the JSON's action {action.name!r} is not among P4Info's "
            "actions of the table"
        )
    return actions.ActionCall(ref, args)


def _key(table: bmv2.Table, entry: bmv2.Entry) -> keys.MatchKey:
    key = bytearray()
    mask = bytearray()
    for field, given in zip(table.key, entry.key, strict=True):
        full = (1 << field.bits) - 1
        value, field_mask = given.value, full
        match given.match:
            case "lpm":
                field_mask = keys.prefix_mask(field.bits, given.prefix_length)
                value &= field_mask
            case "ternary" | "optional":
                field_mask = given.mask
                value &= field_mask
            case "range":
                field_mask = given.high
        key += value.to_bytes(field.bytes, "big")
        mask += field_mask.to_bytes(field.bytes, "big")
    ordered = table.match_type in ("ternary", "range")
    return keys.MatchKey(bytes(key), bytes(mask), MAX_PRIORITY - entry.priority if ordered else 0)
