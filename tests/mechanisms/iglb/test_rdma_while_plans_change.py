"""Real RDMA while the plan changes: jobs come and go, a link fails and returns, bytes are counted.

    h1 h2 h3 h4 - s1 =< s3, s4, s5, s6 >= s2 - h5 h6 h7 h8       10 Mb/s links, 5 ms each

Each host writes a buffer of random bytes to the host four places further, by two queue pairs in
messages of 32 KB, which takes six seconds at 3 Mb/s. Meanwhile:

    second job comes    all pins are written under version 2, then every switch follows that
    it ends             flows stay
    s1-s3 fails         its flows move in place
    it returns          they move back after the hold-down of a second
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import topologies
from controller.jobs import DeclaredJob, JobsEnded, JobsSubmitted
from emulation import run_state
from emulation.link_state import find_links
from emulation.session import Session
from emulation.switch_node import Target
from hostagent.agent import in_namespace
from hostagent.rnic.card_records import EventKind, Operation, QueuePairConfig, Work
from hostagent.rnic.card_statistics import QueuePairStats
from hostagent.rnic.endpoint import Endpoint
from hostagent.rnic.endpoint_records import EndpointConfig, Pair
from mechanisms.iglb.counters import IGLB
from mechanisms.iglb.in_force import InForce
from mechanisms.iglb.learner import PlannedPaths
from mechanisms.on_off import counts_of
from mechanisms.switch_programs import choose
from tests.hostagent.two_hosts import number
from tests.mechanisms.iglb.held import ring

pytestmark = [pytest.mark.root, pytest.mark.realtime, pytest.mark.long]

FABRIC = """\
time_scale: 10000
generator: leaf_spine
leaves: 2
spines: 4
hosts_per_leaf: 4
link: {rate: 100Gbps, delay: 500ns, queue: 4MB, mtu: 2200B}
iglb: {hold_down: 100us}
classes:
  roce: {dscp: 26, queue: 3}
  rest: {queue: 0}
"""
PAIRS = 2
FAR = 4
RATE_BPS = 3_000_000
MESSAGE, MESSAGES = 32 * 1024, 64
SIZE = MESSAGE * MESSAGES
TIMEOUT_PS = 2_000_000_000_000
PATIENCE_S = 90.0
_MAC = str.maketrans("", "", ":")


@contextmanager
def session(folder: Path) -> Iterator[Session]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(run_state.RUN_ROOT_VARIABLE, str(folder / "run"))
        patch.setenv(run_state.LOG_ROOT_VARIABLE, str(folder / "log"))
        made = Session(topologies.loads(FABRIC), Target.SOFTSWITCH)
        try:
            made.claim()
            made.build_network()
            made.wait_for_switches()
            chosen = choose(made.topology, made.target_facts()).programs
            made.bring_up(chosen.program, programs=chosen.others, own=chosen.own)
            yield made
        finally:
            made.close()


def endpoints(run: Session) -> list[Endpoint]:
    """One for each interface, in their namespaces; whoever calls closes them."""
    found = []
    for live in run.network.live_interfaces():
        macs = (live.mac, run.topology.switch(live.switch).mac)
        config = EndpointConfig(
            live.interface, number(live.address), *(int(mac.translate(_MAC), 16) for mac in macs)
        )
        found.append(in_namespace(live.pid, lambda config=config: Endpoint(config, None)))
    return found


@dataclass
class Flow:
    """A queue pair of a job: random bytes that its source writes to its target."""

    source: Endpoint
    target: Endpoint
    near: Pair
    far: Pair
    data: bytes = field(default_factory=lambda: os.urandom(SIZE))

    def begin(self) -> None:
        for n in range(MESSAGES):
            part = self.data[n * MESSAGE : (n + 1) * MESSAGE]
            place = {"remote_address": self.far.address + n * MESSAGE, "rkey": self.far.rkey}
            self.source.post(self.near.qpn, Work(n, Operation.WRITE, part, **place))

    def stats(self) -> QueuePairStats:
        return self.source.pair_stats(self.near.qpn)

    def disturbed(self) -> int:
        """Packets that either end saw twice, out of order, or sent again."""
        here, there = self.stats(), self.target.pair_stats(self.far.qpn)
        return here.repeated_packets + here.timeouts + there.out_of_order + there.duplicates


def joined(ends: list[Endpoint], job: DeclaredJob) -> list[Flow]:
    """Open a queue pair for each flow of a job, with the flow's source port."""
    flows = []
    for source, target, port in zip(job.source, job.target, job.udp_port, strict=True):
        both = ends[source], ends[target]
        config = QueuePairConfig(
            qpn=1, mtu=2048, rate_bps=RATE_BPS, timeout_ps=TIMEOUT_PS,
            ack_every=4,
        )  # fmt: skip
        near = both[0].open(config, buffer_bytes=SIZE, udp_port=int(port))
        far = both[1].open(config, buffer_bytes=SIZE)
        for end, own, other, peer in ((both[0], near, both[1], far), (both[1], far, both[0], near)):
            end.connect(own.qpn, other.config.ip, peer_qpn=peer.qpn, peer_psn=peer.psn)
        flows.append(Flow(*both, near, far))
    return flows


