"""The same leaf-spine in real and in virtual time: goodput, mean queue, and which packets drop.

    python tests/bench/bench_runtimes.py [--json] [--seconds 8]

Needs root and that no run is up. Both runtimes get the same frames at the same times: one from
raw sockets in the hosts' namespaces, the other as a script, at the same time scale (an MTU takes
1.23 ms). Load: both hosts of a leaf send to one; first more than its link takes, so that a queue
builds, then 99 %. Drops: one host sends twice as fast as a link that serves a packet in 80 ms and
holds five; every packet comes 20 ms or more from the moments at which the answer would change.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import command_line
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from controller import CompiledProgram
from emulation import namespace
from emulation.session import Session
from emulation.switch_node import Target
from simulator.runner import Simulation
from softswitch import program_cache
from softswitch.diagnostics import DiagnosticsClient
from topologies import Topology
from workloads.loader import read_run

ROOT = Path(__file__).resolve().parents[2]
SCALE = 40000  # 400 Gb/s are 10 Mb/s
IP_BYTES = 1500
ON_WIRE = IP_BYTES + 14 + 24
SLOT_S = ON_WIRE * 8 * SCALE / 400e9  # 1.2304 ms
PORT = 5000  # UDP's
START_S = 0.5  # from the first look at the clock to the first packet
GOODPUT_LIMIT, QUEUE_LIMIT = 0.05, 0.15

FABRIC = """
topology:
  time_scale: {scale}
  generator: leaf_spine
  spines: 2
  leaves: 2
  hosts_per_leaf: 2
  link: {{rate: 400Gbps, delay: 500ns, queue: 1MB, mtu: 1500B}}
  {more}
until: 1s
sample: 1ms
traffic: [script: [{{at: 1s, from: h1, to: h2, bytes: 64B}}]]
"""
SLOW = (
    "overrides: [{between: [s2, h3], rate: 6152Mbps, queue: 8kB}]"  # 80 ms a packet, five of them
)


@dataclass(frozen=True)
class Sent:
    """A frame of a host, `at_s` after the start."""

    at_s: float
    host: str
    frame: bytes


@dataclass(frozen=True)
class Seen:
    """What one runtime made of it: arrivals at h3 as (seconds, number), and the mean queue."""

    arrivals: tuple[tuple[float, int], ...]
    mean_queue: float


def frames(topology: Topology, times: Sequence[tuple[float, str]]) -> list[Sent]:
    """Numbered UDP packets of full size to h3."""
    to = topology.host("h3")
    found = []
    for number, (at_s, name) in enumerate(times):
        host = topology.host(name)
        gateway = topology.switch(host.switch).mac
        head = Ether(src=host.mac, dst=gateway) / IP(
            src=str(host.address.ip), dst=str(to.address.ip)
        )
        payload = number.to_bytes(4, "big").ljust(IP_BYTES - 28, b"\0")
        packet = head / UDP(sport=20000 + int(name[1:]), dport=PORT) / payload
        found.append(Sent(at_s, name, bytes(packet)))
    return found


def load_times(seconds: float) -> list[tuple[float, str]]:
    """150 % of h3's link until 100 packets wait, then 99 %."""
    times = [(n * SLOT_S / 0.75, host) for n in range(150) for host in ("h1", "h2")]
    begin, gap = 150 * SLOT_S / 0.75, SLOT_S / 0.495
    steps = int((seconds - begin) / gap)
    times += [(begin + n * gap, "h1") for n in range(steps)]
    times += [(begin + (n + 0.5) * gap, "h2") for n in range(steps)]
    return sorted(times)


def drop_times() -> list[tuple[float, str]]:
    """Two packets for each that h3's link takes, 20 and 60 ms after it has taken one."""
    slot = 0.080
    return [(0.0, "h1")] + [(0.020 + n * slot / 2, "h1") for n in range(60)]


def number_of(frame: bytes) -> int | None:
    """Return the number of one of our packets."""
    if len(frame) < 46 or frame[12:14] != b"\x08\x00" or frame[23] != 17:
        return None
    return int.from_bytes(frame[42:46], "big") if frame[36:38] == PORT.to_bytes(2, "big") else None


# --- real time -----------------------------------------------------------------------------------


@contextmanager
def up(topology: Topology, program: CompiledProgram) -> Iterator[Session]:
    """Run the topology in namespaces."""
    session = Session(topology, Target.SOFTSWITCH)
    try:
        session.claim()
        session.build_network()
        session.wait_for_switches()
        session.bring_up(program)
        session.settle()
        yield session
    finally:
        session.close()


