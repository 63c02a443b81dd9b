"""The daemon as a process on real interfaces.

    namespace A: a0 ---veth--- port 1 [softswitch, this namespace] port 2 ---veth--- b0 :namespace B

The controller talks P4Runtime over TCP; frames go in and out through packet sockets in A and B.
"""

from __future__ import annotations

import importlib
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from softswitch import Switch
from softswitch.diagnostics import DiagnosticsClient
from softswitch.impairments import Flow, changes, impair
from softswitch.p4runtime import protos
from softswitch.p4runtime.names import Names
from softswitch.p4runtime.pipeline import prepare_program, read_p4info
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.schema import bind

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
DEADLINE_S = 60.0
ETH_P_ALL = 3
CPU_PORT = 255
p4r_grpc: Any = importlib.import_module(f"{protos.PACKAGE}.p4.v1.p4runtime_pb2_grpc")

FRAME = bytes.fromhex(
    "0a000000001102cc00000001080045000028000100004011aec10a010001c00002010fa0138800147eab"
    "68656c6c6f20776f726c6421"
)


@dataclass
class Wire:
    """Two hosts on two ports: interface names here, packet sockets in their namespaces."""

    ports: tuple[str, str]
    hosts: tuple[socket.socket, socket.socket]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def wire() -> Iterator[Wire]:
    from pyroute2 import netns

    prefix = f"wsd{os.getpid() % 100000}"
    names = [f"{prefix}{end}" for end in "ab"]
    sockets: list[socket.socket] = []
    try:
        for name in names:
            ip("netns", "add", name)
            ip("link", "add", f"{name}0", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", f"{name}0", "addrgenmode", "none", "up")
            ip("-n", name, "link", "set", "eth0", "addrgenmode", "none", "up")
            netns.pushns(name)
            try:
                host = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
                host.bind(("eth0", ETH_P_ALL))
                host.settimeout(0.1)
            finally:
                netns.popns()
            sockets.append(host)
        yield Wire((f"{names[0]}0", f"{names[1]}0"), (sockets[0], sockets[1]))
    finally:
        for host in sockets:
            host.close()
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
            subprocess.run(["ip", "link", "del", f"{name}0"], check=False, capture_output=True)


class Running:
    """A daemon that has said it is ready."""

    def __init__(self, ready: Path, log: Path, arguments: Sequence[str]) -> None:
        general, _, target = " ".join(arguments).partition(" -- ")
        self.ready, self.log = ready, log
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "softswitch", *general.split(), "--log-file", str(log)),
                *("--", "--grpc-server-addr", "127.0.0.1:0", "--ready-file", str(ready)),
                *target.split(),
            ],
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            wait_for(lambda: ready.exists() or self.process.poll() is not None, "the ready file")
        except AssertionError:
            self.process.kill()
            raise
        assert self.process.poll() is None, self.process.communicate()
        self.address = ready.read_text().split()[1]

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def make(*arguments: str) -> Running:
        number = len(started)
        daemon = Running(tmp_path / f"ready{number}", tmp_path / f"log{number}", arguments)
        started.append(daemon)
        return daemon

    yield make
    for daemon in started:
        if daemon.process.poll() is None:
            daemon.process.kill()
            daemon.process.communicate()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Poll `condition` until it is true; fails after the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {DEADLINE_S} s for {what}"
        time.sleep(0.005)


