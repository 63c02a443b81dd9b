"""An algorithm of one's own in the kernel: the same steps there and natively. Root only.

bpf/cc_replay.bpf.c does a step at each run; BPF_PROG_TEST_RUN runs it as often as there are steps.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hostagent import kernel_headers
from hostagent.agent import (
    BPF_DIRECTORY,
    AgentError,
    Captured,
    VerifierRefusal,
    first_error,
    refusal,
)
from hostagent.bpf_test_run import test_run
from hostagent.own_algorithm.make import Built
from hostagent.own_algorithm.replay import Replay, Words

STATES, STEPS = 16384, 262144
"""As in bpf/cc_replay.bpf.c."""

Steps = npt.NDArray[np.void]


def step_type(algorithm: Replay) -> np.dtype[np.void]:
    """Return numpy's form of struct cc_step: its own fields, and those of its event."""
    found = _fields(algorithm, "struct cc_step", 0)
    names, formats, offsets = zip(*found, strict=True)
    size = algorithm.ffi.sizeof("struct cc_step")
    layout: Any = {"names": names, "formats": formats, "offsets": offsets, "itemsize": size}
    return cast("np.dtype[np.void]", np.dtype(layout))


def told_type(algorithm: Replay) -> np.dtype[np.void]:
    """Return numpy's form of struct cc_telemetry."""
    length = algorithm.ffi.typeof("struct cc_telemetry").fields[-1][1].type.length
    single = [(name, "u1") for name in ("format", "hops", "cut", "pad_")]
    return np.dtype([("bytes", "<u4"), *single, ("data", "u1", length)])


def _fields(algorithm: Replay, of: str, at: int) -> list[tuple[str, str, int]]:
    rows: list[tuple[str, str, int]] = []
    for name, field in algorithm.ffi.typeof(of).fields:
        if field.type.kind == "struct":
            rows += _fields(algorithm, field.type.cname, at + field.offset)
        elif name != "pad_":
            rows.append((name, f"<u{algorithm.ffi.sizeof(field.type)}", at + field.offset))
    return rows


def why_not() -> str:
    """Say why nothing can be loaded into the kernel here; empty: it can."""
    if os.geteuid() != 0:
        return "loading into the kernel takes root"
    try:
        import bcc  # noqa: F401 - a Debian package, which may be missing
    except ImportError as error:
        return f"{error}: install Debian's python3-bpfcc"
    return "" if kernel_headers.available() else "there are no kernel headers: make setup"


@dataclass
class InKernel:
    """The replay program of an algorithm, loaded, and its arrays."""

    program: int
    steps: Steps
    states: Words
    rates: Words
    next_step: npt.NDArray[np.uint32]
    told: Steps | None = None

    def replayed(self, steps: Steps, states: Words, told: Steps | None = None) -> Words:
        """Do steps on states, which are changed; return what rates they ask for.

        `told`: the telemetry of each step, where the program was loaded with room for it; none
        where its format is 0.
        """
        n = len(states)
        if self.told is not None:
            if told is None:
                self.told[: len(steps)] = np.zeros((), self.told.dtype)
            else:
                self.told[: len(told)] = told
        self.states[:n] = states
        self.steps[: len(steps)] = steps
        self.next_step[0] = 0
        test_run(self.program, bytes(64), repeat=len(steps))
        if self.next_step[0] != len(steps):
            raise AgentError(f"the kernel did {self.next_step[0]} of {len(steps)} steps")
        states[:] = self.states[:n]
        return self.rates[:n].copy()


@contextmanager
def in_kernel(built: Built, algorithm: Replay, *, telemetry: bool = False) -> Iterator[InKernel]:
    """Load the replay program with an algorithm of `built`.

    `telemetry`: with room for what comes with each step.

    Raises AgentError where nothing can be loaded or it does not compile, VerifierRefusal where the
    kernel refuses it.
    """
    why = why_not()
    if why:
        raise AgentError(why)
    kernel_headers.export()
    from bcc import BPF  # a Debian package, which may be missing

    flags = [f"-I{BPF_DIRECTORY}", f"-I{built.include}", f"-DALGORITHM={algorithm.name}"]
    flags += ["-DWITH_TELEMETRY"] if telemetry else []
    said = Captured()
    try:
        with said:
            bpf = BPF(src_file=str(BPF_DIRECTORY / "cc_replay.bpf.c").encode(), cflags=flags)
    except Exception:  # bcc raises bare Exception
        why = first_error(said.text)
        raise AgentError(f"it does not compile for the kernel: {why}") from None
    try:
        with said:
            program = bpf.load_func(b"cc_replay", BPF.XDP)
    except Exception:
        bpf.cleanup()
        raise VerifierRefusal(f"the kernel refuses it: {refusal(said.text)}", said.text) from None
    try:
        told = told_type(algorithm) if telemetry else None
        yield _mapped(bpf, program.fd, step_type(algorithm), algorithm.state_bytes(), told)
    finally:
        bpf.cleanup()


def _mapped(
    bpf: Any,
    program: int,
    step: np.dtype[np.void],
    state_bytes: int,
    told: np.dtype[np.void] | None,
) -> InKernel:
    def mapped(table: str, size: int) -> mmap.mmap:
        whole = (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE
        return mmap.mmap(bpf[table.encode()].map_fd, whole)

    words = STATES * state_bytes // 8
    states = np.frombuffer(mapped("states", 8 * words), np.uint64, words)
    return InKernel(
        program,
        np.frombuffer(mapped("steps", STEPS * step.itemsize), step, STEPS),
        states.reshape(STATES, -1),
        np.frombuffer(mapped("rates", STATES * 8), np.uint64, STATES),
        np.frombuffer(mapped("next_step", 4), np.uint32, 1),
        None if told is None else np.frombuffer(mapped("told", STEPS * told.itemsize), told, STEPS),
    )