def in_real_time(session: Session, sent: Sequence[Sent], seconds: float) -> Seen:
    """Send; then wait until `seconds` after the start."""
    hosts = {host.name: host for host in session.network.live_hosts()}
    sockets = {
        name: namespace.open_socket(hosts[name].pid, socket.AF_PACKET, socket.SOCK_RAW)
        for name in {each.host for each in sent}
    }
    for name, tx in sockets.items():
        tx.bind((hosts[name].interface, 0))
    taker = namespace.open_socket(
        hosts["h3"].pid, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)
    )
    taker.bind((hosts["h3"].interface, 3))
    taker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
    taker.setblocking(False)
    arrivals: list[tuple[float, int]] = []
    before = waits(session)
    start = time.monotonic() + START_S
    for each in sent:
        due = start + each.at_s
        while (left := due - time.monotonic()) > 0:
            take(taker, start, arrivals)
            if left > 0.0003:
                time.sleep(left - 0.0002)
        sockets[each.host].send(each.frame)
    end = start + seconds
    while time.monotonic() < end:
        take(taker, start, arrivals)
        time.sleep(0.0005)
    waited = waits(session) - before
    for each_socket in [*sockets.values(), taker]:
        each_socket.close()
    return Seen(tuple(arrivals), waited / 1e12 / seconds)


def take(taker: socket.socket, start: float, arrivals: list[tuple[float, int]]) -> None:
    """Note what has come."""
    while True:
        try:
            frame = taker.recv(2048)
        except BlockingIOError:
            return
        number = number_of(frame)
        if number is not None:
            arrivals.append((time.monotonic() - start, number))


def waits(session: Session) -> int:
    """How long packets have waited in all queues, in picoseconds (real ones)."""
    total = 0
    for switch in session.network.switches.values():
        with DiagnosticsClient(switch.settings.address) as client:
            total += sum(row["wait_ps"] for row in client.port_stats().values())
    return total


# --- virtual time --------------------------------------------------------------------------------


def in_virtual_time(
    more: str, program: CompiledProgram, sent: Sequence[Sent], seconds: float
) -> Seen:
    """Run the same as a script, with links as slow as in real time."""
    run = read_run(FABRIC.format(scale=SCALE, more=more))
    simulation = Simulation(run, program, time_scale=SCALE, until_ps=int(seconds * 1e12))
    engine = simulation.engine
    h3 = simulation.fabric.nodes["h3"]
    engine.tap(h3, 0, 1 << 20)
    engine.add_script(
        [(simulation.fabric.nodes[s.host], 0, int(s.at_s * 1e12), s.frame) for s in sent]
    )
    outcome = simulation.run()
    arrivals = [(f.at / 1e12, number_of(f.data)) for f in engine.take_tapped() if not f.sent]
    waited = sum(
        int(port["wait_ps"])
        for switch in outcome.end.switches.values()
        for port in switch.ports.values()
    )
    found = tuple((at, number) for at, number in arrivals if number is not None)
    return Seen(found, waited / 1e12 / seconds)


# --- both ----------------------------------------------------------------------------------------


def goodput_bps(seen: Seen) -> float:
    """Of IP, from the first arrival to the last."""
    times = [at for at, _ in seen.arrivals]
    return (len(times) - 1) * IP_BYTES * 8 / (max(times) - min(times))


def both(
    more: str, times: Sequence[tuple[float, str]], seconds: float, program: CompiledProgram
) -> tuple[Seen, Seen]:
    topology = read_run(FABRIC.format(scale=SCALE, more=more)).topology.with_time_scale(SCALE)
    sent = frames(topology, times)
    with up(topology, program) as session:
        real = in_real_time(session, sent, seconds)
    return real, in_virtual_time(more, program, sent, seconds)


def measure(seconds: float) -> dict[str, Any]:
    """Both comparisons."""
    compiled = program_cache.compile_program(program_cache.Job(ROOT / "p4src" / "fabric.p4"))
    program = CompiledProgram.of(compiled)
    real, virtual = both("", load_times(seconds), seconds + 0.5, program)
    drops = drop_times()
    real_drops, virtual_drops = both(SLOW, drops, drops[-1][0] + 1.0, program)
    return {
        "time_scale": SCALE,
        "slot_ms": SLOT_S * 1e3,
        "packets": len(load_times(seconds)),
        "goodput_bps": [goodput_bps(real), goodput_bps(virtual)],
        "load": goodput_bps(virtual) / (IP_BYTES / ON_WIRE * 400e9 / SCALE),
        "mean_queue": [real.mean_queue, virtual.mean_queue],
        "goodput_off": abs(goodput_bps(real) / goodput_bps(virtual) - 1),
        "queue_off": abs(real.mean_queue / virtual.mean_queue - 1),
        "goodput_limit": GOODPUT_LIMIT,
        "queue_limit": QUEUE_LIMIT,
        "script_packets": len(drops),
        "script_lost": len(drops) - len(virtual_drops.arrivals),
        "same_drops": [n for _, n in real_drops.arrivals] == [n for _, n in virtual_drops.arrivals],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=command_line.seconds, default=8.0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("error: network namespaces and packet sockets need root: sudo make bench")
    result = measure(arguments.seconds)
    json.dump(result, sys.stdout, indent=None if arguments.json else 2)
    print()


if __name__ == "__main__":
    command_line.run(main)
