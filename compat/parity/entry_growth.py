"""Entries that lead packets further, found by trying.

By chance a packet passes one table, hardly ever ten in a row. So entries grow where packets are: a
table that missed gets entries for the very keys that were looked up there, entries that packets
end at get another action, and a change stays when the packets together then meet more of the
program. Packets grow too: those that got far are varied, in place of those that did not.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from compat.parity.cases import Json, Round
from compat.parity.coverage import TableKey, Watched, marks_of
from compat.parity.entries import MOST_PRIORITY, EntryMaker
from compat.parity.packets import Made, PacketMaker
from compat.parity.targets import Environment, InProcess
from softswitch.p4runtime.schema import Scope

TRIAL_PACKETS = 32
STARTS = 3
GENERATIONS, STEPS = 4, 6
"""Sets of packets, and changes of the entries that are tried with each."""
ATTEMPTS = 3
"""With new entries, as long as nothing comes out of any packet."""
ANSWER = 3
"""An answered packet's worth, in branches that only it takes."""
NEW_ENTRIES = 3
"""For each table that missed, in one step."""
ENTRIES_OF_A_TABLE = 24


@dataclass(frozen=True)
class _Grown:
    """Entries, packets, and what these meet with those."""

    setup: tuple[Json, ...]
    trial: Sequence[Made]
    watched: Sequence[Watched]

    @property
    def score(self) -> float:
        """How much of the program is met; a little more for packets that hit or are answered."""
        hits = sum(len(one.keys) - len(one.missed) for one in self.watched)
        answered = sum(one.answered for one in self.watched)
        share = (hits / 8 + answered) / max(1, len(self.watched))
        return len(marks_of(self.watched)) + 4 * share


class Growth:
    """One round's entries, and packets that get far with them."""

    def __init__(
        self, switch: InProcess, entries: EntryMaker, packets: PacketMaker, rng: random.Random
    ) -> None:
        self.switch = switch
        self.entries = entries
        self.packets = packets
        self.rng = rng
        self._tables = {table.name: table for table in switch.prepared.schema.tables.values()}

    def run(self, given: tuple[Json, ...] | None) -> tuple[tuple[Json, ...], list[Made]]:
        """Return the entries (those that are `given` stay as they are), and the packets, the best
        last.
        """
        grown = self._grown(given)
        for _ in range(ATTEMPTS - 1):
            if any(one.answered for one in grown.watched):
                break
            other = self._grown(given)
            if any(one.answered for one in other.watched) or other.score > grown.score:
                grown = other
        return grown.setup, [grown.trial[n] for n in _by_reach(grown.watched)]

    def _grown(self, given: tuple[Json, ...] | None) -> _Grown:
        trial = [self.packets.made() for _ in range(TRIAL_PACKETS)]
        starts = [given] if given is not None else [self.entries.setup() for _ in range(STARTS)]
        best = max((self._tried(setup, trial) for setup in starts), key=lambda one: one.score)
        for generation in range(GENERATIONS):
            if self._is_all(best.watched):
                break
            if generation:
                best = self._tried(best.setup, self._varied(best))
            for _ in range(STEPS if given is None else 0):
                changed = self._changed(best.setup, best.watched)
                if changed != best.setup:
                    tried = self._tried(changed, best.trial)
                    best = tried if tried.score >= best.score else best
        return best

    def _tried(self, setup: tuple[Json, ...], trial: Sequence[Made]) -> _Grown:
        packets = tuple(made.packet for made in trial)
        return _Grown(setup, trial, self.switch.watch(Round(setup, packets)))

    def _is_all(self, watched: Sequence[Watched]) -> bool:
        """Return whether every table of the program was hit, each with all actions that entries
        have.
        """
        met = {mark for mark in marks_of(watched) if mark[0] == "table"}
        return all(
            ("table", table.name, True, ref.action.name) in met
            for table in self._tables.values()
            for ref in table.actions.values()
            if table.fields and ref.scope is not Scope.DEFAULT_ONLY
        )

    # --- entries --------------------------------------------------------------------------------

    def _changed(self, setup: tuple[Json, ...], watched: Sequence[Watched]) -> tuple[Json, ...]:
        rng = self.rng
        updates = list(setup)
        if rng.random() < 0.6:
            updates += self._for_misses(setup, watched)
        if rng.random() < 0.7 or len(updates) == len(setup):
            ended = {key[0] for one in watched if not one.answered for key in one.keys}
            open_ = [n for n, update in enumerate(updates) if _table_of(update) in {*ended, None}]
            for number in rng.sample(open_, min(len(open_), rng.choice([1, 1, 2, 4]))):
                updates[number] = self.entries.otherwise(updates[number])
        return tuple(updates)

    def _for_misses(self, setup: tuple[Json, ...], watched: Sequence[Watched]) -> list[Json]:
        """Make entries for some of the keys that were looked up in vain."""
        keys: dict[str, list[tuple[int, ...]]] = {}
        for name, key in sorted(set[TableKey]().union(*(one.missed for one in watched))):
            keys.setdefault(name, []).append(key)
        bodies = [update["table_entry"] for update in setup if "table_entry" in update]
        new: list[Json] = []
        for name, missed in keys.items():
            table = self._tables.get(name)  # p4c's own tables are none of P4Runtime's
            if table is None:
                continue
            own = [body for body in bodies if body["table"] == name and not body.get("default")]
            there = {str(body["match"]) for body in own}
            free = set(range(1, MOST_PRIORITY)) - {body.get("priority") for body in own}
            room = min(NEW_ENTRIES, (table.size or ENTRIES_OF_A_TABLE) - len(own))
            if len(own) >= ENTRIES_OF_A_TABLE or room <= 0:
                continue
            priorities = self.rng.sample(sorted(free), room)
            chosen = self.rng.sample(missed, min(room, len(missed)))
            for priority, key in zip(priorities, chosen, strict=False):
                update = self.entries.entry(table, priority, key)
                if update is not None and str(update["table_entry"]["match"]) not in there:
                    there.add(str(update["table_entry"]["match"]))
                    new.append(update)
        return new

    # --- packets --------------------------------------------------------------------------------

    def _varied(self, grown: _Grown) -> list[Made]:
        """Return the packets that got furthest, variations of them, and some new ones."""
        reach = _by_reach(grown.watched)
        kept = [grown.trial[n] for n in reach[len(reach) // 2 :]]
        wanted = TRIAL_PACKETS - len(kept)
        made = kept + [
            self.packets.varied(self.rng.choice(kept)) if number % 2 else self.packets.made()
            for number in range(wanted)
        ]
        packets = tuple(one.packet for one in made)
        undefined = self.switch.run_in(
            Environment(), Round(grown.setup, packets), cells=False
        ).undefined
        return [one for number, one in enumerate(made) if number not in undefined] or made


def _by_reach(watched: Sequence[Watched]) -> list[int]:
    """Return the packets' numbers, least useful first.

    Last come those that reach what few others do.
    """
    seldom: dict[object, int] = {}
    for one in watched:
        for mark in one.marks:
            seldom[mark] = seldom.get(mark, 0) + 1
    worth = [sum(1 / seldom[mark] for mark in one.marks) + ANSWER * one.answered for one in watched]
    return sorted(range(len(watched)), key=lambda number: worth[number])


def _table_of(update: Json) -> str | None:
    """Return the table of an update; None for a profile's members, which serve any."""
    if "table_entry" in update:
        return str(update["table_entry"]["table"])
    return None if "action_profile_member" in update else ""
