"""The same steps by the header compiled natively, and that the kernel comes to the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hostagent.rnic.binding import native
from tests.hostagent.kernel_replay import STATES, Kernel, Words

Sequences = Callable[[np.random.Generator, int], tuple[Words, npt.NDArray[np.void]]]


@dataclass(frozen=True)
class Header:
    """An algorithm's C names: `struct` and `struct`_params, its first state, its replay."""

    struct: str
    begin: str
    replay: str

    def state_bytes(self) -> int:
        return int(native().ffi.sizeof(f"struct {self.struct}"))

    def fresh(self, params: Words) -> Words:
        """States as `begin` makes them, one a row of parameters."""
        module = native()
        states = np.zeros((len(params), self.state_bytes() // 8), np.uint64)
        array = module.ffi.from_buffer(f"struct {self.struct}[]", states.view(np.uint8).reshape(-1))
        rows = module.ffi.from_buffer(
            f"struct {self.struct}_params[]", params.view(np.uint8).reshape(-1)
        )
        for i in range(len(params)):
            getattr(module.lib, self.begin)(array + i, rows + i, 10**12)
        return states

    def replayed(self, steps: npt.NDArray[np.void], states: Words) -> Words:
        """Do the steps: states are changed, rates returned."""
        module = native()
        rates = np.zeros(len(states), np.uint64)
        getattr(module.lib, self.replay)(
            module.ffi.from_buffer("struct cc_step[]", steps.view(np.uint8)),
            len(steps),
            module.ffi.from_buffer(f"struct {self.struct}[]", states.view(np.uint8).reshape(-1)),
            module.ffi.from_buffer("uint64_t[]", rates),
        )
        return rates


@dataclass(frozen=True)
class Agreed:
    """What kernel and header came to alike: parameters, states and rates of some sequences."""

    params: Words
    states: Words
    rates: Words


def agreed(
    header: Header, kernel: Kernel, random: np.random.Generator, total: int, sequences: Sequences
) -> Iterator[Agreed]:
    """Play so many sequences both ways, batch by batch; fails where state or rate differ."""
    left = total
    while left > 0:
        n = min(left, STATES)
        params, steps = sequences(random, n)
        expected = header.fresh(params)
        states, said = kernel.play(steps, expected)
        rates = header.replayed(steps, expected)
        different = np.flatnonzero((states != expected).any(axis=1))
        assert not len(different), f"sequence {different[0]}: {params[different[0]]}"
        assert (said == rates).all()
        assert (rates >= np.minimum(params[:, 1], params[:, 0])).all()
        assert (rates <= params[:, 0]).all()
        yield Agreed(params, expected, rates)
        left -= n
