"""`record: {telemetry: ...}`: what a collector on the receiving host keeps is what switches did.

h1, h2 -- s1 -- s3, s4 -- s2 -- h3, h4      100 Gb/s and 500 ns each; h1, h2 -> h4
"""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from mechanisms.program import FABRIC
from mechanisms.registry import defines
from simulator.fabric import cell_bytes
from simulator.runner import Simulation
from topologies import TopologyError
from topologies.model import Topology
from workloads.loader import read_run

US = 10**6
NS = 1000
LINE_BPS = 100 * 10**9
DELAY_PS = 500 * NS
RECORD, STEP = 12, 512
FRAME = 4096 + 58 + 24 + 4 + 4
"""On the line behind the sender: payload, headers and ICRC, preamble with FCS and gap, the shim."""

FABRIC_OF_TWO = """
topology:
  generator: leaf_spine
  leaves: 2
  spines: 2
  hosts_per_leaf: 2
  link: {rate: 100Gbps, delay: 500ns, queue: 4MB, mtu: 4200B}
  classes:
    cnp: {dscp: 48, queue: 6}
    roce: {dscp: 26, queue: 3, path_telemetry: TOLD}
    rest: {queue: 0}
until: 200us
sample: 100ns
record: RECORD
transport: {congestion_control: CONTROL}
traffic:
  - incast: {to: h4, from: [h1, h2], persistent: true}
"""
MONITOR = "{format: hops, monitor: true}"
ALL = "{telemetry: {flows: all, every: 1us}}"
Row = dict[str, Any]


def text(told: str = MONITOR, record: str = ALL, control: str = "none", more: str = "") -> str:
    found = FABRIC_OF_TWO.replace("TOLD", told).replace("RECORD", record)
    return found.replace("CONTROL", control) + more


@cache
def program(names: tuple[str, ...]) -> CompiledProgram:
    return CompiledProgram.of(compile_p4(FABRIC, defines=names))


def run(folder: Path, said: str, time_scale: int = 1) -> Topology:
    file = read_run(said)
    made = Simulation(file, program(defines(file.topology)), time_scale=time_scale)
    made.run(folder)
    return file.topology


def rows(folder: Path, name: str = "telemetry") -> list[Row]:
    found: list[Row] = pq.read_table(folder / f"{name}.parquet").to_pylist()
    return found


def packets(folder: Path) -> list[list[Row]]:
    """Return each packet's rows, which stand together in the order of its hops."""
    found: list[list[Row]] = []
    for row in rows(folder):
        if row["hop"] == 0:
            found.append([])
        found[-1].append(row)
    return found


@pytest.fixture(scope="module")
def incast(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Topology]:
    folder = tmp_path_factory.mktemp("incast") / "result"
    return folder, run(folder, text())


def wire_ps(hops: int) -> int:
    """Return how long a frame takes on a line in which so many switches have written."""
    return (FRAME + RECORD * hops) * 8 * 10**12 // LINE_BPS


def test_hops_come_in_order_along_a_path_of_the_topology(incast: tuple[Path, Topology]) -> None:
    folder, topology = incast
    senders = {row["flow"]: row["src"] for row in rows(folder, "flows")}
    found = packets(folder)
    assert len(found) > 200 and {each[0]["flow"] for each in found} == {0, 1}
    for packet in found:
        assert [row["hop"] for row in packet] == [0, 1, 2]
        assert {row["hops"] for row in packet} == {3}
        assert len({(row["at_ps"], row["sent_ps"], row["flow"]) for row in packet}) == 1
        here = topology.host(senders[packet[0]["flow"]]).interfaces[0].switch
        for row in packet:
            assert row["node"] == here
            here = topology.peer(row["node"], row["port"]).node
        assert here == "h4"


def test_at_most_one_packet_of_a_flow_in_an_interval(incast: tuple[Path, Topology]) -> None:
    folder, _ = incast
    times = defaultdict(list)
    for packet in packets(folder):
        times[packet[0]["flow"]].append(packet[0]["at_ps"])
    for of_flow in times.values():
        assert np.diff(of_flow).min() >= US
        assert np.diff(of_flow).max() <= US + wire_ps(3) * 3, "and none is missed"
    summary = json.loads((folder / "summary.json").read_text())["telemetry"]
    assert summary == {"every_ps": US, "flows": 2, "packets": len(packets(folder))}


def test_latencies_add_up_to_the_time_from_end_to_end(incast: tuple[Path, Topology]) -> None:
    """What is left is the last line, from the queue to the receiver's last bit."""
    folder, _ = incast
    for packet in packets(folder):
        on_the_way = sum(row["latency_ps"] for row in packet)
        rest = packet[0]["at_ps"] - packet[0]["sent_ps"] - on_the_way
        assert abs(rest - wire_ps(3) - DELAY_PS) <= 2 * NS


