"""The record that a switch writes into what collects, held against a line that Python counts."""

from __future__ import annotations

from itertools import pairwise

import pytest
from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from controller.target_facts import TargetFacts
from protocols.path_telemetry import SENT_BYTES, WRAPS, PathHop, hops_of, record
from protocols.rocev2 import Opcode, icrc_is_valid
from protocols.telemetry import Telemetry, has_telemetry, shim_of, with_shim, without
from tests.mechanisms.path_telemetry.line import (
    HOPS,
    PORT,
    REST,
    Sent,
    by_hand,
    frame,
    line_bytes,
    passed,
    random_frames,
    switch,
    topology,
)

HOP = 1
RATES = {"1Gbps": 10**9, "100Gbps": 10**11, "400Gbps": 4 * 10**11, "1.6Tbps": 16 * 10**11}


@pytest.mark.parametrize("rate", RATES)
def test_records_are_those_of_the_line(rate: str) -> None:
    """Time, bytes and queue of random frames; all numbers wrap within the run."""
    fabric, gap = topology(rate), 2000 * 8 * 10**12 // RATES[rate]
    frames = random_frames(1, 120, WRAPS - 30 * gap // 1000, gap)
    before = (1 << 32) - 100_000
    with switch(fabric) as made:
        made.register_write("path_sent", PORT, before)
        frames_out = passed(made, fabric, frames)
    wanted = by_hand(frames, RATES[rate], before)
    assert max(each.queue for each in wanted) > 8192
    seen = []
    for out, left in zip(frames_out, wanted, strict=True):
        assert icrc_is_valid(without(out))
        if left.frame.dscp == HOPS:
            shim = shim_of(out)
            assert (shim.hops, shim.words, shim.format) == (1, 3, 1)
            (hop,) = hops_of(shim.data)
            said = record(HOP, RATES[rate], left.at_ps // 1000, left.sent, left.queue)
            assert hop == said
            seen.append(hop)
    assert any(b.at < a.at for a, b in pairwise(seen)), "it wraps"
    assert any(b.sent < a.sent for a, b in pairwise(seen)), "it wraps"


@pytest.mark.parametrize(
    ("facts", "scale"),
    [(TargetFacts(1_000_000, None, 8), 1), (TargetFacts(1000, 256, 8, time_scale=1000), 1000)],
    ids=["ticks of 1 us, packets", "a run slowed down by 1000"],
)
def test_time_is_the_fabric_s_whatever_the_target_s_ticks(facts: TargetFacts, scale: int) -> None:
    fabric = topology()
    times = [1_000_000, 2_000_000, 900_000_000]
    with switch(fabric, facts, limited=False) as made:
        outs = passed(made, fabric, [Sent(at, HOPS, 1000) for at in times])
    found = [hops_of(shim_of(out).data)[0] for out in outs]
    for at, hop in zip(times, found, strict=True):
        assert hop.at in (at // scale % WRAPS, at // scale % WRAPS - 1)
        assert hop.rate_bps == pytest.approx(10**11, rel=1 / 2048)
    since = (found[2].at - found[0].at) % WRAPS
    assert since == pytest.approx((times[2] - times[0]) // scale % WRAPS, abs=1)


def again(fabric: object, out: bytes) -> bytes:
    """Return a frame that left, as it comes to the switch once more."""
    packet = Ether(out)
    packet.src, packet.dst = topology().host("h2").mac, topology().switch("s1").mac
    return bytes(packet)


@pytest.mark.parametrize("hops", [5, 7])
def test_each_hop_writes_in_front_of_those_before(hops: int) -> None:
    fabric = topology()
    out = frame(fabric, HOPS, 1000, Telemetry())
    with switch(fabric) as made:
        for n in range(hops):
            made.inject(2, again(fabric, out), at_ns=1000 * (n + 1))
            (output,) = made.run_until(1000 * (n + 1) + 500)
            out = bytes(output.packet)
    shim = shim_of(out)
    assert (shim.hops, shim.words, shim.cut) == (hops, 3 * hops, 0)
    records = hops_of(shim.data)
    assert [each.at for each in records] == [1000 * (n + 1) for n in reversed(range(hops))]
    assert {each.hop for each in records} == {HOP}
    lengths = [1004 + 12 * (n + 1) for n in range(hops)]
    totals = [sum(map(line_bytes, lengths[: n + 1])) // SENT_BYTES for n in reversed(range(hops))]
    assert [each.sent for each in records] == totals
    assert icrc_is_valid(without(out))
    assert len(hops_of(shim.data[:64])) == 5, "what a receiver returns: the last five"


def others() -> dict[str, bytes]:
    fabric = topology()
    plain = frame(fabric, HOPS, 1000)
    ack = Ether(frame(fabric, HOPS, 100))
    ack[BTH].remove_payload()
    ack[BTH].opcode = int(Opcode.ACK)
    del ack[IP].len, ack[IP].chksum, ack[UDP].len
    returned = bytes(ack / AETH() / Raw(bytes(4)))
    hop = bytes(PathHop(hop=9))
    return {
        "no shim": plain,
        "returned": with_shim(returned, Telemetry(kind=1, hops=1, format=1, data=hop)),
        "another format": with_shim(plain, Telemetry(hops=1, format=9, data=bytes(8))),
        "one word, another format": with_shim(plain, Telemetry(hops=1, format=9, data=bytes(4))),
        "a class that collects nothing": frame(fabric, REST, 1000, Telemetry()),
    }


@pytest.mark.parametrize("what", list(others()))
def test_what_does_not_collect_is_left_alone_and_counted(what: str) -> None:
    fabric, sent = topology(), others()[what]
    with switch(fabric) as made:
        made.inject(2, sent)
        (output,) = made.run_until(10_000)
        assert made.register_read("path_sent", PORT) == line_bytes(len(sent))
    out = bytes(output.packet)
    assert has_telemetry(out) == (what != "no shim")
    assert out[34:] == sent[34:] and len(out) == len(sent), "all behind IPv4"
