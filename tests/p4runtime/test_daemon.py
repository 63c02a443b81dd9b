"""P4Runtime of the daemon under traffic: what a controller does meets packets that do not wait.

    far1 ---veth--- port 1 [softswitch] port 2 ---veth--- far2
                                        port 3 ---veth--- far3

Latencies are printed (pytest -rP shows them) and bounded only generously: the processor is shared.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import finsy
import grpc
import pytest

from softswitch.p4runtime.names import Names
from softswitch.p4runtime.pipeline import prepare_program
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.schema import bind

if TYPE_CHECKING:
    from conftest import Client, Edition

pytestmark = pytest.mark.root

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
DEVICE_ID = 3
DEADLINE_S = 60.0
GENEROUS_S = 2.0
"""For what takes milliseconds on a machine that has nothing else to do."""

ETH_P_ALL = 3
PORTS = (1, 2, 3)
PACE_S = 0.0005
AHEAD = 1000
"""Frames that may be on their way: fewer than the switch's ring and a far end's socket hold."""

INSERT = p4r.Update.INSERT
RECONCILE = p4r.SetForwardingPipelineConfigRequest.RECONCILE_AND_COMMIT


FRAME = bytes.fromhex(
    "0a000000001102cc00000001080045000028000100004011aec10a010001c00002010fa0138800147eab"
    "68656c6c6f20776f726c6421"
)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Wire:
    """The far ends of three ports, as packet sockets."""

    def __init__(self) -> None:
        prefix = f"w{os.getpid() % 100000}"
        self.near = {port: f"{prefix}n{port}" for port in PORTS}
        self.far: dict[int, socket.socket] = {}
        for port, near in self.near.items():
            far = f"{prefix}f{port}"
            ip("link", "add", near, "type", "veth", "peer", "name", far)
            for name in (near, far):
                ip("link", "set", name, "addrgenmode", "none", "up")
            raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            raw.setsockopt(263, 23, 1)  # SOL_PACKET, PACKET_IGNORE_OUTGOING
            raw.setsockopt(socket.SOL_SOCKET, 33, 4 << 20)  # SO_RCVBUFFORCE: a burst
            raw.bind((far, ETH_P_ALL))
            raw.settimeout(0.05)
            self.far[port] = raw

    def close(self) -> None:
        for raw in self.far.values():
            raw.close()
        for near in self.near.values():
            subprocess.run(["ip", "link", "del", near], check=False, capture_output=True)


@pytest.fixture
def wire() -> Iterator[Wire]:
    wire = Wire()
    yield wire
    wire.close()


@pytest.fixture
def start(tmp_path: Path, wire: Wire) -> Iterator[Callable[..., str]]:
    """Yield a function that starts the daemon on the wire and returns its address.

    It takes more target options.
    """
    running: list[subprocess.Popen[str]] = []

    def make(*target: str, run: Sequence[str] = ("-m", "softswitch")) -> str:
        ready = tmp_path / "ready"
        command = [sys.executable, *run, "--no-p4", "--device-id", str(DEVICE_ID)]
        command += [word for port, near in wire.near.items() for word in ("-i", f"{port}@{near}")]
        command += ["--log-file", str(tmp_path / "log"), "--", "--ready-file", str(ready)]
        command += ["--grpc-server-addr", "127.0.0.1:0", "--cpu-port", "255", *target]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        running.append(process)
        deadline = time.monotonic() + DEADLINE_S
        while not ready.exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "the daemon is not ready"
            time.sleep(0.005)
        return ready.read_text().split()[1]

    yield make
    for process in running:
        process.terminate()
        process.communicate(timeout=DEADLINE_S)


def names_of(config: p4r.ForwardingPipelineConfig) -> Names:
    program, _ = prepare_program(config.p4_device_config)
    return Names(bind(config.p4info, program))


class Stream:
    """Numbered frames at a steady pace into one port, with the time at which each was sent.

    `ear`: all are to come there, and so those sent do not run far ahead of those that came.
    """

    def __init__(
        self, source: socket.socket, head: bytes, first: int = 0, ear: Listener | None = None
    ) -> None:
        self.sent_at: list[float] = []
        self._source, self._head, self._first, self._ear = source, head, first, ear
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.is_set():
            time.sleep(PACE_S)  # the pace, not a wait
            if self._ear and len(self.sent_at) > len(self._ear.numbers) + AHEAD:
                continue
            number = self._first + len(self.sent_at)
            self.sent_at.append(time.monotonic())
            self._source.send(self._head + number.to_bytes(4, "big") + bytes(42))

    def __enter__(self) -> Stream:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


class Listener:
    """The numbers of a stream's frames that reach a far end, and when."""

    def __init__(self, raw: socket.socket, head: bytes) -> None:
        self.numbers: list[int] = []
        self.times: list[float] = []
        self._raw, self._head = raw, head
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                frame = self._raw.recv(2048)
            except TimeoutError:
                if self._stop.is_set():
                    return
                continue
            except OSError:  # the link is down: there is nothing to hear until it is up again
                continue
            if frame[:6] == self._head[:6]:
                self.times.append(time.monotonic())
                self.numbers.append(int.from_bytes(frame[14:18], "big"))

    def since(self, first: int) -> list[int]:
        """Return the numbers from this one on."""
        return [number for number in self.numbers if number >= first]

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {DEADLINE_S} s for {what}"
        time.sleep(0.002)


