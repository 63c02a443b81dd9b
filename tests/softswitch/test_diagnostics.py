"""The side channel over TCP: a client, and the daemon's parts without interfaces."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest

from compiler import compile_p4
from softswitch.core import (
    CoreConfig,
    DaemonLoop,
    PortState,
    QueueConfig,
    Scheduler,
    SwitchCore,
)
from softswitch.device import Device
from softswitch.diagnostics import DiagnosticsClient, DiagnosticsError
from softswitch.diagnostics_service import DiagnosticsService
from softswitch.impairments import changes
from softswitch.p4runtime.pipeline import read_p4info
from softswitch.p4runtime.server import P4RuntimeServer
from softswitch.p4runtime.service import P4RuntimeService

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
PORTS = {1: "s1-eth1", 2: "s1-eth2"}
FRAME = bytes.fromhex(
    "0a000000001102cc00000001080045000028000100004011aec10a010001c00002010fa0138800147eab"
    "68656c6c6f20776f726c6421"
)


class Daemon:
    """What the daemon is made of, in this process; frames come from `arrive`."""

    def __init__(self, stack: ExitStack) -> None:
        self.core = SwitchCore(CoreConfig(priorities=2))
        stack.callback(self.core.close)
        self.loop = DaemonLoop(self.core)
        stack.callback(self.loop.close)
        self.device = Device(self.core, clock=self.loop.now, guard=self.loop.locked)
        service = P4RuntimeService(
            self.device,
            0,
            packet_out=self.loop.packet_out,
            make_draft=lambda: Device(SwitchCore(self.core.config), clock=lambda: 0),
        )
        self.diagnostics = DiagnosticsService(self.device, self.loop, service.lock, PORTS)
        self.server = P4RuntimeServer(service, "127.0.0.1:0", [self.diagnostics.handler()])
        self.server.start()
        stack.callback(self.server.stop, 0.0)
        self.loop.start()
        self.address = f"127.0.0.1:{self.server.port}"

    def load(self, program: str) -> None:
        self.device.set_pipeline(
            read_p4info(GOLDEN / f"{program}.p4info.txtpb"),
            (GOLDEN / f"{program}.json").read_bytes(),
        )

    def arrive(self, port: int, frame: bytes) -> None:
        with self.loop.locked() as core:
            core.inject(port, frame, self.loop.now())


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with ExitStack() as stack:
        yield Daemon(stack)


@pytest.fixture
def client(daemon: Daemon) -> Iterator[DiagnosticsClient]:
    with DiagnosticsClient(daemon.address) as opened:
        yield opened


@pytest.mark.root
@pytest.mark.parametrize(
    ("which", "expected"), [(0, "frames arrived"), (1, "0\n"), (2, "'noqueue'"), (3, "(0, 0, 0,")]
)
def test_each_python_of_the_page_on_links_runs_alone(
    tmp_path: Path, which: int, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a daemon with three real ports, in a network namespace of their own."""
    page = GOLDEN.parent.parent / "docs" / "links.md"
    code = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)[which]
    ready = tmp_path / "ready"
    links = "".join(f"ip link add v{n} type veth peer name w{n}; ip link set v{n} up; "
                    f"ip link set w{n} up; " for n in (1, 2, 3))  # fmt: skip
    interfaces = [word for n in (1, 2, 3) for word in ("-i", f"{n}@v{n}")]
    command = ["unshare", "--net", "sh", "-c", f'{links}exec "$@"', "sh", sys.executable]
    command += ["-m", "softswitch"]
    command += ["--no-p4", *interfaces, "--", "--grpc-server-addr", f"unix:{tmp_path}/s"]
    command += ["--ready-file", str(ready)]
    code = code.replace('"127.0.0.1:9559"', repr(f"unix:{tmp_path}/s"))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as switch:
        try:
            deadline = time.monotonic() + 60
            while not ready.exists():
                assert switch.poll() is None and time.monotonic() < deadline
                time.sleep(0.01)
            exec(code, {})
        finally:
            switch.terminate()
    said = capsys.readouterr().out
    assert expected in said


