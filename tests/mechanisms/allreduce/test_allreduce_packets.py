"""What one switch makes of single packets: the table of docs/allreduce.md, row by row.

root      job 1: workers 1 and 2 at ports 1 and 2
middle    the same, and the parent at port 9
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

import pytest

from protocols.allreduce import NEIGHBOUR_TTL, NEIGHBOURS_MAC, AllReduceKind
from tests.mechanisms.allreduce import wire
from tests.mechanisms.allreduce.switches import AllReduceSwitch, Membership, program
from tests.mechanisms.allreduce.wire import (
    CONGESTED,
    CONGESTION,
    EXPONENT_ONLY,
    FROM_ROOT,
    OVERFLOW,
    Message,
)

SLOTS, BASE, PARENT = 4, 8, 9
CONTRIBUTION, RESULT, MOVE, BLOCK, PARTIAL = AllReduceKind
JOB, EPOCH = 7, 16


def switch_of(parent: int | None, *, lanes: int = 2, job: int = JOB) -> AllReduceSwitch:
    ports = (1, 2) if parent is None else (1, 2, parent)
    members = [Membership(job, tree, (1, 2), parent, BASE, SLOTS) for tree in range(2)]
    return AllReduceSwitch(program(lanes), members, {1: 1, 2: 2}, ports)


@pytest.fixture
def root() -> AllReduceSwitch:
    return switch_of(None)


@pytest.fixture
def middle() -> AllReduceSwitch:
    return switch_of(PARENT)


def part(host: int, chunk: int = 0, **more: object) -> Message:
    """Return a worker's contribution: 10 + host and -chunk."""
    whole = Message(CONTRIBUTION, JOB, EPOCH, lanes=(10 + host, -chunk), exponent=100 + host)
    return replace(whole.of_chunk(chunk, SLOTS), **more)  # type: ignore[arg-type]


def whole(chunk: int = 0, **more: object) -> Message:
    """Return the result of both workers' contributions."""
    done = replace(part(1, chunk), kind=RESULT, lanes=(23, -2 * chunk), exponent=102)
    return replace(done, **more)  # type: ignore[arg-type]


def sent(switch: AllReduceSwitch, port: int, message: Message) -> dict[int, Message]:
    """Let a packet come by a port; return what leaves by which."""
    left = switch.send(port, wire.frame(message, port))
    assert len({out for out, _ in left}) == len(left)
    return {out: wire.message_of(frame) for out, frame in left}


# --- rounds ---------------------------------------------------------------------------------------


def test_the_last_contribution_becomes_the_result(root: AllReduceSwitch) -> None:
    assert sent(root, 1, part(1)) == {}
    assert sent(root, 2, part(2)) == {1: whole(), 2: whole()}
    assert (root.counts(1), root.counts(2)) == ({"contributed": 1}, {"summed": 1})
    assert root.refused() == 0


def test_in_the_middle_it_goes_up_and_the_result_comes_down(middle: AllReduceSwitch) -> None:
    assert sent(middle, 1, part(1)) == {}
    up = replace(whole(), kind=CONTRIBUTION)
    assert sent(middle, 2, part(2)) == {PARENT: up}
    assert sent(middle, 2, part(2)) == {PARENT: up}  # once more, while there is no result
    down = whole(lanes=(1000, 7), exponent=200, flags=OVERFLOW)
    assert sent(middle, PARENT, down) == {1: down, 2: down}
    assert sent(middle, 1, part(1)) == {1: down}  # as it was stored
    assert sent(middle, PARENT, down) == {}
    assert middle.counts(PARENT) == {"result": 1, "unexpected": 1}
    assert middle.counts(1) == {"contributed": 1, "answered": 1}
    assert middle.counts(2) == {"summed": 1, "repeated": 1}


