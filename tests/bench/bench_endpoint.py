"""The RoCEv2 endpoint: what one flow gets, in virtual time and between two namespaces.

    python tests/bench/bench_endpoint.py [--json] [--rounds 21] [--messages 300]

Virtual time: one WRITE flow over 400 Gb/s links, MTU 4096, DCQCN on, against what headers leave of
a link. Real time (root): two namespaces joined by a veth, no switch, no line rate; the same two
daemons measure in turns without congestion control and with DCQCN (XDP program, map, pacing), then
by AF_PACKET. Then the same with ENCC, where an XDP program between them writes what five switches
would (hop_writer.bpf.c), and both ways go through it. Neither control has anything to hold back.
Medians; namespaces and pins are this process's own.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import io
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import command_line

from hostagent import agent, pins
from hostagent.rnic.client import EndpointClient, join
from hostagent.rnic.native import native
from mechanisms.dcqcn.parameters import BANDWIDTH_SCALED, parameters
from mechanisms.encc.parameters import encc_parameters
from weft import cli

ROOT = Path(__file__).resolve().parents[2]
VIRTUAL = """\
generator: single
time_scale: 1
hosts: 2
link: {rate: 400Gbps, delay: 500ns, queue: 4MB, mtu: 4200B}
classes:
  cnp: {dscp: 48, queue: 6}
  roce: {dscp: 26, queue: 3, ecn: hpcc-dcqcn}
  rest: {queue: 0}
"""
MTU, OVERHEAD = 4096, 82  # preamble to ICRC, FCS and gap
VIRTUAL_GOAL, REAL_GOAL = 0.98, 0.8
SIZE, DEPTH, INTERFACE_MTU = 65536, 32, 3000
LINE_BPS = 100 * 10**9  # for their parameters: far above what a processor can send
BASE_RTT_NS = 1_000_000  # and for ENCC's window, of 12.5 MB
MAPS = pins.BPF_FILE_SYSTEM / f"weft-bench-{os.getpid()}"
LONG_ANSWER = 62 + 15  # bytes on average: acknowledgements have 62, half of them 64 more
ADDRESSES = ("10.99.0.1", "10.99.0.2")
START_S = 60.0  # for a daemon to be ready, at most
PR_SET_PDEATHSIG = 1


def virtual() -> dict[str, float]:
    """One flow in the simulator: Gb/s of payload, and the most that there can be."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.yaml"
        path.write_text(VIRTUAL)
        words = ["perf", "write", "h1", "h2", "--bw", "-n", "2000", "--sim", str(path), "--json"]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            code = cli.main(words)
    if code:
        raise SystemExit(f"error: weft {' '.join(words)} ended with {code}")
    [row] = json.loads(said.getvalue())["measurements"][0]["rows"]
    most = 400 * MTU / (MTU + OVERHEAD)
    rate = row["bw_average_gbps"]
    return {"gbps": rate, "most_gbps": most, "share": rate / most, "goal": VIRTUAL_GOAL}