def test_counts_of_ports_and_switch(daemon: Daemon, client: DiagnosticsClient) -> None:
    daemon.load("l3")
    for _ in range(3):
        daemon.arrive(1, FRAME)
    ports = client.port_stats()
    assert sorted(ports) == [1, 2]
    assert (ports[1]["rx_packets"], ports[1]["rx_bytes"]) == (3, 3 * len(FRAME))
    assert (ports[2]["rx_packets"], ports[2]["state"]) == (0, "up")
    assert ports[2]["interface"] == "s1-eth2"
    assert ports[1]["link"]["queue_packets"] == 64
    assert ports[1]["sends"] is None  # no interface
    stats = client.switch_stats()
    assert stats["switch"]["ingress"] == 3
    assert stats["switch"]["drop_ingress"] == 3  # no route
    assert stats["loop"]["rx"] == 0  # none came from a socket
    assert stats["now_ps"] > 0


def test_a_link_keeps_what_is_not_given(daemon: Daemon, client: DiagnosticsClient) -> None:
    link = client.set_link(1, rate_bps=40_000_000, tx_delay_ns=1_500)
    assert (link["rate_bps"], link["tx_delay_ps"], link["queue_packets"]) == (
        40_000_000,
        1_500_000,
        64,
    )
    link = client.set_link(1, queue_bytes=9000, rate_pps=7)
    assert (link["rate_bps"], link["queue_bytes"], link["rate_pps"]) == (40_000_000, 9000, 7)
    assert daemon.core.port_config(1).tx_delay_ps == 1_500_000
    assert client.port_stats()[1]["link"] == link
    assert client.queue(1)["queue_bytes"] == 9000
    assert client.queue(1)["priorities"] == 2


def test_a_queue_has_limits_of_its_own(daemon: Daemon, client: DiagnosticsClient) -> None:
    client.set_link(1, rate_pps=7)
    link = client.set_link(1, queue=1, queue_packets=5)
    assert link["queues"] == {"1": {"queue_packets": 5, "rate_pps": 7}}
    assert client.port_stats()[1]["link"] == link
    link = client.set_link(1, tx_delay_ns=1)  # something else of the port
    assert link["queues"] == {"1": {"queue_packets": 5, "rate_pps": 7}}
    link = client.set_link(1, rate_pps=9)  # of all queues; the depth stays apart
    assert link["queues"] == {"1": {"queue_packets": 5, "rate_pps": 9}}
    assert daemon.core.queue_config(1, 1) == QueueConfig(packets=5, rate_pps=9)
    assert client.set_link(1, queue_packets=64)["queues"] == {}


def test_what_goes_wrong_on_a_link(daemon: Daemon, client: DiagnosticsClient) -> None:
    daemon.load("l3")
    quanta = Scheduler.of_weights({0: 1, 1: 3}).quanta
    link = client.set_link(1, receive=changes(loss=1), send={"jitter_ns": 5}, quanta=quanta)
    assert link["receive"]["loss"] == 1 << 32
    assert (link["send"]["jitter_ps"], link["quanta"]) == (5000, list(quanta))
    for _ in range(3):
        daemon.arrive(1, FRAME)
    row = client.port_stats()[1]
    assert row["link"] == link
    assert (row["wire"]["receive"]["lost"], row["rx_packets"]) == (3, 0)
    assert row["wire"]["send"]["frames"] == 0
    link = client.set_link(1, clear=True, send=changes(duplicate="50%"), queue_cells=9)
    assert not any(link["receive"].values())
    assert (link["send"]["duplicate"], link["send"]["jitter_ps"]) == (1 << 31, 0)
    assert (link["queue_cells"], link["quanta"]) == (9, list(quanta))
    daemon.arrive(1, FRAME)
    row = client.port_stats()[1]
    assert (row["rx_packets"], row["wire"]["receive"]["lost"]) == (1, 3)


