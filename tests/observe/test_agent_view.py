"""`weft agent`: rows, figures, and the command on maps that are pinned."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import topologies
from emulation import run_state, teardown
from emulation.fabric_record import FabricRecord
from emulation.run_state import Run
from hostagent import agent, pins
from hostagent.notifications import Heard, HeardCounts
from hostagent.pinned_maps import PinnedMaps, Plane, Slot
from mechanisms.dcqcn.parameters import parameters
from observe import agent_rows, notification_rows
from observe.agent_look import Look, look_json
from weft import cli
from weft.agent import _View

NOW = 10_000_000_000

FABRIC = FabricRecord("w0001", "softswitch", topologies.load("leafspine"), {})
H1, H3 = 0x0A000101, 0x0A000201
CUT = Slot(
    number=0, local_ip=H1, qpn=256, peer_ip=H3, peer_qpn=257, algorithms=("dcqcn",),
    packets=1000, bytes=88_000, cnps=7, notified=0, marked=3, acks=900, naks=1,
    last_ns=NOW - 20_000_000, first_cut_at=NOW - 50_000_000, rate_bps=10_000_000,
    line_rate_bps=40_000_000, rates={"dcqcn": 10_000_000},
    states={"dcqcn": {"rate": 10_000_000, "target": 20_000_000, "alpha": 1 << 29, "limited": 1}},
)  # fmt: skip
IDLE = replace(
    CUT, number=1, qpn=258, algorithms=(), rate_bps=0, rates={}, states={}, last_ns=0,
    first_cut_at=0,
)  # fmt: skip
FAST = replace(
    CUT, algorithms=("dcqcn", "fast_cnp"), cnps=0, notified=12,
    rates={"dcqcn": 40_000_000, "fast_cnp": 10_000_000},
    states={"dcqcn": {"target": 20_000_000, "alpha": 1 << 32, "limited": 0}, "fast_cnp": {}},
)  # fmt: skip
ALONE = replace(
    FAST, algorithms=("fast_cnp",), rates={"fast_cnp": 10_000_000}, states={"fast_cnp": {}}
)


OF_PLANE = {"rate": 0, "down": 0, "ramping": 0, "losses": 0, "lost_at": 0}
UP = replace(
    CUT, number=4, qpn=9, algorithms=("dcqcn", "dual_plane"), rate_bps=40_000_000,
    rates={"dcqcn": 40_000_000, "dual_plane": 40_000_000},
    states={"dcqcn": CUT.states["dcqcn"], "dual_plane": OF_PLANE}, shared=4, planes=2,
)  # fmt: skip
RAMPING = replace(
    UP, number=2, local_ip=H1 + (1 << 16), peer_ip=H3 + (1 << 16), plane=1, rate_bps=2_500_000,
    rates={"dcqcn": 40_000_000, "dual_plane": 2_500_000}, lost_at=NOW - 300_000_000, probes=77,
    states=UP.states | {"dual_plane": OF_PLANE | {"ramping": 1, "losses": 3}},
)  # fmt: skip
DOWN = replace(
    RAMPING, rate_bps=100_000, rates={"dcqcn": 40_000_000, "dual_plane": 100_000},
    states=UP.states | {"dual_plane": OF_PLANE | {"down": 1, "losses": 3}},
)  # fmt: skip


def row(slot: Slot, scale: int = 10_000) -> dict[str, str]:
    names = agent_rows.names_of(FABRIC.topology)
    cells = agent_rows.cells(slot, names, scale, NOW, 1234.0)
    return dict(zip(agent_rows.COLUMNS, cells, strict=True))


def test_a_row_names_hosts_and_tells_the_fabrics_rates() -> None:
    told = row(CUT)
    assert (told["host"], told["QP"], told["peer"], told["its QP"]) == ("h1", "256", "h3", "257")
    assert (told["rate b/s"], told["of line"], told["target b/s"]) == ("100 G", "25%", "200 G")
    assert (told["alpha"], told["CNPs"], told["NAKs"]) == ("0.125", "7", "1")
    assert (told["packets/s"], told["last seen"]) == ("1.2 k", "20 ms")
    assert row(CUT, scale=1)["rate b/s"] == "10.0 M"


def test_a_row_of_fast_cnps() -> None:
    told = row(FAST)
    assert (told["rate b/s"], told["fast b/s"], told["of line"]) == ("100 G", "100 G", "25%")
    assert (told["CNPs"], told["fast CNPs"], told["alpha"]) == ("-", "12", "-")
    alone = row(ALONE)
    assert (alone["rate b/s"], alone["target b/s"]) == ("100 G", "-")
    assert row(CUT)["fast b/s"] == row(CUT)["fast CNPs"] == "-"


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ({"down": 0, "ramping": 0}, "up"),
        ({"down": 1, "ramping": 0}, "down"),
        ({"down": 0, "ramping": 1}, "ramp"),
    ],
)
def test_a_row_of_a_plane(state: dict[str, int], says: str) -> None:
    slot = replace(
        CUT,
        algorithms=("dual_plane",),
        rates={"dual_plane": 10_000_000},
        states={"dual_plane": {**state, "losses": 2}},
    )
    assert (row(slot)["plane"], row(slot)["plane b/s"]) == (says, "100 G")
    assert row(CUT)["plane"] == "-"
    (told,) = look_json(
        Look(FABRIC, 0.0, NOW, (slot,), {}, {}), agent_rows.names_of(FABRIC.topology)
    )["queue_pairs"]  # type: ignore[misc]
    assert (told["plane"], told["plane_losses"]) == (says, 2)


def test_a_queue_pair_that_nothing_limits_and_a_peer_of_nobody() -> None:
    told = row(replace(IDLE, peer_ip=0x7F000001))
    assert (told["rate b/s"], told["of line"], told["alpha"]) == ("no limit", "-", "-")
    assert (told["peer"], told["last seen"]) == ("127.0.0.1", "never")


def test_a_row_of_each_plane() -> None:
    up, ramping, down = row(UP), row(RAMPING), row(DOWN)
    assert (up["QP"], up["plane"], up["losses"], up["lost"]) == ("9:0", "up", "-", "-")
    assert (up["plane b/s"], up["rate b/s"], up["answers"]) == ("400 G", "400 G", "-")
    assert (ramping["QP"], ramping["plane"], ramping["losses"]) == ("9:1", "ramp", "3")
    assert (ramping["lost"], ramping["answers"]) == ("300 ms", "77")
    assert (ramping["plane b/s"], ramping["of line"]) == ("25.0 G", "6%")
    assert (down["plane"], down["plane b/s"]) == ("down", "1.0 G")


def test_planes_of_a_queue_pair_are_together_and_it_is_one() -> None:
    other = replace(CUT, number=7, local_ip=H1 + (1 << 16), qpn=5)
    last = replace(CUT, number=1, local_ip=H3)
    found = agent_rows.ordered([last, RAMPING, other, UP, CUT])
    assert [each.number for each in found] == [4, 2, 0, 1, 7]
    assert agent_rows.pairs(found) == 4


def test_json_of_planes() -> None:
    look = Look(FABRIC, 1.0, NOW, (UP, DOWN, CUT), {}, {})
    data: dict[str, Any] = json.loads(
        json.dumps(look_json(look, agent_rows.names_of(FABRIC.topology)))
    )
    up, down, none = data["queue_pairs"]
    assert (up["plane"], up["plane_number"], up["planes"], up["lost_s"]) == ("up", 0, 2, None)
    assert (down["plane"], down["plane_number"], down["first_number"]) == ("down", 1, 4)
    assert (down["plane_losses"], down["lost_s"], down["answers"]) == (3, 0.3, 77)
    assert (down["plane_rate_bps"], down["host"]) == (100_000, "10.1.1.1")
    assert (none["plane"], none["plane_number"], none["planes"], none["answers"]) == (
        None,
        None,
        0,
        None,
    )


@pytest.mark.parametrize("width", [60, 80, 140])
def test_a_terminal_gets_planes_that_fit(width: int) -> None:
    slots = tuple(replace(each, qpn=n) for n in range(9) for each in (UP, DOWN))
    look = Look(FABRIC, 0.0, NOW, slots, {"packets": 9}, {})
    view = _View(FABRIC, None, [], 1.0)  # type: ignore[arg-type]  # nothing is read
    console = Console(width=width, height=12)
    with console.capture() as capture:
        console.print(view.picture(look, console.width, console.height))
    lines = capture.get().splitlines()
    assert len(lines) <= console.height
    assert ("plane" in lines[1].split()) == (width >= 80)
    assert ({"lost", "losses", "answers"} <= set(lines[1].split())) == (width >= 140)
    assert any("12 more rows" in line for line in lines)


@pytest.mark.parametrize(
    ("ago_ns", "says"), [(1_500_000, "2 ms"), (5_000_000_000, "5 s"), (300_000_000_000, "5 min")]
)
def test_since_the_last_packet(ago_ns: int, says: str) -> None:
    assert agent_rows.since(replace(CUT, last_ns=1), ago_ns + 1) == says


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_a_terminal_gets_one_picture_that_fits(width: int) -> None:
    slots = tuple(replace(CUT, number=n, qpn=256 + n) for n in range(20))
    look = Look(FABRIC, 0.0, NOW, slots, {"packets": 9, "cnps": 7}, {})
    view = _View(FABRIC, None, [], 1.0)  # type: ignore[arg-type]  # nothing is read
    console = Console(width=width, height=12)
    with console.capture() as capture:
        console.print(view.picture(look, console.width, console.height))
    lines = capture.get().splitlines()
    assert len(lines) <= console.height
    assert "leafspine, run w0001" in lines[0]
    shown = lines[1].split()
    assert shown[:3] == ["host", "QP", "peer"]
    assert {"alpha", "CNPs"} <= set(shown)
    assert ("ACKs" in shown) == (width >= 100)
    assert any("14 more queue pairs" in line for line in lines)
    assert any("20 queue pairs; RoCE packets received: 9 (cnps 7)" in line for line in lines)


def test_columns_of_fast_cnps_are_there_when_something_goes_by_them() -> None:
    names = agent_rows.names_of(FABRIC.topology)
    without, plain = (agent_rows.cells(slot, names, 1, NOW, 0.0) for slot in (CUT, IDLE))
    fast = agent_rows.cells(FAST, names, 1, NOW, 0.0)
    assert "fast" not in agent_rows.aligned([without, plain], 300)[0]
    headings, _ = agent_rows.aligned([without, fast], 300)
    assert "fast b/s" in headings and "fast CNPs" in headings
    of_others = {"plane", "plane b/s", "losses", "lost", "answers", "sends by", "path", "cause"}
    of_others |= {"ref b/s", "load", "power", "window", "granted"}
    assert agent_rows.columns_for([fast]) == [
        name for name in agent_rows.COLUMNS if name not in of_others
    ]
    narrow, _ = agent_rows.aligned([without, fast], 80)
    assert "fast b/s" not in narrow and "fast CNPs" in narrow


def test_json_has_null_where_nothing_limits() -> None:
    slots = (CUT, IDLE, FAST, ALONE)
    look = Look(FABRIC, 1.0, NOW, slots, {"packets": 9}, {(H1, 256): 50.0})
    data: dict[str, Any] = json.loads(
        json.dumps(look_json(look, agent_rows.names_of(FABRIC.topology)))
    )
    assert (data["run"], data["time_scale"], data["counters"]) == ("w0001", 10_000, {"packets": 9})
    first, second, third, fourth = data["queue_pairs"]
    assert (first["host"], first["peer_host"], first["algorithm"]) == ("h1", "h3", "dcqcn")
    assert (first["rate_bps"], first["alpha"], first["packets_ps"]) == (10_000_000, 0.125, 50.0)
    assert (first["last_seen_s"], first["first_cut_s"]) == (0.02, 0.05)
    assert (first["fast_rate_bps"], second["first_cut_s"]) == (None, None)
    assert (third["algorithm"], third["fast_rate_bps"]) == ("fast-cnp", 10_000_000)
    assert (fourth["algorithm"], fourth["rate_bps"]) == ("fast-cnp alone", 10_000_000)
    assert (fourth["target_bps"], fourth["alpha"]) == (None, None)
    assert (second["rate_bps"], second["alpha"], second["last_seen_s"]) == (None, None, None)


# --- notifications --------------------------------------------------------------------------------

DPFR = FabricRecord("w0001", "softswitch", topologies.loads("""
time_scale: 10000
generator: leaf_spine
spines: 2
leaves: 2
hosts_per_leaf: 2
link: {rate: 400Gbps, delay: 500ns, queue: 1MB}
dpfr: {period: 2us}
"""), {})  # fmt: skip
GONE = Heard(
    local_ip=H1, type=2, severity=15, hops=0, validity=7, switch_id=2, port=1, sequence=9,
    destination=H3, destination_qp=0, queue=0, body_bytes=0, at_ns=NOW - 560_000_000, times=4,
)  # fmt: skip


def notification(heard: Heard, fabric: FabricRecord = DPFR) -> dict[str, str]:
    names = agent_rows.names_of(fabric.topology)
    cells = notification_rows.cells(heard, names, fabric.topology, NOW)
    return dict(zip(notification_rows.COLUMNS, cells, strict=True))


def test_a_notification_says_from_where_about_whom_and_how_long_it_holds() -> None:
    """2^7 periods of 2 us at 10,000 times are 2.56 s, of which 560 ms have passed."""
    told = notification(GONE)
    assert (told["host"], told["type"], told["from"]) == ("h1", "link-down", "s2:1")
    assert (told["about"], told["severity"], told["came"]) == ("h3", "15", "4")
    assert (told["last"], told["valid for"]) == ("560 ms", "2 s")
    assert notification(replace(GONE, at_ns=NOW - 2_600_000_000))["valid for"] == "expired"


def test_a_notification_of_a_stranger_and_of_a_type_whose_times_nobody_knows() -> None:
    strange = notification(replace(GONE, switch_id=77, type=5, destination=0))
    assert (strange["from"], strange["about"], strange["valid for"]) == ("77:1", "-", "-")
    assert notification(GONE, FABRIC)["valid for"] == "-"  # no dpfr: nobody's
    quick = notification(replace(GONE, type=1, validity=15), FAST_FABRIC)
    assert (quick["type"], quick["valid for"]) == ("congestion", "83.3 s")


FAST_FABRIC = FabricRecord("w0001", "softswitch", topologies.loads("""
time_scale: 10000
generator: leaf_spine
spines: 2
leaves: 2
hosts_per_leaf: 2
link: {rate: 400Gbps, delay: 500ns, queue: 1MB}
classes: {cnp: {dscp: 48, queue: 7}, roce: {dscp: 26, queue: 3, ecn: hpcc-dcqcn, fast_cnp: true}}
"""), {})  # fmt: skip


def test_notifications_as_json() -> None:
    look = Look(
        DPFR, 1.0, NOW, (), {}, {}, (GONE,), HeardCounts({2: 4, 13: 1}, malformed=3,
        no_queue_pair=0, lost=0),
    )  # fmt: skip
    data: dict[str, Any] = json.loads(
        json.dumps(look_json(look, agent_rows.names_of(DPFR.topology)))
    )
    assert data["notification_counts"]["types"] == {"link-down": 4, "type 13": 1}
    assert data["notification_counts"]["malformed"] == 3
    (row,) = data["notifications"]
    assert (row["host"], row["type"], row["from"], row["about"]) == (
        "h1",
        "link-down",
        "s2:1",
        "h3",
    )
    assert (row["times"], row["last_s"], row["valid_s"]) == (4, 0.56, 2.0)


@pytest.mark.parametrize("width", [80, 140])
def test_a_terminal_gets_notifications_that_fit(width: int) -> None:
    counts = HeardCounts({2: 80}, 0, 0, 0)
    rows = tuple(replace(GONE, port=port) for port in range(20))
    look = Look(DPFR, 0.0, NOW, (CUT,), {"packets": 9}, {}, rows, counts)
    text = {}
    for asked in (True, False):
        view = _View(DPFR, None, [], 1.0, asked)  # type: ignore[arg-type]  # nothing is read
        console = Console(width=width, height=12)
        with console.capture() as capture:
            console.print(view.picture(look, console.width, console.height))
        text[asked] = capture.get()
        assert len(text[asked].splitlines()) <= console.height
    shown = text[True].splitlines()
    assert shown[1].split() == [word for each in notification_rows.COLUMNS for word in each.split()]
    assert "15 more notifications" in text[True] and "20 notifications held" in text[True]
    assert "notifications received: link-down 80\n" in text[True]
    assert "link-down 80; weft agent --notifications shows them" in text[False]


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FabricRecord]:
    """Yield a fabric on record as a run of this process, without hosts; its maps are pinned."""
    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path / "run"))
    monkeypatch.setenv(run_state.LOG_ROOT_VARIABLE, str(tmp_path / "log"))
    lock, _ = teardown.claim()
    run = Run.start(lock, "leafspine")
    record = FabricRecord(run.name, "softswitch", FABRIC.topology, {})
    record.save()
    where = pins.pins_of(run.name)
    run.will_make(files=pins.pins_in(where), directories=[where])
    try:
        report = agent.run(where, [])
        assert report.error is None, report.error
        yield record
    finally:
        teardown.remove(run.record)
        run.finish()
    assert not where.exists()


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


Weft = Callable[..., Done]


@pytest.fixture
def weft(capsys: pytest.CaptureFixture[str]) -> Weft:
    """Return a function that runs the command in this process."""

    def run(*arguments: str) -> Done:
        code = cli.main(["agent", *arguments])
        return Done(code, *capsys.readouterr())

    return run


@pytest.mark.root
def test_the_command_on_pinned_maps(up: FabricRecord, weft: Weft) -> None:
    with_none = weft("--once")
    assert (with_none.returncode, with_none.stderr) == (0, "")
    assert "no queue pairs; RoCE packets received: 0" in with_none.stdout
    maps = PinnedMaps.open(pins.pins_of(up.run))
    control = {"dcqcn": parameters("hpcc-dcqcn", 400_000_000_000, 10_000).fields()}
    maps.add_queue_pair(H1, 256, H3, 257, mtu=1024, congestion_control=control)
    maps.add_queue_pair(H3, 257, H1, 256, mtu=1024)
    maps.close()
    told = json.loads(weft("--once", "--json").stdout)
    assert [pair["host"] for pair in told["queue_pairs"]] == ["h1", "h3"]
    assert told["notifications"] == [] and told["notification_counts"]["types"] == {}
    assert "no notifications held" in weft("--notifications", "--once").stdout
    assert [pair["rate_bps"] for pair in told["queue_pairs"]] == [40_000_000, None]
    (one,) = json.loads(weft("h3", "--once", "--json").stdout)["queue_pairs"]
    assert (one["qpn"], one["peer_host"]) == (257, "h1")
    table = weft("--once").stdout
    assert "400 G" in table and "no limit" in table


@pytest.mark.root
def test_the_command_on_planes(up: FabricRecord, weft: Weft) -> None:
    maps = PinnedMaps.open(pins.pins_of(up.run))
    control = {"dual_plane": dual_plane_fields(40_000_000)}
    second = Plane(H1 + (1 << 16), H3 + (1 << 16), control)
    maps.add_planes(256, 257, [Plane(H1, H3, control), second], mtu=1024)
    maps.close()
    told = json.loads(weft("--once", "--json").stdout)["queue_pairs"]
    assert [each["plane_number"] for each in told] == [0, 1]
    assert {each["first_number"] for each in told} == {told[0]["number"]}
    assert {(each["plane"], each["planes"], each["answers"]) for each in told} == {("up", 2, 0)}
    table = weft("--once").stdout
    assert "256:0" in table and "256:1" in table
    assert "1 queue pair; RoCE packets received: 0" in table


def dual_plane_fields(line: int) -> dict[str, int]:
    times = dict.fromkeys(("hold_ns", "hold_most_ns", "stable_ns", "ramp_ns"), 1000)
    return {"line_rate": line, "min_rate": line // 400, "answers": 5, **times}


@pytest.mark.root
def test_what_cannot_be(up: FabricRecord, weft: Weft) -> None:
    unknown = weft("h9", "--once")
    assert unknown.returncode == cli.EXIT_USAGE
    assert "leafspine has no host 'h9'; available: h1, h2, h3, h4" in unknown.stderr
    lost = weft("--restart")  # there are no hosts here
    assert lost.returncode == cli.EXIT_FAILED
    assert f"no way into the namespace /run/netns/{up.run}-h1" in lost.stderr
    assert "what was loaded before goes on" in lost.stderr
    pins.remove(pins.pins_of(up.run))
    without = weft("--once")
    assert without.returncode == cli.EXIT_FAILED
    assert f"run {up.run} has no host agent" in without.stderr


def test_no_run_is_an_error_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weft: Weft
) -> None:
    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path / "run"))
    done = weft("--once")
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: no run is up" in done.stderr
