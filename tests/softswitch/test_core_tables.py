"""Tables of the core against a naive model that tries every entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softswitch.core import CoreError, CoreErrorCode, Counter, PortState, Spec

EXACT, LPM, TERNARY, RANGE, SELECT, KEYLESS = range(6)
NO_ACTION = 0xFF
VALUES = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

# Few different values, so that entries overlap and keys hit.
key32s = st.sampled_from([0, 1, 0x0A000001, 0x0A000101, 0x0A010000, 0xFFFFFFFF])
key16s = st.sampled_from([0, 1, 0x1234, 0x12FF, 0xFFFF])
key8s = st.sampled_from([0, 1, 0x80, 0xFF])
prefixes = st.sampled_from([0, 1, 7, 8, 16, 24, 31, 32])
mask32s = st.sampled_from([0, 0xFF, 0xFF000000, 0xFFFF0000, 0xFFFFFFFF, 0x0A000100])
mask16s = st.sampled_from([0, 0xFF00, 0xFFFF])
priorities = st.integers(1, 4)


def bits(length: int, width: int = 32) -> int:
    return ((1 << length) - 1) << (width - length)


@dataclass(frozen=True)
class Entry:
    key: tuple[int, ...]
    mask: tuple[int, ...]
    priority: int


def entries_of(table: int) -> st.SearchStrategy[Entry]:
    if table == EXACT:
        return st.builds(lambda a, b: Entry((a, b), (0, 0), 0), key32s, key8s)
    if table == LPM:
        return st.builds(
            lambda a, b, n: Entry((b, a & bits(n)), (0xFF, bits(n)), 0), key32s, key8s, prefixes
        )
    if table == TERNARY:
        return st.builds(
            lambda a, m, b, n, p: Entry((a & m, b & n), (m, n), p),
            key32s,
            mask32s,
            key16s,
            mask16s,
            priorities,
        )
    return st.builds(
        lambda a, b, c, m, p: Entry((min(a, b), c & m), (max(a, b), m), p),
        key16s,
        key16s,
        key8s,
        st.sampled_from([0, 0xFF]),
        priorities,
    )


SIZES = {EXACT: (4, 1), LPM: (1, 4), TERNARY: (4, 2), RANGE: (2, 1)}


def pack(table: int, values: tuple[int, ...]) -> bytes:
    return b"".join(v.to_bytes(n, "big") for v, n in zip(values, SIZES[table], strict=True))


def matches(table: int, entry: Entry, key: tuple[int, ...]) -> bool:
    if table == EXACT:
        return entry.key == key
    if table == RANGE:
        return entry.key[0] <= key[0] <= entry.mask[0] and key[1] & entry.mask[1] == entry.key[1]
    return all(k & m == v for k, m, v in zip(key, entry.mask, entry.key, strict=True))


def best(table: int, entries: dict[int, Entry], key: tuple[int, ...]) -> int | None:
    """Return the port of the entry that has to win; `entries` by port, in order of insertion."""
    hits = [(port, entry) for port, entry in entries.items() if matches(table, entry, key)]
    if not hits:
        return None
    if table == LPM:
        return max(hits, key=lambda hit: hit[1].mask[1])[0]
    return max(hits, key=lambda hit: hit[1].priority)[0]  # the first of equals


def fields(table: int, key: tuple[int, ...]) -> dict[str, int]:
    names = {
        EXACT: ("key32", "key8"),
        LPM: ("key8", "key32"),
        TERNARY: ("key32", "key16"),
        RANGE: ("key16", "key8"),
    }[table]
    return dict(zip(names, key, strict=True))


@pytest.mark.parametrize("table", [EXACT, LPM, TERNARY, RANGE])
@VALUES
@given(data=st.data())
def test_lookup_agrees_with_the_model(
    make_toy: Callable[..., Any], table: int, data: st.DataObject
) -> None:
    toy = make_toy()
    wanted = data.draw(st.lists(entries_of(table), max_size=24))
    there: dict[int, Entry] = {}
    handles: dict[int, int] = {}
    for port, entry in enumerate(wanted, start=10):
        key, mask = pack(table, entry.key), pack(table, entry.mask)
        if entry in there.values():
            with pytest.raises(CoreError) as error:
                toy.core.table_insert(table, key, mask, entry.priority, toy.forward(port))
            assert error.value.code == CoreErrorCode.EEXIST
            continue
        handles[port] = toy.core.table_insert(table, key, mask, entry.priority, toy.forward(port))
        there[port] = entry
    for port in data.draw(st.sets(st.sampled_from(sorted(there)))) if there else ():
        toy.core.table_delete(table, handles[port])
        del there[port]
    assert toy.core.table_count(table) == len(there)

    strategy = {
        EXACT: st.tuples(key32s, key8s),
        LPM: st.tuples(key8s, key32s),
        TERNARY: st.tuples(key32s, key16s),
        RANGE: st.tuples(key16s, key8s),
    }[table]
    for key in data.draw(st.lists(strategy, min_size=1, max_size=12)):
        expected = best(table, there, key)
        seen = toy.ask(table=table + 1, out=1, **fields(table, key))
        assert seen.port == (1 if expected is None else expected)
        assert seen.hit == (expected is not None)


def test_many_entries_come_and_go(toy: Any) -> None:
    handles = {}
    for i in range(3000):
        key = bytes([i & 3]) + (i << 8).to_bytes(4, "big")
        handles[i] = toy.core.table_insert(
            LPM, key, b"\xff\xff\xff\xff\x00", 0, toy.forward(i & 0xFF)
        )
    for i in range(0, 3000, 3):
        toy.core.table_delete(LPM, handles[i])
    for i in range(0, 3000, 7):
        seen = toy.ask(table=2, out=300, key8=i & 3, key32=i << 8 | 9)
        assert seen.port == (300 if i % 3 == 0 else i & 0xFF)
    toy.core.table_clear(LPM)
    assert toy.core.table_count(LPM) == 0
    assert not toy.ask(table=2, key32=1 << 8).hit


def test_equal_priorities_go_to_the_lowest_slot_as_in_bmv2(toy: Any) -> None:
    first = toy.core.table_insert(TERNARY, bytes(6), bytes(6), 5, toy.forward(10))
    mask = bytes.fromhex("ff0000000000")
    toy.core.table_insert(TERNARY, bytes(6), mask, 5, toy.forward(11))
    assert toy.ask(table=3).port == 10
    toy.core.table_delete(TERNARY, first)
    assert toy.ask(table=3).port == 11
    # The freed slot is the lowest: what is inserted now wins.
    toy.core.table_insert(TERNARY, bytes(6), bytes.fromhex("00000000ff00"), 5, toy.forward(12))
    assert toy.ask(table=3).port == 12


def test_default_entries(toy: Any) -> None:
    assert toy.ask(table=6, out=3).action == NO_ACTION
    toy.core.table_set_default(KEYLESS, toy.forward(9))
    seen = toy.ask(table=6, out=3)
    assert (seen.port, seen.hit) == (9, False)
    toy.core.table_set_default(KEYLESS, None)
    assert toy.ask(table=6, out=3).port == 3


def test_modify_keeps_the_counter_and_delete_forgets_the_handle(toy: Any) -> None:
    handle = toy.core.table_insert(EXACT, bytes(5), None, 0, toy.forward(4))
    toy.send(table=1, payload=bytes(68), at=3_000_000)
    assert toy.core.table_counter(EXACT, handle) == Counter(1, 100)
    assert toy.core.table_last_hit(EXACT, handle) == 3_000_000
    toy.core.table_modify(EXACT, handle, Spec.of_action(1, [0x1234, 7 << 64 | 5]))
    toy.take()
    seen = toy.ask(table=1)
    assert (seen.port, seen.value) == (5, 0x1234)  # low limb of the second value
    assert toy.core.table_counter(EXACT, handle).packets == 2
    toy.core.table_counter_set(EXACT, handle, Counter(7, 8))
    assert toy.core.table_counter(EXACT, handle) == Counter(7, 8)
    toy.core.table_delete(EXACT, handle)
    again = toy.core.table_insert(EXACT, bytes(5), None, 0, toy.forward(4))
    assert again != handle
    with pytest.raises(CoreError):
        toy.core.table_counter(EXACT, handle)


def test_a_value_too_long_to_print_is_refused_like_any_other(toy: Any) -> None:
    spec = Spec.of_action(0, [1 << 20_000])
    with pytest.raises(CoreError, match="a value of 20001 bits does not fit 9 bits"):
        toy.core.table_set_default(EXACT, spec)


def refused(code: CoreErrorCode, call: Callable[[], object]) -> None:
    with pytest.raises(CoreError) as error:
        call()
    assert error.value.code == code


@pytest.mark.parametrize(
    ("table", "key", "mask"),
    [
        pytest.param(EXACT, bytes(4), None, id="short key"),
        pytest.param(LPM, bytes(5), None, id="no mask"),
        pytest.param(LPM, b"\0\x0a\0\0\x01", b"\xff\xff\0\0\0", id="value outside its prefix"),
        pytest.param(LPM, bytes(5), b"\xff\xff\0\xff\0", id="mask is no prefix"),
        pytest.param(TERNARY, b"\1" + bytes(5), bytes(6), id="value outside its mask"),
        pytest.param(RANGE, b"\0\2\0", b"\0\1\0", id="low above high"),
        pytest.param(KEYLESS, b"", b"", id="keyless"),
    ],
)
def test_malformed_keys(toy: Any, table: int, key: bytes, mask: bytes | None) -> None:
    refused(
        CoreErrorCode.EINVAL,
        lambda: toy.core.table_insert(table, key, mask, 1, toy.forward(1)),
    )


def test_refusals(toy: Any) -> None:
    core, forward = toy.core, toy.forward(1)
    refused(CoreErrorCode.ENOENT, lambda: core.table_insert(99, b"", None, 0, forward))
    refused(CoreErrorCode.ENOENT, lambda: core.table_modify(EXACT, 1, forward))
    refused(CoreErrorCode.ENOENT, lambda: core.table_delete(EXACT, 0))
    refused(
        CoreErrorCode.EINVAL,
        lambda: core.table_insert(EXACT, bytes(5), None, 0, Spec.of_action(0, [512])),
    )
    refused(
        CoreErrorCode.EINVAL, lambda: core.table_insert(EXACT, bytes(5), None, 0, Spec.of_member(1))
    )
    for i in range(64):
        core.table_insert(EXACT, bytes(4) + bytes([i]), None, 0, forward)
    refused(
        CoreErrorCode.EFULL, lambda: core.table_insert(EXACT, b"\1" + bytes(4), None, 0, forward)
    )


# --- profiles -----------------------------------------------------------------------------------


def test_selection_is_hash_modulo_members_in_order(toy: Any) -> None:
    core = toy.core
    members = [core.member_add(0, 0, [port]) for port in (20, 21, 22)]
    group = core.group_add(0, [members[2], members[0], members[1], members[0]])
    core.table_insert(SELECT, b"\5", None, 0, Spec.of_group(group))
    ports = [toy.ask(table=5, key8=5, key32=h).port for h in range(8)]
    assert ports == [22, 20, 21, 20] * 2
    core.group_set(0, group, [members[1]])
    assert toy.ask(table=5, key8=5, key32=3).port == 21
    core.member_modify(0, members[1], 0, [30])
    assert toy.ask(table=5, key8=5).port == 30
    core.group_set(0, group, [])
    seen = toy.ask(table=5, key8=5, out=3)
    assert (seen.port, seen.hit, seen.action) == (3, True, NO_ACTION)


def test_members_whose_port_is_down_are_not_selected(toy: Any) -> None:
    core = toy.core
    members = [core.member_add(0, 0, [port]) for port in (20, 21, 22)]
    group = core.group_add(0, members, [1, None, 2])
    core.table_insert(SELECT, b"\5", None, 0, Spec.of_group(group))

    def ports() -> list[int]:
        return [toy.ask(table=5, key8=5, key32=h).port for h in range(6)]

    assert ports() == [20, 21, 22] * 2
    core.set_port(1, PortState.DOWN)
    assert ports() == [21, 22] * 3
    core.set_port(2, PortState.BLOCKED)  # congested, not dead
    assert ports() == [21, 22] * 3
    core.group_set(0, group, members, [2, None, 1])
    assert ports() == [20, 21] * 3
    core.set_port(2, PortState.DOWN)
    core.set_port(1, PortState.UP)
    assert ports() == [21, 22] * 3
    core.group_set(0, group, [members[0]], [2])
    assert toy.ask(table=5, key8=5, out=3).action == NO_ACTION
    refused(CoreErrorCode.EINVAL, lambda: core.group_set(0, group, members, [1]))


def test_members_as_targets_follow_their_changes(toy: Any) -> None:
    core = toy.core
    member = core.member_add(0, 0, [20])
    core.table_insert(SELECT, b"\1", None, 0, Spec.of_member(member))
    core.table_set_default(SELECT, Spec.of_member(member))
    core.member_modify(0, member, 0, [25])
    assert toy.ask(table=5, key8=1).port == 25
    assert toy.ask(table=5, key8=2).port == 25


def test_what_is_used_cannot_be_deleted(toy: Any) -> None:
    core = toy.core
    member, other = core.member_add(0, 0, [1]), core.member_add(0, 0, [2])
    group = core.group_add(0, [member])
    entry = core.table_insert(SELECT, b"\1", None, 0, Spec.of_group(group))
    refused(CoreErrorCode.EBUSY, lambda: core.member_delete(0, member))
    refused(CoreErrorCode.EBUSY, lambda: core.group_delete(0, group))
    core.table_modify(SELECT, entry, Spec.of_member(other))
    core.group_delete(0, group)
    core.member_delete(0, member)
    refused(CoreErrorCode.EBUSY, lambda: core.member_delete(0, other))
    core.table_clear(SELECT)
    core.member_delete(0, other)
    refused(CoreErrorCode.ENOENT, lambda: core.group_add(0, [other]))
    refused(CoreErrorCode.ENOENT, lambda: core.member_modify(0, member, 0, [1]))
    # Slots are taken lowest first, so the order of handles is BMv2's.
    assert [core.member_add(0, 2, []) & 0xFFFFFFFF for _ in range(3)] == [1, 2, 3]
