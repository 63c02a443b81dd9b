"""How late ticks are in real time: of the switch daemon, and of the process that ticks for BMv2.

    python tests/bench/bench_ticker.py [--json] [--period-us 1000] [--seconds 10]

Each is measured on the machine as it is, and with a busy process on every processor. The daemon is
the one that users run, with the golden program; late is from when a tick was due to when its packet
entered the pipeline. The process sends to `lo`, which needs root and is left out without it; late
is until the packet was sent. Every tick has to come: those that are skipped are counted.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import command_line
import l3

from softswitch.diagnostics import DiagnosticsClient

PACKET = "ff" * 6 + "020000000001" + "88b5" + "00" * 46
START_S = 60.0
PS_PER_US = 1_000_000
SAID = re.compile(
    r"(\d+) ticks, (\d+) skipped, (\d+) lost; late: p50 (\d+) us, p99 (\d+) us, most (\d+) us"
)


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Meanwhile so many processes do nothing but compute."""
    running = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)
    ]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


@contextmanager
def daemon(folder: Path, period_us: int) -> Iterator[str]:
    """Run a switch that ticks; yield its address once it is ready."""
    ready, log = folder / "ready", folder / "log"
    command = [sys.executable, "-m", "softswitch", str(l3.GOLDEN), "--p4info", str(l3.P4INFO)]
    command += ["--log-file", str(log), "--", "--grpc-server-addr", "127.0.0.1:0"]
    command += ["--ready-file", str(ready)]
    command += ["--ticker", f"period={period_us}us,packet={PACKET}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + START_S
            while not ready.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"error: the switch did not start: {log.read_text()}")
                time.sleep(0.01)
            yield ready.read_text().split()[1]
        finally:
            process.terminate()


def of_daemon(period_us: int, seconds: float, load: int) -> dict[str, Any]:
    """How late the daemon's ticks were."""
    with (
        tempfile.TemporaryDirectory() as name,
        busy(load),
        daemon(Path(name), period_us) as address,
        DiagnosticsClient(address) as switch,
    ):
        before = switch.switch_stats()
        time.sleep(seconds)
        answer = switch.switch_stats()
    (ticker,) = answer["tickers"]
    passed = sum(ticker[key] - before["tickers"][0][key] for key in ("ticks", "skipped"))
    due = (answer["now_ps"] - before["now_ps"]) / (period_us * PS_PER_US)
    return {
        "ticks": ticker["ticks"],
        "skipped": ticker["skipped"],
        "to_due": passed / due,  # 1, but for what a look at the counts takes
        **{key: ticker[f"late_{key}_ps"] / PS_PER_US for key in ("p50", "p99", "max")},
        "cpu": answer["loop"]["cpu_ns"] * 1000 / answer["now_ps"],
    }


def of_process(period_us: int, seconds: float, load: int) -> dict[str, Any]:
    """How late the ticks were of the process that BMv2 has."""
    command = [sys.executable, "-m", "emulation.ticker_process", "lo"]
    command += [f"period={period_us}us,packet={PACKET}"]
    with busy(load), subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(seconds)
        used = sum(map(int, Path(f"/proc/{process.pid}/schedstat").read_text().split()[:1]))
        process.terminate()
        found = SAID.search(process.stdout.read())
    assert found is not None
    ticks, skipped, _, p50, p99, most = map(int, found.groups())
    return {
        "ticks": ticks, "skipped": skipped, "to_due": None, "p50": p50, "p99": p99, "max": most,
        "cpu": used / 1e9 / seconds,
    }  # fmt: skip


def run(period_us: int, seconds: float) -> dict[str, Any]:
    """All rows: who, on what a machine."""
    measured = {"daemon": of_daemon}
    if os.geteuid() == 0:
        measured["process"] = of_process
    loads = {"as it is": 0, "busy": os.cpu_count() or 1}
    return {
        "period_us": period_us,
        "rows": {
            f"{who}, {machine}": measure(period_us, seconds, load)
            for who, measure in measured.items()
            for machine, load in loads.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--period-us", type=command_line.count, default=1000)
    parser.add_argument("--seconds", type=command_line.seconds, default=10.0, help="of each row")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run(arguments.period_us, arguments.seconds)
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"a tick every {arguments.period_us} us, {arguments.seconds:g} s a row; late:")
    for name, row in result["rows"].items():
        print(
            f"  {name:18} p50 {row['p50']:7.0f} us   p99 {row['p99']:7.0f} us   "
            f"most {row['max']:7.0f} us   {row['ticks']} ticks, {row['skipped']} skipped, "
            f"{row['cpu']:.1%} of a processor"
        )


if __name__ == "__main__":
    command_line.run(main)
