"""What a host's interface may send: no faster than its link, and all that its MTU allows."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from emulation import interface

pytestmark = pytest.mark.root

NAME = "pace0"


@pytest.fixture
def host() -> Iterator[int]:
    """Run a process in a namespace of its own, with one end of a veth that is up."""
    process = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "echo here; exec cat"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    process.stdout.readline()
    try:
        inside(process.pid, "ip", "link", "add", NAME, "type", "veth", "peer", "name", "pace1")
        for name in (NAME, "pace1"):
            inside(process.pid, "ip", "link", "set", name, "mtu", "9000", "up")
        yield process.pid
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def inside(pid: int, *command: str) -> str:
    entered = ["nsenter", f"--net=/proc/{pid}/ns/net", *command]
    return subprocess.run(entered, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("mtu", [1500, 9000])
def test_a_slow_link_takes_the_largest_packet(host: int, mtu: int) -> None:
    if not interface.limit_rate(NAME, host, 40_000_000, 1_000_000, mtu):
        pytest.skip("this kernel has no tbf")
    script = (
        "import socket; tx = socket.socket(socket.AF_PACKET, socket.SOCK_RAW);"
        f"tx.bind(({NAME!r}, 0)); tx.send(bytes([255] * 6 + [2] * 6 + [8, 0]) + bytes({mtu}))"
    )
    inside(host, "/usr/bin/python3", "-c", script)
    shown = json.loads(inside(host, "tc", "-s", "-j", "qdisc", "show", "dev", NAME))
    (bucket,) = [each for each in shown if each["kind"] == "tbf"]
    assert bucket["drops"] == 0
    assert bucket["bytes"] + bucket["backlog"] >= mtu
