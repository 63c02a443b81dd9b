"""Rounds that do something: of several sets of entries, and of many packets, the telling ones.

By chance most packets are dropped early. The in-process switch is fast enough to try more than are
asked for, and to keep those with an answer, and a share of the others.
"""

from __future__ import annotations

import random

from emulation.parity.cases import PORTS, Answer, Json, Packet, Round, Seen
from emulation.parity.entries import EntryMaker
from emulation.parity.packets import PacketMaker
from emulation.parity.targets import Endless, Environment, InProcess
from emulation.parity.values import ProgramValues, RoundValues

CANDIDATES = 6
TRIAL_PACKETS = 48
SURPLUS = 4
"""Packets made for each one that is kept."""
ANSWERED_SHARE = 0.75
UNLIKE_RUNS = 3
DEFAULT = Environment()


class RoundMaker:
    """Makes the rounds of one program. The same seed and number give the same round."""

    def __init__(self, switch: InProcess, seed: int, entries: tuple[Json, ...] | None) -> None:
        """`entries`: the user's own; None: made here."""
        self.switch = switch
        self.seed = seed
        self.entries = entries
        self.known = ProgramValues(switch.prepared.program)

    def round(self, number: int, packets: int) -> Round:
        """Round `number`, with so many packets."""
        rng = random.Random(f"{self.seed} {number}")
        values, setup = self._entries(rng)
        maker = PacketMaker(self.switch.prepared, values, rng)
        made = [maker.packet() for _ in range(SURPLUS * packets)]
        # Twice: what has no defined outcome is not counted among the packets to choose from.
        made, answer = self._run(setup, made, Environment.varied(0))
        made, answer = self._run(
            setup, [p for n, p in enumerate(made) if n not in answer.undefined]
        )
        seen = answer.seen
        answered = [n for n, s in enumerate(seen) if s.count]
        silent = [n for n, s in enumerate(seen) if not s.count]
        wanted = min(len(answered), round(ANSWERED_SHARE * packets))
        chosen = rng.sample(answered, wanted)
        chosen += rng.sample(silent, min(len(silent), packets - wanted))
        rest = sorted(set(range(len(made))) - set(chosen))
        chosen += rng.sample(rest, min(len(rest), packets - len(chosen)))
        return self._defined(Round(setup, tuple(made[n] for n in sorted(chosen))))

    def _defined(self, round_: Round) -> Round:
        """The round without packets whose outcome the program leaves undefined."""
        for seed in range(UNLIKE_RUNS):
            packets, answer = self._run(
                round_.setup, list(round_.packets), Environment.varied(seed)
            )
            kept = [p for n, p in enumerate(packets) if n not in answer.undefined]
            round_ = Round(round_.setup, tuple(kept))
        return round_

    def _entries(self, rng: random.Random) -> tuple[RoundValues, tuple[Json, ...]]:
        best: tuple[int, RoundValues, tuple[Json, ...]] | None = None
        for _ in range(CANDIDATES):
            values = RoundValues(self.known, rng, PORTS)
            prepared = self.switch.prepared
            setup = self.entries
            if setup is None:
                setup = EntryMaker(prepared, values, rng).setup()
            maker = PacketMaker(prepared, values, rng)
            _, answer = self._run(setup, [maker.packet() for _ in range(TRIAL_PACKETS)])
            found = score(answer.seen)
            if best is None or found > best[0]:
                best = found, values, setup
        assert best is not None
        return best[1], best[2]

    def _run(
        self,
        setup: tuple[Json, ...],
        packets: list[Packet],
        environment: Environment = DEFAULT,
    ) -> tuple[list[Packet], Answer]:
        """Run packets; those that never leave the switch are taken out."""
        while True:
            try:
                round_ = Round(setup, tuple(packets))
                return packets, self.switch.run_in(environment, round_, cells=False)
            except Endless as endless:
                packets = [*packets[: endless.number], *packets[endless.number + 1 :]]


def score(seen: list[Seen]) -> int:
    """How telling a run was: kinds of answers count more than their number."""
    kinds = {
        (
            tuple((port, len(frames)) for port, frames in sorted(s.frames.items())),
            len(s.packet_ins),
            len(s.digests),
        )
        for s in seen
        if s.count
    }
    return 4 * len(kinds) + sum(1 for s in seen if s.count)
