"""Looking at the fabric that is up, from a process of its own, run after run."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from emulation import fabric_record
from emulation.fabric_record import FabricRecord
from observe.flow_hops import NOTHING, HopsSeen, hops_seen
from observe.link_marks import read_marks
from observe.metrics_reader import FabricReader
from observe.samples import FabricSample, SwitchRates, rates

OWN_SWITCH = "softswitch"  # the runtime that has the side channel


@dataclass(frozen=True)
class Moment:
    """A fabric, what its switches counted, and the rates since the look before.

    `at`: seconds since the epoch. `rates` is empty at the first look at a run. `read_seconds`: how
    long reading took. `hops`: the paths of flows hop by hop, where packets say.
    """

    record: FabricRecord
    at: float
    sample: FabricSample
    rates: Mapping[str, SwitchRates]
    read_seconds: float
    hops: HopsSeen = NOTHING


class Follower:
    """Looks at whichever run is up. May be used by several threads; they look one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._record: FabricRecord | None = None
        self._reader: FabricReader | None = None
        self._latest: Moment | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all connections."""
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._record = self._reader = self._latest = None

    def forget(self) -> None:
        """Let the next look be a first one, without rates."""
        with self._lock:
            self._latest = None

    def look(self, *, at_most_s: float = 0.0) -> Moment:
        """Read all switches now. A look that is younger than `at_most_s` seconds is given again.

        Raises NoRunError when no fabric is up, StateError when its record is unreadable. A switch
        that can't be read says so in its sample.
        """
        with self._lock:
            latest = self._latest
            if latest is not None and time.time() - latest.at < at_most_s:
                return latest
            reader, record = self._attach()
            started = time.monotonic()
            sample = reader.sample()
            before = self._latest  # not another run's: attaching to a new one forgets it
            hops = hops_seen(record, sample, NOTHING if before is None else before.hops)
            took = time.monotonic() - started
            changes = rates(before.sample, sample) if before is not None else {}
            self._latest = Moment(record, time.time(), sample, changes, took, hops)
            return self._latest

    def marks(self) -> list[dict[str, Any]]:
        """Return whose flows take which links, as `observe.link_marks` has it."""
        return read_marks()

    def _attach(self) -> tuple[FabricReader, FabricRecord]:
        run = fabric_record.running_run()
        if self._record is None or self._reader is None or self._record.run != run:
            self._let_go()
            record = fabric_record.running()
            self._reader = FabricReader(
                record.topology, record.addresses, side_channel=record.runtime == OWN_SWITCH
            )
            self._record = record
        return self._reader, self._record
