"""In virtual time: what an algorithm is told of a path is what its line carries.

h1, h2 -- s1 -- s3, s4 -- s2 -- h3, h4      100 Gb/s and 500 ns each; h1, h2 -> h4 at 40 Gb/s each
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from hostagent.algorithms import Parameters, pack
from mechanisms.path_telemetry.entries import hop_numbers
from mechanisms.program import FABRIC
from mechanisms.registry import defines
from protocols.path_telemetry import SENT_BYTES, USED_ONE, WRAPS, PathHop, PathUse, hops_of
from protocols.path_telemetry import path_number as number_of
from simulator.core import binding
from simulator.core.own_algorithm import engine_in_place
from simulator.runner import Simulation
from tests.hostagent import more_algorithms
from tests.simulator.test_fast_cnp_runs import RECEIVER, SENT, TRUNK, TWO_QUEUES
from tests.simulator.test_telemetry_runs import Listened
from topologies.model import Topology
from workloads.loader import read_run
from workloads.model import RunFile

EACH_BPS = 40 * 10**9
US = 10**6  # ps
FIRST, SECOND = 200 * US, 1200 * US
ON_FIRST_LINE = 4096 + 58 + 24 + 4  # and on later ones what the format adds
RUN = """
topology:
  generator: leaf_spine
  leaves: 2
  spines: 2
  hosts_per_leaf: 2
  link: {rate: 100Gbps, delay: 500ns, queue: 4MB, mtu: 4200B}
  classes:
    cnp: {dscp: 48, queue: 6}
    roce: {dscp: 26, queue: 3, path_telemetry: FORMAT}
    rest: {queue: 0}
until: 2ms
transport: {congestion_control: dcqcn, parameters: hpcc-dcqcn}
traffic:
  - incast: {to: h4, from: [h1, h2], persistent: true}
"""


@dataclass
class Told:
    """What the two senders' algorithms have heard by the end of a run."""

    topology: Topology
    bytes: int
    hops: list[int]
    data: list[bytes]


@contextmanager
def listening(rate_bps: int) -> Iterator[None]:
    """Each sender has `listener`, an algorithm of the tests that sends at a fixed rate."""

    def with_listener(ffi: Any, parameters: Parameters | None) -> Any:
        more = {"listener": {"line_rate": rate_bps, "min_rate": 1}}
        return pack(ffi, {**parameters, **more} if parameters else None)

    with pytest.MonkeyPatch.context() as patch, engine_in_place(more_algorithms.built()):
        patch.setattr(binding, "pack", with_listener)
        yield


def run_file(form: str) -> RunFile:
    return read_run(RUN.replace("FORMAT", form))


def told(run: RunFile, program: CompiledProgram, until_ps: int) -> Told:
    simulation = Simulation(run, program, time_scale=1, until_ps=until_ps)
    simulation.run()
    engine = simulation.fabric.engine
    states = [engine.lib.sim_flow_slot(engine.pointer, flow).listener for flow in range(2)]
    return Told(
        run.topology,
        sum(int(each.bytes) for each in states),
        [int(each.last_hops) for each in states],
        [b"".join(int(w).to_bytes(8) for w in each.words)[: each.last_bytes] for each in states],
    )


def program_of(run: RunFile) -> CompiledProgram:
    return CompiledProgram.of(compile_p4(FABRIC, defines=defines(run.topology)))


def ways(topology: Topology) -> dict[tuple[int, ...], str]:
    """Return the hops from s1 to h4, by the numbers that the controller gives: s1, a spine, s2."""
    numbers = hop_numbers(topology)

    def hop(switch: str, to: str) -> int:
        (port,) = (
            p for p in topology.ports_of(switch) if topology.peer(switch, p.number).node == to
        )
        return numbers[switch, port.number]

    return {(hop("s1", at), hop(at, "s2"), hop("s2", "h4")): at for at in ("s3", "s4")}


def use(before: PathHop, after: PathHop) -> float:
    assert before.hop == after.hop
    bits = (after.sent - before.sent) % WRAPS * SENT_BYTES * 8
    return float(bits / ((after.at - before.at) % WRAPS * 1e-9) / after.rate_bps)


def offered(first: Told, second: Told, added: int) -> float:
    """Return the load of the last line, as a part of it, by what senders are paced at."""
    payload_bps = (second.bytes - first.bytes) * 8 / ((SECOND - FIRST) * 1e-12)
    paced_bps = 2 * EACH_BPS * 4096 / ON_FIRST_LINE
    assert payload_bps == pytest.approx(paced_bps, rel=0.01), "it arrives"
    return paced_bps * (ON_FIRST_LINE + added) / 4096 / 10**11


def test_records_along_the_path_and_the_bottleneck_s_use() -> None:
    run = run_file("hops")
    program = program_of(run)
    with listening(EACH_BPS):
        first, second = (told(run, program, until) for until in (FIRST, SECOND))
    assert first.hops == second.hops == [3, 3]
    paths = ways(run.topology)
    for data in second.data:
        records = hops_of(data)
        assert tuple(each.hop for each in reversed(records)) in paths
        assert all(each.rate_bps == pytest.approx(10**11, rel=1 / 2048) for each in records)
        times = [each.at for each in records]
        assert times == sorted(times, reverse=True), "the last switch comes first"
    by_records = use(hops_of(first.data[0])[0], hops_of(second.data[0])[0])
    wanted = offered(first, second, 36)
    assert by_records == pytest.approx(wanted, rel=0.002), "1 % is asked for"


def test_the_most_used_line_is_the_bottleneck() -> None:
    run = run_file("most-used")
    program = program_of(run)
    with listening(EACH_BPS):
        first, second = (told(run, program, until) for until in (FIRST, SECOND))
    assert second.hops == [3, 3]
    numbers = {number_of(hops) for hops in ways(run.topology)}
    wanted = offered(first, second, 4)
    for data in second.data:
        word = PathUse(data)
        assert word.path in numbers
        assert word.used / USED_ONE == pytest.approx(wanted, rel=0.05)


@pytest.mark.parametrize("form", ["hops", "most-used"])
def test_fast_cnps_are_made_of_packets_that_carry_it(form: str) -> None:
    """The second switch makes them of packets in which the first one has written."""
    text = TWO_QUEUES.replace("fast_cnp: true", f"fast_cnp: true, path_telemetry: {form}")
    with listening(more_algorithms.NO_LIMIT):
        played = Listened(text, program_of(read_run(text)))
    sent = [played.outcomes(place)[SENT] for place in (TRUNK, RECEIVER)]
    heard = int(played.stats["notified"].sum())
    assert sent[1] > 0
    assert 0 <= sum(sent) - heard <= 6, "all but those on their way are heard"
    assert played.stats["repeated_packets"].sum() == 0
