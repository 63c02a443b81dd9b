"""Flows under ENCC that share a line, as a fluid: how soon they are fair, and what they come to.

Ten times in a round trip each header hears of a line of 400 Gb/s what all of them sent a round trip
ago, and of the queue that was there then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import pytest

from mechanisms.encc.parameters import EnccParameters, encc_parameters
from protocols.notification import RATE_UNIT_BPS, rate_of
from protocols.path_telemetry import QUEUE_BYTES, SENT_BYTES
from tests.hostagent.hop_paths import Hop, telemetry
from tests.hostagent.native_replay import Alone

START = 10**12
LINE = 400 * 10**9
T = 13_000
STEPS = 10
GIVEN = encc_parameters(LINE, T)


def shares(given: EnccParameters, begin: Sequence[float], trips: int) -> list[list[float]]:
    """Return each flow's share of the line by round trip, from these shares on."""
    flows = [Alone.begun("encc", given.fields(), START) for _ in begin]
    for flow, share in zip(flows, begin, strict=True):
        flow.state.rate = flow.state.reference = int(share * LINE)
    sent, queue = 0.0, 0.0
    late: deque[Hop] = deque()
    found = []
    for n in range(trips * STEPS):
        now = START + n * T // STEPS
        waits = queue * 8e9 / LINE
        # The window is the rate times T: while a queue makes round trips longer it slows the flow.
        comes = sum(flow.state.rate for flow in flows) * T / (T + waits) * T / STEPS / 8e9
        leaves = min(comes + queue, LINE * T / STEPS / 8e9)
        queue, sent = queue + comes - leaves, sent + leaves
        hop = Hop(7, rate_of(LINE // RATE_UNIT_BPS), now, int(sent / SENT_BYTES))
        late.append(replace(hop, queue=min(int(queue / QUEUE_BYTES), 0xFFFF)))
        if len(late) > STEPS:
            told = telemetry([late.popleft()])
            for flow in flows:
                flow.event(now, told, kind=flow.lib.CC_ACKED, bytes=4096, rtt_ns=int(T + waits))
        if n % STEPS == 0:
            found.append([flow.state.rate / LINE for flow in flows])
    return found


def jain(of: Sequence[float]) -> float:
    return float(sum(of) ** 2 / (len(of) * sum(each**2 for each in of)))


def test_two_flows_from_10_and_90_percent_are_fair_after_350_round_trips_and_stay_so() -> None:
    found = shares(GIVEN, (0.095, 0.855), 1400)
    assert jain(found[0]) < 0.65
    assert all(jain(each) >= 0.98 for each in found[350:])
    assert all(sum(each) == pytest.approx(0.97, abs=0.03) for each in found[50:])


def test_hpcc_s_own_increase_takes_five_times_as_long() -> None:
    given = replace(GIVEN, rate_ai_bps=LINE // 2500, by_root=False)
    found = shares(given, (0.095, 0.855), 2600)
    assert jain(found[1500]) < 0.98 < jain(found[2500])


@pytest.mark.parametrize(("flows", "most"), [(2, 0.975), (16, 1.0), (60, 1.03)])
def test_one_number_serves_few_flows_and_many(flows: int, most: float) -> None:
    """Where all add the same, U = eta / (1 - N increase / line): of 60 it would be 1.73."""
    found = shares(GIVEN, [1.0] * flows, 250)
    late = [sum(each) for each in found[200:]]
    assert 0.95 < sum(late) / len(late) <= most
