"""One switch takes over another's program: what is kept, and what packets in flight meet.

    switch: toy program A, packets queued  <-- adopt --  donor: toy program B, entries installed

B is the toy with another layout of its metadata and larger arrays: a packet of A that was read as
one of B, or the other way round, would show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from softswitch.core import (
    CoreError,
    CoreErrorCode,
    Counter,
    Keep,
    KeepKind,
    MeterConfig,
    OutputKind,
    PortState,
    Replica,
    Spec,
    SwitchCore,
)

TOY = Path(__file__).resolve().parent / "pipelines" / "toy.c"
EXACT, SELECT = 0, 4
LEARN = 4
RECIRC = 4
US = 1_000_000
KEY = bytes([0, 0, 0, 9, 0])


@pytest.fixture(scope="session")
def other_so(compile_c: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("other") / "other.so"
    return compile_c(TOY, target, "-DTOY_METADATA=600", "-DTOY_CELLS=6")


@pytest.fixture
def donor(make_core: Callable[..., SwitchCore], other_so: Path) -> Iterator[SwitchCore]:
    core = make_core()
    core.load(other_so)
    yield core
    core.close()


def test_the_donors_entries_run_with_its_handles(toy: Any, donor: SwitchCore) -> None:
    toy.core.table_insert(EXACT, KEY, None, 0, toy.forward(3))
    handle = donor.table_insert(EXACT, KEY, None, 0, toy.forward(5))
    donor.multicast_set(7, [Replica(1, 0), Replica(2, 1)])
    assert toy.ask(table=1, key32=9).port == 3
    assert toy.core.program_number == 1
    toy.core.adopt(donor, [])
    assert toy.core.program_number == 2
    assert toy.ask(table=1, key32=9).port == 5
    toy.core.table_modify(EXACT, handle, toy.forward(6))
    assert toy.ask(table=1, key32=9).port == 6
    toy.send(group=7)
    assert sorted(seen.port for seen in toy.take()) == [1, 2]
    with pytest.raises(CoreError):
        _ = donor.descriptor


def test_arrays_and_entries_keep_their_state(toy: Any, donor: SwitchCore) -> None:
    old = toy.core.table_insert(EXACT, KEY, None, 0, toy.forward(3))
    donor.table_insert(EXACT, bytes(5), None, 0, toy.forward(1))
    new = donor.table_insert(EXACT, KEY, None, 0, toy.forward(5))
    toy.core.direct_meter_set(EXACT, old, MeterConfig(1, 100, 1, 100))
    donor.direct_meter_set(EXACT, new, MeterConfig(1, 100, 1, 100))
    toy.core.counter_set(0, 3, Counter(30, 31))
    toy.core.meter_set(0, 1, MeterConfig(1, 2, 3, 4))
    assert toy.ask(port=2, at=5 * US, table=1, key32=9, flags=64).colour == 0  # 32 of 100 bytes
    toy.core.adopt(
        donor,
        [
            Keep(KeepKind.REGISTER, 0, 0),
            Keep(KeepKind.COUNTER, 0, 0),
            Keep(KeepKind.METER, 0, 0),
            Keep(KeepKind.ENTRY, EXACT, EXACT, old, new),
        ],
    )
    assert toy.core.register_get(0, 2) == 1
    assert [toy.core.counter_get(0, i).packets for i in range(6)] == [1, 0, 0, 30, 0, 0]
    assert toy.core.meter_get(0, 1) == MeterConfig(1, 2, 3, 4)
    assert toy.core.table_counter(EXACT, new) == Counter(1, 32)
    assert toy.core.table_last_hit(EXACT, new) == 5 * US
    colours = [toy.ask(table=1, key32=9, flags=64).colour for _ in range(3)]
    assert colours == [0, 0, 2]  # the fourth packet of 32 bytes is beyond the burst of 100


def test_what_cannot_be_kept_changes_nothing(toy: Any, donor: SwitchCore) -> None:
    toy.core.table_insert(EXACT, KEY, None, 0, toy.forward(3))
    donor.table_insert(EXACT, KEY, None, 0, toy.forward(5))
    for keep in (
        Keep(KeepKind.REGISTER, 0, 1),  # 32 bits and 100 bits
        Keep(KeepKind.COUNTER, 1, 0),
        Keep(KeepKind.METER, 0, 1),  # packets and bytes
        Keep(KeepKind.ENTRY, EXACT, EXACT, 1, 77),
    ):
        with pytest.raises(CoreError, match="item 1 to keep") as refused:
            toy.core.adopt(donor, [Keep(KeepKind.COUNTER, 0, 0), keep])
        assert refused.value.code == CoreErrorCode.EINVAL
    assert toy.ask(table=1, key32=9).port == 3
    assert donor.loaded
    empty = donor
    empty.adopt(toy.core, [])
    with pytest.raises(CoreError, match="runs no program"):
        donor.adopt(toy.core, [])


def test_queued_packets_leave_under_the_old_program(toy: Any, donor: SwitchCore) -> None:
    toy.core.table_insert(EXACT, KEY, None, 0, toy.forward(3))
    toy.core.set_port(3, PortState.BLOCKED)
    for at in range(4):
        toy.send(table=1, key32=9, at=at * US, payload=bytes([at]) * 100)
    assert toy.take() == []
    toy.core.adopt(donor, [Keep(KeepKind.REGISTER, 1, 1)])
    toy.send(table=1, key32=9, out=3, at=9 * US)  # a miss in the new program: its own egress_spec
    toy.core.set_port(3, PortState.UP, now_ps=10 * US)
    out = toy.take()
    assert [(seen.port, seen.hit, seen.value) for seen in out] == [(3, True, 3)] * 4 + [
        (3, False, 0)
    ]
    assert [seen.payload[:1] for seen in out] == [bytes([n]) for n in range(4)] + [b""]
    # Egress of old and new packets counted in the same cells: 5 packets on an odd port.
    assert toy.core.register_get(1, 1) == 5 << 63


def test_recirculated_packets_enter_the_new_program(toy: Any, donor: SwitchCore) -> None:
    donor.table_insert(EXACT, KEY, None, 0, toy.forward(5))
    toy.core.table_insert(EXACT, KEY, None, 0, toy.forward(3))
    toy.send(table=1, key32=9, rounds=1)
    toy.core.adopt(donor, [])
    toy.core.advance(10 * US)
    (seen,) = toy.take()
    assert (seen.port, seen.value, seen.instance_type) == (5, 5, 0)


def test_outputs_say_which_program_made_them(toy: Any, donor: SwitchCore) -> None:
    toy.send(flags=LEARN, key32=1)
    toy.core.adopt(donor, [])
    toy.send(flags=LEARN, key32=2)
    digests = [o for o in toy.core.take_output() if o.kind is OutputKind.DIGEST]
    assert [(o.data[:4], o.program) for o in digests] == [
        (bytes([0, 0, 0, 1]), 1),
        (bytes([0, 0, 0, 2]), 2),
    ]


def test_a_switch_without_a_program_adopts_one(
    make_core: Callable[..., SwitchCore], donor: SwitchCore
) -> None:
    core = make_core()
    with pytest.raises(CoreError):
        core.adopt(donor, [Keep(KeepKind.COUNTER, 0, 0)])
    core.adopt(donor, [])
    assert core.loaded
    core.close()


def test_groups_and_members_move_along(toy: Any, donor: SwitchCore) -> None:
    member = donor.member_add(0, 0, [4])
    group = donor.group_add(0, [member])
    donor.table_insert(SELECT, bytes([1]), None, 0, Spec.of_group(group))
    toy.core.adopt(donor, [])
    assert toy.ask(table=5, key8=1).port == 4
    toy.core.member_modify(0, member, 0, [6])
    assert toy.ask(table=5, key8=1).port == 6