def forward(names: Names, dst: int, port: int) -> p4r.TableEntry:
    return names.entry("I.forward", {"dst": dst}, "I.to_port", {"port": port})


def head(dst: int, kind: int = 0x800) -> bytes:
    return dst.to_bytes(6, "big") + bytes([2, 0, 0, 0, 0, 1]) + kind.to_bytes(2, "big")


def test_a_changed_program_is_loaded_under_traffic(
    wire: Wire, start: Callable[..., str], client_of: Callable[[str], Client], edition: Edition
) -> None:
    """No packet is lost, no entry either, and the counter of the entry counts each packet."""
    client = client_of(start())
    client.push(edition())
    names = names_of(edition())
    client.write_all(
        [
            p4r.Update(type=INSERT, entity=p4r.Entity(table_entry=forward(names, dst, 2)))
            for dst in range(1000)
        ]
    )
    listener = Listener(wire.far[2], head(0xA))
    with Stream(wire.far[1], head(0xA), ear=listener) as stream:
        wait_for(lambda: len(listener.numbers) > 50, "the stream")
        began = time.monotonic()
        client.push(edition("MORE", "NEW_IDS"), RECONCILE)
        took = time.monotonic() - began
        reached = len(stream.sent_at)
        wait_for(lambda: len(listener.numbers) > reached + 50, "packets after the change")
    sent = len(stream.sent_at)
    wait_for(lambda: len(listener.numbers) >= sent, f"all {sent} packets")
    listener.stop()
    assert listener.numbers == list(range(sent))
    new = names_of(edition("MORE", "NEW_IDS"))
    query = p4r.DirectCounterEntry(table_entry=new.key("I.forward", {"dst": 0xA}))
    found = client.read(direct_counter_entry=query)[0].direct_counter_entry
    assert found.data.packet_count == sent
    assert len(client.read(table_entry=new.key("I.forward", {}))) == 1000
    gap = max(b - a for a, b in zip(listener.times, listener.times[1:], strict=False))
    print(
        f"reconcile of 1000 entries: {took * 1000:.0f} ms, {sent} packets, 0 lost, longest gap "
        f"{gap * 1000:.1f} ms (pace {PACE_S * 1000:.1f} ms)"
    )


