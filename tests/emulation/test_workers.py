"""The worker of the simulator, unchanged, between namespaces: sums by two levels of switches.

s3 s4        two spines
| X |
s1  s2       two leaves, two hosts each; every link may lose frames
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from controller import CompiledProgram
from emulation import run_state
from emulation.link_events import FabricCalls
from emulation.programs import HostPrograms
from emulation.session import Session
from emulation.switch_node import Target
from mechanisms.allreduce.workers import worker_of
from mechanisms.program import FABRIC
from mechanisms.switch_programs import compile_for
from topologies.events import calls
from workloads.loader import read_run
from workloads.model import RunFile

pytestmark = [pytest.mark.root, pytest.mark.realtime]

SCALE = 10_000
PATIENCE_S = 90.0
LANES, CHUNKS = 8, 40
TOPOLOGY = """\
topology:
  generator: leaf_spine
  spines: 2
  leaves: 2
  hosts_per_leaf: 2
  link: {rate: 400Gbps, delay: 500ns, queue: 1MB}
  allreduce: {lanes: 8, slots: 16, jobs: {sums: {workers: all}}}
"""
LOSS = "".join(
    f"  - {{at: 0ns, link: s{leaf}-s{spine}, loss: 2%}}\n" for leaf in (1, 2) for spine in (3, 4)
)


def run_of() -> RunFile:
    echo = "programs: [{program: echo, hosts: [h1]}]\n"
    bare = read_run(TOPOLOGY + echo)
    programs = ""
    for host in bare.topology.hosts:
        worker = worker_of(bare.topology, "sums", host.name)
        own = {
            **vars(worker),
            "gateway": int(host.interfaces[0].gateway),
            "bytes": 4 * LANES * CHUNKS,
            "repeat": 2,
            "timeout_ns": 20_000,
            "give_up_ns": 0,
        }
        said = ", ".join(f"{key}: {value}" for key, value in own.items())
        programs += f"  - {{program: allreduce, hosts: [{host.name}], settings: {{{said}}}}}\n"
    return read_run(f"{TOPOLOGY}events:\n{LOSS}programs:\n{programs}")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    run = run_of()
    program = CompiledProgram.of(compile_for(run.topology)(FABRIC), FABRIC)
    with pytest.MonkeyPatch.context() as patch:
        root = tmp_path_factory.mktemp("roots")
        patch.setenv(run_state.RUN_ROOT_VARIABLE, str(root / "run"))
        patch.setenv(run_state.LOG_ROOT_VARIABLE, str(root / "log"))
        made = Session(run.topology.with_time_scale(SCALE), Target.SOFTSWITCH)
        try:
            made.claim()
            made.build_network()
            made.wait_for_switches()
            made.bring_up(program)
            yield made
        finally:
            made.close()


def test_sums_are_exact_under_loss(session: Session) -> None:
    run = run_of()
    fabric = FabricCalls(session)
    for call in calls(run.topology.with_time_scale(SCALE)):
        fabric.perform(call)
    with HostPrograms(session, run.programs, run.directory) as programs:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            done = [each["counters"].get("calls", 0) for each in programs.counters()]
            if done == [2] * 4:
                break
            time.sleep(0.1)
        counted = [each["counters"] for each in programs.stop()]
    assert [each["calls"] for each in counted] == [2] * 4
    assert [each["results"] for each in counted] == [2 * CHUNKS] * 4
    assert sum(each["wrong"] for each in counted) == 0
