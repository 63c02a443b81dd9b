"""The worker of the simulator, unchanged, between namespaces: sums by two levels of switches.

s3 s4        two spines
| X |
s1  s2       two leaves, two hosts each; every link may lose frames
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from emulation.session import Session
from mechanisms.allreduce.workers import worker_of
from tests.emulation.host_program_runs import play, running
from workloads.loader import read_run
from workloads.model import RunFile

pytestmark = [pytest.mark.root, pytest.mark.realtime]

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
    with running(run_of(), tmp_path_factory.mktemp("roots")) as made:
        yield made


def test_sums_are_exact_under_loss(session: Session) -> None:
    counted = [each["counters"] for each in play(session, run_of(), 2 * 4)]
    assert [each["calls"] for each in counted] == [2] * 4
    assert [each["results"] for each in counted] == [2 * CHUNKS] * 4
    assert sum(each["wrong"] for each in counted) == 0
