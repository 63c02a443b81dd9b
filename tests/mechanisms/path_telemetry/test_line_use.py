"""How much a line is used by the switch's own reckoning, to 2^-16, and the word for a path."""

from __future__ import annotations

from fractions import Fraction

import pytest

from controller.target_facts import TargetFacts
from mechanisms.path_telemetry.entries import measured_use
from mechanisms.path_telemetry.settings import LEAST_PS, MOST_PS
from protocols.path_telemetry import USED_ONE, PathUse, path_number
from protocols.rocev2 import icrc_is_valid
from protocols.telemetry import Telemetry, shim_of, without
from tests.mechanisms.path_telemetry.line import (
    MOST_USED,
    PORT,
    Sent,
    Use,
    by_hand,
    frame,
    line_bytes,
    passed,
    random_frames,
    switch,
    topology,
)
from tests.mechanisms.path_telemetry.test_hops_written import HOP, RATES, again

Q16 = Fraction(1, 1 << 16)


def word(out: bytes) -> PathUse:
    shim = shim_of(out)
    assert (shim.words, shim.format) == (1, 2)
    return PathUse(shim.data)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("rate", RATES)
def test_it_is_that_of_python_to_the_bit_and_exact_to_q16(rate: str, seed: int) -> None:
    fabric, gap = topology(rate), 2500 * 8 * 10**12 // RATES[rate]
    frames = random_frames(seed, 200, 50_000, gap)
    with switch(fabric) as made:
        outs = passed(made, fabric, frames)
        held = made.register_read("path_used", PORT)
    use, most = Use(RATES[rate]), 0.0
    for out, left in zip(outs, by_hand(frames, RATES[rate]), strict=True):
        own = left.frame.dscp == MOST_USED
        use.left(left.at_ps // 1000, left.sent, left.queue if own else None)
        assert abs(Fraction(use.used, 1 << 28) - use.exact) < Q16
        if own:
            assert word(out).used == use.used >> 15
            assert word(out).path == HOP
            assert icrc_is_valid(without(out))
        most = max(most, use.used / (1 << 28))
    assert held == use.used
    assert most > 0.1


@pytest.mark.parametrize("load", [0.3, 0.8, 0.95])
def test_of_a_steady_load_it_is_the_load(load: float) -> None:
    fabric, size = topology(), 1000
    gap = line_bytes(size + 8) * 0.08 / load
    frames = [Sent(1000 + int(n * gap), MOST_USED, size) for n in range(800)]
    with switch(fabric) as made:
        outs = passed(made, fabric, frames)
    assert word(outs[-1]).used / USED_ONE == pytest.approx(load, rel=0.02)


def test_it_forgets_in_a_round_trip_of_silence() -> None:
    fabric = topology()
    busy = [Sent(1000 + 84 * n, MOST_USED, 1000) for n in range(400)]
    with switch(fabric) as made:
        outs = passed(made, fabric, [*busy, Sent(busy[-1].at_ns + 13_000, MOST_USED, 1000)])
    assert word(outs[-2]).used > 0.9 * USED_ONE
    assert word(outs[-1]).used < 0.02 * USED_ONE


def test_the_first_switch_puts_the_word_in_and_others_keep_the_most() -> None:
    """The path's number has each hop in turn; the packet becomes longer once."""
    fabric = topology()
    with switch(fabric) as made:
        passed(made, fabric, [Sent(1000 + 84 * n, MOST_USED, 1000) for n in range(100)])
        first = frame(fabric, MOST_USED, 1000, Telemetry())
        lower = frame(
            fabric, MOST_USED, 1000, Telemetry(hops=2, format=2, data=bytes([0, 5, 0, 9]))
        )
        higher = frame(
            fabric, MOST_USED, 1000, Telemetry(hops=2, format=2, data=bytes([0, 5, 255, 255]))
        )
        found = []
        for sent in (first, lower, higher):
            made.inject(2, sent)
            (output,) = made.run_until(made.now_ns + 400)
            found.append(bytes(output.packet))
        made.inject(2, again(fabric, found[0]))
        (output,) = made.run_until(made.now_ns + 400)
    assert [len(out) for out in found] == [1008, 1008, 1008]
    assert len(bytes(output.packet)) == 1008
    assert [shim_of(out).hops for out in found] == [1, 3, 3]
    words = [word(out) for out in found]
    assert words[0].path == HOP and words[1].path == words[2].path == path_number([5, HOP])
    assert words[2].used == 0xFFFF
    twice = shim_of(bytes(output.packet))
    assert (twice.hops, word(bytes(output.packet)).path) == (2, path_number([HOP, HOP]))
    assert all(icrc_is_valid(without(out)) for out in found)


@pytest.mark.parametrize("scale", [1, 1000])
@pytest.mark.parametrize("trip_ps", [LEAST_PS, 12_345_678, 10**9, MOST_PS])
@pytest.mark.parametrize("rate", [10**9, 25 * 10**9, 16 * 10**11])
def test_no_product_is_too_long(rate: int, trip_ps: int, scale: int) -> None:
    """Of what the module multiplies at most, and factors are exact enough for 2^-16 of 8."""
    facts = TargetFacts(tick_ps=1000, depth_cell_bytes=256, priorities=8, time_scale=scale)
    numbers = dict(measured_use(rate, trip_ps, facts).arguments)
    one, eight = 1 << 28, 1 << 31
    part = numbers["round_trip"] * numbers["per_tick"] >> 28
    load = numbers["most"] * numbers["per_byte"]
    assert part <= one and load <= 8 << 56
    assert numbers["round_trip"] * numbers["per_tick"] < 1 << 64
    assert eight * one + (load >> 28) * part < 1 << 64
    bytes_of_trip = Fraction(rate * numbers["round_trip"], 8 * 10**9 * scale)
    for factor, unit in (
        ("per_tick", Fraction(numbers["round_trip"])),
        ("per_byte", bytes_of_trip),
    ):
        exact = (1 << 56) / unit
        assert 0 <= exact - numbers[factor] < 1
        assert 8 * (exact - numbers[factor]) / exact < Q16
