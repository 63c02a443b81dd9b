"""What a run's jobs are declared as: flow sets by phase, from split, placement and phases."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from controller.jobs import DeclaredJob
from topologies.model import Topology
from workloads import source_ports
from workloads.declared import declarations, declared_jobs
from workloads.loader import read_run
from workloads.model import RunFile, SpanKind
from workloads.plan import plan

FABRIC = """\
topology:
  generator: leaf_spine
  leaves: 4
  spines: 2
  hosts_per_leaf: 2
  link: {rate: 100Gbps, delay: 1us, queue: 1MB, mtu: 4200B}
"""


def job(text: str, **rest: object) -> DeclaredJob:
    run = read_run(FABRIC + text)
    (found,) = declared_jobs(run, plan(run, **rest))  # type: ignore[arg-type]
    return found


def pairs(of: DeclaredJob, number: int) -> set[tuple[int, int]]:
    """Return source and target, as places of interfaces, of a set's flows."""
    flow = of.sets[number].flow
    return set(zip(of.source[flow].tolist(), of.target[flow].tolist(), strict=True))


def test_a_ring_is_one_permutation_whatever_its_steps_and_iterations() -> None:
    ring = job("job: {ranks: 8, iterations: 3, phases: [{allreduce: {bytes: 8MB, repeat: 2}}]}")
    assert len(ring.sets) == 1 and len(ring) == 8
    assert pairs(ring, 0) == {(i, (i + 1) % 8) for i in range(8)}
    # Twice 2 (n - 1) steps of an eighth each.
    assert ring.sets[0].bytes.tolist() == [2 * 14 * 10**6] * 8


def test_an_all_to_all_is_a_permutation_a_step() -> None:
    all_to_all = job("job: {ranks: 8, phases: [{alltoall: {bytes: 7MB, channels: 2}}]}")
    assert [each.phase for each in all_to_all.sets] == list(range(7))
    for step in range(7):
        assert pairs(all_to_all, step) == {(i, (i + step + 1) % 8) for i in range(8)}
        assert len(all_to_all.sets[step].flow) == 16, "each by two queue pairs"
        assert all_to_all.sets[step].bytes.sum() == 8 * 10**6


def test_groups_of_a_split_send_together() -> None:
    split = "job: {ranks: 8, tp: 2, dp: 4, phases: [{reducescatter: {bytes: 4MB, over: dp}}]}"
    rings = job(split)
    assert pairs(rings, 0) == {(i, (i + 2) % 8) for i in range(8)}
    moe = job("job: {ranks: 8, dp: 8, ep: 4, phases: [{alltoall: {bytes: 3MB, over: ep}}]}")
    first = {(4 * g + i, 4 * g + (i + 1) % 4) for g in range(2) for i in range(4)}
    assert len(moe.sets) == 3 and pairs(moe, 0) == first


def test_what_goes_on_in_the_background_is_beside_all_later_phases() -> None:
    both = job(
        "job:\n  ranks: 4\n  phases:\n"
        "    - {allgather: {bytes: 4MB}, background: true}\n"
        "    - allreduce: {bytes: 4MB}\n    - alltoall: {bytes: 3MB}\n"
    )
    names = [(each.phase, each.name.split(" ")[3]) for each in both.sets]
    assert [place for place, name in names if name == "allgather"] == [0, 1, 2, 3]
    assert sorted({place for place, _ in names}) == [0, 1, 2, 3]


def test_what_ends_an_iteration_in_the_background_is_a_phase() -> None:
    """Two at a time: the ring, and the all-to-all's three steps."""
    last = job(
        "job:\n  ranks: 4\n  phases:\n    - allreduce: {bytes: 4MB}\n"
        "    - {allgather: {bytes: 4MB}, background: true}\n"
        "    - {alltoall: {bytes: 3MB}, background: true}\n"
    )
    names = [(each.phase, each.name.split(" ")[3]) for each in last.sets]
    expected = [(0, "allreduce"), (1, "allgather"), (1, "alltoall"), (2, "alltoall")]
    assert names == [*expected, (3, "alltoall")]


def test_placement_and_ports_are_those_of_the_traffic() -> None:
    run = read_run(
        FABRIC + "jobs:\n  - {name: a, ranks: 2, placement: [h8, h1], phases: [{allreduce: "
        "{bytes: 1MB}}]}\n  - {name: b, ranks: 2, placement: [h3, h2], phases: [{allreduce: "
        "{bytes: 1MB}}]}\ntraffic: [{permutation: {bytes: 1MB}}]\n"
    )
    traffic = plan(run)
    one, a, b = declarations(run, traffic)
    assert [each.job.name for each in (one, a, b)] == ["permutation 0", "a", "b"]
    assert a.job.source.tolist() == [7, 0] and a.job.target.tolist() == [0, 7]
    assert b.job.source.tolist() == [2, 1]
    for each in (one, a, b):
        assert each.job.udp_port.tolist() == traffic.flows["udp_port"][each.flows].tolist()
        hosts = traffic.flows["src"][each.flows].tolist()
        assert each.job.source.tolist() == hosts, "one interface a host"


@pytest.mark.parametrize("phase", ["allreduce: {bytes: 8MB}", "alltoall: {bytes: 7MB, window: 2}"])
def test_messages_that_are_made_as_they_are_due_are_declared_alike(phase: str) -> None:
    text = f"job: {{ranks: 8, phases: [{{{phase}}}]}}"
    kept, due = job(text), job(text, keep=0)
    assert [each.flow.tolist() for each in kept.sets] == [each.flow.tolist() for each in due.sets]
    assert [each.bytes.tolist() for each in kept.sets] == [each.bytes.tolist() for each in due.sets]