def receive(
    host: socket.socket, wanted: Callable[[bytes], bool], within_s: float = DEADLINE_S
) -> bytes:
    """Return the first frame that `host` gets and that is wanted; others are the kernel's own."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            frame, address = host.recvfrom(65536)
        except TimeoutError:
            continue
        if address[2] != socket.PACKET_OUTGOING and wanted(frame):
            return frame
    raise AssertionError("no such frame came")


def names_of(program: str) -> Names:
    model, _ = prepare_program((GOLDEN / f"{program}.json").read_bytes())
    return Names(bind(read_p4info(GOLDEN / f"{program}.p4info.txtpb"), model))


class Controller:
    """The primary controller of a daemon."""

    def __init__(self, daemon: Running, device_id: int = 0) -> None:
        self.device_id = device_id
        self.channel = grpc.insecure_channel(daemon.address)
        self.stub = p4r_grpc.P4RuntimeStub(self.channel)
        self._outgoing: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()
        self._stream = self.stub.StreamChannel(iter(self._outgoing.get, None), timeout=DEADLINE_S)
        update = p4r.MasterArbitrationUpdate(device_id=device_id)
        update.election_id.low = 1
        self.send(arbitration=update)
        assert self.receive().arbitration.status.code == 0

    def send(self, **message: Any) -> None:
        self._outgoing.put(p4r.StreamMessageRequest(**message))

    def receive(self) -> p4r.StreamMessageResponse:
        return next(self._stream)

    def set_config(self, program: str) -> None:
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self.device_id,
            action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
        )
        request.election_id.low = 1
        request.config.p4info.CopyFrom(read_p4info(GOLDEN / f"{program}.p4info.txtpb"))
        request.config.p4_device_config = (GOLDEN / f"{program}.json").read_bytes()
        self.stub.SetForwardingPipelineConfig(request)

    def insert(self, **entity: Any) -> None:
        request = p4r.WriteRequest(device_id=self.device_id)
        request.election_id.low = 1
        request.updates.add(type=p4r.Update.INSERT, entity=p4r.Entity(**entity))
        self.stub.Write(request)

    def close(self) -> None:
        self._outgoing.put(None)
        self.channel.close()


def route() -> p4r.TableEntry:
    return names_of("l3").entry(
        "I.route", {"h.ip.dst": ("192.0.2.0", 24)}, "I.fwd", {"mac": 0x020000000002, "port": 2}
    )


def crosses(wire: Wire) -> None:
    """Check that a frame from A leaves at B, routed."""
    wire.hosts[0].send(FRAME)
    frame = receive(wire.hosts[1], lambda f: f[12:14] == b"\x08\x00")
    assert frame[:6] == bytes.fromhex("020000000002")
    assert frame[22] == FRAME[22] - 1
    assert frame[26:] == FRAME[26:]


@pytest.mark.root
def test_p4runtime_brings_the_program_and_packets_cross(
    wire: Wire, start: Callable[..., Running]
) -> None:
    daemon = start("--no-p4 --device-id 7", f"-i 1@{wire.ports[0]} -i 2@{wire.ports[1]}")
    controller = Controller(daemon, device_id=7)
    controller.set_config("l3")
    controller.insert(table_entry=route())
    crosses(wire)
    controller.close()
    assert daemon.end() == 0
    assert not daemon.ready.exists()
    assert "signal" in daemon.log.read_text().splitlines()[-1]


@pytest.mark.root
def test_a_program_of_the_command_line_runs(wire: Wire, start: Callable[..., Running]) -> None:
    daemon = start(
        f"{GOLDEN}/l3.json --p4info {GOLDEN}/l3.p4info.txtpb",
        f"-i 1@{wire.ports[0]} -i 2@{wire.ports[1]}",
    )
    controller = Controller(daemon)
    controller.insert(table_entry=route())
    crosses(wire)
    controller.close()
    assert daemon.end(signal.SIGINT) == 0


@pytest.mark.root
def test_packet_in_packet_out_and_digest(wire: Wire, start: Callable[..., Running]) -> None:
    daemon = start(f"--no-p4 -i 1@{wire.ports[0]} -i 2@{wire.ports[1]} -- --cpu-port {CPU_PORT}")
    controller = Controller(daemon)
    controller.set_config("features")
    names = names_of("features")
    controller.send(packet=names.packet_out(FRAME, {"egress_port": 2}))
    assert receive(wire.hosts[1], lambda f: f[12:14] == b"\x08\x00") == FRAME
    acl = "FabricIngress.acl"
    match = {"hdr.ipv4.src": ("10.1.0.0", 16), "hdr.ipv4.$valid$": 1}
    controller.insert(table_entry=names.entry(acl, match, "FabricIngress.to_cpu", priority=1))
    wire.hosts[0].send(FRAME)
    packet = controller.receive().packet
    assert packet.metadata[0].value == b"\x01"
    digest = p4r.DigestEntry(digest_id=names.digest_id("flow_digest_t"))
    digest.config.max_timeout_ns = 1_000_000
    controller.insert(digest_entry=digest)
    controller.insert(table_entry=names.entry(acl, match, "FabricIngress.learn", priority=2))
    wire.hosts[0].send(FRAME)
    data = controller.receive().digest.data
    assert [m.bitstring for m in data[0].struct.members][:1] == [bytes([10, 1, 0, 1])]
    controller.close()


@pytest.mark.root
def test_idle_entries_are_reported_in_real_time(wire: Wire, start: Callable[..., Running]) -> None:
    daemon = start(f"--no-p4 -i 1@{wire.ports[0]}")
    controller = Controller(daemon)
    controller.set_config("features")
    names = names_of("features")
    match = {"hdr.ipv4.$valid$": 1}
    entry = names.entry("FabricIngress.acl", match, "FabricIngress.permit", priority=1)
    entry.idle_timeout_ns = 50_000_000
    before = time.monotonic()
    controller.insert(table_entry=entry)
    notice = controller.receive().idle_timeout_notification
    assert time.monotonic() - before >= 0.05
    assert [e.priority for e in notice.table_entry] == [1]
    controller.close()


@pytest.mark.root
def test_a_link_option_delays_packets(wire: Wire, start: Callable[..., Running]) -> None:
    daemon = start(
        f"--no-p4 -i 1@{wire.ports[0]} -i 2@{wire.ports[1]} -- --link 2:delay=60ms,rate=1Gbit"
    )
    controller = Controller(daemon)
    controller.set_config("l3")
    controller.insert(table_entry=route())

    def in_time() -> bool:
        before = time.monotonic()
        crosses(wire)
        took = time.monotonic() - before
        assert took >= 0.06
        return took < 1.0

    wait_for(in_time, "a delay of less than a second")  # a busy machine gets several attempts
    controller.close()


@pytest.mark.root
def test_captures_are_written(wire: Wire, start: Callable[..., Running], tmp_path: Path) -> None:
    daemon = start(f"--no-p4 --pcap {tmp_path} -i 1@{wire.ports[0]} -i 2@{wire.ports[1]}")
    controller = Controller(daemon)
    controller.set_config("l3")
    controller.insert(table_entry=route())
    crosses(wire)
    controller.close()
    assert daemon.end() == 0
    arrived = (tmp_path / f"{wire.ports[0]}_in.pcap").read_bytes()
    left = (tmp_path / f"{wire.ports[1]}_out.pcap").read_bytes()
    assert FRAME in arrived
    assert FRAME[26:] in left and FRAME not in left


def test_a_crash_is_told_by_the_last_lines_of_the_log(start: Callable[..., Running]) -> None:
    daemon = start("--no-p4")
    daemon.process.send_signal(signal.SIGSEGV)
    daemon.process.communicate(timeout=DEADLINE_S)
    assert "Segmentation fault" in daemon.log.read_text()


def test_a_stale_ready_file_is_removed_before_anything_else(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.write_text("1 127.0.0.1:1\n")
    fails(run("--no-p4", "-i", "1@nosuch0", "--", "--ready-file", str(ready)), "nosuch0")
    assert not ready.exists()


@pytest.mark.root
def test_groups_follow_links(wire: Wire, start: Callable[..., Running]) -> None:
    """Two next hops, one by B's link; when the link goes down all flows take the other."""
    daemon = start(f"--no-p4 -i 1@{wire.ports[0]} -i 2@{wire.ports[1]}")
    controller = Controller(daemon)
    controller.set_config("features")
    names = names_of("features")
    permit = names.entry(
        "FabricIngress.acl", {"hdr.ipv4.$valid$": 1}, "FabricIngress.permit", priority=1
    )
    controller.insert(table_entry=permit)
    entry = names.entry("FabricIngress.balance.group", {"meta.vrf": 1})
    for port in (1, 2):
        item = entry.action.action_profile_action_set.action_profile_actions.add()
        hop = {"port": port, "mac": port}
        item.action.CopyFrom(names.action("FabricIngress.balance.forward", hop))
        item.weight = 1
        item.watch_port = bytes([port])
    controller.insert(table_entry=entry)

    def flow(sport: int) -> bytes:
        return FRAME[:34] + sport.to_bytes(2, "big") + FRAME[36:]

    def leaves_by(sport: int, send_again: bool = False) -> int:
        """Return the host to which a flow goes; `send_again`: its first packets may be lost."""
        wire.hosts[0].send(flow(sport))
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            for ready in select.select(wire.hosts, [], [], 0.1)[0]:
                frame, address = ready.recvfrom(65536)
                ours = frame[34:36] == sport.to_bytes(2, "big")
                if ours and address[2] != socket.PACKET_OUTGOING:
                    return wire.hosts.index(ready)
            if send_again:
                wire.hosts[0].send(flow(sport))
        raise AssertionError("the flow leaves nowhere")

    by_b = next(sport for sport in range(1, 64) if leaves_by(sport) == 1)
    ip("link", "set", wire.ports[1], "down")
    assert leaves_by(by_b, send_again=True) == 0
    controller.close()