def test_a_repeat_before_all_are_there_changes_nothing(root: AllReduceSwitch) -> None:
    for _ in range(3):
        assert sent(root, 1, part(1)) == {}
    assert root.counts(1) == {"contributed": 1, "duplicate": 2}
    assert sent(root, 2, part(2)) == {1: whole(), 2: whole()}


def test_a_late_duplicate_changes_nothing(root: AllReduceSwitch) -> None:
    """Chunk 8 has the slot and version of chunk 0."""
    assert sent(root, 1, part(1, 8)) == {}
    assert sent(root, 2, part(2, 0)) == {}
    assert root.counts(2) == {"late": 1}
    assert sent(root, 2, part(2, 8)) == {1: whole(8), 2: whole(8)}


def test_versions_of_a_slot_are_apart(root: AllReduceSwitch) -> None:
    sent(root, 1, part(1, 0))
    sent(root, 2, part(2, 4))
    assert sent(root, 2, part(2, 0)) == {1: whole(0), 2: whole(0)}
    assert sent(root, 1, part(1, 4)) == {1: whole(4), 2: whole(4)}
    assert sent(root, 2, part(2, 0)) == {2: whole(0)}


def test_chunks_wrap(root: AllReduceSwitch) -> None:
    last = (1 << 32) - SLOTS
    for chunk in (last - SLOTS, last, 0, SLOTS):
        lanes = replace(part(1, chunk % 1000), chunk=chunk)
        one = replace(part(1).of_chunk(chunk, SLOTS), lanes=lanes.lanes)
        two = replace(part(2).of_chunk(chunk, SLOTS), lanes=lanes.lanes)
        sent(root, 1, one)
        assert set(sent(root, 2, two)) == {1, 2}
    assert sent(root, 1, part(1).of_chunk(last, SLOTS)) == {}
    assert root.counts(1)["late"] == 1


def test_a_newer_epoch_begins_the_round_again(root: AllReduceSwitch) -> None:
    sent(root, 1, part(1))
    newer = {"epoch": EPOCH + 1}
    assert sent(root, 1, part(1, **newer)) == {}
    assert root.counts(1) == {"contributed": 2}
    assert sent(root, 2, part(2, **newer)) == {1: whole(**newer), 2: whole(**newer)}


@pytest.mark.parametrize("version", [0, 1])
def test_an_old_epoch_is_answered_with_a_move(root: AllReduceSwitch, version: int) -> None:
    """The slot knows the newer one by either version."""
    sent(root, 1, part(1, 4 * version, epoch=EPOCH + 1))
    answer = Message(MOVE, JOB, EPOCH + 1).of_chunk(0, SLOTS)
    assert sent(root, 2, part(2, flags=EXPONENT_ONLY)) == {2: answer}
    assert root.counts(2) == {"stale": 1}


def test_epochs_wrap(root: AllReduceSwitch) -> None:
    sent(root, 1, part(1, epoch=0))
    answer = Message(MOVE, JOB, 0).of_chunk(0, SLOTS)
    assert sent(root, 1, part(1, epoch=(1 << 16) - 8)) == {1: answer}


@pytest.mark.parametrize("epoch", [8, EPOCH])
def test_another_job_s_rounds_in_the_same_slots_are_nothing(epoch: int) -> None:
    """Job 7 ended, at a newer epoch than job 8 begins at or the same, and job 8 got its slots."""
    both = [Membership(job, 0, (1, 2), None, BASE, SLOTS) for job in (JOB, 8)]
    switch = AllReduceSwitch(program(), both, {1: 1, 2: 2}, (1, 2))
    for chunk in (8, 12):
        sent(switch, 1, part(1, chunk))
        sent(switch, 2, part(2, chunk))
    other = {"job": 8, "epoch": epoch}
    for chunk in (8, 12):
        assert sent(switch, 1, part(1, chunk, **other)) == {}
        done = whole(chunk, **other)
        assert sent(switch, 2, part(2, chunk, **other)) == {1: done, 2: done}


