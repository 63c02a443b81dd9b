"""Runs in real time: what is made of their samples, what is refused, and one that really runs.

h1 h2 h3 - s1 === 2 km === s2 - h4        all at 400 Gb/s: the queue builds at s1's port 4
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.utils import rdpcap

from compiler import compile_p4
from controller.program import CompiledProgram
from emulation import run_state
from emulation.interrupts import Interrupts
from emulation.session import Session
from experiments import live, live_beside
from experiments.live_flows import CHUNK_BYTES, LiveError, live_flows, with_jitter
from experiments.live_model import FlowSeries, LiveRun, LiveSettings, PortSeries
from simulator.runner import Simulation
from topologies.model import Endpoint
from workloads.loader import read_run
from workloads.plan import plan

FABRIC = Path(__file__).parents[2] / "p4src" / "fabric.p4"
US = 10**6
ETH_P_ALL = 3
MARKS_FROM = 1_600_000  # hpcc-dcqcn at 400 Gb/s
RUN = """\
topology:
  switches: [{name: s1, role: leaf}, {name: s2, role: leaf}]
  hosts: [h1, h2, h3, h4]
  link: {rate: 400Gbps, delay: 500ns, queue: 32MB, mtu: 2200B}
  links:
    - {a: h1, b: s1:1}
    - {a: h2, b: s1:2}
    - {a: h3, b: s1:3}
    - {a: s1:4, b: s2:2, length: 2km}
    - {a: h4, b: s2:1}
  classes:
    cnp: {dscp: 48, queue: 6}
    roce: {dscp: 26, queue: 3, ecn: hpcc-dcqcn}
    rest: {queue: 0}
until: 120us
transport: {congestion_control: dcqcn, parameters: hpcc-dcqcn}
traffic:
  - incast: {to: h4, from: [h1, h2, h3], persistent: true}
"""
BESIDES = """\
  - message: {from: h2, to: h1, bytes: 200kB, count: 2, gap: 5us, start: 10us}
