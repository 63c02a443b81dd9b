"""Rounds that do something: of several sets of entries, and of many packets, the telling ones.

By chance most packets are dropped early. The in-process switch is fast enough to try more than are
asked for, and to keep those with an answer, and a share of the others.
"""

from __future__ import annotations

import random

from emulation.parity.cases import PORTS, Json, Packet, Round, Seen
from emulation.parity.entries import EntryMaker
from emulation.parity.packets import PacketMaker
from emulation.parity.targets import Endless, Environment, InProcess
from emulation.parity.values import ProgramValues, RoundValues

CANDIDATES = 6
TRIAL_PACKETS = 48
SURPLUS = 4
"""Packets made for each one that is kept."""
ANSWERED_SHARE = 0.75


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
        made, seen = self._run(setup, made)
        answered = [n for n, s in enumerate(seen) if s.count]
        silent = [n for n, s in enumerate(seen) if not s.count]
        wanted = min(len(answered), round(ANSWERED_SHARE * packets))
        chosen = rng.sample(answered, wanted)
        chosen += rng.sample(silent, min(len(silent), packets - wanted))
        rest = sorted(set(range(len(made))) - set(chosen))
        chosen += rng.sample(rest, min(len(rest), packets - len(chosen)))
        round_ = Round(setup, tuple(made[n] for n in sorted(chosen)))
        return Round(setup, tuple(self._run(setup, list(round_.packets))[0]))

    def _entries(self, rng: random.Random) -> tuple[RoundValues, tuple[Json, ...]]:
        best: tuple[int, RoundValues, tuple[Json, ...]] | None = None
        for _ in range(CANDIDATES):
            values = RoundValues(self.known, rng, PORTS)
            prepared = self.switch.prepared
            setup = self.entries
            if setup is None:
                setup = EntryMaker(prepared, values, rng).setup()
            maker = PacketMaker(prepared, values, rng)
            _, seen = self._run(setup, [maker.packet() for _ in range(TRIAL_PACKETS)])
            found = score(seen)
            if best is None or found > best[0]:
                best = found, values, setup
        assert best is not None
        return best[1], best[2]

    def _run(
        self, setup: tuple[Json, ...], packets: list[Packet]
    ) -> tuple[list[Packet], list[Seen]]:
        """Run packets; those that never leave the switch are taken out."""
        packets = list(packets)
        while True:
            try:
                return packets, self._seen(Round(setup, tuple(packets)))
            except Endless as endless:
                del packets[endless.number]

    def _seen(self, round_: Round) -> list[Seen]:
        return self.switch.run_in(Environment(), round_, cells=False).seen


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
