"""A port dies of which the controller is told nothing: the switch takes its group's other members.

s3    s4        two spines; s1's port to s3 is taken down at the switch alone
| \\  / |
s1    s2        two leaves, a host each: h1 sends numbered datagrams to h2, over both spines
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import topologies
from compiler import compile_p4
from controller import CompiledProgram
from controller.entries import Group
from emulation import proofs
from emulation.session import Session
from emulation.switch_node import Target
from softswitch.diagnostics import DiagnosticsClient

pytestmark = [pytest.mark.root, pytest.mark.realtime]

FABRIC = Path(__file__).parents[2] / "p4src" / "fabric.p4"
TOPOLOGY = """\
time_scale: 10000
generator: leaf_spine
spines: 2
leaves: 2
hosts_per_leaf: 1
link: {rate: 400Gbps, delay: 500ns, queue: 1MB}
"""
UPLINK = 2  # of s1, to s3; the other one is 3
FLOWS = 32
PORT = 7777
DONE = b"done"
PATIENCE_S = 60.0

RECEIVE = f"""
import socket
ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
ear.bind(("0.0.0.0", {PORT}))
ear.settimeout({PATIENCE_S})
print("ready", flush=True)
heard = set()
while (said := ear.recv(64)) != {DONE!r}:
    heard.add(said)
print(len(heard), flush=True)
"""
SEND = f"""
import socket, sys
to = (sys.argv[1], {PORT})
mouths = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range({FLOWS})]
for line in sys.stdin:
    if line.strip() == "done":
        mouths[0].sendto({DONE!r}, to)
        continue
    for number, mouth in enumerate(mouths):
        mouth.sendto(f"{{line.strip()}} {{number}}".encode(), to)
    print("sent", flush=True)
"""


@pytest.fixture
def session(roots: Path) -> Iterator[Session]:
    made = Session(topologies.loads(TOPOLOGY), Target.SOFTSWITCH)
    try:
        made.claim()
        made.build_network()
        made.wait_for_switches()
        made.bring_up(CompiledProgram.of(compile_p4(FABRIC)))
        yield made
    finally:
        made.close()


@contextmanager
def python(session: Session, host: str, code: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a script in a host's namespace."""
    name = session.network.namespace_name(host)
    command = ["ip", "netns", "exec", name, sys.executable, "-c", code, *words]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def spines_sent(session: Session) -> dict[str, int]:
    counters = session.controller.read_port_counters()
    return {spine: counters[spine][2].tx_packets for spine in ("s3", "s4")}


def test_a_switch_leaves_out_a_dead_port_by_itself(session: Session) -> None:
    held = session.controller.read_entries("s1")
    assert [each.watch for each in held if isinstance(each, Group)] == [(2, 3)]
    assert proofs.all_pairs_ping(session).ok  # everybody knows everybody's MAC address
    to = str(session.topology.host("h2").address.ip)
    with python(session, "h2", RECEIVE) as ear, python(session, "h1", SEND, to) as mouth:
        assert ear.stdout and mouth.stdin and mouth.stdout
        assert ear.stdout.readline() == "ready\n"

        def send(what: str) -> dict[str, int]:
            """One datagram of each flow; return what each spine sent for it."""
            before = spines_sent(session)
            mouth.stdin.write(f"{what}\n")
            mouth.stdin.flush()
            assert mouth.stdout.readline() == "sent\n"
            return before

        first = send("both up")
        proofs.all_pairs_ping(session)  # the datagrams before it have passed
        second = spines_sent(session)
        assert all(second[spine] > first[spine] for spine in ("s3", "s4"))
        with DiagnosticsClient(session.network.switches["s1"].settings.address) as switch:
            switch.set_port(UPLINK, False)
        assert session.controller.read_entries("s1") == held  # nobody has told the controller
        before = send("one down")
        send("still down")
        mouth.stdin.write("done\n")
        mouth.stdin.flush()
        assert ear.stdout.readline() == f"{3 * FLOWS}\n"
        assert spines_sent(session)["s4"] - before["s4"] >= 2 * FLOWS
