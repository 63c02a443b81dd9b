"""Best effort between namespaces: two jobs on one pool of few cells, and their servers.

s3 s4        two spines
| X |
s1  s2       two leaves, four hosts each; links between switches lose frames

The programs are the simulator's, unchanged. Every sum is checked by each worker.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from emulation.session import Session
from mechanisms.allreduce.workers import server_of_job, worker_of
from tests.emulation.host_program_runs import play, running
from workloads.loader import read_run
from workloads.model import RunFile

pytestmark = [pytest.mark.root, pytest.mark.realtime]

LANES, CHUNKS, CALLS = 8, 40, 2
JOBS = {"a": ("h1", "h2", "h5"), "b": ("h3", "h6", "h7")}
TOPOLOGY = """\
topology:
  generator: leaf_spine
  spines: 2
  leaves: 2
  hosts_per_leaf: 4
  link: {rate: 400Gbps, delay: 500ns, queue: 1MB}
  allreduce:
    lanes: 8
    slots: 1
    best_effort: {pool: 4}
    jobs:
      a: {workers: [h1, h2, h5], server: h8, slots: 16}
      b: {workers: [h3, h6, h7], server: h4, slots: 16}
"""
LOSS = "".join(
    f"  - {{at: 0ns, link: s{leaf}-s{spine}, loss: 2%}}\n" for leaf in (1, 2) for spine in (3, 4)
)


def run_of() -> RunFile:
    bare = read_run(TOPOLOGY + "programs: [{program: echo, hosts: [h1]}]\n")
    placed: list[tuple[str, str, dict[str, object]]] = []
    for job, hosts in JOBS.items():
        found = server_of_job(bare.topology, job)
        assert found is not None
        placed.append(("allreduce_server", found[0], {**vars(found[1]), "quiet_ns": 10_000}))
        for host in hosts:
            worker = vars(worker_of(bare.topology, job, host))
            calls_of = {"bytes": 4 * LANES * CHUNKS, "repeat": CALLS}
            times = {"timeout_ns": 20_000, "give_up_ns": 0}
            placed.append(("allreduce", host, {**worker, **calls_of, **times}))
    programs = ""
    for program, host, settings in placed:
        settings["gateway"] = int(bare.topology.host(host).interfaces[0].gateway)
        said = ", ".join(f"{key}: {value}" for key, value in settings.items())
        programs += f"  - {{program: {program}, hosts: [{host}], settings: {{{said}}}}}\n"
    return read_run(f"{TOPOLOGY}events:\n{LOSS}programs:\n{programs}")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with running(run_of(), tmp_path_factory.mktemp("roots")) as made:
        yield made


def test_sums_of_two_jobs_on_few_cells_are_exact_under_loss(session: Session) -> None:
    counted = play(session, run_of(), CALLS * 6)
    workers = [each["counters"] for each in counted if each["program"] == "allreduce"]
    servers = [each["counters"] for each in counted if each["program"] == "allreduce_server"]
    assert [each["calls"] for each in workers] == [CALLS] * 6
    assert [each["results"] for each in workers] == [CALLS * CHUNKS] * 6
    assert [each["results"] for each in servers] == [CALLS * CHUNKS] * 2
    assert sum(each["wrong"] for each in workers) == 0
    assert sum(each["taken"] for each in servers) > 2 * CALLS * CHUNKS
    assert any(0 < each["whole"] < CALLS * CHUNKS for each in servers)
