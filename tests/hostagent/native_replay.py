"""The same steps by the header compiled natively, and that the kernel comes to the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hostagent.algorithms import names, pack
from hostagent.own_algorithm.replay import Replay, Words
from hostagent.rnic.native import native
from tests.hostagent.kernel_replay import STATES, Kernel

BEGINS = 10**12
Sequences = Callable[
    [np.random.Generator, int],
    tuple[Words, npt.NDArray[np.void]] | tuple[Words, npt.NDArray[np.void], npt.NDArray[np.void]],
]
"""Parameters, steps and, of a kernel that was loaded for it, the telemetry of each step."""


class Alone:
    """One algorithm natively, by itself: a state and what happens to it."""

    def __init__(self, name: str, state: Any) -> None:
        """`state`: a struct of it, which is copied."""
        module = native()
        self.ffi: Any = module.ffi
        self.lib: Any = module.lib
        self.name = name
        self.place = names().index(name)
        self.state = self.ffi.new(f"struct {name} *", state)

    @classmethod
    def begun(cls, name: str, fields: Mapping[str, int], now: int) -> Alone:
        """Create a fresh state with these parameters."""
        alone = cls(name, {})
        params = pack(alone.ffi, {name: fields})
        alone.lib.cc_start(alone.place, alone.state, alone.ffi.addressof(params, name), now)
        return alone

    def event(self, now: int, telemetry: Any = None, **event: int) -> None:
        """Something has happened: the fields of struct cc_event, and those of its telemetry."""
        step = self.ffi.new("struct cc_step *", {"now": now, "event": event})
        told = self.ffi.new("struct cc_telemetry *", telemetry) if telemetry else self.ffi.NULL
        self.lib.cc_replay(self.place, step, 1, told, self.state, self.ffi.NULL)

    def rate_at(self, now: int) -> int:
        """Return the allowed rate, in bits/s."""
        step = self.ffi.new("struct cc_step *", {"now": now, "asks": 1})
        rate = self.ffi.new("uint64_t *")
        self.lib.cc_replay(self.place, step, 1, self.ffi.NULL, self.state, rate)
        return int(rate[0])

    def window_at(self, now: int) -> int:
        """How many bytes may be on the way."""
        slot = self.ffi.new("struct cc_slot *", {"algorithms": 1 << self.place})
        setattr(slot, self.name, self.state[0])
        return int(self.lib.cc_window_now(slot, now))


def header(name: str) -> Replay:
    """Return an algorithm of the list as the installed card has it, on many states at once."""
    module = native()
    return Replay(name, module.ffi, module.lib)


@dataclass(frozen=True)
class Agreed:
    """What kernel and header came to alike: parameters, states and rates of some sequences."""

    params: Words
    states: Words
    rates: Words


def agreed(
    header: Replay, kernel: Kernel, random: np.random.Generator, total: int, sequences: Sequences
) -> Iterator[Agreed]:
    """Play so many sequences both ways, batch by batch; fails where state or rate differ."""
    left = total
    while left > 0:
        n = min(left, STATES)
        params, steps, *told = sequences(random, n)
        expected = header.fresh(params, BEGINS)
        states, said = kernel.play(steps, expected, *told)
        rates = header.replayed(steps, expected, *told)
        different = np.flatnonzero((states != expected).any(axis=1))
        assert not len(different), f"sequence {different[0]}: {params[different[0]]}"
        assert (said == rates).all()
        assert (rates >= np.minimum(params[:, 1], params[:, 0])).all()
        assert (rates <= params[:, 0]).all()
        yield Agreed(params, expected, rates)
        left -= n
