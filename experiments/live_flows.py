"""A run file's traffic as queue pairs between running hosts: who sends what, when.

The simulator's planner decides what is sent, so that both runtimes carry out the same run.
What endpoints can't do is refused before anything is made: open-loop packets, messages that wait
for those of other flows, packets larger than namespaces carry.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from emulation.endpoints import Place
from emulation.errors import EmulationError
from hostagent.rnic.client import EndpointClient, EndpointGone, RequestRefused, join
from hostagent.rnic.interface import MTUS
from hostagent.rnic.planes import PlaneUse
from mechanisms.registry import path_records
from topologies.model import Interface
from workloads.dag import OPERATIONS
from workloads.model import RunFile, Traffic
from workloads.path_choice import path_request
from workloads.planes import plane_request
from workloads.randomness import Random
from workloads.transport import Transport, class_of

CHUNK_BYTES = 1 << 16
"""A message is sent as WRITEs of at most this: longer ones complete seldom, shorter ones cost."""

OUTSTANDING_BYTES = 1 << 28
"""Handed over and not complete, of a flow: more than a 10 km link and a switch's queue hold."""

PS_PER_NS = 1000
_STALL_MS = 600_000  # nothing is complete while a slow link is silent; the run's end ends it anyway


class LiveError(EmulationError):
    """A run file can't run in real time; the message says what of it, and what could be."""


@dataclass(frozen=True)
class LiveMessage:
    """`size` bytes, `count` times, not before `start_ps` and `gap_ps` after the one before.

    At most `depth` of them are handed over and not complete, on each queue pair.
    """

    start_ps: int
    gap_ps: int
    size: int
    count: int
    depth: int


@dataclass(frozen=True)
class LiveFlow:
    """A queue pair and what it sends; `several`: by all interfaces of both hosts.

    `first`: the flow, by number, whose messages it carries with others; its own where it is alone.
    `compared`: a message is one WRITE, and its bytes are looked at where they arrive.
    `collects`: its packets collect what switches write, whatever its congestion control wants.
    """

    source: Interface
    target: Interface
    payload: int
    udp_port: int
    dscp: int
    queue: int
    rate_bps: int
    operation: str
    transport: Transport
    messages: tuple[LiveMessage, ...]
    ack_class: tuple[int, int] | None = None  # DSCP and queue, where it is not the data's
    several: bool = False
    first: int = 0
    compared: bool = False
    collects: bool = False

    @property
    def buffer_bytes(self) -> int:
        """What it sends from, and its peer may write."""
        whole = [message.size for message in self.messages if self.compared]
        return max([CHUNK_BYTES, self.transport.piece_bytes, *whole])


def with_jitter(traffic: Traffic, seed: int, jitter_ps: int) -> Traffic:
    """Return the traffic with each flow later by up to `jitter_ps`, chosen by the seed."""
    if not jitter_ps:
        return traffic
    random = Random(seed, "live jitter")
    late = np.array([random.below(jitter_ps) for _ in range(len(traffic.flows))], dtype=np.int64)
    messages = traffic.messages.messages.copy()
    messages["start_ps"] += late[messages["flow"]]
    return replace(traffic, messages=replace(traffic.messages, messages=messages))


def live_flows(run: RunFile, traffic: Traffic, *, compared: bool = False) -> tuple[LiveFlow, ...]:
    """Return what hosts' endpoints have to do. Raises LiveError for what they can't."""
    _check(run, traffic)
    hosts = run.topology.hosts
    operations = {number: name for name, number in OPERATIONS.items()}
    rows = traffic.messages.messages
    first = traffic.first_flows().tolist()
    always = path_records(run.topology).always
    flows = []
    for number, row in enumerate(traffic.flows):
        payload = int(row["payload"])
        if payload not in MTUS:
            raise LiveError(
                f"packets of {payload} bytes can't be sent between namespaces: {_choices()}",
                "give the links an `mtu` of 2200B, or the transport one of those",
            )
        transport = traffic.transports[int(row["transport"]) - 1]
        flows.append(
            LiveFlow(
                hosts[int(row["src"])].interfaces[int(row["src_port"])],
                hosts[int(row["dst"])].interfaces[int(row["dst_port"])],
                payload,
                int(row["udp_port"]),
                int(row["dscp"]),
                int(row["queue"]),
                int(row["rate_bps"]),
                operations[int(row["operation"])],
                transport,
                tuple(
                    _message(rows[i], transport, whole=compared)
                    for i in np.flatnonzero(rows["flow"] == number)
                ),
                class_of(run.topology, transport.ack_class),
                several=bool(row["interfaces"] > 1),
                first=first[number],
                compared=compared,
                collects=int(row["dscp"]) in always and transport.planes.use is not PlaneUse.SHARED,
            )
        )
    return tuple(flows)


