"""BPF_PROG_TEST_RUN: a loaded program on a packet of ours, without any interface.

    result = test_run(program_fd, frame)            # .action, .data
    test_run(program_fd, frame, repeat=1000)

Source: the kernel's `linux/bpf.h`, bpf(2) command BPF_PROG_TEST_RUN. Needs root.
"""

from __future__ import annotations

import ctypes
import enum
import struct
from dataclasses import dataclass

from hostagent.bpf_syscall import bpf

_BPF_PROG_TEST_RUN = 10
_ROOM = 512  # what a program may add to a packet
MIN_FRAME = 14
MAX_FRAME = 3500
"""The kernel takes what fits a page beside its own headers."""


class XdpAction(enum.IntEnum):
    """What an XDP program says (enum xdp_action)."""

    ABORTED = 0
    DROP = 1
    PASS = 2
    TX = 3
    REDIRECT = 4


@dataclass(frozen=True)
class RunResult:
    """The last run's verdict, the packet as it left it, and a run's mean duration."""

    action: XdpAction
    data: bytes
    duration_ns: int


def test_run(program: int, frame: bytes, *, repeat: int = 1) -> RunResult:
    """Run the XDP program with this descriptor on a frame. Raises OSError, ValueError."""
    if not MIN_FRAME <= len(frame) <= MAX_FRAME:
        raise ValueError(f"a frame of {len(frame)} bytes: {MIN_FRAME} to {MAX_FRAME} are possible")
    given = ctypes.create_string_buffer(frame, len(frame))
    room = ctypes.create_string_buffer(len(frame) + _ROOM)
    # prog_fd, retval, data_size_in, data_size_out, data_in, data_out, repeat, duration
    attributes = struct.pack(
        "<IIIIQQII",
        program,
        0,
        len(frame),
        len(room),
        ctypes.addressof(given),
        ctypes.addressof(room),
        repeat,
        0,
    )
    _, after = bpf(_BPF_PROG_TEST_RUN, attributes)
    _, action, _, size, _, _, _, duration = struct.unpack("<IIIIQQII", after)
    return RunResult(XdpAction(action), room.raw[:size], duration)


test_run.__test__ = False  # type: ignore[attr-defined]  # no test, whatever its name begins with
