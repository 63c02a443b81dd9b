"""Flows of one algorithm that share a line, as a fluid: what each gets, round trip by round trip.

Ten times in a round trip each header hears what the line of 400 Gb/s had sent a round trip ago, and
the queue that was there then: as a switch's record, and as a round trip that was longer by it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from protocols.notification import RATE_UNIT_BPS, rate_of
from protocols.path_telemetry import QUEUE_BYTES, SENT_BYTES
from tests.hostagent.hop_paths import Hop, telemetry
from tests.hostagent.native_replay import Alone

START = 10**12
LINE = 400 * 10**9
T = 13_000
STEPS = 10
CARRIES = LINE * T / 8e9
"""What the line sends in a round trip, in bytes."""


def shares(
    algorithm: str,
    fields: Mapping[str, int],
    begin: Sequence[Mapping[str, int]],
    trips: int,
    waits_us: list[float] | None = None,
) -> list[list[float]]:
    """Return each flow's share of the line by round trip, while nobody waits.

    `begin`: by flow, fields of the state that differ from those of a fresh one; `waits_us`: what
    a packet waits is appended to it, by round trip.
    """
    flows = [Alone.begun(algorithm, fields, START) for _ in begin]
    for flow, state in zip(flows, begin, strict=True):
        for name, value in state.items():
            setattr(flow.state, name, value)
    sent, queue = 0.0, 0.0
    late: deque[tuple[Hop, float, list[float]]] = deque()
    found = []
    for n in range(trips * STEPS):
        now = START + n * T // STEPS
        waits = queue * 8e9 / LINE
        # A window is what leaves in a round trip: while a queue makes that longer it slows a flow.
        comes = [flow.window_at(now) * T / (T + waits) / STEPS for flow in flows]
        leaves = min(sum(comes) + queue, CARRIES / STEPS)
        queue, sent = queue + sum(comes) - leaves, sent + leaves
        hop = Hop(7, rate_of(LINE // RATE_UNIT_BPS), now, int(sent / SENT_BYTES))
        late.append((replace(hop, queue=min(int(queue / QUEUE_BYTES), 0xFFFF)), waits, comes))
        if len(late) > STEPS:
            before, waited, acked = late.popleft()
            for flow, of_flow in zip(flows, acked, strict=True):
                kind, rtt = flow.lib.CC_ACKED, int(T + waited)
                flow.event(now, telemetry([before]), kind=kind, bytes=int(of_flow), rtt_ns=rtt)
        if n % STEPS == 0:
            found.append([flow.window_at(now) / CARRIES for flow in flows])
            if waits_us is not None:
                waits_us.append(waits / 1000)
    return found


def jain(of: Sequence[float]) -> float:
    """Return Jain's index."""
    return float(sum(of) ** 2 / (len(of) * sum(each**2 for each in of)))