def _choices() -> str:
    return ", ".join(str(each) for each in MTUS)


def _message(row: Any, transport: Transport, *, whole: bool) -> LiveMessage:
    total = int(row["bytes"])
    count = 1 if whole else -(-total // (transport.piece_bytes or CHUNK_BYTES))
    size = -(-total // count)
    depth = transport.outstanding or min(count, max(1, OUTSTANDING_BYTES // size))
    return LiveMessage(int(row["start_ps"]), int(row["gap_ps"]), size, count, depth)


def _check(run: RunFile, traffic: Traffic) -> None:
    def refuse(what: str) -> LiveError:
        return LiveError(f"{run.name}: {what}", "play it in the simulator")

    if run.transport is None and (run.traffic or run.jobs):
        raise refuse("in real time flows need a `transport`")
    if run.buffer is not None:
        raise refuse("shared buffers and PFC (`buffer`) are the simulator's")
    if run.until_ps is None:
        raise refuse("in real time a run needs an end (`until`)")
    if len(traffic.streams) or traffic.script or not traffic.flows["transport"].all():
        raise refuse("open-loop packets (cbr, poisson, script) are not sent by endpoints")
    arrays = traffic.messages
    flow = arrays.messages["flow"]
    waiters = (arrays.first[1:] - arrays.first[:-1]).astype(np.int64)
    before = np.repeat(np.arange(len(arrays)), waiters)
    if (flow[before] != flow[arrays.next]).any():
        raise refuse(
            "messages that wait for those of other flows (jobs, rounds) do not run in real time"
        )
    if not (arrays.messages["bytes"] > 0).all():
        raise refuse("barriers do not run in real time")


# --- at work -------------------------------------------------------------------------------------


@dataclass
class Playing:
    """A flow whose queue pair is open; times are the machine's monotonic ns, -1 for not yet."""

    flow: LiveFlow
    here: EndpointClient
    there: EndpointClient
    qpn: int
    peer_qpn: int
    began_ns: int
    started_ns: int = -1
    handed_ns: int = -1  # the message under way
    done_ns: int = -1
    waiting: bool = False  # for the endpoint's answer
    next: int = 0  # of the flow's messages
    due_ns: int = 0
    failure: str = ""
    said: dict[str, Any] = field(default_factory=dict)
    wrong_bytes: int | None = None
    others: list[Playing] = field(default_factory=list)  # that carry its messages with it

    @property
    def is_ready(self) -> bool:
        """Whether there is a message to hand over, at `due_ns`."""
        return not (self.waiting or self.failure or self.next == len(self.flow.messages))

    def step(self, now_ns: int) -> None:
        """Hand over the next message when it is due. Raises EndpointGone."""
        if not self.is_ready or now_ns < self.due_ns:
            return
        message = self.flow.messages[self.next]
        self.next += 1
        self.here.send(
            "measure",
            qpns=[each.qpn for each in (self, *self.others)],
            operation=self.flow.operation,
            size=message.size,
            count=message.count,
            depth=message.depth,
            timeout_ms=_STALL_MS,
            shared=bool(self.others),
            **({"contents": self.qpn} if self.flow.compared else {}),
        )
        self.waiting = True
        self.handed_ns = now_ns
        for each in (self, *self.others):
            if each.started_ns < 0:
                each.started_ns = now_ns

    def take(self, now_ns: int, scale: int) -> None:
        """Take the endpoint's answer, which is there. Raises EndpointGone."""
        self.waiting = False
        try:
            self.said = self.here.answer()
        except RequestRefused as error:
            self.failure = str(error)
            return
        for failure in self.said["failures"]:
            self.failure = failure["why"]
        for each in self.others:
            each.failure = self.failure
        done_ns = min(now_ns, self.handed_ns + self.said["elapsed_ns"])
        if self.flow.compared and not self.said["interrupted"]:
            size = self.flow.messages[self.next - 1].size
            there = self.there.call("compare", qpn=self.peer_qpn, contents=self.qpn, size=size)
            self.wrong_bytes = there["wrong_bytes"]
        if self.next < len(self.flow.messages):
            self.plan(done_ns, scale)
        elif not self.said["interrupted"] and not self.failure:
            for each in (self, *self.others):
                each.done_ns = done_ns

    def plan(self, now_ns: int, scale: int) -> None:
        """Say when the next message is due: at its time, and its gap after the one before."""
        if not self.flow.messages:  # it carries another's
            return
        message = self.flow.messages[self.next]
        at_ns = self.began_ns + message.start_ps * scale // PS_PER_NS
        self.due_ns = max(at_ns, now_ns + message.gap_ps * scale // PS_PER_NS)

    def stop(self) -> None:
        """End what is under way, and take its answer. Raises EndpointGone."""
        is_last = self.next == len(self.flow.messages)
        self.next = len(self.flow.messages)
        if self.waiting:
            self.here.send("cancel")
            self.take(time.monotonic_ns(), 1)
        if not is_last:
            for each in (self, *self.others):
                each.done_ns = -1


@contextlib.contextmanager
def joined(
    flows: tuple[LiveFlow, ...], places: Mapping[str, Place], scale: int
) -> Iterator[list[Playing]]:
    """Open and connect a queue pair for each flow; they vanish with the block.

    Raises LiveError where an endpoint refuses.
    """
    with contextlib.ExitStack() as stack:
        playing: list[Playing] = []
        for number, flow in enumerate(flows):
            names = (str(flow.source.end), str(flow.target.end))
            at = [places[name] for name in names]
            leads = flow.first == number
            try:
                if leads:
                    here, there = (
                        stack.enter_context(EndpointClient.connect(each.socket)) for each in at
                    )
                else:  # who measures on several has them all
                    here, there = playing[flow.first].here, playing[flow.first].there
                of_source, of_target = (_interfaces(flow, each) for each in at)
                (qpn,), (peer_qpn,) = join(
                    here, there, qps=1, buffer_bytes=flow.buffer_bytes,
                    at_target=of_target, **of_source, **_settings(flow, scale),
                )  # fmt: skip
                size = flow.buffer_bytes
                there.call("serve", qpns=[peer_qpn], operation=flow.operation, size=size)
            except (RequestRefused, EndpointGone) as error:
                raise LiveError(f"{names[0]} -> {names[1]}: {error}") from None
            playing.append(Playing(flow, here, there, qpn, peer_qpn, 0))
            if not leads:
                playing[flow.first].others.append(playing[-1])
        yield playing


def _interfaces(flow: LiveFlow, place: Place) -> dict[str, Any]:
    """Return which interfaces of its card a flow has."""
    return {"interfaces": "all"} if flow.several else {"interface": place.interface}


def _settings(flow: LiveFlow, scale: int) -> dict[str, Any]:
    """Return an endpoint's settings of a flow, as this time scale has them."""
    transport = flow.transport
    return {
        "mtu": flow.payload,
        "udp_port": flow.udp_port,
        "udp_ports": transport.udp_ports,
        "repeat": transport.retransmission,
        "ack_every": transport.ack_every,
        "window": transport.window_packets,
        "timeout_us": transport.timeout_ps * scale // 10**6,
        "retries": transport.retries,
        "rate_bps": flow.rate_bps // scale,
        "dscp": flow.dscp,
        "queue": flow.queue,
        "congestion_control": transport.fields(scale),
        "cnp_interval_ns": transport.cnp_interval_ns(scale),
        "ack_class": flow.ack_class,
        "reorder_us": -(-transport.reorder_ps * scale // 10**6),
        "planes": plane_request(transport.planes, scale),
        "path_choice": path_request(transport.path_choice, scale),
        "collects": flow.collects,
    }
