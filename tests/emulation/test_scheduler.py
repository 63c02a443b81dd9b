"""Jobs that come and go on a fabric that is up: the scheduler, its gRPC server and its client.

leafspine: h1, h2 - s1 =< s3, s4 >= s2 - h3, h4
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import topologies
from controller.jobs import DeclaredJob
from emulation.errors import EmulationError
from emulation.scheduler import requests
from emulation.scheduler.client import JobsClient, JobsError
from emulation.scheduler.messages import message
from emulation.scheduler.scheduler import NobodyPlansError, NoSuchJobError, Scheduler
from emulation.scheduler.server import JobsServer
from emulation.scheduler.states import JobState
from tests.emulation.toy_planner import Controlled, ToyPlanner
from topologies.document import parse_document
from topologies.errors import TopologyError
from workloads.job_files import NameTakenError

RING = "job: {ranks: 2, placement: [h1, h3], phases: [{allreduce: {bytes: 8MB, channels: 2}}]}"
PAIR = "job: {name: two, ranks: 2, phases: [{allreduce: {bytes: 1MB}}]}"


class Run:
    """A scheduler whose controller may be started again."""

    def __init__(self) -> None:
        self.topology = topologies.load("leafspine")
        self.planner = ToyPlanner()
        self.controller = Controlled(self.topology, self.planner)
        self.scheduler = Scheduler(self.topology, lambda: self.controller)  # type: ignore[arg-type, return-value]

    def restart(self) -> None:
        self.planner = ToyPlanner()
        self.controller = Controlled(self.topology, self.planner)
        self.scheduler.jobs()

    def submit(self, text: str, **rest: Any) -> tuple[JobState, ...]:
        return self.scheduler.submit(parse_document(text, "ring.yaml"), **rest)


@pytest.fixture
def run() -> Run:
    return Run()


def test_a_job_gets_its_ports_and_the_next_one_what_is_left(run: Run) -> None:
    (ring,) = run.submit(RING)
    assert (ring.name, ring.placement) == ("ring", ("h1", "h3"))
    pairs = [(p.source, p.target, p.number, p.udp_port, p.by_entry) for p in ring.queue_pairs]
    assert sorted(pairs) == [
        ("h1", "h3", 0, 50_000, False),
        ("h1", "h3", 1, 50_002, False),
        ("h3", "h1", 0, 50_001, True),
        ("h3", "h1", 1, 50_003, True),
    ]
    # An AllReduce of two ranks passes each half of the buffer twice, over two queue pairs.
    assert {p.bytes for p in ring.queue_pairs} == {4_000_000}
    assert ring.quality is not None
    assert (ring.quality.quality, ring.quality.proof) == (0.75, "a cut")
    (two,) = run.submit(PAIR)
    assert two.placement == ("h2", "h4"), "not where the ring runs"
    assert [each.name for each in run.scheduler.jobs().jobs] == ["ring", "two"]
    assert two.queue_pairs[0].udp_port == 50_100
    left = run.scheduler.end(["ring"])
    assert [each.name for each in left] == ["two"]
    assert left[0].queue_pairs[0].udp_port == 50_000, "planned again"
    assert run.submit(RING.replace("[h1, h3]", "[h3, h1]"))[0].placement == ("h3", "h1")


def test_names_are_the_files_the_jobs_or_the_callers(run: Run) -> None:
    assert run.submit(RING, name="other")[0].name == "other"
    assert run.submit(PAIR)[0].name == "two"
    run.scheduler.end(["two"])
    assert run.submit(f"name: third\n{PAIR.replace('name: two, ', '')}")[0].name == "third"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (RING.replace("h3", "h9"), "no host is called 'h9'"),
        (RING.replace("ranks: 2", "ranks: 3"), "2 hosts for 3 ranks"),
        (
            RING.replace("ranks: 2", "ranks: 2, tp: 3"),
            "tp x pp = 3 x 1 = 3 does not divide 2 ranks",
        ),
        (RING.replace("h3", "h2"), "h2 already runs rank 0 of two"),
        (f"topology: rail\n{RING}", "the fabric is the one that is up"),
        ("job: {ranks: 2, phases: [{compute: 1us}]}", "the job only computes"),
        (RING.replace("channels: 2", "algorithm: in-network"), "no queue pair joins ranks"),
        ("ranks: 2", "a job file has 'job'"),
    ],
)
def test_bad_jobs_are_refused_and_nothing_changes(run: Run, text: str, says: str) -> None:
    run.submit(PAIR.replace("ranks: 2", "ranks: 2, placement: [h2, h4]"))
    before = run.scheduler.jobs()
    with pytest.raises(TopologyError) as refused:
        run.submit(text)
    assert says in str(refused.value) and "ring.yaml:1" in str(refused.value)
    assert run.scheduler.jobs() == before and len(run.planner.told) == 1


def test_taken_and_unknown_names_are_refused(run: Run) -> None:
    run.submit(RING)
    with pytest.raises(NameTakenError, match="a job called 'ring' runs already"):
        run.submit(PAIR, name="ring")
    with pytest.raises(NoSuchJobError, match="no job 'rings' runs; did you mean 'ring'"):
        run.scheduler.end(["ring", "rings"])
    assert [each.name for each in run.scheduler.jobs().jobs] == ["ring"]


def test_a_controller_that_is_started_again_hears_of_jobs_with_their_ports(run: Run) -> None:
    run.submit(RING)
    run.restart()
    assert run.planner.told == [("ring", [50_000, 50_001, 50_002, 50_003])]
    assert run.planner.jobs["ring"].is_open
    run.restart()
    run.scheduler.end(["ring"])
    run.restart()
    assert run.planner.told == []


def test_a_controller_is_brought_up_with_the_jobs_that_run(run: Run) -> None:
    run.submit(RING)
    planner = ToyPlanner()

    def bring_up(jobs: tuple[DeclaredJob, ...]) -> int:
        run.controller = Controlled(run.topology, planner)
        planner.submitted(jobs, 0)
        return len(jobs)

    assert run.scheduler.taken_over(bring_up) == 1
    assert planner.jobs["ring"].is_open
    run.scheduler.jobs()
    assert planner.told == [("ring", [50_000, 50_001, 50_002, 50_003])], "told once"


def test_a_fabric_in_which_nobody_plans_says_so() -> None:
    run = Run()
    run.controller = Controlled(run.topology, None)
    with pytest.raises(NobodyPlansError, match="no planner uses jobs in leafspine"):
        run.submit(RING)


def test_other_terminals_ask_for_the_same(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "llm.yaml"
    file.write_text(RING)
    (said,) = requests.answer(run.scheduler, ["submit", str(file), ""])
    assert '"name": "llm"' in said and '"udp_port": 50003' in said
    (left,) = requests.answer(run.scheduler, ["end", "llm"])
    assert '"jobs": []' in left
    with pytest.raises(TopologyError, match="can't be read: No such file"):
        list(requests.answer(run.scheduler, ["submit", str(tmp_path / "none.yaml"), ""]))


# ---------------------------------------------------------------- over gRPC


@pytest.fixture
def client(run: Run) -> Iterator[JobsClient]:
    server = JobsServer(run.scheduler)
    with JobsClient(server.address, timeout_s=20) as client:
        yield client
    server.close()


def test_a_client_gets_what_the_scheduler_says(run: Run, client: JobsClient) -> None:
    found = client.submit(RING, name="ring")
    assert found == run.scheduler.jobs().jobs
    phase = message("Phase", kind="allreduce", bytes=8_000_000, channels=2)
    beside = message("Phase", parallel=[phase], background=True)
    same = message("Job", name="said", ranks=2, placement=["h2", "h4"], phases=[beside])
    (said,) = client.submit_message(same)
    assert said.placement == ("h2", "h4") and len(said.queue_pairs) == 4
    assert client.jobs() == run.scheduler.jobs()
    assert [each.name for each in client.end("ring").jobs] == ["said"]
    linear = message("Job", ranks=2, placement=["linear"], phases=[phase])
    assert client.submit_message(linear, name="l")[0].placement == ("h1", "h3")


def test_a_client_reads_files_and_mappings(client: JobsClient, tmp_path: Path) -> None:
    file = tmp_path / "llm.yaml"
    file.write_text(RING)
    assert client.submit(file)[0].name == "llm"
    phases = [{"allreduce": {"bytes": "1MB"}}]
    assert client.submit({"name": "two", "ranks": 2, "phases": phases})[0].ranks == 2


def test_a_job_of_simai_is_read_where_the_client_is(client: JobsClient, tmp_path: Path) -> None:
    step = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 1 ga: 1 "
    step += "all_gpus: 4 checkpoints: 0 checkpoint_initiates: 0 pp_comm: 0\n1\n"
    step += "layer -1 10 ALLREDUCE 4000000 10 NONE 0 10 ALLREDUCE 8000000 10\n"
    (tmp_path / "step.txt").write_text(step)
    file = tmp_path / "step.yaml"
    file.write_text("job: {simai: step.txt}")
    (found,) = client.submit(file)
    # Two tensor-parallel pairs, and a data-parallel pair for each tensor rank: both ways.
    pairs = {(p.source, p.target): p.bytes for p in found.queue_pairs}
    assert (found.name, found.ranks, len(pairs)) == ("step", 4, 8)
    assert pairs["h1", "h2"] == 4_000_000 and pairs["h1", "h3"] == 8_000_000
    with pytest.raises(JobsError, match="'simai' names a file"):
        client.submit("job: {simai: /etc/hosts}")


def test_calls_fail_with_codes_and_reasons(run: Run, client: JobsClient) -> None:
    client.submit(RING, name="ring")
    cases = [
        (lambda: client.submit(PAIR, name="ring"), "ALREADY_EXISTS", "runs already"),
        (lambda: client.submit("job: {ranks: 2"), "INVALID_ARGUMENT", "job:1:15: not valid YAML"),
        (lambda: client.submit(""), "INVALID_ARGUMENT", "a job file has 'job'"),
        (lambda: client.end("none"), "NOT_FOUND", "no job 'none' runs"),
    ]
    for call, code, says in cases:
        with pytest.raises(JobsError) as failed:
            call()
        assert failed.value.code == code and says in str(failed.value)
    run.controller = Controlled(run.topology, None)
    with pytest.raises(JobsError) as failed:
        client.jobs()
    assert failed.value.code == "FAILED_PRECONDITION" and "topology's file" in str(failed.value)


def test_a_client_follows_changes(client: JobsClient) -> None:
    seen: list[tuple[str, ...]] = []
    first = threading.Event()

    def watch() -> None:
        for states in client.follow():
            seen.append(tuple(each.name for each in states.jobs))
            first.set()
            if len(seen) == 3:
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert first.wait(20)
    client.submit(RING, name="ring")
    while len(seen) < 2:  # a follower is told of the last state, not of each
        assert watcher.is_alive()
        first.wait(0.01)
    client.end("ring")
    watcher.join(20)
    assert seen == [(), ("ring",), ()]


def test_a_client_hears_of_plans_that_links_change(run: Run, client: JobsClient) -> None:
    client.submit(RING, name="ring")
    following = client.follow()
    first = next(following).jobs[0].quality
    run.planner.version += 1  # as if a link had failed
    second = next(following).jobs[0].quality
    assert first is not None and second is not None
    assert second.version == first.version + 1


def test_no_free_port_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr("emulation.scheduler.server.FIRST_PORT", port)
        monkeypatch.setattr("emulation.scheduler.server.PORTS", 1)
        with pytest.raises(EmulationError, match=f"no port of {port} to {port} is free") as found:
            JobsServer(run.scheduler)
        assert "ss -ltnp" in found.value.remedy


def test_nobody_answers_after_the_end(run: Run) -> None:
    server = JobsServer(run.scheduler)
    client = JobsClient(server.address, timeout_s=5)
    following = client.follow()
    assert next(following).jobs == ()
    server.close()
    assert list(following) == []
    with pytest.raises(JobsError, match="no answer"):
        client.jobs()
    client.close()
