"""Congestion control in the kernel on steps that a test gives: cc_replay.bpf.c and its arrays."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hostagent import kernel_headers
from hostagent.bpf_test_run import XdpAction, test_run
from hostagent.own_algorithm.replay import Words

STATES, STEPS = 16384, 262144
BPF = Path(__file__).parents[2] / "hostagent" / "bpf"
STEP = np.dtype(
    [
        ("now", "<u8"), ("kind", "u1"), ("severity", "u1"), ("validity", "u1"), ("path", "u1"),
        ("number", "<u4"), ("bytes", "<u8"), ("rtt_ns", "<u8"), ("lost_at", "<u8"),
        ("rate", "<u8"), ("drains_ns", "<u8"), ("state", "<u4"), ("asks", "<u4"),
    ]
)  # fmt: skip
"""struct cc_step."""
TELEMETRY = np.dtype(
    [
        ("bytes", "<u4"), ("format", "u1"), ("hops", "u1"), ("cut", "u1"), ("pad_", "u1"),
        ("data", "u1", 64),
    ]
)  # fmt: skip
"""struct cc_telemetry."""


@dataclass
class Kernel:
    """A replay program and its arrays, mapped."""

    program: int
    steps: npt.NDArray[np.void]
    states: Words
    rates: Words
    next_step: npt.NDArray[np.uint32]
    told: npt.NDArray[np.void]

    def give(
        self, steps: npt.NDArray[np.void], states: Words, told: npt.NDArray[np.void] | None = None
    ) -> None:
        """Write down what is to be done, and on what."""
        self.states[: len(states)] = states
        self.steps[: len(steps)] = steps
        if told is not None:
            self.told[: len(told)] = told
        self.next_step[0] = 0

    def run(self, steps: int) -> None:
        """Do so many of the steps."""
        result = test_run(self.program, bytes(64), repeat=steps)
        assert result.action is XdpAction.PASS
        assert self.next_step[0] == steps

    def play(
        self, steps: npt.NDArray[np.void], states: Words, told: npt.NDArray[np.void] | None = None
    ) -> tuple[Words, Words]:
        """Do all steps on a copy of the states; return these as they are then, and the rates."""
        self.give(steps, states, told)
        self.run(len(steps))
        return self.states[: len(states)], self.rates[: len(states)]


def _mapped(table: Any, size: int) -> mmap.mmap:
    return mmap.mmap(table.map_fd, (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE)


@contextmanager
def replay(algorithm: str, state_bytes: int, *, telemetry: bool = False) -> Iterator[Kernel]:
    """Load the program of an algorithm, whose state has so many bytes.

    `telemetry`: with room for what comes with each step.
    """
    bcc = pytest.importorskip("bcc")
    kernel_headers.export()
    flags = [f"-I{BPF}", f"-I{BPF.parent / 'include'}", f"-DALGORITHM={algorithm}"]
    flags += ["-DWITH_TELEMETRY"] if telemetry else []
    bpf = bcc.BPF(src_file=str(BPF / "cc_replay.bpf.c").encode(), cflags=flags)
    program = bpf.load_func(b"cc_replay", bcc.BPF.XDP)
    words = _mapped(bpf[b"states"], STATES * state_bytes)
    yield Kernel(
        program.fd,
        np.frombuffer(_mapped(bpf[b"steps"], STEPS * STEP.itemsize), STEP, STEPS),
        np.frombuffer(words, np.uint64, STATES * state_bytes // 8).reshape(STATES, -1),
        np.frombuffer(_mapped(bpf[b"rates"], STATES * 8), np.uint64, STATES),
        np.frombuffer(_mapped(bpf[b"next_step"], 8), np.uint32, 1),
        np.frombuffer(
            _mapped(bpf[b"told"], STEPS * TELEMETRY.itemsize) if telemetry else b"", TELEMETRY
        ),
    )
    bpf.cleanup()
