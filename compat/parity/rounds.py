"""Rounds that do something: of several sets of entries, and of many packets, the telling ones.

The in-process switch is fast enough to try more than are asked for, and to keep those that show
something new, many with an answer, and a share of the others.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from compat.parity.cases import PORTS, Json, Packet, Round
from compat.parity.coverage import Mark, Watched
from compat.parity.entries import EntryMaker
from compat.parity.entry_growth import Growth
from compat.parity.packets import PacketMaker
from compat.parity.targets import Environment, InProcess
from compat.parity.values import ProgramValues, RoundValues

SURPLUS = 4
"""Packets made for each one that is kept."""
ANSWERED_SHARE = 0.75
UNLIKE_RUNS = 3


class RoundMaker:
    """Makes the rounds of one program. The same seed and number give the same round."""

    def __init__(self, switch: InProcess, seed: int, entries: tuple[Json, ...] | None) -> None:
        """`entries`: the user's own; None: made here."""
        self.switch = switch
        self.seed = seed
        self.entries = entries
        self.known = ProgramValues(switch.prepared.program)

    def round(self, number: int, count: int) -> Round:
        """Make round `number`, of `count` packets.

        Fewer where the program leaves much undefined.
        """
        rng = random.Random(f"{self.seed} {number}")
        values = RoundValues(self.known, rng, PORTS)
        prepared = self.switch.prepared
        maker = PacketMaker(prepared, values, rng)
        growth = Growth(self.switch, EntryMaker(prepared, values, rng), maker, rng)
        setup, far = growth.run(self.entries)
        made = [one.packet for one in far]
        for turn in range(SURPLUS * count - len(far)):
            if turn % 2:  # the last ones got furthest
                one = far[max(rng.randrange(len(far)) for _ in range(2))]
                made.append(maker.varied(one).packet)
            else:
                made.append(maker.packet())
        made = self._kept(setup, made, Environment.varied(0))
        chosen = self._chosen(self.switch.watch(Round(setup, tuple(made))), count, rng)
        packets = [made[n] for n in sorted(chosen)]
        for run in range(UNLIKE_RUNS):
            packets = self._kept(setup, packets, Environment.varied(run))
        return Round(setup, tuple(packets))

    def _chosen(self, watched: Sequence[Watched], count: int, rng: random.Random) -> list[int]:
        """Choose packets that show something new each, then some of those with an answer, and
        others.
        """
        known: set[Mark] = set()
        telling = []
        for number in rng.sample(range(len(watched)), len(watched)):
            if not watched[number].marks <= known:
                known |= watched[number].marks
                telling.append(number)
        chosen = telling[:count]
        left = [n for n in range(len(watched)) if n not in set(chosen)]
        answered = [n for n in left if watched[n].answered]
        has = sum(watched[n].answered for n in chosen)
        wanted = max(0, round(ANSWERED_SHARE * count) - has)
        chosen += rng.sample(answered, min(len(answered), wanted, count - len(chosen)))
        for silent_only in (True, False):
            rest = sorted(set(left) - set(chosen))
            rest = [n for n in rest if not (silent_only and watched[n].answered)]
            chosen += rng.sample(rest, min(len(rest), count - len(chosen)))
        return chosen

    def _kept(
        self, setup: tuple[Json, ...], packets: list[Packet], environment: Environment
    ) -> list[Packet]:
        """Keep the packets whose outcome the program defines, as far as one run shows."""
        round_ = Round(setup, tuple(packets))
        undefined = self.switch.run_in(environment, round_, cells=False).undefined
        return [packet for number, packet in enumerate(packets) if number not in undefined]
