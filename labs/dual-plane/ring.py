"""AllReduce by RDMA between hosts' namespaces while a link is cut and mended; every sum is read.

Each rank is a ring's (hostagent.collective) in its host's namespace, over both planes of its card.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from emulation.network import namespace_name
from emulation.session import Session, require_root
from experiments.live_events import check_played, event_player
from hostagent.agent import in_namespace
from hostagent.collective.neighbours import listen
from hostagent.collective.rdma import Line, RdmaSettings
from hostagent.collective.ring import Ring
from labs import Context, LabError, Measured, live, live_beside
from labs.fabric_program import program_of
from labs.live_model import LiveSettings
from topologies.model import Host
from workloads.model import RunFile
from workloads.plan import plan
from workloads.transport import Transport

PS_PER_US = 1_000_000
PORT = 28795
LANES = 256
PATIENCE_S = 120.0
POLL_S = 0.01
NAMESPACES = Path("/run/netns")


@dataclass
class _Job:
    """What ranks share; times are the machine's monotonic ns."""

    hosts: tuple[Host, ...]
    values: int
    seed: int
    begun: threading.Event = field(default_factory=threading.Event)

    def given(self, rank: int) -> Any:
        """Return a rank's integers."""
        random = np.random.default_rng([self.seed, rank])
        return random.integers(-(2**31), 2**31, self.values, np.int32)

    @property
    def sums(self) -> Any:
        """Return what all of them come to, modulo 2^32."""
        return sum(self.given(rank).view(np.uint32) for rank in range(len(self.hosts)))


@dataclass(frozen=True)
class _Told:
    """What a rank has to say."""

    began_ns: int
    ended_ns: int
    sums: Any
    counters: dict[str, int]


def measure_live(context: Context, run: RunFile) -> dict[str, Measured]:
    """Play it over namespaces. Needs root.

    Raises LabError, EmulationError; CollectiveError where a rank's queue pair fails.
    """
    require_root("a lab in real time")
    topology = run.topology.with_time_scale(context.time_scale)
    job = _Job(topology.hosts, _bytes(context) // 4, context.seed)
    transport = plan(run, context.seed).transports[0]
    program = program_of(context, run.topology)
    with live.fabric_up(topology, program, context.tell) as (session, interrupts):
        cards = [_card(session, host, transport) for host in job.hosts]
        with event_player(session) as events, ThreadPoolExecutor(len(cards)) as pool:
            ranks = [pool.submit(_rank, job, session, rank, cards) for rank in range(len(cards))]
            while not all(rank.done() for rank in ranks):
                interrupts.check()
                if job.begun.wait(POLL_S) and not events.started:
                    events.start()
                time.sleep(POLL_S)
            check_played(run, events)
            if events.pending:
                raise LabError(f"{context.variant.name}: the sums were there before the failure")
    return _measured(job, ranks, context.time_scale)


def measure_beside(context: Context, run: RunFile) -> dict[str, Measured]:
    """Play it in virtual time, slowed down as much. Raises LabError."""
    settings = LiveSettings(context.time_scale, seed=context.seed)
    seen = live_beside.simulate(run, program_of(context, run.topology), settings, alike=False)
    ends = [flow.done_ps for flow in seen.flows]
    if None in ends:
        raise LabError(f"{seen.name}: the AllReduce was not over at the end")
    took = max(end for end in ends if end is not None) - min(f.start_ps for f in seen.flows)
    return {
        "message": Measured(took / PS_PER_US, "us"),
        "repeated": Measured(seen.count("repeated_packets")),
        "losses": Measured(sum(plane.losses for flow in seen.flows for plane in flow.planes)),
    }


def _bytes(context: Context) -> int:
    text = context.mapping["job"]["phases"][0]["allreduce"]["bytes"]
    return int(str(text).removesuffix("MB")) * 10**6


def _card(session: Session, host: Host, transport: Transport) -> RdmaSettings:
    topology = session.topology
    scale, pins = topology.time_scale, session.endpoints.pins()
    first, *more = (
        Line(f"{host.name}-eth{each.number}", str(each.address.ip), str(each.gateway))
        for each in host.interfaces
    )
    return RdmaSettings(
        first.interface,
        first.address,
        first.gateway,
        maps="" if pins is None else str(pins),
        line_rate_bps=topology.real_rate_bps(topology.link_at(host.name)),
        timeout_us=transport.timeout_ps * scale // PS_PER_US,
        also=tuple(more),
        planes=transport.planes.with_time_scale(scale),
        control=transport.fields(scale),
        reorder_us=transport.reorder_ps * scale // PS_PER_US,
    )


def _rank(job: _Job, session: Session, rank: int, cards: list[RdmaSettings]) -> _Told:
    addresses = [(card.address, PORT) for card in cards]

    def joined() -> Ring:
        own = cards[rank]
        return Ring(
            rank,
            addresses,
            listen(*addresses[rank]),
            lanes=LANES,
            timeout_s=PATIENCE_S,
            rdma=own,
        )

    name = namespace_name(session.run.name, job.hosts[rank].name)
    values = job.given(rank)
    ring = in_namespace(NAMESPACES / name, joined)
    try:
        ring.barrier()
        began_ns = time.monotonic_ns()
        job.begun.set()
        ring.sum_integers(values)
        return _Told(began_ns, time.monotonic_ns(), values.view(np.uint32), ring.counters())
    finally:
        ring.close()


def _measured(job: _Job, ranks: list[Future[_Told]], scale: int) -> dict[str, Measured]:
    told = [rank.result() for rank in ranks]  # raises what a rank did
    took_ns = max(each.ended_ns for each in told) - min(each.began_ns for each in told)
    right = job.sums
    wrong = sum(int((each.sums.view(np.uint8) != right.view(np.uint8)).sum()) for each in told)
    return {
        "message": Measured(took_ns / 1000 / scale, "us"),
        "repeated": Measured(sum(each.counters["repeated_packets"] for each in told)),
        "losses": Measured(sum(each.counters["losses"] for each in told)),
        "wrong": Measured(wrong, "B"),
        "by XDP": Measured(sum(each.counters["af_xdp"] for each in told)),
    }