TO_PORT_2 = """\
#include <core.p4>
#include <v1model.p4>
struct none_t {}
parser P(packet_in p, out none_t h, inout none_t m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout none_t h, inout none_t m) { apply {} }
control I(inout none_t h, inout none_t m, inout standard_metadata_t s) {
    apply { s.egress_spec = 2; }
}
control E(inout none_t h, inout none_t m, inout standard_metadata_t s) { apply {} }
control C(inout none_t h, inout none_t m) { apply {} }
control D(packet_out p, in none_t h) { apply {} }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def test_a_queue_that_is_watched(daemon: Daemon, client: DiagnosticsClient, tmp_path: Path) -> None:
    source = tmp_path / "to_port_2.p4"
    source.write_text(TO_PORT_2)
    compiled = compile_p4(source)
    info = tmp_path / "p4info.txtpb"
    info.write_text(compiled.p4info_text)
    daemon.device.set_pipeline(read_p4info(info), compiled.json_text.encode())
    client.set_link(2, rate_bps=1_000)  # a frame lasts more than half a second
    client.watch_queue(2, 0, 2 * len(FRAME))
    for _ in range(3):
        assert client.queue_peak(2, 0)["above_ps"] is None
        daemon.arrive(1, FRAME)
    before = client.switch_stats()["now_ps"]
    assert client.queue_peak(2, 0)["bytes"] == 2 * len(FRAME)  # one is on the wire
    daemon.arrive(1, FRAME)
    peak = client.queue_peak(2, 0)
    assert peak["bytes"] == 3 * len(FRAME)
    assert before < peak["above_ps"] < peak["now_ps"]
    client.watch_queue(2, 0, 5 * len(FRAME))
    assert client.queue_peak(2, 0)["above_ps"] is None


def test_a_port_down_and_up(daemon: Daemon, client: DiagnosticsClient) -> None:
    with daemon.loop.locked() as core:
        core.set_port(2, PortState.UP, pause_mask=2)
    client.set_port(2, False)
    assert daemon.core.port_state(2) == (PortState.DOWN, 2)
    assert client.port_stats()[2]["state"] == "down"
    client.set_port(2, True)
    assert daemon.core.port_state(2) == (PortState.UP, 2)


@pytest.mark.parametrize(
    ("method", "request_", "says"),
    [
        ("SetPort", {"port": 1, "up": 1}, "true or false"),
        ("SetPort", {"port": "1", "up": True}, "'1'"),
        ("SetPort", {"up": True}, "None"),
        ("Queue", {"port": 65536}, "65535"),
        ("WatchQueue", {"port": 1, "queue": 0}, "above_bytes"),
        ("WatchQueue", {"port": 1, "queue": 2, "above_bytes": 0}, "queue 2 of port 1"),
        ("QueuePeak", {"port": 1, "queue": True}, "whole number"),
        ("SetLink", {"port": 1, "speed": 1}, "no 'speed'; it has queue_bytes"),
        ("SetLink", {"port": 1, "rate_bps": -1}, "rate_bps"),
        ("SetLink", {"port": 1, "tx_delay_ns": 1 << 62}, "tx_delay_ns"),
        ("SetLink", {"port": 1, "rate_bps": 1.5}, "whole number"),
        ("SetLink", {"port": 1, "queue_packets": 1 << 32}, "4294967295"),
        ("SetLink", {"port": 1, "send": {"loss": "1%"}}, "loss has to be a whole number"),
        ("SetLink", {"port": 1, "send": {"loss": (1 << 32) + 1}}, "4294967296"),
        ("SetLink", {"port": 1, "receive": {"bit_error": 1 << 64}}, "bit_error"),
        ("SetLink", {"port": 1, "receive": {"los": 1}}, "no 'los'; it has bit_error"),
        ("SetLink", {"port": 1, "send": 1}, '"send" has to be an object'),
        ("SetLink", {"port": 1, "clear": 1}, '"clear" has to be true or false'),
        ("SetLink", {"port": 1, "queue": 2, "rate_pps": 1}, "port 1, queue 2"),
        ("SetLink", {"port": 1, "queue": 8, "rate_pps": 1}, "number from 0 to 7"),
        ("SetLink", {"port": 1, "queue": 1, "rate_bps": 1}, "no 'rate_bps' of its own"),
        ("SetLink", {"port": 1, "quanta": [0]}, '"quanta" are 8 whole numbers'),
        ("SetLink", {"port": 1, "quanta": [83] * 8}, "84 to 16777216 bytes"),
    ],
)
def test_what_makes_no_sense_is_refused(
    client: DiagnosticsClient, method: str, request_: dict[str, object], says: str
) -> None:
    with pytest.raises(DiagnosticsError, match=says) as refused:
        client.call(method, **request_)
    assert not refused.value.gone


def test_a_request_that_is_no_json(daemon: Daemon) -> None:
    with grpc.insecure_channel(daemon.address) as channel:
        call = channel.unary_unary("/weft.switch.v1.Diagnostics/Queue")
        with pytest.raises(grpc.RpcError) as refused:
            call(b"[1]", timeout=300)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_errors_name_the_address(client: DiagnosticsClient, daemon: Daemon) -> None:
    with pytest.raises(DiagnosticsError, match="not Weft's own"):
        client.call("NoSuchMethod")
    daemon.server.stop(0.0)
    with pytest.raises(DiagnosticsError, match=f"no switch answers on {daemon.address}") as gone:
        client.port_stats()
    assert gone.value.gone
    client.close()
    with pytest.raises(DiagnosticsError, match="closed"):
        client.port_stats()
