"""Traces over the side channel: attach late, reload, several clients, a switch that stops."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from softswitch.core import CoreConfig, DaemonLoop, PortState, SwitchCore
from softswitch.device import Device
from softswitch.diagnostics import DiagnosticsClient, DiagnosticsError
from softswitch.diagnostics_service import DiagnosticsService
from softswitch.p4runtime.pipeline import read_p4info
from softswitch.p4runtime.server import P4RuntimeServer
from softswitch.p4runtime.service import P4RuntimeService
from softswitch.tracing import Outcome, PacketTrace
from softswitch.tracing.records import State

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
FRAME = bytes.fromhex(
    "0a000000001102cc00000001080045000028000100004011aec10a010001c00002010fa0138800147eab"
    "68656c6c6f20776f726c6421"
)


class Daemon:
    """What the daemon is made of, in this process, without interfaces."""

    def __init__(self, stack: ExitStack) -> None:
        self.core = SwitchCore(CoreConfig())
        stack.callback(self.core.close)
        self.loop = DaemonLoop(self.core)
        stack.callback(self.loop.close)
        self.device = Device(self.core, clock=self.loop.now, guard=self.loop.locked)
        self.service = P4RuntimeService(
            self.device,
            0,
            packet_out=self.loop.packet_out,
            make_draft=lambda: Device(SwitchCore(self.core.config), clock=lambda: 0),
        )
        self.diagnostics = DiagnosticsService(self.device, self.loop, self.service.lock, {1: "a"})
        self.server = P4RuntimeServer(self.service, "127.0.0.1:0", [self.diagnostics.handler()])
        self.server.start()
        stack.callback(self.server.stop, 0.0)
        stack.callback(self.diagnostics.close)
        self.loop.start()
        self.address = f"127.0.0.1:{self.server.port}"

    def load(self, program: str = "l3") -> None:
        p4info = read_p4info(GOLDEN / f"{program}.p4info.txtpb")
        with self.service.lock:
            self.device.set_pipeline(p4info, (GOLDEN / f"{program}.json").read_bytes())

    def arrive(self, port: int = 1, frame: bytes = FRAME) -> None:
        with self.loop.locked() as core:
            core.inject(port, frame, self.loop.now())

    def tracers(self) -> int:
        """Tracers in the core."""
        lib, ffi = self.core.lib, self.core.ffi
        stats = ffi.new("struct ws_trace_stats *")
        with self.loop.locked():
            lib.ws_trace_stats_get(self.core.pointer, stats)
        return int(stats.tracers)


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with ExitStack() as stack:
        yield Daemon(stack)


@pytest.fixture
def client(daemon: Daemon) -> Iterator[DiagnosticsClient]:
    with DiagnosticsClient(daemon.address) as opened:
        yield opened


def packet(event: dict[str, Any]) -> PacketTrace:
    assert event.pop("event") == "packet"
    return PacketTrace.from_json(event)


def test_packets_as_they_come(daemon: Daemon, client: DiagnosticsClient) -> None:
    daemon.load()
    daemon.arrive()  # nobody looks yet
    events = client.trace(limit=2)
    daemon.arrive()
    daemon.arrive(2)
    first, second = (packet(event) for event in events)
    assert (first.port, second.port) == (1, 2)
    assert first.data == FRAME
    assert first.outcomes == [Outcome.DROPPED_IN_INGRESS]
    assert not first.lookups("I.route")[0].hit


def test_filter_and_ports(daemon: Daemon, client: DiagnosticsClient) -> None:
    daemon.load()
    events = client.trace("udp dst port 5000", ports=[2], limit=1)
    daemon.arrive(1)
    daemon.arrive(2, FRAME[:20])
    daemon.arrive(2)
    assert [packet(event).port for event in events] == [2]


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"filter": "udp dst prt 5000"}, "filter 'udp dst prt 5000': unknown host 'prt'"),
        ({"filter": "udp and ("}, "syntax error"),
        ({"filter": "-i eth0"}, "not an expression"),
        ({"filter": 5}, "has to be a text"),
        ({"limit": 0}, "from 1"),
        ({"ports": 1}, "list of numbers"),
        ({"ports": [-1]}, "65535"),
    ],
)
def test_what_can_not_be_traced(
    daemon: Daemon, client: DiagnosticsClient, request_: dict[str, Any], says: str
) -> None:
    daemon.load()
    with pytest.raises(DiagnosticsError, match=says.replace("(", r"\(")):
        list(client.trace(**request_))
    assert daemon.tracers() == 0


def test_attached_before_there_is_a_program(daemon: Daemon, client: DiagnosticsClient) -> None:
    events = client.trace(limit=1)
    assert next(events)["event"] == "waiting"
    daemon.load()
    assert next(events)["event"] == "program"
    daemon.arrive()
    assert packet(next(events)).outcomes == [Outcome.DROPPED_IN_INGRESS]
    assert list(events) == []


def test_another_program_meanwhile(daemon: Daemon, client: DiagnosticsClient) -> None:
    daemon.load()
    events = client.trace(limit=3)
    daemon.arrive()
    assert packet(next(events)).lookups("I.route")
    daemon.load("features")
    assert next(events)["event"] == "program"
    daemon.arrive()
    trace = packet(next(events))
    assert trace.lookups() and not trace.lookups("I.route")


def test_packets_that_a_reload_took_are_shown(daemon: Daemon, client: DiagnosticsClient) -> None:
    daemon.load()
    events = client.trace(limit=2)
    with daemon.loop.locked() as core:
        core.set_port(2, PortState.BLOCKED, now_ps=daemon.loop.now())
        no_ip = FRAME[:12] + b"\x86\xdd" + FRAME[14:]
        core.inject(1, no_ip, daemon.loop.now())  # goes to port 2 and waits there
    daemon.load("features")
    trace = packet(next(event for event in events if event["event"] == "packet"))
    assert trace.outcomes == [Outcome.UNFINISHED]


def test_a_packet_outlives_its_program(daemon: Daemon, client: DiagnosticsClient) -> None:
    """RECONCILE_AND_COMMIT keeps packets in queues: they end under the program that parsed them."""
    daemon.load()
    events = client.trace(limit=2)
    with daemon.loop.locked() as core:
        core.set_port(2, PortState.BLOCKED, now_ps=daemon.loop.now())
        core.inject(1, FRAME[:12] + b"\x86\xdd" + FRAME[14:], daemon.loop.now())
    p4info = read_p4info(GOLDEN / "features.p4info.txtpb")
    with daemon.service.lock:
        prepared = daemon.device.prepare(p4info, (GOLDEN / "features.json").read_bytes())
        daemon.device.reconcile(prepared)
    assert next(events)["event"] == "program"
    with daemon.loop.locked() as core:
        core.set_port(2, PortState.UP, now_ps=daemon.loop.now())
    old = packet(next(events))
    assert old.outcomes == [Outcome.SENT]
    assert {step.name for step in old.steps if isinstance(step, State)} == {"start"}
    daemon.arrive()
    assert packet(next(events)).lookups("vrf_map")


def test_two_clients_see_their_own(daemon: Daemon, client: DiagnosticsClient) -> None:
    daemon.load()
    with DiagnosticsClient(daemon.address) as other:
        one, two = client.trace(ports=[1], limit=1), other.trace(limit=2)
        daemon.arrive(2)
        daemon.arrive(1)
        assert [packet(event).port for event in one] == [1]
        assert [packet(event).port for event in two] == [2, 1]


def test_the_ninth_client_is_refused(daemon: Daemon, client: DiagnosticsClient) -> None:
    daemon.load()
    streams = [client.trace() for _ in range(8)]
    with pytest.raises(DiagnosticsError, match="8 tracers already"):
        list(client.trace())
    for stream in streams:
        stream.close()


def test_nothing_is_left_of_a_client_that_goes(daemon: Daemon) -> None:
    daemon.load()
    gone = threading.Event()
    with DiagnosticsClient(daemon.address) as client:
        events = client.trace()
        assert daemon.tracers() == 1
        follower = daemon.diagnostics._traces._followers[0]
        close = follower.close

        def closed() -> None:
            close()
            gone.set()

        follower.close = closed  # type: ignore[method-assign]
        del events
    assert gone.wait(60)
    assert daemon.tracers() == 0


def test_a_switch_that_stops_says_so(daemon: Daemon, client: DiagnosticsClient) -> None:
    daemon.load()
    events = client.trace()
    daemon.diagnostics.close()
    assert [event["event"] for event in events] == ["ended"]
    with pytest.raises(DiagnosticsError, match="stopping"):
        list(client.trace())


def test_a_switch_that_dies(daemon: Daemon, client: DiagnosticsClient) -> None:
    daemon.load()
    events = client.trace()
    daemon.server._server.stop(0.0)
    with pytest.raises(DiagnosticsError, match="no switch answers") as lost:
        list(events)
    assert lost.value.gone