# --- between namespaces --------------------------------------------------------------------------


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@contextmanager
def process(command: list[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a child for the block, which begins when the child has printed its first line."""
    child = subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, preexec_fn=_die_with_parent, **options
    )
    try:
        assert child.stdout is not None
        line = child.stdout.readline()
        if child.poll() not in (None, 0):
            raise SystemExit(f"error: {' '.join(command)} ended: {line}")
        yield child
    finally:
        child.terminate()
        child.wait()


@contextmanager
def two_namespaces(*, hops: bool = False) -> Iterator[list[int]]:
    """Yield processes in two namespaces with addresses, whose `b0` a veth pair joins.

    `hops`: a stand-in for a path of five switches is between them (hop_writer.bpf.c).
    """
    hold = ["unshare", "--net", "sh", "-c", "echo; exec sleep infinity"]
    with ExitStack() as stack:
        held = [stack.enter_context(process(hold)).pid for _ in ADDRESSES]
        if hops:
            middle = stack.enter_context(process(hold)).pid
            for number, pid in enumerate(held):
                join_namespaces(pid, "b0", middle, f"m{number}")
                in_namespace(middle, f"link set m{number} up\n")
        else:
            join_namespaces(held[0], "b0", held[1], "b0")
        for pid, address in zip(held, ADDRESSES, strict=True):
            in_namespace(pid, f"link set b0 up\naddress add {address}/24 dev b0\n")
        if hops:
            command = ["nsenter", f"--net=/proc/{middle}/ns/net", sys.executable]
            command += [str(ROOT / "tests" / "bench" / "hop_writer.py"), "m0", "m1"]
            stack.enter_context(process(command))
        yield held


def join_namespaces(one: int, name: str, other: int, peer: str) -> None:
    """Make a veth pair between the namespaces of two processes."""
    add = f"link add {name} netns {one} mtu {INTERFACE_MTU} type veth "
    add += f"peer name {peer} netns {other} mtu {INTERFACE_MTU}"
    subprocess.run(["ip", *add.split()], check=True)


def in_namespace(pid: int, lines: str) -> None:
    """Let `ip` do these lines in the namespace of a process."""
    enter = ["nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-batch", "-"]
    subprocess.run(enter, input=lines, text=True, check=True)


@contextmanager
def clients(held: list[int], folder: Path, *options: str) -> Iterator[list[EndpointClient]]:
    """Daemons in both namespaces, and connections to them."""
    with ExitStack() as stack:
        found = []
        for number, (pid, address) in enumerate(zip(held, ADDRESSES, strict=True)):
            path = folder / f"{number}.rnic"
            enter = ["nsenter", f"--net=/proc/{pid}/ns/net", sys.executable]
            command = [*enter, "-m", "hostagent.rnic.service", "--interface", "b0"]
            command += ["--ip", address, "--socket", str(path), *options]
            stack.enter_context(process(command))
            found.append(stack.enter_context(EndpointClient.connect(path, START_S)))
        yield found


def settings_of(control: str) -> dict[str, Any]:
    """Return the settings of a queue pair whose congestion control has nothing to hold back
    here.
    """
    if control == "encc":
        return {"congestion_control": {"encc": encc_parameters(LINE_BPS, BASE_RTT_NS).fields()}}
    if control == "dcqcn":
        given = parameters(BANDWIDTH_SCALED, LINE_BPS)
        control_of_pair = {"dcqcn": given.fields()}
        return {"congestion_control": control_of_pair, "cnp_interval_ns": given.cnp_interval_ns}
    return {}


def one_round(ends: list[EndpointClient], messages: int, control: str = "") -> dict[str, float]:
    """One measurement: Gb/s of payload, and CPU microseconds a data packet at both ends."""
    settings = settings_of(control)
    ours, theirs = join(*ends, qps=1, buffer_bytes=SIZE, direct=True, **settings)
    ends[1].call("serve", qpns=theirs, operation="write", mode="bandwidth", size=SIZE)
    before = ends[1].call("stats")["endpoint"]["cpu_ns"]
    result = ends[0].call(
        "measure", timeout_s=60, qpns=ours, operation="write", mode="bandwidth", size=SIZE,
        count=messages, depth=DEPTH,
    )  # fmt: skip
    after = ends[1].call("stats")["endpoint"]["cpu_ns"]
    if result["failures"]:
        raise SystemExit(f"error: {result['failures'][0]['why']}")
    packets = sum(pair["sent_packets"] for pair in result["pairs"])
    for client, qpns in zip(ends, (ours, theirs), strict=True):
        client.call("close", qpns=qpns)
    return {
        "gbps": result["average_bps"] / 1e9,
        "send_us": result["cpu_ns"] / packets / 1000,
        "receive_us": (after - before) / packets / 1000,
        "repeated": sum(pair["repeated_packets"] for pair in result["pairs"]) / packets,
    }


def medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Return the median of each number."""
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}


def in_turns(
    ends: list[EndpointClient], control: str, rounds: int, messages: int
) -> dict[str, Any]:
    """Without congestion control and with it in turns."""
    each: dict[str, list[dict[str, float]]] = {"": [], control: []}
    for which in each:
        one_round(ends, messages, which)
    for _ in range(rounds):
        for which, before in each.items():
            before.append(one_round(ends, messages, which))
    off, on = each.values()
    shares = [a["gbps"] / b["gbps"] for a, b in zip(on, off, strict=True)]
    share = statistics.median(shares)  # of neighbours: load comes and goes
    return {"control": control, "off": medians(off), "on": medians(on), "share": share}


@contextmanager
def hosts(*, hops: bool) -> Iterator[tuple[list[int], Path, str | None]]:
    """Two namespaces, a folder, and why there is no eBPF in them; pins are in `MAPS`."""
    with two_namespaces(hops=hops) as held, tempfile.TemporaryDirectory() as folder:
        try:
            report = agent.run(MAPS, [(Path(f"/proc/{pid}/ns/net"), "b0") for pid in held])
            yield held, Path(folder), report.error
        finally:
            with contextlib.suppress(OSError):
                pins.remove(MAPS)


def real(rounds: int, messages: int) -> dict[str, Any]:
    """Between two namespaces: congestion control on and off in turns, then AF_PACKET."""
    found: dict[str, Any] = {"rounds": rounds, "goal": REAL_GOAL}
    native()  # compiles what is to be compiled, before daemons wait for it
    with hosts(hops=False) as (held, folder, error):
        if error is None:
            with clients(held, folder, "--maps", str(MAPS)) as ends:
                found["mode"] = ends[0].call("info")["mode"]
                found["turns"] = [in_turns(ends, "dcqcn", rounds, messages)]
        else:
            found["missing"] = error
        with clients(held, folder, "--af-packet") as ends:
            one_round(ends, messages)
            packet = [one_round(ends, messages) for _ in range(rounds)]
        found["packet"] = medians(packet)
    if "missing" not in found:
        with hosts(hops=True) as (held, folder, error):
            assert error is None, error
            with clients(held, folder, "--maps", str(MAPS)) as ends:
                found["turns"].append(in_turns(ends, "encc", rounds, messages))
                heard = ends[0].call("stats")["endpoint"]
            if heard["rx_bytes"] / heard["rx_packets"] < LONG_ANSWER:
                raise SystemExit("error: acknowledgements have brought no records of hops")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=command_line.count, default=21)
    parser.add_argument(
        "--messages", type=command_line.count, default=300, help=f"of {SIZE} bytes, a round"
    )
    arguments = parser.parse_args()
    result: dict[str, Any] = {"virtual": virtual()}
    if os.geteuid() == 0:
        result["real"] = real(arguments.rounds, arguments.messages)
    print(json.dumps(result) if arguments.json else json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    command_line.run(main)