"""
SETTINGS = LiveSettings(
    time_scale=10_000,
    ports=(("s1", 4),),
    seed=3,
    jitter_ps=2 * US,
    above_bytes=MARKS_FROM,
)
SCALES = (10_000, 40_000, 160_000)
"""A machine that is too busy for one plays the run slower: what it does late is less in the run."""
LIMIT = "transport: {congestion_control: dcqcn, parameters: hpcc-dcqcn}"


@pytest.fixture(scope="module")
def program() -> CompiledProgram:
    compiled = compile_p4(FABRIC)
    return CompiledProgram.of(compiled)


def port(depths: list[int]) -> PortSeries:
    """Return a queue sampled every microsecond."""
    at = np.arange(len(depths), dtype=np.int64) * US
    return PortSeries("s1", 4, at, np.array(depths, dtype=np.int64), max(depths), None)


# --- what is made of samples ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("depths", "level", "rises", "falls"),
    [
        ([0, 0, 100, 200], 50, 1.5, 0),  # it was below from the start
        ([0, 100, 100, 0], 75, 0.75, 0),
        ([200, 200, 100, 0], 150, 0, 1.5),  # it was above from the start
        ([0, 0, 0, 0], 0, None, 0),
        ([100, 100, 100, 100], 0, 0, None),
    ],
)
def test_a_crossing_is_between_two_looks(
    depths: list[int], level: int, rises: float | None, falls: float | None
) -> None:
    queue = port(depths)
    assert queue.rises_above(level) == (None if rises is None else rises * US)
    assert queue.falls_below(level, 0) == (None if falls is None else falls * US)


def test_a_queue_tells_its_peak_and_how_closely_it_was_looked_at() -> None:
    queue = port([0, 300, 100, 200, 0])
    assert queue.peak_bytes == 300
    assert queue.peak_between(2 * US, 5 * US) == 200
    assert queue.falls_below(100, from_ps=2 * US) == 2 * US
    assert queue.rises_above(100, from_ps=2 * US) == 2 * US
    assert queue.resolution_ps == US


def test_goodput_is_what_came_between_two_times() -> None:
    none = np.zeros(0, dtype=np.int64)
    at = np.array([0, 10 * US, 20 * US], dtype=np.int64)
    received = np.array([0, 0, 500_000], dtype=np.int64)
    flow = FlowSeries("h1", "h4", 0, none, none, at, received, none, none)
    silent = replace(flow, delivered_at_ps=none, delivered_bytes=none)
    run = LiveRun("run", "softswitch", 10_000, 1, 20 * US, (), (flow, silent), {})
    assert run.goodput_bps() == 200e9
    assert run.goodput_bps(10 * US) == 400e9
    assert run.goodput_bps(12 * US, 14 * US) == 400e9
    assert run.first_cut_ps is None


def test_reaction_is_from_the_queue_to_the_first_of_the_cuts() -> None:
    none = np.zeros(0, dtype=np.int64)
    flow = FlowSeries("h1", "h4", 0, none, none, none, none, none, none)
    cuts = [replace(flow, first_cut_ps=cut) for cut in (9 * US, 7 * US, None)]
    full = replace(port([0, 1]), above_ps=2 * US)
    run = LiveRun("run", "softswitch", 10_000, 1, 20 * US, (full,), tuple(cuts), {})
    assert run.reaction_ps("s1", 4) == 5 * US
    assert replace(run, flows=(flow,)).reaction_ps("s1", 4) is None
    assert replace(run, ports=(port([0, 1]),)).reaction_ps("s1", 4) is None
    with pytest.raises(KeyError, match="s1:5 was not watched"):
        run.reaction_ps("s1", 5)


@pytest.mark.parametrize(
    ("stalls", "attempts", "stalled"),
    [([0], 1, 0), ([9, 1], 2, 1), ([9, 3, 5, 0], 3, 3)],
)
def test_a_run_is_played_again_when_the_machine_stood_still(
    stalls: list[int], attempts: int, stalled: int
) -> None:
    empty = LiveRun("run", "softswitch", 10_000, 1, 100 * US, (), (), {})
    runs = iter([replace(empty, stalled_ps=each * US) for each in stalls])
    seen = live.steadiest(lambda: next(runs))
    assert (seen.attempts, seen.stalled_ps) == (attempts, stalled * US)


# --- what is sent --------------------------------------------------------------------------------


def test_a_seed_moves_starts_and_nothing_else() -> None:
    run = read_run(RUN)
    traffic = plan(run)
    starts = [
        tuple(with_jitter(traffic, seed, 2 * US).messages.messages["start_ps"].tolist())
        for seed in (1, 1, 2)
    ]
    assert starts[0] == starts[1] != starts[2]
    assert all(0 <= start < 2 * US for start in starts[0] + starts[2])
    assert with_jitter(traffic, 1, 0) is traffic


def test_messages_become_writes_of_one_size() -> None:
    text = RUN.replace("persistent: true", "bytes: 1000kB, start: 5us")
    for flow in live_flows(read_run(text), plan(read_run(text))):
        (message,) = flow.messages
        assert message.start_ps == 5 * US
        assert message.size <= CHUNK_BYTES
        assert 0 <= message.size * message.count - 1_000_000 < message.count


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ((LIMIT, ""), "need a `transport`"),
        (("until: 120us", "buffer: {shared: 64MB}\nuntil: 120us"), "shared buffers and PFC"),
        (("until: 120us", ""), "needs an end"),
        (("mtu: 2200B", "mtu: 4300B"), "packets of 4096 bytes"),
        (
            ("- incast: {to: h4, from: [h1, h2, h3], persistent: true}",
             "- cbr: {from: h1, to: h4, rate: 1Gbps}"),
            "open-loop packets",
        ),
        (("persistent: true", "bytes: 64kB, rounds: 2"), "messages that wait"),
    ],
)  # fmt: skip
def test_what_endpoints_can_not_do_is_refused(change: tuple[str, str], says: str) -> None:
    text = RUN.replace(*change)
    if change[0] == "until: 120us" and not change[1]:
        text = text.replace("persistent: true", "bytes: 64kB")
    run = read_run(text)
    with pytest.raises(LiveError, match=says):
        live_flows(run, plan(run))


@pytest.mark.parametrize(
    ("text", "port", "says"),
    [
        (RUN, ("s1", 5), "no switch port s1:5"),
        (RUN, ("h1", 0), "no switch port h1:0"),
    ],
)
@pytest.mark.root
def test_what_is_not_there_is_said_before_anything_is_made(
    program: CompiledProgram, text: str, port: tuple[str, int], says: str
) -> None:
    with pytest.raises(LiveError, match=says):
        live.play(read_run(text), program, replace(SETTINGS, ports=(port,)))
    assert run_state.holder() is None


@pytest.mark.parametrize(
    "change", [(LIMIT, ""), ("until: 120us", ""), ("persistent: true", "bytes: 64kB, rounds: 2")]
)
def test_what_can_not_be_compared_is_refused(
    change: tuple[str, str], program: CompiledProgram
) -> None:
    text = RUN.replace(*change)
    if change[0] == "until: 120us":
        text = text.replace("persistent: true", "bytes: 64kB")
    with pytest.raises(LiveError):
        live_beside.simulate(read_run(text), program, SETTINGS)


def test_alone_the_simulator_plays_more(program: CompiledProgram) -> None:
    run = read_run(RUN.replace("persistent: true", "bytes: 64kB, rounds: 2"))
    seen = live_beside.simulate(run, program, replace(SETTINGS, time_scale=1), alike=False)
    assert [flow.delivered_bytes[-1] for flow in seen.flows] == [128_000] * 3
    assert all(flow.done_ps is not None for flow in seen.flows)
    with pytest.raises(LiveError, match="transport"):
        live_beside.simulate(read_run(RUN.replace(LIMIT, "")), program, SETTINGS, alike=False)


def test_the_simulator_gives_the_same_at_every_time_scale(program: CompiledProgram) -> None:
    run = read_run(RUN)
    fast, slow = (
        live_beside.simulate(run, program, replace(SETTINGS, time_scale=scale))
        for scale in (1, 10_000)
    )
    (one,), (other,) = fast.ports, slow.ports
    assert one.peak_bytes == other.peak_bytes > MARKS_FROM
    assert one.above_ps == other.above_ps is not None
    assert one.depth_bytes.tolist() == other.depth_bytes.tolist()
    assert fast.first_cut_ps is not None
    assert fast.first_cut_ps == pytest.approx(slow.first_cut_ps, abs=1000)  # cards stamp ns
    assert fast.goodput_bps() == pytest.approx(slow.goodput_bps(), rel=1e-6)


# --- in real time --------------------------------------------------------------------------------


class Teller:
    """Notes which run is up, and does something once its flows are under way."""

    def __init__(self, action: Callable[[], None] = lambda: None) -> None:
        self.run = ""
        self.action = action

    def __call__(self, share: float, _text: str) -> None:
        holder = run_state.holder()
        assert holder is not None
        self.run = holder[0]
        if share > 0:
            self.action()

    def left(self) -> list[str]:
        """Return what is left of the run."""
        namespaces = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
        pins = Path("/sys/fs/bpf").glob(f"weft-{self.run}*")
        links = subprocess.run(["ip", "link", "show"], capture_output=True, text=True).stdout
        found = [*namespaces.split(), *links.split(), *(path.name for path in pins)]
        return [name for name in found if self.run in name]


@pytest.mark.root
def test_real_time_agrees_with_the_simulator(
    roots: None, program: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "ATTEMPTS", 1)
    run, teller = read_run(RUN + BESIDES), Teller()
    for scale in SCALES:
        settings = replace(SETTINGS, time_scale=scale)
        seen = live.play(run, program, settings, teller)
        if seen.is_steady:
            break
    beside = live_beside.simulate(run, program, settings)

    (queue,), (expected,) = seen.ports, beside.ports
    assert queue.peak_bytes == pytest.approx(expected.peak_bytes, rel=0.25)
    full, should = queue.above_ps, expected.above_ps
    assert full is not None
    assert should is not None
    assert full == pytest.approx(should, abs=4 * US)
    assert queue.rises_above(MARKS_FROM) == pytest.approx(full, abs=4 * US)
    assert queue.depth_bytes.max() <= queue.peak_bytes
    assert seen.first_cut_ps is not None
    assert beside.first_cut_ps is not None
    assert seen.first_cut_ps == pytest.approx(beside.first_cut_ps, abs=10 * US)
    assert seen.first_cut_ps > full + 20 * US  # not before it is known at the far end and back
    assert seen.goodput_bps() == pytest.approx(beside.goodput_bps(), rel=0.15)

    assert seen.count("cnps_received") > 0
    assert seen.count("repeated_packets") == 0
    assert queue.marked_packets is not None
    assert 0 < seen.count("marked", at_target=True) <= queue.marked_packets
    assert seen.drops == {}
    *incast, finite = seen.flows
    assert finite.name == "h2->h1"
    assert finite.done_ps is not None
    there = beside.flows[-1].done_ps
    assert there is not None
    assert there < finite.done_ps < there + 30 * US  # a busy endpoint says late that it is done
    assert finite.delivered_bytes[-1] == pytest.approx(400_000, abs=10)
    assert [flow.name for flow in incast] == ["h1->h4", "h2->h4", "h3->h4"]
    for flow in incast:
        assert flow.done_ps is None
        assert flow.failure == ""
        assert flow.rate_bps[0] == 400 * 10**9 > flow.rate_bps[-1]
        assert flow.acked_bytes[-1] <= flow.delivered_bytes[-1]
    assert teller.run
    assert teller.left() == []


def ports_at(tap: socket.socket) -> set[tuple[str, int]]:
    """Source addresses and UDP source ports of the RoCEv2 packets that a socket has seen."""
    found = set()
    while select.select([tap], [], [], 0)[0]:
        frame = tap.recv(1 << 16)
        if frame[23] == socket.IPPROTO_UDP and frame[36:38] == (4791).to_bytes(2):
            found.add((socket.inet_ntoa(frame[26:30]), int.from_bytes(frame[34:36])))
    return found


@pytest.mark.root
def test_a_flow_has_the_same_ports_in_both_runtimes(
    roots: None, tmp_path: Path, program: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is on h4's wire: four ports of each flow, those that the seed says."""
    text = RUN.replace("persistent: true", "bytes: 40kB")
    run = read_run(text.replace("parameters: hpcc-dcqcn}", "parameters: hpcc-dcqcn, udp_ports: 4}"))
    real: set[tuple[str, int]] = set()
    bring_up = live.fabric_up

    @contextmanager
    def watched(*given: Any) -> Iterator[tuple[Session, Interrupts]]:
        with bring_up(*given) as (session, interrupts):
            everything = socket.htons(ETH_P_ALL)
            # The switch's side: at h4 an endpoint on AF_XDP takes frames before others see them.
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, everything) as tap:
                tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
                tap.bind((session.network.interface_name("s2", 1), ETH_P_ALL))
                yield session, interrupts
                real.update(ports_at(tap))

    monkeypatch.setattr(live, "ATTEMPTS", 1)
    monkeypatch.setattr(live, "fabric_up", watched)
    live.play(run, program, replace(SETTINGS, seed=5))

    simulation = Simulation(run, program, seed=5)
    simulation.capture(tmp_path / "h4.pcap", Endpoint("h4", 0))
    simulation.run()
    packets = [packet for packet in rdpcap(str(tmp_path / "h4.pcap")) if UDP in packet]
    sources = [str(host.interfaces[0].address.ip) for host in run.topology.hosts[:3]]
    virtual = {(packet[IP].src, packet[UDP].sport) for packet in packets}
    flows = list(zip(sources, plan(run, 5).flows["udp_port"].tolist(), strict=True))
    ports = {(source, port + turn) for source, port in flows for turn in range(4)}
    for seen in (real, virtual):
        data = {each for each in seen if each[0] in sources}
        assert data == ports
        # Acknowledgements come with ports of the flow, too: which of them, the PSN says.
        assert {port for _, port in seen - data} < {port for _, port in ports}


@pytest.mark.root
@pytest.mark.parametrize(
    ("action", "error"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGINT), KeyboardInterrupt),
        (lambda: (_ for _ in ()).throw(ValueError), ValueError),
    ],
    ids=["ctrl-c", "failure"],
)
def test_an_early_end_leaves_nothing_behind(
    roots: None,
    program: CompiledProgram,
    action: Callable[[], None],
    error: type[BaseException],
) -> None:
    teller = Teller(action)
    with pytest.raises(error):
        live.play(read_run(RUN), program, SETTINGS, teller)
    assert teller.run
    assert teller.left() == []
    assert run_state.holder() is None
