"""What switches follow and hold of plans, and what they lack to follow another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.entries import TableEntry
from controller.jobs import DeclaredJob
from controller.parts import LearnedEntry
from mechanisms.iglb.followed import Followed
from mechanisms.iglb.pins import NO_PINS, Key, Pins, SwitchPins, entries, entries_of
from mechanisms.iglb.plan import Plan

AT_ONCE = 1000
"""Updates that one switch gets in a step, before what else waits for it has its turn."""

Part = Mapping[str, tuple[LearnedEntry, ...]]


@dataclass(frozen=True)
class InForce:
    """What switches follow. `version` 0: nothing."""

    version: int = 0
    followed: Followed | None = None
    pins: Pins = NO_PINS

    @property
    def plan(self) -> Plan | None:
        """The plan that it comes from."""
        return None if self.followed is None else self.followed.plan

    @property
    def jobs(self) -> tuple[DeclaredJob, ...]:
        """Those that it is for."""
        return () if self.plan is None else tuple(self.plan.jobs)

    def keys(self) -> dict[str, set[Key]]:
        """Return those of its pins, by switch."""
        return {
            switch: {(self.version, flow) for flow in each}
            for switch, each in self.pins.of_all().items()
        }

    def filled(self, new: InForce) -> tuple[list[Part], dict[str, set[Key]]]:
        """Return what is to be written before switches can follow `new`, and all keys then.

        Behind leaves each version gets the pins of both. In parts of AT_ONCE entries a switch.
        """
        fill: dict[str, list[LearnedEntry]] = {}
        keys: dict[str, set[Key]] = {}
        for switch in sorted(new.pins.switches | self.pins.switches):
            pins = {**self.pins.further.get(switch, {}), **new.pins.at(switch)}
            there = self.pins.at(switch)
            more = new.pins.further.get(switch, {}) if self.version else {}
            also = {flow: port for flow, port in more.items() if flow not in there}
            fill[switch] = [*entries(self.version, also), *entries(new.version, pins)]
            keys[switch] = {(self.version, flow) for flow in (*there, *also)}
            keys[switch] |= {(new.version, flow) for flow in pins}
        longest = max(map(len, fill.values()), default=0)
        parts: list[Part] = [
            {switch: tuple(each[at : at + AT_ONCE]) for switch, each in fill.items()}
            for at in range(0, longest, AT_ONCE)
        ]
        return parts, keys


class HeldPins:
    """The keys of all pins that switches may hold, by switch."""

    def __init__(self) -> None:
        self._keys: dict[str, set[Key]] = {}

    def add(self, keys: Mapping[str, set[Key]]) -> None:
        """Take notice that these are written."""
        for switch, each in keys.items():
            self._keys.setdefault(switch, set()).update(each)

    def put(self, version: int, pins: Mapping[str, SwitchPins]) -> Part:
        """Return the entries of pins that are to be written now."""
        self.add({switch: {(version, flow) for flow in each} for switch, each in pins.items()})
        return {switch: tuple(entries(version, each)) for switch, each in pins.items()}

    def leave(self, wanted: Mapping[str, set[Key]]) -> dict[str, tuple[TableEntry, ...]]:
        """Return what switches hold that is not wanted, to be taken away from them now."""
        found = {switch: each - wanted.get(switch, set()) for switch, each in self._keys.items()}
        for switch, gone in found.items():
            self._keys[switch] -= gone
        return entries_of({switch: gone for switch, gone in found.items() if gone})
