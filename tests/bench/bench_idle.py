"""CPU time of switches that have nothing to do: the share of one core that all take together.

    python tests/bench/bench_idle.py [--json] [--switches 20] [--seconds 20]

Needs root. Everything lives in a network namespace without a name. Each switch is the daemon that
users run: four ports on veth pairs that are up, a program loaded over P4Runtime, and a controller
whose session stays open, as in a fabric where nobody sends.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import queue
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import command_line
import grpc
import l3
from finsy.proto import p4r, p4r_grpc
from google.protobuf import text_format

CLONE_NEWNET = 0x40000000
PORTS = 4
FIRST_TCP_PORT = 9559  # the namespace is ours alone
START_S = 60.0
SETTLE_S = 2.0
LIMIT = 0.05  # of one core, for 20 switches


def enter_namespace() -> None:
    """Enter a new network namespace, for this process and its children."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        raise SystemExit("error: a new network namespace needs root")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def make_links(switches: int) -> None:
    """Ports of each switch: the two ends of veth pairs, so that all have a carrier."""
    lines = []
    for n in range(switches):
        for port in range(0, PORTS, 2):
            a, b = f"i{n}p{port}", f"i{n}p{port + 1}"
            lines.append(f"link add {a} type veth peer name {b}")
            lines += [f"link set {name} arp off up" for name in (a, b)]
    for name in ("all", "default"):
        Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)


@contextmanager
def daemons(switches: int, folder: Path) -> Iterator[list[int]]:
    """Run that many daemons; yield their pids once they are ready."""
    with ExitStack() as stack:
        processes = []
        for n in range(switches):
            command = [sys.executable, "-m", "softswitch", "--no-p4", "--device-id", "1"]
            for port in range(PORTS):
                command += ["-i", f"{port + 1}@i{n}p{port}"]
            command += ["--log-file", str(folder / f"{n}.log")]
            command += ["--", "--grpc-server-addr", f"127.0.0.1:{FIRST_TCP_PORT + n}"]
            command += ["--ready-file", str(folder / f"{n}.ready")]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            processes.append(process)
        deadline = time.monotonic() + START_S
        for n, process in enumerate(processes):
            while not (folder / f"{n}.ready").exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    log = (folder / f"{n}.log").read_text()
                    raise SystemExit(f"error: switch {n} did not start: {log}")
                time.sleep(0.01)
        yield [process.pid for process in processes]


@contextmanager
def controller(address: str) -> Iterator[None]:
    """Hold a session as primary with one switch, which gets its program."""
    requests: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
    election_id = p4r.Uint128(low=1)
    with grpc.insecure_channel(address) as channel:
        stub = p4r_grpc.P4RuntimeStub(channel)
        stream = stub.StreamChannel(iter(requests.get, None))
        arbitration = p4r.MasterArbitrationUpdate(device_id=1, election_id=election_id)
        requests.put(p4r.StreamMessageRequest(arbitration=arbitration))
        next(stream)
        request = p4r.SetForwardingPipelineConfigRequest(device_id=1, election_id=election_id)
        request.action = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        request.config.p4_device_config = l3.GOLDEN.read_bytes()
        text_format.Parse(l3.P4INFO.read_text(), request.config.p4info)
        stub.SetForwardingPipelineConfig(request)
        yield
        requests.put(None)


def cpu_ns(pid: int) -> dict[str, int]:
    """CPU time of each thread of a process, by thread id."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return {task.name: int((task / "schedstat").read_text().split()[0]) for task in tasks}


def run(switches: int, seconds: float) -> dict[str, float]:
    """Measure. Changes this process's namespace."""
    enter_namespace()
    make_links(switches)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pids = stack.enter_context(daemons(switches, folder))
        for n in range(switches):
            stack.enter_context(controller(f"127.0.0.1:{FIRST_TCP_PORT + n}"))
        time.sleep(SETTLE_S)  # what loading a program has left to do is no part of idling
        before, started = [cpu_ns(pid) for pid in pids], time.monotonic()
        time.sleep(seconds)
        after, took = [cpu_ns(pid) for pid in pids], time.monotonic() - started
    # A thread that came meanwhile counts from zero; one that ended is lost, and there is none.
    used = sum(
        ns - old.get(thread, 0)
        for old, new in zip(before, after, strict=True)
        for thread, ns in new.items()
    )
    return {"switches": switches, "seconds": took, "core_share": used / 1e9 / took, "limit": LIMIT}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--switches", type=command_line.count, default=20)
    parser.add_argument("--seconds", type=command_line.seconds, default=20.0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("error: network namespaces and packet sockets need root: sudo make bench")
    result = run(arguments.switches, arguments.seconds)
    if arguments.json:
        print(json.dumps(result))
        return
    print(
        f"{arguments.switches} idle switches: {result['core_share']:.2%} of one core "
        f"over {result['seconds']:.1f} s (limit {LIMIT:.0%})"
    )


if __name__ == "__main__":
    command_line.run(main)
