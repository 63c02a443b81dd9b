"""ENCC while something goes wrong: pauses, lost acknowledgements, mute switches, other paths.

One seed of what `python tests/bench/encc_adversity.py` plays over several.
"""

from __future__ import annotations

import pytest

from tests.mechanisms.encc import adversity
from tests.mechanisms.encc.adversity import (
    PAYLOAD,
    Shared,
    flowlets,
    moved,
    paused,
    plane_cut,
    shared,
)

LINE_GBPS = 100 * PAYLOAD
WINDOW_KB = 58
"""What a line of 100 Gb/s carries in the line's base round trip."""


@pytest.fixture(scope="module")
def eight() -> Shared:
    return shared(1)


def test_idle_for_20_ms_then_on() -> None:
    """Senders go on at the rate that they had; what they knew of hops is too old to be used.

    Those that were done last had more than an eighth by then, so that it is not quite nothing.
    """
    seen = paused(1)
    assert seen.fresh > 4 * WINDOW_KB, "that is what a spike would be"
    assert seen.again < 1.5 * WINDOW_KB
    assert seen.second_us < 1.1 * seen.first_us


def test_a_tenth_of_the_acknowledgements_is_lost() -> None:
    """With seven packets on the way, the next acknowledgement says it all."""
    whole, lossy = (shared(1, senders=2, ack_loss=loss) for loss in (0, 10))
    assert lossy.gbps == pytest.approx(whole.gbps, rel=0.02)
    assert lossy.jain > 0.97
    assert lossy.silence_us < 10 and lossy.repeated == 0


def test_a_window_of_one_packet_does_not_wait_for_the_time_out(eight: Shared) -> None:
    """Eight senders have less than two packets on the way each: a lost answer is that of all."""
    lossy = shared(1, ack_loss=10)
    assert lossy.gbps == pytest.approx(eight.gbps, rel=0.02)
    assert lossy.jain > 0.93
    assert lossy.silence_us < 200 and lossy.repeated == 0  # the time-out is 4,200
    assert lossy.queue_most < 2 * eight.queue_most + WINDOW_KB


def test_a_mute_switch_beside_the_bottleneck(eight: Shared) -> None:
    mute = shared(1, mute=["s1"])
    assert mute.gbps == pytest.approx(eight.gbps, rel=0.02)
    assert mute.jain > 0.93
    assert mute.queue_most < 1.5 * eight.queue_most


def test_a_mute_switch_at_the_bottleneck(eight: Shared) -> None:
    """Nobody says that there is a queue: windows alone hold it, and nothing stalls or is lost."""
    mute = shared(1, mute=["s2"])
    assert mute.gbps > 0.98 * LINE_GBPS
    assert mute.jain > 0.99 and mute.repeated == 0
    assert 10 * eight.queue_most < mute.queue_most < 8 * WINDOW_KB


@pytest.mark.parametrize("form", ["hops", "most-used"])
@pytest.mark.parametrize("link", ["s1-s3", "s2-s3"])
def test_a_link_goes_down(link: str, form: str) -> None:
    """Beside the senders' leaf, and behind the spine, which has to tell the leaf."""
    seen = moved(1, link, form=form)
    assert seen.gbps_after > 0.85 * LINE_GBPS
    assert seen.silence_us < 3 * seen.trip_us
    assert seen.missing_trips < 2
    assert form != "hops" or seen.least > 0.5


def test_a_plane_is_cut_and_mended() -> None:
    """Its flight goes by the other plane at once, and what it learned of its path is forgotten."""
    seen = plane_cut(1)
    assert seen.gbps_before > 0.93 * 4 * LINE_GBPS
    assert seen.missing_trips < 2 and seen.back_missing < 2
    assert seen.silence_us < 3 * seen.trip_us
    assert seen.gbps_end > 0.98 * seen.gbps_before
    assert seen.queue_most < 2 * WINDOW_KB


@pytest.mark.long
def test_one_congestion_state_for_both_planes_costs_more() -> None:
    """Packets in turn over both find another port each time, or, blind, take both for one."""
    planes, both = plane_cut(1), plane_cut(1, as_planes=False)
    assert both.missing_trips > 2 > planes.missing_trips
    assert both.queue_most > 2 * planes.queue_most
    with adversity.without_path_identity():
        blind, both_blind = plane_cut(1), plane_cut(1, as_planes=False)
    assert blind == planes  # a plane's records are of its own ports alone
    assert both_blind.gbps_before < both.gbps_before / 2


@pytest.mark.long
def test_who_takes_two_ports_for_one_has_an_absurd_rate() -> None:
    """Without path identity: what two ports have sent is not one port's use.

    Of one change it is one word, which most seeds do not feel; flowlets change all the time.
    """
    seeing = flowlets(1, "flowlet")
    with adversity.without_path_identity():
        blind = flowlets(1, "flowlet")
    assert seeing > 100
    assert blind < seeing / 5
