"""Rounds that do something: of several sets of entries, and of many packets, the telling ones.

By chance most packets are dropped early. The in-process switch is fast enough to try more than are
asked for, and to keep those with an answer, and a share of the others.
"""

from __future__ import annotations

import random
from collections import defaultdict

from emulation.parity.cases import PORTS, Json, Packet, Round
from emulation.parity.entries import EntryMaker
from emulation.parity.packets import PacketMaker
from emulation.parity.targets import Environment, InProcess
from emulation.parity.values import ProgramValues, RoundValues

CHAINS = 2
CHAIN_LENGTH = 4
TRIAL_PACKETS = 40
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
        """Round `number`, of `count` packets; fewer where the program leaves much undefined."""
        rng = random.Random(f"{self.seed} {number}")
        values, setup = self._entries(rng)
        maker = PacketMaker(self.switch.prepared, values, rng)
        made = [maker.packet() for _ in range(SURPLUS * count)]
        made = self._kept(setup, made, Environment.varied(0))
        seen = self.switch.run_in(Environment(), Round(setup, tuple(made)), cells=False).seen
        answered = [n for n, s in enumerate(seen) if s.count]
        silent = [n for n, s in enumerate(seen) if not s.count]
        wanted = min(len(answered), round(ANSWERED_SHARE * count))
        chosen = rng.sample(answered, wanted)
        chosen += rng.sample(silent, min(len(silent), count - wanted))
        rest = sorted(set(range(len(made))) - set(chosen))
        chosen += rng.sample(rest, min(len(rest), count - len(chosen)))
        packets = [made[n] for n in sorted(chosen)]
        for run in range(UNLIKE_RUNS):
            packets = self._kept(setup, packets, Environment.varied(run))
        return Round(setup, tuple(packets))

    def _entries(self, rng: random.Random) -> tuple[RoundValues, tuple[Json, ...]]:
        """The set of entries that leads packets to the most places.

        What packets are looked up with is seen, and the next set has entries for it: so each set
        leads further into the program.
        """
        prepared = self.switch.prepared
        best: tuple[int, RoundValues, tuple[Json, ...]] | None = None
        for _ in range(CHAINS):
            values = RoundValues(self.known, rng, PORTS)
            met: dict[str, list[tuple[int, ...]]] = defaultdict(list)
            for _ in range(CHAIN_LENGTH):
                setup = self.entries
                if setup is None:
                    setup = EntryMaker(prepared, values, rng, met).setup()
                maker = PacketMaker(prepared, values, rng)
                trial = [maker.packet() for _ in range(TRIAL_PACKETS)]
                trial = self._kept(setup, trial, Environment())
                watched = self.switch.watch(Round(setup, tuple(trial)))
                for one in watched:
                    for table, key in one.keys:
                        met[table].append(key)
                found = len(frozenset[object]().union(*(one.marks for one in watched)))
                if best is None or found > best[0]:
                    best = found, values, setup
        assert best is not None
        return best[1], best[2]

    def _kept(
        self, setup: tuple[Json, ...], packets: list[Packet], environment: Environment
    ) -> list[Packet]:
        """The packets whose outcome the program defines, as far as one run tells."""
        round_ = Round(setup, tuple(packets))
        undefined = self.switch.run_in(environment, round_, cells=False).undefined
        return [packet for number, packet in enumerate(packets) if number not in undefined]
