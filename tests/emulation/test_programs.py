"""The same programs between namespaces as in virtual time: the same frames, every message once.

s3          one spine
| \\
s1  s2       two leaves, two hosts each; the link s1-s3 may lose frames
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler import compile_p4
from controller import CompiledProgram
from emulation import run_state
from emulation.link_events import FabricCalls
from emulation.programs import HostProgramError, HostPrograms
from emulation.session import Session
from emulation.switch_node import Target
from simulator.runner import Simulation
from tests.hostagent.vector_sum import LANES, numbers
from topologies.events import calls
from workloads.loader import read_run
from workloads.model import RunFile

pytestmark = [pytest.mark.root, pytest.mark.realtime]

FABRIC = Path(__file__).parents[2] / "p4src" / "fabric.p4"
PROGRAMS = Path(__file__).parents[1] / "hostagent"
SCALE = 10_000
RUN = """\
topology:
  generator: leaf_spine
  spines: 1
  leaves: 2
  hosts_per_leaf: 2
  link: {{rate: 400Gbps, delay: 500ns, queue: 1MB}}
events:
  - {{at: 0ns, link: s1-s3, loss: {loss}}}
programs:
{programs}
"""
STOP_AND_WAIT = """\
  - {program: "stop_and_wait.py:Sender", hosts: h1, settings: {to: h3, messages: 25}}
  - {program: "stop_and_wait.py:Taker", hosts: h3}
"""
SUM = """\
  - {program: "vector_sum.py:Worker", hosts: [h1, h2, h3], settings: {to: h4}}
  - {program: "vector_sum.py:Adder", hosts: h4, settings: {workers: 3}}
"""
ECHO = """\
  - {program: "stop_and_wait.py:Sender", hosts: h1, settings: {to: h3, messages: 5}}
  - {program: echo, hosts: h3, settings: {port: 9000, delay_ns: 2000}}
"""
PATIENCE_S = 30.0


def run_of(programs: str, loss: str = "0%") -> RunFile:
    return read_run(RUN.format(programs=programs, loss=loss), directory=PROGRAMS)


@pytest.fixture(scope="module")
def program() -> CompiledProgram:
    return CompiledProgram.of(compile_p4(FABRIC))


@pytest.fixture(scope="module")
def session(
    tmp_path_factory: pytest.TempPathFactory, program: CompiledProgram
) -> Iterator[Session]:
    with pytest.MonkeyPatch.context() as patch:
        root = tmp_path_factory.mktemp("roots")
        patch.setenv(run_state.RUN_ROOT_VARIABLE, str(root / "run"))
        patch.setenv(run_state.LOG_ROOT_VARIABLE, str(root / "log"))
        made = Session(run_of(STOP_AND_WAIT).topology.with_time_scale(SCALE), Target.SOFTSWITCH)
        try:
            made.claim()
            made.build_network()
            made.wait_for_switches()
            made.bring_up(program)
            yield made
        finally:
            made.close()


def set_loss(session: Session, loss: str) -> None:
    topology = run_of(STOP_AND_WAIT, loss).topology.with_time_scale(SCALE)
    player = FabricCalls(session)
    for call in calls(topology):
        player.perform(call)


def sent(path: Path) -> list[bytes]:
    return [bytes.fromhex(line.split()[2]) for line in path.read_text().splitlines()]


def simulated(
    run: RunFile, program: CompiledProgram
) -> tuple[Sequence[Mapping[str, Any]], dict[str, list[bytes]]]:
    """Return the same from virtual time."""
    simulation = Simulation(run, program, time_scale=SCALE)
    nodes = {simulation.fabric.nodes[host.name]: host.name for host in run.topology.hosts}
    for node in nodes:
        simulation.engine.tap(node, 0)
    outcome = simulation.run()
    frames: dict[str, list[bytes]] = {}
    for row in simulation.engine.take_tapped():
        if row.sent:
            frames.setdefault(nodes[row.node], []).append(row.data)
    return outcome.end.programs, frames


Counted = Mapping[str, Mapping[str, int]]


def wait_for(programs: HostPrograms, done: Callable[[Counted], bool]) -> None:
    """Until what hosts have counted is enough."""
    deadline = time.monotonic() + PATIENCE_S
    while not done({each["host"]: each["counters"] for each in programs.counters()}):
        assert time.monotonic() < deadline, programs.counters()
        time.sleep(0.05)


@pytest.mark.parametrize("programs", [STOP_AND_WAIT, ECHO], ids=["stop-and-wait", "echo in C"])
def test_without_loss_the_frames_are_those_of_virtual_time(
    session: Session, program: CompiledProgram, tmp_path: Path, programs: str
) -> None:
    run = run_of(programs)
    expected, frames = simulated(run, program)
    messages = expected[0]["counters"]["answered"]
    set_loss(session, "0%")
    with HostPrograms(session, run.programs, run.directory, record=tmp_path) as live:
        wait_for(live, lambda counted: counted["h1"].get("answered") == messages)
        assert live.stop() == list(expected)
    found = {path.stem: sent(path) for path in tmp_path.glob("*.sent")}
    assert found == frames
    assert sum(map(len, frames.values())) == 2 * messages


def test_each_message_arrives_once_over_a_lossy_link(session: Session) -> None:
    set_loss(session, "20%")
    run = run_of(STOP_AND_WAIT.replace("messages: 25", "messages: 25, timeout_ns: 15_000"))
    with HostPrograms(session, run.programs, run.directory) as live:
        wait_for(live, lambda counted: counted["h1"].get("answered") == 25)
        sender, taker = (each["counters"] for each in live.stop())
    assert taker["taken"] == 25
    assert sender["repeated"] > 0
    assert taker.get("seen before", 0) <= sender["repeated"]


def test_a_third_host_adds_up_real_payload(
    session: Session, program: CompiledProgram, tmp_path: Path
) -> None:
    run = run_of(SUM)
    expected, frames = simulated(run, program)
    set_loss(session, "0%")
    with HostPrograms(session, run.programs, run.directory, record=tmp_path) as live:
        wait_for(live, lambda all_: all(all_[host].get("sums") for host in ("h1", "h2", "h3")))
        counted = live.stop()
    assert counted == list(expected)
    total = sum((numbers(rank) for rank in (1, 2, 3)), np.zeros(LANES, dtype=np.int32))
    checksum = int(total.astype(np.int64).sum() % (1 << 32))
    assert [each["counters"]["of all lanes"] for each in counted[:3]] == [checksum] * 3
    assert {path.stem: sent(path) for path in tmp_path.glob("*.sent")} == frames


def test_a_failing_program_is_named_with_host_and_time(session: Session) -> None:
    run = run_of(STOP_AND_WAIT.replace("messages: 25", "messages: many"))
    set_loss(session, "0%")
    with (
        pytest.raises(HostProgramError, match=r"Sender on h1 at \d+ ns: TypeError: .*line \d+"),
        HostPrograms(session, run.programs, run.directory) as live,
    ):
        wait_for(live, lambda counted: False)


def test_two_programs_of_a_host_cannot_listen_to_one_port(session: Session) -> None:
    run = run_of(STOP_AND_WAIT + STOP_AND_WAIT.splitlines()[1])
    with (
        pytest.raises(HostProgramError, match="h3 at 0 ns: UDP port 9000: another program of"),
        HostPrograms(session, run.programs, run.directory) as live,
    ):
        wait_for(live, lambda counted: False)