def test_rounds_without_lanes(root: AllReduceSwitch) -> None:
    bare = {"lanes": (), "flags": EXPONENT_ONLY}
    assert sent(root, 1, part(1, **bare)) == {}
    done = whole(**bare)
    assert sent(root, 2, part(2, **bare)) == {1: done, 2: done}
    assert sent(root, 1, part(1, **bare)) == {1: done}


@pytest.mark.parametrize("bare_first", [True, False])
def test_lanes_and_none_do_not_mix(root: AllReduceSwitch, bare_first: bool) -> None:
    one, two = (part(1, lanes=()), part(2)) if bare_first else (part(1), part(2, lanes=()))
    sent(root, 1, one)
    assert sent(root, 2, two) == {}
    assert root.counts(2) == {"refused": 1}
    assert root.refused() == 1


# --- flags ----------------------------------------------------------------------------------------


def test_overflow_is_flagged_whichever_half_of_a_pair(root: AllReduceSwitch) -> None:
    top = (1 << 31) - 1
    cases = [((top, 0), (1, 0)), ((0, -top), (0, -2)), ((-1, -top - 1), (0, -1))]
    for chunk, (one, two) in enumerate(cases):
        sent(root, 1, part(1, chunk, lanes=one))
        done = sent(root, 2, part(2, chunk, lanes=two))[1]
        total = wire.wrapped([a + b for a, b in zip(one, two, strict=True)])
        assert (done.lanes, done.flags) == (total, OVERFLOW)
        assert sent(root, 1, part(1, chunk, lanes=one)) == {1: done}
    sent(root, 1, part(1, 3, lanes=(top, -top)))
    assert sent(root, 2, part(2, 3, lanes=(-top, top)))[1].flags == 0
    assert root.counts(2)["overflowed"] == 3


def test_a_lane_s_carry_stays_in_it(root: AllReduceSwitch) -> None:
    sent(root, 1, part(1, lanes=(5, -1)))
    assert sent(root, 2, part(2, lanes=(7, -1)))[1].lanes == (12, -2)


def test_congestion_of_a_contribution_goes_into_the_result(middle: AllReduceSwitch) -> None:
    sent(middle, 1, part(1, ecn=CONGESTED))
    up = sent(middle, 2, part(2))[PARENT]
    assert (up.flags, up.ecn) == (CONGESTION, wire.CAPABLE)  # the next link can mark it again
    assert middle.counts(1) == {"contributed": 1, "congested": 1}
    again = sent(middle, 2, part(2))[PARENT]
    assert again.flags == CONGESTION
    sent(middle, 1, part(1, 8, ecn=CONGESTED))
    sent(middle, 1, part(1, 16))
    assert sent(middle, 2, part(2, 16))[PARENT].flags == 0


def test_the_mark_of_a_result_reaches_the_workers(middle: AllReduceSwitch) -> None:
    sent(middle, 1, part(1))
    sent(middle, 2, part(2))
    down = sent(middle, PARENT, whole(ecn=CONGESTED))
    assert {each.ecn for each in down.values()} == {CONGESTED}


def test_exponents_are_compared_without_sign(root: AllReduceSwitch) -> None:
    sent(root, 1, part(1, exponent=255))
    assert sent(root, 2, part(2, exponent=1))[1].exponent == 255


# --- moves and blocks -----------------------------------------------------------------------------


def test_a_move_goes_up_to_the_root_and_down_to_all(
    root: AllReduceSwitch, middle: AllReduceSwitch
) -> None:
    move = Message(MOVE, JOB, EPOCH + 1)
    assert sent(middle, 1, move) == {PARENT: move}
    down = replace(move, flags=FROM_ROOT)
    assert sent(root, 1, move) == {1: down, 2: down}
    assert sent(middle, PARENT, down) == {1: down, 2: down}
    assert sent(middle, 1, down) == {PARENT: move}  # no host speaks for the root
    assert middle.counts(1) == {"moved": 2}


