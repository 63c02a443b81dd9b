"""The descriptor arrays of `struct wp_pipeline`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from softswitch.codegen.gen_actions import c_string
from softswitch.codegen.layout import limbs
from softswitch.codegen.model import Bmv2Program, Table

_MATCH = {
    "exact": "WP_EXACT",
    "lpm": "WP_LPM",
    "ternary": "WP_TERNARY",
    "range": "WP_RANGE",
    "valid": "WP_VALID",
    "optional": "WP_OPTIONAL",
}
_TYPE = {"simple": "WP_SIMPLE", "indirect": "WP_INDIRECT", "indirect_ws": "WP_INDIRECT_WS"}


def _array(ctype: str, name: str, rows: Sequence[str]) -> str:
    """Return a constant array; C has no empty arrays, so an empty one gets one row of zeros."""
    body = ",\n    ".join(rows) if rows else "{0}"
    return f"static const {ctype} {name}[] = {{\n    {body},\n}};"


def _keys(table: Table) -> str:
    rows, offset = [], 0
    for key in table.key:
        rows.append(
            f"{{{c_string(key.name)}, {_MATCH[key.match]}, {key.bits}, {offset}, {key.bytes}}}"
        )
        offset += key.bytes
    return _array("struct wp_key_desc", f"keys_{table.index}", rows)


def _table(program: Bmv2Program, table: Table) -> str:
    profile = next((p.index for p in program.profiles if p.name == table.action_profile), -1)
    meter = next((m.index for m in program.meters if m.name == table.direct_meter), -1)
    return (
        f"{{.name = {c_string(table.name)}, .match = {_MATCH[table.match_type]}, "
        f".type = {_TYPE[table.type]}, .max_size = {table.max_size}u, "
        f".n_keys = {len(table.key)}, .keys = keys_{table.index}, "
        f".key_bytes = {sum(k.bytes for k in table.key)}, "
        f".with_counters = {int(table.with_counters)}, "
        f".support_timeout = {int(table.support_timeout)}, .profile = {profile}, "
        f".direct_meter = {meter}, .json_id = {table.id}, "
        f".inlined = {int(table.fixed_action is not None)}}}"
    )


def descriptors(program: Bmv2Program, max_header_bytes: int, structs: str) -> str:
    """Return the C of all descriptors and of the exported `weft_pipeline`."""
    index = {table.name: table.index for table in program.tables}
    parts = [_keys(table) for table in program.tables]
    parts.append(
        _array(
            "struct wp_table_desc",
            "table_descs",
            [_table(program, table) for table in program.tables],
        )
    )
    rows = []
    for action in program.actions:
        bits = [str(param.bits) for param in action.params] or ["0"]
        parts.append(f"static const uint32_t params_{action.index}[] = {{{', '.join(bits)}}};")
        rows.append(
            f"{{{c_string(action.name)}, {len(action.params)}, params_{action.index}, "
            f"{sum(limbs(param.bits) for param in action.params)}, {action.id}}}"
        )
    parts.append(_array("struct wp_action_desc", "action_descs", rows))
    parts.append(
        _array(
            "struct wp_profile_desc",
            "profile_descs",
            [
                f"{{{c_string(p.name)}, {p.max_size}, {int(p.selector is not None)}}}"
                for p in program.profiles
            ],
        )
    )
    parts.append(
        _array(
            "struct wp_register_desc",
            "register_descs",
            [f"{{{c_string(r.name)}, {r.size}, {r.bits}}}" for r in program.registers],
        )
    )
    parts.append(
        _array(
            "struct wp_counter_desc",
            "counter_descs",
            [
                f"{{{c_string(c.name)}, {c.size}, {index.get(c.table or '', -1)}}}"
                for c in program.counters
            ],
        )
    )
    parts.append(
        _array(
            "struct wp_meter_desc",
            "meter_descs",
            [
                f"{{{c_string(m.name)}, {m.size}, {int(m.bytes)}, {m.rates}, "
                f"{index.get(m.table or '', -1)}}}"
                for m in program.meters
            ],
        )
    )
    rows = []
    for learn in program.learn_lists:
        bits = [str(program.field(ref).bits) for ref in learn.fields] or ["0"]
        parts.append(f"static const uint32_t learn_bits_{learn.index}[] = {{{', '.join(bits)}}};")
        size = sum((program.field(ref).bits + 7) // 8 for ref in learn.fields)
        rows.append(
            f"{{{c_string(learn.name)}, {learn.id}, {len(learn.fields)}, "
            f"learn_bits_{learn.index}, {size}}}"
        )
    parts.append(_array("struct wp_learn_desc", "learn_descs", rows))
    rows = []
    for value_set in program.value_sets:
        bits = [str(width) for width in value_set.key]
        parts.append(
            f"static const uint32_t set_bits_{value_set.index}[] = {{{', '.join(bits or ['0'])}}};"
        )
        rows.append(
            f"{{{c_string(value_set.name)}, {value_set.size}u, {len(bits)}, "
            f"set_bits_{value_set.index}, {sum(limbs(width) for width in value_set.key)}}}"
        )
    parts.append(_array("struct wp_value_set_desc", "value_set_descs", rows))
    counts = {
        "tables": program.tables,
        "actions": program.actions,
        "profiles": program.profiles,
        "registers": program.registers,
        "counters": program.counters,
        "meters": program.meters,
        "learns": program.learn_lists,
        "value_sets": program.value_sets,
    }
    layout = hashlib.sha256("\0".join([structs, *parts]).encode()).hexdigest()
    lines = [
        "const struct wp_pipeline weft_pipeline = {",
        "    .abi_version = WP_ABI_VERSION,",
        f"    .layout = {c_string(layout)},",
        "    .phv_size = sizeof(struct phv),",
        f"    .reads_payload = {int(program.reads_payload)},",
        f"    .max_header_bytes = {max_header_bytes},",
    ]
    lines += [f"    .n_{kind} = {len(items)}," for kind, items in counts.items()]
    lines += [f"    .{kind} = {kind[:-1]}_descs," for kind in counts]
    lines += [
        f"    .{name} = {name},"
        for name in (
            "parse",
            "ingress",
            "egress",
            "deparse",
            "reset_metadata",
            "copy_field_list",
            "learn",
        )
    ]
    parts.append("\n".join([*lines, "};"]))
    return "\n\n".join(parts)