def test_a_hop_where_nothing_waits_takes_what_its_link_takes(
    incast: tuple[Path, Topology],
) -> None:
    folder, _ = incast
    first = packets(folder)[0]
    for hop, row in enumerate(first):
        assert abs(row["latency_ps"] - wire_ps(hop) - DELAY_PS) <= 2 * NS, row


def test_the_queue_is_the_switch_s_own_where_the_packet_left_it(
    incast: tuple[Path, Topology],
) -> None:
    """The switch samples each 100 ns, less than a packet takes; its program counts cells."""
    folder, topology = incast
    own = [
        row
        for row in rows(folder, "queues")
        if (row["node"], row["port"], row["queue"]) == ("s2", 2, 3)
    ]
    size = min(row["bytes"] // row["packets"] for row in own)  # a message's first one has RETH
    cell = cell_bytes(topology)
    size = -(-size // cell) * cell
    samples = {row["at_ps"]: row["packets"] * size for row in own}
    slack = 2 * size + STEP
    longest = 0
    for packet in packets(folder):
        (last,) = (row for row in packet if row["node"] == "s2")
        assert last["port"] == 2
        left = packet[0]["sent_ps"] + sum(row["latency_ps"] for row in packet)
        sampled = samples.get(left // 100_000 * 100_000, 0)
        assert abs(last["queue_bytes"] - sampled) <= slack, (left, last)
        longest = max(longest, last["queue_bytes"])
        assert all(row["queue_bytes"] <= 2 * (FRAME + RECORD) for row in packet[:-1])
    assert longest > 2 * 10**6, "which is most of its 4 MB"
    waited = max(packet[-1]["latency_ps"] for packet in packets(folder))
    assert waited > 90 * US


def test_a_line_s_use_between_two_samples_is_what_it_carried(
    incast: tuple[Path, Topology],
) -> None:
    folder, _ = incast
    known = [r["used_ppm"] for r in rows(folder) if r["node"] == "s2" and r["used_ppm"] is not None]
    assert len(known) > 100
    assert np.mean(known) == pytest.approx(10**6, rel=0.002)
    first = [packet[0]["used_ppm"] for packet in packets(folder) if packet[0]["flow"] == 0]
    assert first[0] is None, "there is none before"


def test_a_link_that_fails_shows_other_hops(tmp_path: Path) -> None:
    said = text(control="dcqcn").replace("until: 200us", "until: 600us")
    one = said.replace("[h1, h2]", "[h1]").replace("h4, from", "h3, from")
    run(tmp_path / "before", one)
    spine = packets(tmp_path / "before")[0][1]["node"]
    events = f"events: [{{at: 300us, link: s1-{spine}, do: down}}]\ncontroller: {{delay: 20us}}\n"
    topology = run(tmp_path / "after", one + events)
    ways = [[row["node"] for row in packet] for packet in packets(tmp_path / "after")]
    other = "s4" if spine == "s3" else "s3"
    assert ways[0] == ["s1", spine, "s2"] and ways[-1] == ["s1", other, "s2"]
    assert len({tuple(way) for way in ways}) == 2
    assert topology.name
    turned = next(n for n, way in enumerate(ways) if way[1] == other)
    packet = packets(tmp_path / "after")[turned]
    assert packet[1]["used_ppm"] is None, "nothing is known of a line that it has not taken before"


CHAIN = """
topology:
  switches: [s1, s2, s3, s4, s5, s6, s7]
  hosts: [h1, h2]
  link: {rate: 100Gbps, delay: 500ns, queue: 4MB, mtu: 4200B}
  links:
LINKS
  classes: {roce: {dscp: 26, queue: 3, path_telemetry: TOLD}, rest: {queue: 0}}
until: 50us
record: {telemetry: {every: 5us}}
transport: {congestion_control: none}
traffic: [{incast: {to: h2, from: [h1], persistent: true}}]
"""


def test_a_path_of_seven_switches_has_all_of_them(tmp_path: Path) -> None:
    """A receiver returns five to the sender; the collector has what the packet brought."""
    names = [f"s{n}" for n in range(1, 8)]
    ends = ["h1", *(f"{name}:{port}" for name in names for port in (1, 2)), "h2"]
    links = [f"    - {{a: {a}, b: {b}}}" for a, b in zip(ends[::2], ends[1::2], strict=True)]
    run(tmp_path, CHAIN.replace("LINKS", "\n".join(links)).replace("TOLD", MONITOR))
    found = packets(tmp_path)
    assert len(found) >= 5
    for packet in found:
        assert [row["node"] for row in packet] == names
        assert {row["hops"] for row in packet} == {7}
        rest = packet[0]["at_ps"] - packet[0]["sent_ps"] - sum(r["latency_ps"] for r in packet)
        assert abs(rest - wire_ps(7) - DELAY_PS) <= 2 * NS


def test_latencies_of_a_slowed_run_are_the_run_s(tmp_path: Path) -> None:
    said = text(record="{telemetry: {flows: 'h1>h4', every: 20us}}")
    run(tmp_path / "one", said.replace("until: 200us", "until: 20us"))
    run(tmp_path / "slow", said.replace("until: 200us", "until: 200us"), time_scale=10)
    one, slow = (packets(tmp_path / name)[0] for name in ("one", "slow"))
    for row, slowed in zip(one, slow, strict=True):
        assert (row["node"], row["port"]) == (slowed["node"], slowed["port"])
        assert slowed["latency_ps"] == pytest.approx(10 * row["latency_ps"], abs=20 * NS)


def test_recording_changes_nothing_of_a_run(tmp_path: Path) -> None:
    """Packets collect because their class says so; that it is kept is nobody's business."""
    run(tmp_path / "kept", text(control="dcqcn"))
    run(tmp_path / "not", text(control="dcqcn").replace(f"record: {ALL}\n", ""))
    kept, plain = (
        json.loads((tmp_path / name / "summary.json").read_text())["files"]
        for name in ("kept", "not")
    )
    assert kept.pop("telemetry.parquet")["rows"] > 0
    assert kept == plain


def test_who_monitors_only_makes_packets_longer(tmp_path: Path) -> None:
    """DCQCN decides as without; a shim and three records are 40 bytes of each packet."""
    run(tmp_path / "monitor", text(control="dcqcn").replace("[h1, h2]", "[h1]"))
    run(tmp_path / "hops", text(told="hops", record="{paths: {}}", control="dcqcn")
        .replace("[h1, h2]", "[h1]").replace("100ns", "100us"))  # fmt: skip
    longer, plain = (rows(tmp_path / name, "flows")[0] for name in ("monitor", "hops"))
    share = longer["received_bytes"] / plain["received_bytes"]
    assert share == pytest.approx((FRAME - 4) / (FRAME + 3 * RECORD), rel=0.003)
    assert plain["repeated_packets"] == longer["repeated_packets"] == 0


@pytest.mark.parametrize(
    ("flows", "found"),
    [("'h2>h4'", {1}), ("['*>h4']", {0, 1}), ("0", {0}), ("[0, 'h2>*']", {0, 1}), ("all", {0, 1})],
)
def test_flows_are_chosen(tmp_path: Path, flows: str, found: set[int]) -> None:
    said = text(record=f"{{telemetry: {{flows: {flows}}}}}").replace("200us", "10us")
    run(tmp_path, said.replace("100ns", "1us"))
    assert {row["flow"] for row in rows(tmp_path)} == found


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({"record": "{telemetry: {flows: 'h1>h9'}}"}, "h1>h9: no host 'h9'"),
        ({"record": "{telemetry: {flows: 'h3>h1'}}"}, "no flow h3>h1: there is h1>h4, h2>h4"),
        ({"record": "{telemetry: {flows: 2}}"}, "no flow 2: there is"),
        ({"record": "{telemetry: {flows: h1}}"}, "'h1' is no flow: write 'SRC>DST'"),
        ({"record": "{telemetry: {flows: []}}"}, "name flows, such as"),
        ({"record": "{telemetry: {every: 0us}}"}, "every"),
        ({"record": "{}"}, "telemetry: {flows: all, every: 10us}"),
        ({"told": "hops"}, "no flow collects records of hops: give its class path_telemetry"),
        ({"told": "most-used"}, "switches write nothing into their class"),
    ],
)
def test_wrong_words_name_what_would_be_right(changed: dict[str, str], wrong: str) -> None:
    with pytest.raises(TopologyError) as raised:
        file = read_run(text(**changed))
        Simulation(file, program(defines(file.topology)))
    assert wrong in str(raised.value) and "record" in str(raised.value)


def test_reads_collect_nothing() -> None:
    read = text().replace("congestion_control: none", "congestion_control: none, operation: read")
    with pytest.raises(TopologyError, match="not READs"):
        file = read_run(read)
        Simulation(file, program(defines(file.topology)))


def test_a_sender_that_asks_in_the_shim_has_no_records(tmp_path: Path) -> None:
    said = text(f"{MONITOR}, bolt: true", control="bolt")
    with pytest.raises(TopologyError, match="need the shim for something else"):
        run(tmp_path, said)
