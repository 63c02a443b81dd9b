"""Parser value sets: programs/sets.p4 on the in-process switch; its parser says which way it went.

start -- type 0x0800 --> 1     start -- types (exact) --> 2
start -- else -- pairs (exact kind, ternary label) --> 3, else 4
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from compiler import compile_p4
from softswitch import Switch
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.reconcile import ReconcileError
from softswitch.p4runtime.status import Code, WriteError

PROGRAM = Path(__file__).resolve().parent / "programs" / "sets.p4"


@pytest.fixture
def sw() -> Switch:
    return Switch.from_p4(PROGRAM)


def seen(sw: Switch, kind: int, small: int = 0, label: int = 0) -> int:
    """Return the way that the parser took."""
    data = kind.to_bytes(2, "big") + bytes([small]) + label.to_bytes(9, "big") + bytes(1)
    sw.inject(1, data)
    (out,) = sw.run_until(sw.now_ns)
    return out.packet[-1]


def types(sw: Switch, *values: int) -> p4r.ValueSetEntry:
    entry = p4r.ValueSetEntry(value_set_id=sw.names.value_set_id("P.types"))
    for value in values:
        entry.members.add().match.add(field_id=1).exact.value = value.to_bytes(2, "big")
    return entry


def pairs(sw: Switch, *values: tuple[int, int, int]) -> p4r.ValueSetEntry:
    """Of (kind, label, mask); mask 0: any label."""
    entry = p4r.ValueSetEntry(value_set_id=sw.names.value_set_id("P.pairs"))
    for kind, label, mask in values:
        member = entry.members.add()
        member.match.add(field_id=1).exact.value = bytes([kind])
        if mask:
            match = member.match.add(field_id=2).ternary
            match.value = label.to_bytes(9, "big")
            match.mask = mask.to_bytes(9, "big")
    return entry


def test_members_decide_the_transition(sw: Switch) -> None:
    assert [seen(sw, t) for t in (0x0800, 0x22F3, 0x893B)] == [1, 4, 4]
    sw.modify(value_set_entry=types(sw, 0x22F3, 0x893B))
    assert [seen(sw, t) for t in (0x0800, 0x22F3, 0x893B, 0x893C)] == [1, 2, 2, 4]
    sw.modify(value_set_entry=types(sw, 0x0800, 0x893C))
    assert [seen(sw, t) for t in (0x0800, 0x22F3, 0x893B, 0x893C)] == [1, 4, 4, 2]
    sw.modify(value_set_entry=types(sw))
    assert seen(sw, 0x893C) == 4


def test_keys_of_several_parts_with_masks(sw: Switch) -> None:
    """The label has 72 bits: more than a word."""
    top, low = 0xAB << 64, 0x1234
    sw.modify(
        value_set_entry=pairs(
            sw, (5, top | low, (0xFF << 64) | 0xFFFF), (6, 0, 0), (7, low, (1 << 72) - 1)
        )
    )
    cases = {
        (5, top | low): 3,
        (5, top | low | 0xF0000): 3,
        (5, low): 4,
        (5, top | 0x1235): 4,
        (6, 0): 3,
        (6, top | 77): 3,
        (7, low): 3,
        (7, low | top): 4,
        (8, low): 4,
    }
    assert {case: seen(sw, 1, *case) for case in cases} == cases


def test_reads_give_what_was_written(sw: Switch) -> None:
    everything = p4r.Entity(value_set_entry=p4r.ValueSetEntry())
    assert [len(e.value_set_entry.members) for e in sw.read(everything)] == [0, 0]
    written = types(sw, 0x22F3)
    sw.modify(value_set_entry=written)
    one = p4r.Entity(value_set_entry=p4r.ValueSetEntry(value_set_id=written.value_set_id))
    assert [e.value_set_entry for e in sw.read(one)] == [written]


@pytest.mark.parametrize(
    ("kind", "change", "code"),
    [
        (p4r.Update.INSERT, lambda sw: types(sw, 1), Code.INVALID_ARGUMENT),
        (p4r.Update.DELETE, types, Code.INVALID_ARGUMENT),
        (p4r.Update.MODIFY, lambda sw: types(sw, 1, 2, 3), Code.RESOURCE_EXHAUSTED),
        (p4r.Update.MODIFY, lambda sw: types(sw, 1, 1), Code.ALREADY_EXISTS),
        (p4r.Update.MODIFY, lambda sw: pairs(sw, (1, 2, 1)), Code.INVALID_ARGUMENT),
        (p4r.Update.MODIFY, lambda sw: p4r.ValueSetEntry(value_set_id=7), Code.NOT_FOUND),
        (
            p4r.Update.MODIFY,
            lambda sw: p4r.ValueSetEntry(value_set_id=types(sw).value_set_id, members=[{}]),
            Code.INVALID_ARGUMENT,
        ),
    ],
    ids=["insert", "delete", "too many", "twice", "bits outside mask", "unknown", "no match"],
)
def test_refused_writes_change_nothing(
    sw: Switch,
    kind: p4r.Update.Type.ValueType,
    change: Callable[[Switch], p4r.ValueSetEntry],
    code: Code,
) -> None:
    sw.modify(value_set_entry=types(sw, 0x22F3))
    update = p4r.Update(type=kind, entity=p4r.Entity(value_set_entry=change(sw)))
    with pytest.raises(WriteError) as refused:
        sw.write([update])
    assert refused.value.statuses[0].code is code
    assert seen(sw, 0x22F3) == 2


def test_a_changed_program_keeps_them(sw: Switch) -> None:
    sw.modify(value_set_entry=types(sw, 0x22F3))
    sw.modify(value_set_entry=pairs(sw, (6, 0, 0)))
    larger = compile_p4(PROGRAM, defines=["OTHER_SIZE"])
    sw.reconcile(larger.p4info, larger.json_text.encode())
    assert (seen(sw, 0x22F3), seen(sw, 1, 6)) == (2, 3)
    sw.modify(value_set_entry=types(sw, 1, 2, 3))
    without = compile_p4(PROGRAM, defines=["NO_PAIRS"])
    with pytest.raises(ReconcileError) as refused:
        sw.reconcile(without.p4info, without.json_text.encode())
    assert "1 members of 'P.pairs' would be lost" in str(refused.value)
    assert "3 members are above its size of 2" in str(refused.value)
    assert (seen(sw, 3), seen(sw, 1, 6)) == (2, 2)


def test_a_range_stands_for_as_many_masks_as_it_needs(tmp_path: Path) -> None:
    source = tmp_path / "ranges.p4"
    text = PROGRAM.read_text()
    assert "@match(ternary)" in text
    source.write_text(text.replace("@match(ternary)", "@match(range)"))
    with Switch.from_p4(source) as ranges:
        entry = p4r.ValueSetEntry(value_set_id=ranges.names.value_set_id("P.pairs"))
        member = entry.members.add()
        member.match.add(field_id=1).exact.value = b"\x07"
        between = member.match.add(field_id=2).range
        between.low, between.high = b"\x03", b"\x06"  # 3, 4-5, 6
        ranges.modify(value_set_entry=entry)
        ways = [seen(ranges, 1, 7, label) for label in range(2, 8)]
        assert ways == [4, 3, 3, 3, 3, 4]
        assert seen(ranges, 1, 8, 4) == 4
        between.low, between.high = b"\x01", b"\xff" * 8 + b"\xfe"
        with pytest.raises(WriteError) as caught:
            ranges.modify(value_set_entry=entry)
        assert caught.value.statuses[0].code is Code.RESOURCE_EXHAUSTED
        assert seen(ranges, 1, 7, 5) == 3


def test_ranges_of_far_too_many_masks_are_refused_before_these_are_made(tmp_path: Path) -> None:
    source = tmp_path / "wide.p4"
    fields = "".join(f"@match(range) bit<64> f{number};" for number in range(4))
    keys = ", ".join("hdr.first.label[63:0]" for _ in range(4))
    text = PROGRAM.read_text().replace("@match(exact) bit<8> kind;", fields)
    source.write_text(
        text.replace("@match(ternary) bit<72> label;", "").replace(
            "hdr.first.kind, hdr.first.label", keys
        )
    )
    with Switch.from_p4(source) as ranges:
        entry = p4r.ValueSetEntry(value_set_id=ranges.names.value_set_id("P.pairs"))
        member = entry.members.add()
        for number in range(4):
            between = member.match.add(field_id=number + 1).range
            between.low, between.high = b"\x01", b"\xff" * 7 + b"\xfe"
        with pytest.raises(WriteError) as caught:
            ranges.modify(value_set_entry=entry)
        assert caught.value.statuses[0].code is Code.RESOURCE_EXHAUSTED
        assert str(126**4) in caught.value.statuses[0].message
