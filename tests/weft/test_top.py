"""`weft top`: rows, figures, and the command against switches that run."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import topologies
from emulation import run_state, teardown
from emulation.fabric_record import FabricRecord
from emulation.run_state import Run
from mechanisms.fast_cnp.counters import FAST_CNPS
from mechanisms.fast_cnp.parameters import FastCnp
from observe import top_rows
from observe.errors import UsageError
from observe.follow import Moment
from observe.interval import interval_seconds
from observe.moment_json import moment_json
from observe.samples import PortRates, PortSample, SwitchRates, SwitchSample
from observe.top_rows import AnyOrder, Order, order_name, order_of
from topologies.extensions import Settings
from weft import cli, top

REPOSITORY = Path(cli.__file__).resolve().parent.parent
PATIENCE_S = 60.0

RECORD = FabricRecord(
    "w0001", "softswitch", topologies.load("leafspine"), {f"s{n}": f"a:{n}" for n in (1, 2, 3, 4)}
)
QUIET = PortSample(0, 0, 0, 0, 40_000_000, queue_bytes=0, queue_packets_max=0, marked_packets=0)
BUSY = PortSample(
    9, 900, 8, 800, 40_000_000, queue_bytes=500_000, queue_limit_bytes=1_000_000,
    queue_packets_max=58, marked_packets=7, drops={"queue": 12}, up=False,
)  # fmt: skip
MOMENT = Moment(
    RECORD,
    at=0.0,
    sample={
        "s1": SwitchSample(
            0, {1: QUIET, 2: QUIET, 3: BUSY, 4: QUIET}, {"no_route": 4, "egress": 9}
        ),
        "s2": SwitchSample(0, dict.fromkeys((1, 2, 3, 4), QUIET)),
        "s3": SwitchSample(0, {1: QUIET, 2: QUIET}),
        "s4": SwitchSample(0, error="no switch answers on a:4"),
    },
    rates={
        "s1": SwitchRates(
            {
                1: PortRates(rx_bps=1e6, rx_pps=100, rx_load=0.025),
                3: PortRates(tx_bps=33.7e6, tx_pps=2808, tx_load=0.91, drops_ps=3, marks_ps=1500),
            },
            {"no_route": 2.0},
        )
    },
    read_seconds=0.01,
)


@pytest.mark.parametrize(
    ("only", "ports"),
    [
        ([], "s1:1 s1:2 s1:3 s1:4 s2:1 s2:2 s2:3 s2:4 s3:1 s3:2"),
        (["s1"], "s1:1 s1:2 s1:3 s1:4 s3:1"),
        (["h1"], "s1:1"),
        (["s1:3"], "s1:3 s3:1"),
        (["h1", "h4"], "s1:1 s2:2"),
        (["s4"], "s1:4 s2:4"),
    ],
)
def test_ports_by_what_is_named(only: list[str], ports: str) -> None:
    assert [row.name for row in top_rows.port_rows(MOMENT, only)] == ports.split()


@pytest.mark.parametrize(
    ("order", "first"),
    [
        (Order.NAME, "s1:1"), (Order.LOAD, "s1:3"), (Order.RX, "s1:1"), (Order.TX, "s1:3"),
        (Order.QUEUE, "s1:3"), (Order.DROPS, "s1:3"), (Order.MARKS, "s1:3"),
    ],
)  # fmt: skip
def test_ports_in_order(order: Order, first: str) -> None:
    assert order_of(order.value) is order
    assert top_rows.port_rows(MOMENT, (), order)[0].name == first


@pytest.mark.parametrize("order", [*Order, FAST_CNPS])
def test_an_order_is_said_by_its_name(order: AnyOrder) -> None:
    assert order_of(order_name(order)) is order


def test_an_order_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--sort fast_cnps: choose one of name, .*, fast-cnps"):
        order_of("fast_cnps")


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match=r"leafspine has no 's9'.*h1, h2, h3, h4, s1, s2, s3, s4"):
        top_rows.port_rows(MOMENT, ["s9"])


def test_figures_of_a_port() -> None:
    rows = {row.name: row for row in top_rows.port_rows(MOMENT)}
    leafspine = RECORD.topology
    columns = top_rows.columns(leafspine)
    busy = dict(zip(columns, top_rows.cells(rows["s1:3"], leafspine), strict=True))
    assert busy == {
        "port": "s1:3", "to": "s3:1 (down)", "rx b/s": "-", "tx b/s": "33.7 M", "fabric rx": "-",
        "fabric tx": "337 G", "rx p/s": "-", "tx p/s": "2.8 k", "load": "91%",
        "queue": "500 kB 50%", "max": "58 p", "drops": "12 +3/s", "marks": "7 +1.5 k/s",
    }  # fmt: skip
    quiet = top_rows.cells(rows["s3:2"], leafspine)
    assert quiet == ["s3:2", "s2:3", *["-"] * 8, "0 p", "-", "-"]
    real = replace(leafspine, time_scale=1)
    assert (
        len(top_rows.columns(real)) == len(top_rows.cells(rows["s3:2"], real)) == len(columns) - 2
    )
    unknown = top_rows.PortRow("s1", 1, "h1", PortSample(0, 0, 0, 0, 0), PortRates())
    assert top_rows.cells(unknown, real)[-4:] == ["?", "?", "-", "?"]


def test_a_port_that_a_mechanism_found_dead_says_so() -> None:
    fabric = topologies.loads(
        """
        time_scale: 10000
        generator: leaf_spine
        spines: 2
        leaves: 2
        hosts_per_leaf: 1
        link: {rate: 400Gbps, delay: 500ns, queue: 1MB}
        dpfr: true
        """
    )

    def peer(up: bool = True, **counts: int) -> str:
        sample = replace(QUIET, up=up, counters={"dpfr": counts})
        return top_rows.cells(top_rows.PortRow("s1", 2, "s3:1", sample, PortRates()), fabric)[1]

    assert peer(went_down=2, came_up=1) == "s3:1 (dead)"
    assert peer(went_down=2, came_up=2) == "s3:1"
    assert peer(degraded=1) == "s3:1 (avoided)"
    assert peer(lost_carrier=1) == "s3:1 (no carrier)"
    assert peer(up=False, went_down=1) == "s3:1 (down)"


def test_fast_cnps_have_a_column_where_a_class_has_them() -> None:
    settings = Settings.of(fast_cnp=FastCnp())
    classes = tuple(replace(each, settings=settings) for each in RECORD.topology.classes)
    fast = replace(RECORD.topology, classes=classes)
    assert top_rows.columns(fast) == [*top_rows.columns(RECORD.topology), "fast CNPs"]

    def shown(fast_cnps: dict[str, int], per_second: float = 0.0) -> str:
        sample = replace(QUIET, counters={"fast_cnps": fast_cnps})
        rates = PortRates(counters={"fast_cnps": {"sent": per_second, "interval": 5.0}})
        return top_rows.cells(top_rows.PortRow("s1", 1, "h1", sample, rates), fast)[-1]

    assert shown({"sent": 12, "interval": 340}, 3) == "12 +3/s"
    assert shown({"sent": 0, "interval": 340}) == "-"
    assert shown({}) == "?"
    moment = replace(
        MOMENT,
        record=replace(RECORD, topology=fast),
        sample={
            "s1": SwitchSample(
                0, {1: QUIET, 2: replace(QUIET, counters={"fast_cnps": {"sent": 2}})}
            )
        },
    )
    assert top_rows.port_rows(moment, (), order_of("fast-cnps"))[0].name == "s1:2"
    screen = Console(width=200, height=20, record=True, file=io.StringIO())
    screen.print(top.picture(moment, [], Order.NAME, 200, 20))
    assert re.search(r"marks +fast CNPs", screen.export_text())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "-"), (1, "1"), (0.4, "0.4"), (99.96, "100"), (999.4, "999"), (999.5, "1.0 k"),
        (40_000_000, "40.0 M"), (337e9, "337 G"), (1.6e12, "1.6 T"), (4e18, "4000 P"),
    ],
)  # fmt: skip
def test_numbers_have_three_figures_and_a_prefix(value: float, text: str) -> None:
    assert top_rows.scaled(value) == text


def test_switches_with_something_to_tell() -> None:
    rows = top_rows.port_rows(MOMENT)
    assert top.switch_lines(MOMENT, rows, []) == [
        "s1: dropped inside: egress 9, no_route 4 +2/s",
        "s4: can't be read: no switch answers on a:4",
    ]
    only = ["s3"]
    assert top.switch_lines(MOMENT, top_rows.port_rows(MOMENT, only), only) == [
        "s1: dropped inside: egress 9, no_route 4 +2/s"
    ]


@pytest.mark.parametrize(
    ("text", "says"), [("1", "has no unit"), ("10ms", "at least 0.1 s"), ("soon", "not a duration")]
)
def test_intervals_that_cannot_be(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        interval_seconds(text)
    assert interval_seconds("250ms") == 0.25


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FabricRecord]:
    """Yield a switch of ours without interfaces, on record as a run of this process."""
    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path / "run"))
    monkeypatch.setenv(run_state.LOG_ROOT_VARIABLE, str(tmp_path / "log"))
    topology = topologies.load("single")
    ready = tmp_path / "ready"
    with (tmp_path / "log.txt").open("wb") as log:
        switch = subprocess.Popen(
            [sys.executable, "-m", "softswitch", "--no-p4", "--device-id", "1",
             "--", "--grpc-server-addr", "127.0.0.1:0", "--ready-file", str(ready)],
            cwd=REPOSITORY, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not ready.exists():
            assert time.monotonic() < deadline and switch.poll() is None
            time.sleep(0.01)
        lock, _ = teardown.claim()
        run = Run.start(lock, topology.name)
        record = FabricRecord(run.name, "softswitch", topology, {"s1": _address(ready)})
        record.save()
        yield record
        teardown.remove(run.record)
        run.finish()
    finally:
        switch.kill()
        switch.wait()


def _address(ready: Path) -> str:
    return ready.read_text().split()[1]


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "weft.cli", "top", *arguments],
        cwd=REPOSITORY, env=dict(os.environ), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_one_look_as_json(up: FabricRecord) -> None:
    out, err = start("--once", "--json", "--interval", "100ms").communicate(timeout=PATIENCE_S)
    assert err == ""
    told: dict[str, Any] = json.loads(out)
    assert (told["run"], told["runtime"], told["time_scale"]) == (up.run, "softswitch", 10000)
    assert sorted(told["switches"]["s1"]["ports"]) == ["1", "2", "3", "4"]
    assert told["switches"]["s1"]["error"] == ""
    assert told["switches"]["s1"]["cpu"] is not None


def test_not_a_terminal_gets_plain_text_until_ctrl_c(up: FabricRecord) -> None:
    process = start("--interval", "100ms", "h1")
    assert process.stdout is not None
    seen = ""
    while seen.count("single, run") < 2:  # the second look: it goes on
        line = process.stdout.readline()
        assert line
        seen += line
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, "")
    assert f"run {up.run}; runtime softswitch, real time; time_scale 10000" in seen
    assert "s1:1" in seen + out
    assert "s1:2" not in seen + out
    assert "\033" not in seen + out


def test_the_end_of_the_run_ends_it(up: FabricRecord) -> None:
    process = start("--interval", "100ms", "--json")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["run"] == up.run
    lock = run_state.run_root() / "lock"
    text = lock.read_text()
    lock.write_text("")
    _, err = process.communicate(timeout=PATIENCE_S)
    lock.write_text(text)
    assert (process.returncode, err) == (0, f"run {up.run} has ended\n")


def test_no_run_is_an_error_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path / "run"))
    process = start("--once")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (1, "")
    assert err.splitlines() == [
        "error: no run is up",
        "remedy: start one in another terminal: make run-topo CLI=1",
    ]


@pytest.mark.parametrize("width", [60, 80, 100, 120, 140])
def test_a_terminal_gets_one_picture_that_fits(width: int) -> None:
    console = Console(width=width, height=12)
    with console.capture() as capture:
        console.print(top.picture(MOMENT, [], Order.LOAD, console.width, console.height))
    lines = capture.get().splitlines()
    assert len(lines) <= console.height
    assert "leafspine, run w0001" in lines[0]
    assert lines[1].split()[:2] == ["port", "to"]
    assert lines[3].startswith(" s1:3  s3:1 (down)  ")
    whole = ["fabric tx", "load", "queue", "drops"] if width >= 80 else ["load", "queue"]
    whole += ["marks"] if width >= 100 else []
    whole += top_rows.columns(RECORD.topology) if width >= 140 else []
    assert [name for name in whole if f" {name} " not in f"{lines[1]} "] == []
    assert any("more ports" in line for line in lines)
    assert lines[-1].startswith("sorted by load")


def test_a_fabric_of_planes_says_which_one_a_switch_belongs_to() -> None:
    topology = topologies.load("dualplane")
    record = FabricRecord("w0001", "softswitch", topology, {})
    sample = {name: SwitchSample(0, {1: QUIET}) for name in ("s1", "s3", "s8")}
    moment = Moment(record, at=0.0, sample=sample, rates={}, read_seconds=0.0)
    rows = top_rows.port_rows(moment)
    assert [row.plane for row in rows] == ["A", "B", "B"]
    columns = top_rows.columns(topology)
    for row in rows:
        cells = dict(zip(columns, top_rows.cells(row, topology), strict=True))
        assert cells["plane"] == row.plane
    told = moment_json(moment)["switches"]
    assert {name: each["plane"] for name, each in told.items()} == {"s1": "A", "s3": "B", "s8": "B"}


def test_a_fabric_without_planes_has_no_column_for_them() -> None:
    assert "plane" not in top_rows.columns(RECORD.topology)
    assert {row.plane for row in top_rows.port_rows(MOMENT)} == {None}
    assert {each["plane"] for each in moment_json(MOMENT)["switches"].values()} == {None}
