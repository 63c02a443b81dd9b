"""Reports of ports: a packet of the target's own comes in when a port loses or gets its carrier.

far2 ===veth=== near2 [port 2 | switch | CPU port] -> whoever reads the loop's events
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emulation.switch_node import SwitchSettings, Target
from softswitch.core import OutputKind
from softswitch.diagnostics import DiagnosticsClient
from softswitch.options import UsageError, parse
from softswitch.ticker_options import TICKER_PORT
from tests.softswitch.test_switch_daemon import GOLDEN, Running
from tests.softswitch.veth_rig import DEADLINE, in_namespace

CPU = 255
PACKET = "ffffffffffff020000000001 88b5 00000000"


def report(loop: Any) -> tuple[int, int]:
    """Return the next report, as (port, 1 for up or 0 for down)."""
    deadline = time.monotonic() + DEADLINE
    while True:
        assert time.monotonic() < deadline, "no report"
        for event in loop.wait_events(1.0):
            assert (event.kind, event.port) == (OutputKind.CPU, CPU)
            return int.from_bytes(event.data[-4:-2]), int.from_bytes(event.data[-2:])


@pytest.mark.root
@in_namespace
def test_a_port_is_reported_when_its_carrier_goes_and_comes(
    rig: Callable[..., Any], frame: Callable[..., bytes]
) -> None:
    """Whether the far end goes down or the near one."""
    with rig(ports=2, cpu_port=CPU) as r:
        with r.loop.locked() as core:
            core.report_ports(TICKER_PORT, frame(out=CPU, payload=bytes(4)))
        for name, port in (("far2", 2), ("near1", 1)):
            r.link(name, up=False)
            assert report(r.loop) == (port, 0)
            r.link(name, up=True)
            assert report(r.loop) == (port, 1)


@pytest.mark.root
@in_namespace
def test_a_port_that_is_down_already_is_reported_where_asked(
    rig: Callable[..., Any], frame: Callable[..., bytes]
) -> None:
    with rig(ports=2, cpu_port=CPU) as r:
        with r.loop.locked() as core:
            core.report_ports(TICKER_PORT, frame(out=CPU, payload=bytes(4)))
        r.link("far2", up=False)
        assert report(r.loop) == (2, 0)
        with r.loop.locked() as core:
            core.report_down_ports()
        assert report(r.loop) == (2, 0)


def test_a_daemon_with_reports_has_the_port_that_they_come_in_by(tmp_path: Path) -> None:
    program = f"{GOLDEN}/l3.json --p4info {GOLDEN}/l3.p4info.txtpb"
    line = f"{program} -- --port-report packet={'00' * 60}".split()
    daemon = Running(tmp_path / "ready", tmp_path / "log", line)
    try:
        with DiagnosticsClient(daemon.address) as switch:
            assert switch.port_stats()[TICKER_PORT]["interface"] == ""
        assert daemon.end() == 0
    finally:
        daemon.process.kill()


def test_the_option_and_what_runs_the_daemon_agree(tmp_path: Path) -> None:
    packet = bytes.fromhex(PACKET)
    line = ["--no-p4", "--", "--port-report", f"packet={PACKET}"]
    assert parse(line).port_report == packet
    assert parse(["--no-p4"]).port_report == b""
    node = SwitchSettings(
        Target.SOFTSWITCH, 1, 9559, 9090, (), tmp_path / "log", tmp_path / "r", port_report=packet
    )
    command = node.command()
    assert parse(command[command.index("softswitch") + 1 :]).port_report == packet
    assert "--port-report" not in replace(node, target=Target.BMV2).command()


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("packet", "'packet' is not packet=HEX"),
        ("period=1ms", "'period=1ms' is not packet=HEX"),
        ("packet=0xff", "written in hex"),
        ("packet=fff", "two hex digits a byte, and these are 3"),
        ("packet=ff", "a packet has 14 to 128 bytes, .* not 1"),
        (f"packet={'00' * 129}", "a packet has 14 to 128 bytes, .* not 129"),
    ],
)
def test_a_wrong_packet_on_the_command_line(value: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse(["--no-p4", "--", "--port-report", value])


@pytest.mark.parametrize(
    "line", ["--no-p4 -i 509@veth0 --", "--no-p4 -- --cpu-port 509", "--no-p4 -- --drop-port 509"]
)
def test_the_port_is_nobody_elses(line: str) -> None:
    with pytest.raises(UsageError, match="--port-report uses port 509"):
        parse([*line.split(), "--port-report", f"packet={PACKET}"])
