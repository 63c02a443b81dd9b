"""P4Info that is made of BMv2 JSON beside the compiler's own, and device configs in PI's form."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from compiler import compile_p4
from softswitch.codegen import Bmv2Program
from softswitch.p4runtime.device_config import bmv2_json
from softswitch.p4runtime.p4info_from_json import derive
from softswitch.p4runtime.schema import bind

ROOT = Path(__file__).resolve().parent.parent.parent
UNNUMBERED = [
    ROOT / "tests" / "p4runtime" / "programs" / "change.p4",
    ROOT / "tests" / "p4runtime" / "programs" / "sets.p4",
]
"""Programs where no `@id` numbers what the JSON has."""
PROGRAMS = [*UNNUMBERED, ROOT / "p4src" / "fabric.p4"]
KINDS = (
    "tables", "actions", "registers", "counters", "direct_counters", "meters", "direct_meters",
    "value_sets", "digests", "action_profiles",
)  # fmt: skip


def names(objects: Iterable[Any]) -> dict[str, int]:
    return {each.preamble.name: each.preamble.id for each in objects}


@pytest.mark.parametrize("source", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_without_p4info_gets_one_that_fits(source: Path) -> None:
    result = compile_p4(source, include_dirs=[ROOT / "p4src" / "include"])
    program = Bmv2Program.from_json(result.json)
    found = derive(program)
    assert not bind(found, program).missing

    tables = {table.preamble.name: table for table in result.p4info.tables}
    actions = {action.preamble.id: action.preamble.name for action in result.p4info.actions}
    own_actions = {action.preamble.id: action.preamble.name for action in found.actions}
    assert found.tables or found.value_sets
    for table in found.tables:
        right = tables[table.preamble.name]
        fields = [(f.id, f.bitwidth, f.match_type) for f in table.match_fields]
        assert fields == [(f.id, f.bitwidth, f.match_type) for f in right.match_fields]
        assert {own_actions[ref.id] for ref in table.action_refs} == {
            actions[ref.id] for ref in right.action_refs
        }
        if not right.has_initial_entries:  # else the JSON takes them for all that there will be
            assert table.size == right.size
            assert table.is_const_table == right.is_const_table
        assert bool(table.implementation_id) == bool(right.implementation_id)
        assert len(table.direct_resource_ids) == len(right.direct_resource_ids)
    params = {a.preamble.name: [p.bitwidth for p in a.params] for a in result.p4info.actions}
    for action in found.actions:
        assert [p.bitwidth for p in action.params] == params[action.preamble.name]
    for kind in KINDS:
        derived, right_ids = names(getattr(found, kind)), names(getattr(result.p4info, kind))
        assert set(derived) <= set(right_ids), kind


@pytest.mark.parametrize("source", UNNUMBERED, ids=lambda path: path.stem)
def test_ids_are_those_of_the_compiler(source: Path) -> None:
    result = compile_p4(source)
    found = derive(Bmv2Program.from_json(result.json))
    for kind in KINDS:
        derived, right_ids = names(getattr(found, kind)), names(getattr(result.p4info, kind))
        assert derived == right_ids, kind
    assert found.tables or found.value_sets


def envelope(*fields: tuple[int, bytes | int]) -> bytes:
    """Return a Protobuf message of short fields."""
    message = b""
    for number, value in fields:
        if isinstance(value, int):
            message += bytes([number << 3, value])
        else:
            message += bytes([number << 3 | 2])
            size = len(value)
            while size > 0x7F:
                message += bytes([size & 0x7F | 0x80])
                size >>= 7
            message += bytes([size]) + value
    return message


JSON = b'{"program": "' + b"x" * 300 + b'"}'


@pytest.mark.parametrize(
    ("sent", "taken"),
    [
        (JSON, JSON),
        (b"\n " + JSON, b"\n " + JSON),
        (envelope((1, 1), (3, JSON)), JSON),
        (envelope((1, 1), (2, envelope((1, b""))), (3, JSON)), JSON),
        (envelope((3, b"{}"), (3, JSON)), JSON),
        (envelope((3, JSON))[:-1], envelope((3, JSON))[:-1]),
        (envelope((4, JSON)), envelope((4, JSON))),
        (envelope((1, 1)), envelope((1, 1))),
        (b"\xff" * 12, b"\xff" * 12),
        (b"", b""),
    ],
    ids=[
        "plain",
        "plain after space",
        "enveloped",
        "with extras",
        "the last field counts",
        "cut off",
        "another message",
        "no data",
        "no number",
        "nothing",
    ],
)
def test_the_envelope_is_taken_off(sent: bytes, taken: bytes) -> None:
    assert bmv2_json(sent) == taken