def test_members_follow_their_watch_port(
    wire: Wire, start: Callable[..., str], client_of: Callable[[str], Client], edition: Edition
) -> None:
    """All packets go to port 3 while 2 is down; printed: from the link's end to the change."""
    client = client_of(start())
    client.push(edition())
    names = names_of(edition())
    entry = names.entry("I.balance", {"hdr.ethernet.type": 0x8888})
    for port in (2, 3):
        item = entry.action.action_profile_action_set.action_profile_actions.add(weight=1)
        item.action.CopyFrom(names.action("I.to_port", {"port": port}))
        item.watch_port = bytes([port])
    client.write(INSERT, table_entry=entry)
    # A source address whose hash takes port 2 while both are up.
    ears = {port: Listener(wire.far[port], head(0xB)) for port in (2, 3)}
    source = wire.far[1]
    for address in range(64):
        heard = len(ears[2].numbers), len(ears[3].numbers)
        start_of = (0xB).to_bytes(6, "big") + address.to_bytes(6, "big") + b"\x88\x88"
        source.send(start_of + bytes(46))
        wait_for(lambda h=heard: (len(ears[2].numbers), len(ears[3].numbers)) != h, "a packet")
        if len(ears[2].numbers) > heard[0]:
            break
    latencies = []
    for turn in range(1, 6):
        first = turn * 1_000_000  # frames of the turn before may still come
        with Stream(source, start_of, first) as stream:
            wait_for(lambda s=stream: len(s.sent_at) > 20, "the stream")
            began = time.monotonic()
            ip("link", "set", wire.near[2], "down")
            wait_for(lambda f=first: len(ears[3].since(f)) > 20, "packets on the other link")
        moved = min(ears[3].since(first))
        latencies.append(max(0.0, stream.sent_at[moved - first] - began))
        ip("link", "set", wire.near[2], "up")
        heard = len(ears[2].numbers)

        def back() -> bool:
            source.send(start_of + bytes(46))
            return len(ears[2].numbers) > heard  # noqa: B023 - called at once

        wait_for(back, "packets on the first link again")
    for ear in ears.values():
        ear.stop()
    shown = ", ".join(f"{latency * 1000:.1f}" for latency in sorted(latencies))
    print(f"watch port: from `ip link set down` to the last packet lost: {shown} ms")
    assert min(latencies) < GENEROUS_S


def test_finsy_hears_of_digests_and_idle_entries(
    wire: Wire, start: Callable[..., str], tmp_path: Path
) -> None:
    """Through the whole daemon: real packets, the kernel's clock, a client of others."""

    async def controller(address: str) -> None:
        options = finsy.SwitchOptions(
            p4info=GOLDEN / "features.p4info.txtpb",
            p4blob=GOLDEN / "features.json",
            device_id=DEVICE_ID,
            fail_fast=True,
        )
        async with finsy.Switch("s1", address, options) as switch:
            digest = finsy.P4DigestEntry("flow_digest_t", ack_timeout_ns=10**12)
            learn = finsy.P4TableEntry(
                "FabricIngress.acl",
                match=finsy.P4TableMatch({"hdr.ipv4.src": "10.1.0.0/16", "hdr.ipv4.$valid$": 1}),
                action=finsy.P4TableAction("FabricIngress.learn"),
                priority=10,
                idle_timeout_ns=60_000_000,
            )
            began = time.monotonic()
            await switch.insert([learn, digest])
            wire.far[1].send(FRAME)
            seen = await anext(switch.read_digests("flow_digest_t"))
            assert seen.data[0]["src"] == 0x0A010001
            assert abs(seen.timestamp - time.time_ns()) < 60 * 10**9
            idle = await anext(switch.read_idle_timeouts())
            took = time.monotonic() - began
            assert [entry.idle_timeout_ns for entry in idle.table_entry] == [60_000_000]
            print(f"idle time-out of 60 ms: heard of after {took * 1000:.0f} ms")

    # The event thread wakes for what is due, not because it looks again after a while.
    patient = "from softswitch import daemon; daemon.IDLE_WAIT_S = 3600.0; daemon.main()"
    asyncio.run(asyncio.wait_for(controller(start(run=("-c", patient))), DEADLINE_S))


@pytest.mark.reference("openssl")
def test_the_daemon_serves_tls(wire: Wire, start: Callable[..., str], tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    openssl = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=s1"
    )
    extra = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*openssl.split(), *extra], check=True, capture_output=True)
    address = start(
        "--grpc-server-ssl", "--grpc-server-cert", str(cert), "--grpc-server-key", str(key)
    )
    credentials = grpc.ssl_channel_credentials(cert.read_bytes())
    with grpc.secure_channel(address, credentials) as channel:
        grpc.channel_ready_future(channel).result(DEADLINE_S)
