"""The RoCEv2 endpoint: what one flow gets, in virtual time and between two namespaces.

    python tests/bench/bench_endpoint.py [--json] [--rounds 21] [--messages 300]

Virtual time: one WRITE flow over 400 Gb/s links, MTU 4096, DCQCN on, against what headers leave of
a link. Real time (root): two namespaces joined by a veth, no switch, no line rate; the same two
daemons measure in turns without congestion control, with DCQCN and with ENCC (XDP program, map,
pacing; ENCC's shims stay empty, as there is no switch), and two others by AF_PACKET. Medians;
namespaces and pins are this process's own.
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
CONTROLS = ("dcqcn", "encc")
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
    """A child that has said its first line, ended with the block."""
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
def two_namespaces() -> Iterator[list[int]]:
    """Processes in two namespaces that a veth pair `b0` joins, with addresses."""
    hold = ["unshare", "--net", "sh", "-c", "echo; exec sleep infinity"]
    with process(hold) as one, process(hold) as other:
        held = [one.pid, other.pid]
        add = f"link add b0 netns {held[0]} mtu {INTERFACE_MTU} type veth "
        add += f"peer name b0 netns {held[1]} mtu {INTERFACE_MTU}"
        subprocess.run(["ip", *add.split()], check=True)
        for pid, address in zip(held, ADDRESSES, strict=True):
            lines = f"link set b0 up\naddress add {address}/24 dev b0\n"
            enter = ["nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-batch", "-"]
            subprocess.run(enter, input=lines, text=True, check=True)
        yield held


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
    """What a queue pair is opened with: congestion control that has nothing to hold back here."""
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
    """The median of each number."""
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}


def share(on: list[dict[str, float]], off: list[dict[str, float]]) -> float:
    """The median ratio of rounds that are neighbours: load comes and goes."""
    return statistics.median(a["gbps"] / b["gbps"] for a, b in zip(on, off, strict=True))


def real(rounds: int, messages: int) -> dict[str, Any]:
    """Between two namespaces: congestion control on and off in turns, then AF_PACKET."""
    directory = pins.BPF_FILE_SYSTEM / f"weft-bench-{os.getpid()}"
    found: dict[str, Any] = {"rounds": rounds, "goal": REAL_GOAL}
    native()  # compiles what is to be compiled, before daemons wait for it
    with two_namespaces() as held, tempfile.TemporaryDirectory() as folder:
        try:
            attach = [(Path(f"/proc/{pid}/ns/net"), "b0") for pid in held]
            report = agent.run(directory, attach)
            if report.error is None:
                with clients(held, Path(folder), "--maps", str(directory)) as ends:
                    found["mode"] = ends[0].call("info")["mode"]
                    each: dict[str, list[dict[str, float]]] = {"": []}
                    each |= {control: [] for control in CONTROLS}
                    for control in each:
                        one_round(ends, messages, control)
                    for _ in range(rounds):
                        for control, before in each.items():
                            before.append(one_round(ends, messages, control))
                found["off"] = medians(each[""])
                found["on"] = {control: medians(each[control]) for control in CONTROLS}
                found["share"] = {control: share(each[control], each[""]) for control in CONTROLS}
            else:
                found["missing"] = report.error
            with clients(held, Path(folder), "--af-packet") as ends:
                one_round(ends, messages)
                packet = [one_round(ends, messages) for _ in range(rounds)]
            found["packet"] = medians(packet)
        finally:
            with contextlib.suppress(OSError):
                pins.remove(directory)
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
