"""What needs no namespace: peaks, addresses, MTUs, and a driver that is built without libxdp."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from hostagent.rnic import build
from hostagent.rnic.card_records import Failure
from hostagent.rnic.client import EndpointClient, EndpointGone
from hostagent.rnic.endpoint_records import TaskState
from hostagent.rnic.interface import (
    InterfaceError,
    gateway_of,
    largest_mtu,
    mac_number,
    mac_text,
)
from hostagent.rnic.measurement import peak_bps, sums
from softswitch.core.extension import WARNINGS

MICROSECOND = 1000


def times(*values: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(values, np.uint64) * MICROSECOND


@pytest.mark.parametrize(
    ("posts", "ends", "messages", "microseconds"),
    [
        ((0,), (10,), 1, 10),
        # One at a time, the last one fast: it alone is the best run.
        ((0, 10, 20), (10, 20, 25), 1, 5),
        # Posted at once: a run begins with its first post, whatever was completed before.
        ((0, 0, 0, 0), (10, 11, 12, 13), 4, 13),
        # Two queue pairs, their lists one behind the other.
        ((0, 100, 50, 150), (45, 145, 90, 200), 1, 40),
        # What was posted and never completed does not count.
        ((0, 0, 0), (8, 10), 2, 10),
    ],
)
def test_the_peak_is_the_best_run(
    posts: tuple[int, ...], ends: tuple[int, ...], messages: int, microseconds: int
) -> None:
    wanted = messages * 1000 * 8 * 10**9 // (microseconds * MICROSECOND)
    assert peak_bps(times(*posts), times(*ends), 1000) == wanted


def test_nothing_completed_has_no_peak() -> None:
    assert peak_bps(times(0), times(), 1000) == 0


def test_the_peak_of_a_long_even_measurement_is_its_average() -> None:
    ends = np.arange(1, 100_001, dtype=np.uint64) * MICROSECOND
    posts = ends - np.uint64(MICROSECOND)
    assert peak_bps(posts, ends, 125) == pytest.approx(10**9, rel=1e-3)


def test_sums_are_over_all_queue_pairs() -> None:
    states = [
        TaskState(2, 2, 0, 4000, True, Failure.NONE, times(0, 2), times(2, 4)),
        TaskState(2, 1, 1000, 8000, True, Failure.RETRY_EXCEEDED, times(1, 1), times(8)),
    ]
    found = sums(states, 1000, ends=True)
    assert (found["messages"], found["bytes"], found["elapsed_ns"]) == (3, 3000, 8000)
    assert found["average_bps"] == 3 * 10**9
    assert found["messages_per_s"] == 3 * 10**9 / 8000


def test_addresses_are_read_and_written() -> None:
    assert mac_number("02:00:00:00:01:0f") == 0x02000000010F
    assert mac_text(0x02000000010F) == "02:00:00:00:01:0f"
    with pytest.raises(ValueError, match="no MAC address"):
        mac_number("02:00")


def test_the_largest_mtu_fits_the_interface() -> None:
    assert largest_mtu("lo") == 2048
    assert gateway_of("lo") is None
    with pytest.raises(InterfaceError, match="there is no interface weft-none here"):
        largest_mtu("weft-none")


@pytest.mark.parametrize("define", [[], ["-DRNIC_HAVE_XDP"]])
def test_the_driver_compiles_with_and_without_libxdp(define: list[str], tmp_path: Path) -> None:
    if define and not build.has_xdp():
        pytest.skip("libxdp-dev is not installed")
    for source in sorted(build.DRIVER.glob("*.c")):
        include = [f"-I{path}" for path in (build.SHARED, build.CORE, build.DRIVER)]
        command = ["gcc", *WARNINGS, *include, *define, "-fsyntax-only", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_no_daemon_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(EndpointGone, match=r"no endpoint at .*/nobody: No such file"):
        EndpointClient.connect(tmp_path / "nobody", timeout_s=0)