def test_a_block_leaves_by_all_links_but_the_one_it_came_by(
    root: AllReduceSwitch, middle: AllReduceSwitch
) -> None:
    block = Message(BLOCK, JOB, EPOCH, chunk=77, slot=3, lanes=tuple(range(300)), exponent=9)
    assert sent(middle, 1, block) == {2: block, PARENT: block}
    assert sent(middle, PARENT, block) == {1: block, 2: block}
    assert sent(root, 2, block) == {1: block}
    short = replace(block, lanes=(1,))
    assert sent(root, 2, short) == {1: short}
    assert root.counts(2) == {"block": 2}


# --- addresses ------------------------------------------------------------------------------------


def test_packets_are_addressed_to_who_is_behind_a_port(middle: AllReduceSwitch) -> None:
    middle.send(1, wire.frame(part(1), 1))
    ((port, up),) = middle.send(2, wire.frame(part(2), 2))
    assert port == PARENT
    assert up[:6].hex(":") == NEIGHBOURS_MAC
    assert up[26:34] == bytes([192, 0, 0, 8, 224, 0, 0, 254])
    assert up[22] == NEIGHBOUR_TTL
    for port, down in middle.send(PARENT, wire.frame(whole(), PARENT)):
        assert down[:12] == wire.mac(port) + wire.gateway_mac(port)
        assert down[26:34] == bytes([192, 0, 0, 8, 10, 0, 0, port])
        assert down[22] == wire.HOST_TTL


def test_what_is_behind_the_lanes_stays_as_it_is(root: AllReduceSwitch) -> None:
    """A packet as long as with 6 lanes, of which 2 are added."""
    long = {"lanes": (1, 2, 30, 40, 50, 60)}
    sent(root, 1, part(1, **long))
    done = sent(root, 2, part(2, lanes=(3, 4, 31, 41, 51, 61)))
    assert done[1].lanes == (4, 6, 31, 41, 51, 61)


# --- what is refused ------------------------------------------------------------------------------


def field(at: int, value: bytes) -> Callable[[bytes], bytes]:
    """Return what changes bytes of a frame, and makes the IPv4 checksum right."""

    def changed(frame: bytes) -> bytes:
        frame = frame[:at] + value + frame[at + len(value) :]
        return wire.with_ecn(frame, frame[15] & 3)

    return changed


OURS = wire.HEADERS
BAD: dict[str, Callable[[bytes], bytes]] = {
    "kind 0": field(OURS, b"\0"),
    "kind 5": field(OURS, b"\5"),
    "a result from a child": field(OURS, b"\2"),
    "another job": field(OURS + 2, b"\0\1"),
    "a tree that is not there": field(OURS + 4, b"\0\7"),
    "a slot beyond the job's": field(OURS + 6, struct.pack(">HI", SLOTS, SLOTS)),
    "a slot that is not the chunk's": field(OURS + 6, b"\0\1"),
    "a version that is not the chunk's": field(OURS + 6, b"\x80\0"),
    "one lane": field(OURS + 14, b"\0\1"),
    "more lanes than follow": field(OURS + 14, b"\0\3"),
    "a UDP length that is too short": field(38, b"\0\x1f"),
    "a UDP length that is too long": field(38, b"\0\x21"),
    "an IPv4 length that is too long": field(16, b"\0\x35"),
    "cut short in the lanes": lambda frame: frame[:-1],
    "cut short in the header": lambda frame: frame[: OURS + 15],
}


@pytest.mark.parametrize("wrong", BAD)
def test_what_is_not_as_it_has_to_be_is_refused(root: AllReduceSwitch, wrong: str) -> None:
    good = wire.frame(part(1), 1)
    assert root.send(1, BAD[wrong](good)) == []
    assert root.counts(1) == {"refused": 1}
    parser_error = 2
    cut = wrong.startswith("cut short")
    assert root.switch.counter_read("dropped", parser_error if cut else 13)[0] == 1
    assert sent(root, 1, part(1)) == {}
    assert sent(root, 2, part(2)) == {1: whole(), 2: whole()}  # it has left nothing behind