class Ports:
    """Chooses 50000 and up, in every fabric."""

    def declares(self, topology: Topology) -> bool:
        return True

    def ports(
        self, topology: Topology, jobs: Sequence[DeclaredJob]
    ) -> tuple[source_ports.Ports, ...]:
        return tuple(50_000 + np.arange(len(each)) for each in jobs)

    def rotates(self, topology: Topology) -> bool:
        return True

    def late_ps(
        self, topology: Topology, jobs: Sequence[DeclaredJob], starts_ps: Sequence[int]
    ) -> tuple[int, ...]:
        """Each job 1 us later than the one before."""
        return tuple(10**6 * number for number in range(len(jobs)))


def test_a_fabric_that_is_told_of_jobs_may_choose_their_ports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run: RunFile = read_run(FABRIC + "job: {ranks: 8, phases: [{allreduce: {bytes: 8MB}}]}")
    before = plan(run).flows["udp_port"].tolist()
    monkeypatch.setattr(source_ports, "_installed", [Ports()])
    assert plan(run).flows["udp_port"].tolist() == list(range(50_000, 50_008)) != before


def test_a_fabric_that_is_told_of_jobs_may_have_them_start_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def told(number: int, iterations: int) -> str:
        hosts = ", ".join(f"h{2 * number + each}" for each in (1, 2))
        phases = "phases: [{compute: 1us}, {allreduce: {bytes: 1MB}}]"
        return f"{{ranks: 2, placement: [{hosts}], iterations: {iterations}, start: 5us, {phases}}}"

    run = read_run(f"{FABRIC}jobs: [{told(0, 2)}, {told(1, 1)}, {told(2, 2)}]")
    monkeypatch.setattr(source_ports, "_installed", [Ports()])
    starts = [span.start_ps for span in plan(run).spans if span.kind is SpanKind.JOB]
    assert starts == [5_000_000, 5_000_000, 6_000_000], "those alone that come again"


def test_computing_counts_before_the_phase_that_waits_for_it() -> None:
    phases = """
      - compute: 10us
      - {alltoall: {bytes: 1MB}}
      - compute: 2us
      - compute: 3us
      - {allreduce: {bytes: 1MB, repeat: 4, compute: 1us}}
      - compute: 7us
    """
    found = job(f"job:\n    ranks: 4\n    phases:{phases}")
    assert sorted({each.phase for each in found.sets}) == [0, 1, 2, 3]
    (begin, first), (ring, gap), (behind, last) = found.computing
    assert (begin, ring) == (0, 3) and behind > 3
    assert (first, gap, last) == pytest.approx((10e-6, 9e-6, 7e-6))
    assert job("job: {ranks: 4, phases: [{alltoall: {bytes: 1MB}}]}").computing == ()


def test_queue_pairs_that_share_messages_share_their_bytes() -> None:
    striped = job(
        "job: {ranks: 8, phases: [{allreduce: {bytes: 8MB}}]}\n"
        "transport: {congestion_control: none, queue_pairs: 4, striping: as-drained}\n"
    )
    assert len(striped) == 32 and len(set(striped.udp_port.tolist())) > 30
    assert pairs(striped, 0) == {(i, (i + 1) % 8) for i in range(8)}
    assert striped.sets[0].bytes.tolist() == [14 * 10**6 // 4] * 32


PLANES = """\
topology:
  generator: dual_plane
  leaves: 2
  spines: 2
  hosts_per_leaf: 2
  link: {rate: 100Gbps, delay: 1us, queue: 1MB, mtu: 4200B}
  iglb: %s
  overrides: [{between: [h1, s3], rate: 300Gbps}, {between: [h3, s4], rate: 300Gbps}]
transport: {congestion_control: none, retransmission: selective-repeat, interfaces: all}
traffic: [{matrix: {hosts: [h1, h3, h4], bytes: [[0, 8MB, 8MB], [0, 0, 0], [0, 0, 0]]}}]
"""


@pytest.mark.parametrize("setting", ["true", "{pinning: ports}"])
def test_a_queue_pair_over_all_interfaces_is_a_flow_for_each_with_its_rates_share(
    setting: str,
) -> None:
    run = read_run(PLANES % setting)
    traffic = plan(run)
    (found,) = declared_jobs(run, traffic)
    interfaces = enumerate(run.topology.interfaces())
    ends = {(each.host, each.number): place for place, each in interfaces}
    to_h3 = [(ends["h1", n], ends["h3", n]) for n in (0, 1)]
    to_h4 = [(ends["h1", n], ends["h4", n]) for n in (0, 1)]
    (sent,) = found.sets
    flows = list(zip(found.source.tolist(), found.target.tolist(), strict=True))
    assert sorted(flows) == sorted(to_h3 + to_h4)
    assert sent.flow.tolist() == list(range(4))
    at = dict(zip(flows, sent.bytes.tolist(), strict=True))
    assert [at[pair] for pair in to_h3] == [2 * 10**6, 6 * 10**6], "100 and 300 Gb/s"
    assert [at[pair] for pair in to_h4] == [4 * 10**6] * 2, "the slower end decides"
    assert found.is_open, "one source port for all interfaces, so nobody may choose it"
    assert set(found.udp_port.tolist()) == set(traffic.flows["udp_port"].tolist())
    assert len(set(found.udp_port.tolist())) == 2