@pytest.mark.root
def test_an_idle_daemon_uses_no_cpu(wire: Wire, start: Callable[..., Running]) -> None:
    daemon = start(f"--no-p4 -i 1@{wire.ports[0]} -i 2@{wire.ports[1]}")

    def cpu_s() -> float:
        fields = Path(f"/proc/{daemon.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rests() -> bool:
        before = cpu_s()
        time.sleep(1.0)  # the span that is measured
        return cpu_s() - before <= 0.1

    wait_for(rests, "the daemon to rest")  # it may still be busy with its start


# --- what goes wrong: one line, exit code 1, nothing left -----------------------------------------


# Root without the rights to open packet sockets: another user may not be able to read this tree.
NO_IPV6 = "/proc/sys/net/ipv6/conf/all/disable_ipv6"
NO_RIGHTS = ["setpriv", "--bounding-set=-net_raw,-net_admin", "--inh-caps=-net_raw,-net_admin"]


def run(*arguments: str, prefix: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, sys.executable, "-m", "softswitch", *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def fails(done: subprocess.CompletedProcess[str], *says: str) -> None:
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("softswitch: "), done.stderr
    for text in says:
        assert text in done.stderr


def test_a_missing_interface_is_named(tmp_path: Path) -> None:
    log = tmp_path / "log"
    done = run("--no-p4", "-i", "1@nosuch0", "--log-file", str(log))
    fails(done, "nosuch0", "ip link")
    assert "nosuch0" in log.read_text().splitlines()[-1]


@pytest.mark.root
def test_a_real_link_loses_what_the_one_in_process_loses(
    wire: Wire, start: Callable[..., Running]
) -> None:
    for port in wire.ports:  # no packets but ours: each one is a draw
        # Not by sysctl, which is in a package of its own (procps).
        ip("netns", "exec", port[:-1], "sh", "-c", f"echo 1 >{NO_IPV6}")
    setting = "loss=10%,burst=2%/30%,corrupt=5%,duplicate=5%,seed=11"
    interfaces = f"-i 1@{wire.ports[0]} -i 2@{wire.ports[1]}"
    daemon = start(f"{GOLDEN}/l3.json --device-id 4 {interfaces}", f"-- --link 2:{setting}")
    frames = [
        bytes.fromhex("02000000000b02000000000a88b5") + n.to_bytes(2, "big") + bytes(44)
        for n in range(500)
    ]
    with Switch.from_json(GOLDEN / "l3.json", GOLDEN / "l3.p4info.txtpb", seed=5) as like:
        burst = ("2%", "30%")
        wrong = impair(loss="10%", burst=burst, corrupt="5%", duplicate="5%", seed=11)
        like.configure_port(2, send=wrong)
        for n, frame in enumerate(frames):
            like.inject(1, frame, at_ns=n)
            wire.hosts[0].send(frame)
            for output in like.run_until(n):
                assert receive(wire.hosts[1], lambda f: f[12:14] == b"\x88\xb5") == output.packet
        stats = like.impair_stats(2)
    assert stats.lost > 40 and stats.corrupted > 9 and stats.duplicated > 9
    with DiagnosticsClient(daemon.address) as client:
        # The last ones may be among the lost.
        wait_for(lambda: client.port_stats()[2]["tx_packets"] == len(frames), "all frames")
        row = client.port_stats()[2]
        assert row["wire"]["send"] == asdict(stats)
        assert stats.frames == len(frames)
        client.set_link(2, clear=True, send=changes(flow=Flow(), flow_loss=1))
        wire.hosts[0].send(frames[0])  # no IPv4: the filter lets it pass
        assert receive(wire.hosts[1], lambda f: f[12:14] == b"\x88\xb5") == frames[0]


@pytest.mark.root
def test_without_rights_the_remedy_is_said(wire: Wire) -> None:
    done = run("--no-p4", "-i", f"1@{wire.ports[0]}", prefix=NO_RIGHTS)
    fails(done, wire.ports[0], "root", "CAP_NET_RAW")


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ready = tmp_path / "ready"
        done = run("--no-p4", "--", "--grpc-server-addr", address, "--ready-file", str(ready))
    fails(done, address, "in use", "--grpc-server-addr")
    assert not ready.exists()
    done = run("--no-p4", "--", "--grpc-server-addr", "192.0.2.1:9559")
    fails(done, "192.0.2.1:9559", "assign")


def test_bad_programs_are_explained(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    fails(run(str(bad)), "bad.json", "No such file")
    bad.write_text("{}")
    fails(run(str(bad)), "bad.json", "JSON")
    fails(
        run(f"{GOLDEN}/l3.json", "--p4info", f"{GOLDEN}/features.p4info.txtpb"),
        "do not belong together",
    )
    fails(run("--no-p4", "--log-file", str(tmp_path / "none" / "log")), "--log-file")
