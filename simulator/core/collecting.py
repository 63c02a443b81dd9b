"""What packets collect on their way, as an engine's receivers keep it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from simulator.core.binding import Engine


class Collecting:
    """Which flows of one engine collect, and whose records are kept."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def begin(self, flows: Iterable[int]) -> None:
        """Let data of flows with a transport collect, whatever their congestion control wants.

        Raises EngineError: a READ, or a flow that shares its load over planes.
        """
        for flow in flows:
            self._engine.check(self._engine.lib.sim_collect(self._engine.pointer, flow))

    def collects(self, flow: int) -> bool:
        """Say whether a flow's data collects."""
        return bool(self._engine.lib.sim_collects(self._engine.pointer, flow))

    def record(self, flows: Sequence[int], every_ps: int, time_scale: int = 1) -> None:
        """Keep of each flow at most one packet's records in `every_ps`: once, behind `add_flows`.

        `time_scale`: how much slower than the fabric's the engine's time runs. Raises EngineError.
        """
        numbers = np.ascontiguousarray(flows, dtype=np.uint32)
        engine = self._engine
        array = engine.ffi.from_buffer("uint32_t[]", numbers) if len(numbers) else engine.ffi.NULL
        keep = engine.lib.sim_record_hops
        engine.check(keep(engine.pointer, array, len(numbers), every_ps, time_scale))

    def take(self) -> NDArray[Any]:
        """Return the rows of struct sim_hop_sample since the last call, at most 65 536."""
        return self._engine.samples("hop")