class Completions:
    """Which messages are complete; asks endpoints for their events, in a thread of its own."""

    def __init__(self, ends: list[Endpoint]) -> None:
        self.done: dict[tuple[Endpoint, int], list[int]] = {}
        self.failed: list[object] = []
        self._ends = ends
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def _follow(self) -> None:
        while not self._over.wait(0.02):
            for end in self._ends:
                for event in end.events():
                    if event.kind == EventKind.COMPLETED:
                        self.done.setdefault((end, event.qpn), []).append(event.id)
                    elif event.kind in (EventKind.FAILED, EventKind.QP_FAILED):
                        self.failed.append(event)

    def of(self, flow: Flow) -> list[int]:
        return self.done.get((flow.source, flow.near.qpn), [])

    def close(self) -> None:
        self._over.set()
        self._thread.join()


def until(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S:g} s for {what}"
        time.sleep(0.02)


class Planned:
    """What the run's controller has in force."""

    def __init__(self, run: Session) -> None:
        self.run = run

    def now(self) -> InForce:
        def asked(learner: PlannedPaths) -> InForce:
            assert learner.trouble == ""
            return learner.in_force

        return self.run.controller.ask("iglb", asked)

    def moved(self) -> int:
        return self.run.controller.ask("iglb", lambda learner: learner.counts.moved)

    def counted(self) -> dict[str, int]:
        """Return the leaves' counts of data packets, at the ports that they came by."""
        total: dict[str, int] = dict.fromkeys(IGLB.labels, 0)
        for leaf in ("s1", "s2"):
            for counts in counts_of(self.run.topology, self.run.controller, IGLB, leaf).values():
                for label, count in counts.items():
                    total[label] += count
        return total

    def crossing(self, link: str) -> list[bool]:
        """Say of the first job's flows whether they cross a link."""
        (found,) = find_links(self.run.topology, *link.split("-"))
        plan = self.now().plan
        assert plan is not None
        arcs = plan.arcs[plan.of("first")]
        links = np.where(arcs >= 0, arcs // 2, -1)
        return [bool(each) for each in (links == self.run.topology.links.index(found)).any(axis=1)]


def test_writes_go_on_while_plans_change(tmp_path: Path) -> None:
    with session(tmp_path) as run, ExitStack() as stack:
        first = ring(run.topology, "first", PAIRS, FAR)
        second = ring(run.topology, "second", PAIRS, FAR + 1)
        run.controller.schedule(JobsSubmitted((first,)))
        ends = [stack.enter_context(end) for end in endpoints(run)]
        flows = joined(ends, first)
        seen = Completions(ends)
        stack.callback(seen.close)
        planned = Planned(run)
        before = planned.now()
        for flow in flows:
            flow.begin()

        def flowing(more: int) -> None:
            """Wait until each flow has completed so many messages more."""
            wanted = {id(flow): len(seen.of(flow)) + more for flow in flows}
            until("messages", lambda: all(len(seen.of(f)) >= wanted[id(f)] for f in flows))

        flowing(4)
        run.controller.schedule(JobsSubmitted((second,)))
        now = planned.now()
        assert now.version == before.version + 1 and len(now.jobs) == 2
        flowing(4)
        run.controller.schedule(JobsEnded(("second",)))
        assert len(planned.now().jobs) == 1
        flowing(4)
        assert planned.moved() == 0
        assert [flow.disturbed() for flow in flows] == [0] * len(flows), "no flow moved"
        counted = planned.counted()
        assert counted["pinned"] > 0
        assert counted["unplanned"] == counted["port_down"] == 0, "each found its pin, always"

        touched = planned.crossing("s1-s3")
        assert 0 < sum(touched) < len(flows)
        links = find_links(run.topology, "s1", "s3")
        run.links.switch(links, up=False)
        assert not any(planned.crossing("s1-s3"))
        assert planned.moved() == sum(touched)
        assert min(len(seen.of(flow)) for flow in flows) < MESSAGES, "they still send"
        healthy = [flow for flow, crosses in zip(flows, touched, strict=True) if not crosses]
        wanted = {id(flow): len(seen.of(flow)) + 4 for flow in healthy}
        until("messages", lambda: all(len(seen.of(f)) >= wanted[id(f)] for f in healthy))
        run.links.switch(links, up=True)
        until("the way back", lambda: planned.crossing("s1-s3") == touched)
        assert planned.now().pins == before.pins

        until("the end", lambda: all(len(seen.of(f)) == MESSAGES for f in flows) or seen.failed)
        assert seen.failed == []
        for flow in flows:
            assert seen.of(flow) == list(range(MESSAGES))
            assert flow.target.memory(flow.far.qpn)[:SIZE] == flow.data
        assert [flow.disturbed() for flow in healthy] == [0] * len(healthy)
        assert planned.moved() == 2 * sum(touched)
        assert planned.counted()["unplanned"] == 0
        lost = sum(flow.disturbed() for flow in flows)
        assert lost > 0, "the link that failed carried packets"
