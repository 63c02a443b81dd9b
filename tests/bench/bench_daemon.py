"""CPU time a packet of the switch daemon, against a bare AF_PACKET forwarder.

    python tests/bench/bench_daemon.py [--json] [--pps 100000] [--rounds 5] [--seconds 3]

Needs root. Everything lives in a network namespace without a name, which ends with this process:

    pktgen: far1 ===veth=== near1 [forwarder | daemon with base L3] near2 ===veth=== far2: sink

The daemon is the one that users run, with 1 000 routes written over P4Runtime. Both take turns in
the same run. CPU time is that of all threads of the forwarding process
(schedstat), from before the first frame to after the last.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import command_line
import l3

HERE = Path(__file__).resolve().parent
CLONE_NEWNET = 0x40000000
FLOWS = 64
WARM_UP_S = 0.5
START_S = 30.0  # for the daemon to be ready, at most
LOSS_LIMIT = 0.001
RATIO_LIMIT = 1 / 0.65


@dataclass(frozen=True)
class Round:
    """One measurement: CPU microseconds a packet, and the share of frames lost."""

    cpu_us: float
    loss: float
    pps: float


def enter_namespace() -> None:
    """Enter a new network namespace with two veth pairs, for this process and its children."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        raise SystemExit("error: a new network namespace needs root")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for n in (1, 2):
        subprocess.run(f"ip link add near{n} type veth peer name far{n}".split(), check=True)
        for name in (f"near{n}", f"far{n}"):
            Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
            subprocess.run(["ip", "link", "set", name, "up"], check=True)


def compile_tools(folder: Path) -> None:
    for name in ("forwarder", "pktgen"):
        command = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O2"]
        command += [str(HERE / f"{name}.c"), "-o", str(folder / name)]
        subprocess.run(command, check=True)


@contextmanager
def bare(forwarder: Path) -> Iterator[int]:
    """Run the yardstick between near1 and near2; yield its pid once it is ready."""
    command = [str(forwarder), "near1", "near2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline().strip() != "ready":
                raise SystemExit(f"error: {command[0]} did not start")
            yield process.pid
        finally:
            process.terminate()


@contextmanager
def daemon(folder: Path) -> Iterator[int]:
    """Run the switch as users do, on near1 and near2, with routes from P4Runtime; yield its pid."""
    ready, log = folder / "ready", folder / "log"
    ready.unlink(missing_ok=True)
    address = "127.0.0.1:9559"  # the namespace is ours alone
    command = [sys.executable, "-m", "softswitch", str(l3.GOLDEN), "--p4info", str(l3.P4INFO)]
    command += ["-i", "1@near1", "-i", "2@near2", "--log-file", str(log)]
    command += ["--", "--grpc-server-addr", address, "--ready-file", str(ready)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + START_S
            while not ready.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"error: the switch did not start: {log.read_text()}")
                time.sleep(0.01)
            l3.write_routes(address)
            yield process.pid
        finally:
            process.terminate()


def cpu_ns(pid: int) -> int:
    """CPU time of all threads of a process."""
    return sum(
        int((task / "schedstat").read_text().split()[0])
        for task in Path(f"/proc/{pid}/task").iterdir()
    )


def measure(
    pktgen: Path, forwarding: AbstractContextManager[int], pps: int, seconds: float
) -> Round:
    """One round with a fresh forwarding process, warmed up first."""
    lines = "\n".join(frame.hex() for frame in l3.frames(FLOWS))

    def generate(duration: float) -> dict[str, float]:
        done = subprocess.run(
            [str(pktgen), "far1", "far2", str(pps), str(duration)],
            input=lines,
            capture_output=True,
            text=True,
            check=True,
        )
        result: dict[str, float] = json.loads(done.stdout)
        return result

    with forwarding as pid:
        generate(WARM_UP_S)
        before = cpu_ns(pid)
        result = generate(seconds)
        used = cpu_ns(pid) - before
    return Round(
        cpu_us=used / 1000 / result["sent"],
        loss=1 - result["received"] / result["sent"],
        pps=result["sent"] / result["seconds"],
    )


def summary(rounds: dict[str, list[Round]]) -> dict[str, object]:
    """Medians, ratio and whether the limits are kept."""
    medians = {
        name: Round(*(statistics.median(getattr(r, f) for r in rs) for f in asdict(rs[0])))
        for name, rs in rounds.items()
    }
    ratio = medians["switch"].cpu_us / medians["forwarder"].cpu_us
    return {
        **{name: asdict(median) for name, median in medians.items()},
        "ratio": ratio,
        "ratio_limit": RATIO_LIMIT,
        "passes": ratio <= RATIO_LIMIT and medians["switch"].loss <= LOSS_LIMIT,
        "rounds": {name: [asdict(r) for r in rs] for name, rs in rounds.items()},
    }


def run(pps: int, count: int, seconds: float) -> dict[str, object]:
    """Alternating rounds in a namespace of their own. Changes this process's namespace."""
    l3.switch().close()  # compiles what is to be compiled
    enter_namespace()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compile_tools(folder)
        rounds: dict[str, list[Round]] = {"forwarder": [], "switch": []}
        for _ in range(count):
            turns = {"forwarder": bare(folder / "forwarder"), "switch": daemon(folder)}
            for who, forwarding in turns.items():
                rounds[who].append(measure(folder / "pktgen", forwarding, pps, seconds))
    return summary(rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pps", type=command_line.count, default=100_000)
    parser.add_argument("--rounds", type=command_line.count, default=5)
    parser.add_argument("--seconds", type=command_line.seconds, default=3.0, help="of one round")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("error: network namespaces and packet sockets need root: sudo make bench")
    result = run(arguments.pps, arguments.rounds, arguments.seconds)
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"64 B frames at {arguments.pps} packets/s, medians of {arguments.rounds} rounds")
    for name in ("forwarder", "switch"):
        median = Round(**result[name])  # type: ignore[arg-type]
        print(f"  {name:10} {median.cpu_us:6.2f} us CPU a packet, {median.loss:8.4%} lost")
    print(f"  ratio {result['ratio']:.2f} (limit {RATIO_LIMIT:.2f})")


if __name__ == "__main__":
    command_line.run(main)