def test_ip_options_are_refused(root: AllReduceSwitch) -> None:
    good = wire.frame(part(1), 1)
    head = b"\x46" + good[15:16] + struct.pack(">H", len(good) - 14 + 4) + good[18:24] + b"\0\0"
    options = head + good[26:34] + b"\1\1\1\1"
    options = options[:10] + wire.checksum(options).to_bytes(2, "big") + options[12:]
    assert root.send(1, good[:14] + options + good[34:]) == []
    assert root.counts(1) == {"refused": 1}


def test_a_wrong_ip_checksum_is_refused(root: AllReduceSwitch) -> None:
    good = bytearray(wire.frame(part(1), 1))
    good[24] ^= 1
    assert root.send(1, bytes(good)) == []
    assert root.counts(1) == {"refused": 1}


def test_who_may_send_what(middle: AllReduceSwitch) -> None:
    assert sent(middle, PARENT, part(1)) == {}  # a contribution from the parent
    assert sent(middle, 3, part(1)) == {}  # a port of nobody
    assert middle.counts(PARENT) == middle.counts(3) == {"refused": 1}


def test_a_result_that_nobody_waits_for(middle: AllReduceSwitch) -> None:
    assert sent(middle, PARENT, whole()) == {}  # no round
    sent(middle, 1, part(1))
    assert sent(middle, PARENT, whole()) == {}  # not complete
    sent(middle, 2, part(2))
    for other in (whole(8), whole(epoch=EPOCH + 1), whole(epoch=EPOCH - 16), whole(lanes=())):
        assert sent(middle, PARENT, other) == {}
    assert middle.counts(PARENT) == {"unexpected": 6}
    assert set(sent(middle, PARENT, whole())) == {1, 2}


def test_slots_beyond_the_switch_s_are_refused() -> None:
    member = Membership(JOB, 0, (1, 2), None, 62, 4)  # of 64
    switch = AllReduceSwitch(program(), [member], {1: 1, 2: 2}, (1, 2))
    for chunk in (0, 1):
        sent(switch, 1, part(1, chunk))
        assert set(sent(switch, 2, part(2, chunk))) == {1, 2}
    assert sent(switch, 1, part(1, 2)) == {}
    assert switch.counts(1) == {"contributed": 2, "refused": 1}


def test_fragments_of_a_datagram_are_not_read(root: AllReduceSwitch) -> None:
    first = field(20, b"\x20\0")(wire.frame(part(1), 1))
    assert root.send(1, first) == []
    assert root.counts(1) == {}


def test_many_lanes() -> None:
    switch = switch_of(None, lanes=32)
    lanes = tuple(range(-16, 16))
    sent(switch, 1, part(1, lanes=lanes))
    assert sent(switch, 2, part(2, lanes=lanes))[2].lanes == tuple(2 * lane for lane in lanes)


def test_packets_whose_payload_is_a_number() -> None:
    """As the simulator has them: 256 lanes long, of which two are bytes."""
    switch = switch_of(None)
    core, tail = switch.switch.core, 4 * 254
    whole_length = 28 + 16 + 4 * 256
    for host in (1, 2):
        short = wire.frame(part(host), host, wire.packed(part(host), 256))
        long = field(16, struct.pack(">H", whole_length))(short)
        long = long[:38] + struct.pack(">H", whole_length - 20) + long[40:]
        core.inject(host, long, 0, tail_length=tail, tail_seed=9)
    core.advance(1_000_000)
    left = core.take_output()
    assert [(each.port, each.tail_length, each.tail_seed) for each in left] == [
        (port, tail, 9) for port in (1, 2)
    ]
    assert {each.data[-8:] for each in left} == {struct.pack(">ii", 23, 0)}
    assert {len(each.data) + each.tail_length for each in left} == {14 + whole_length}
