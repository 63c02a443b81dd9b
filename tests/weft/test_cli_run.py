"""`weft run-topo` as a user sees it: real namespaces, real switches, real packets.

             s3     s4
             | \\  / |
             s1     s2
            / \\     / \
           h1  h2  h3  h4
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from emulation import interface, run_state, teardown
from emulation.run_state import RunRecord

pytestmark = pytest.mark.root

REPOSITORY = Path(run_state.__file__).resolve().parent.parent
PATIENCE_S = 60.0


@dataclass
class Place:
    """Where a test's runs keep their records and logs, and the environment that says so."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)

    def records(self) -> list[RunRecord]:
        """Return the records of runs that are up or have crashed."""
        found = [
            run_state.read_record(path)
            for path in sorted((self.root / "run").glob("w*"))
            if path.is_dir()
        ]
        return [record for record in found if record is not None]

    def assert_nothing_is_left(self, record: RunRecord) -> None:
        """Nothing that the run made exists any more, but its logs."""
        assert not (self.root / "run").exists()
        assert [name for name in record.links if interface.exists(name)] == []
        assert [name for name in record.namespaces if Path("/run/netns", name).exists()] == []
        assert [process for process in record.processes if process.is_alive()] == []
        assert Path(record.log_dir).is_dir()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    root = tmp_path_factory.mktemp("runs")
    names = {
        run_state.RUN_ROOT_VARIABLE: str(root / "run"),
        run_state.LOG_ROOT_VARIABLE: str(root / "log"),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in names.items():
            patch.setenv(name, value)
        yield Place(root, {**os.environ, **names})
        teardown.stop()


Start = Callable[..., subprocess.Popen[str]]


def _quick(arguments: tuple[str, ...]) -> list[str]:
    return ["--seconds", "1"] if arguments[0] == "run-topo" else []


@pytest.fixture
def start(place: Place) -> Iterator[Start]:
    """Start `weft` with arguments; whatever still runs at the end is ended."""
    started: list[subprocess.Popen[str]] = []

    def starter(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "weft.cli", *arguments, *_quick(arguments)],
            cwd=REPOSITORY,
            env=place.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield starter
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()
    teardown.stop()  # before reading to the end: what a run started may hold its pipes
    for process in started:
        process.communicate()


def until(what: str, condition: Callable[[], Any]) -> Any:
    """Poll until the condition gives something, and return it."""
    deadline = time.monotonic() + PATIENCE_S
    while not (result := condition()):
        assert time.monotonic() < deadline, f"no {what} after {PATIENCE_S:g} s"
        time.sleep(0.01)
    return result


def wait_for_line(process: subprocess.Popen[str], pattern: str) -> str:
    """Read the command's stderr until a line has the pattern; the time-out is the test's own."""
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if re.search(pattern, line):
            return line
    raise AssertionError(f"ended without {pattern!r}: {''.join(seen)}")


def answer(process: subprocess.Popen[str], text: str | None = None) -> tuple[int, str, str]:
    """Give the rest of the input and return exit code, stdout and stderr."""
    out, err = process.communicate(text, timeout=PATIENCE_S)
    return process.returncode, out, err


@dataclass
class Finished:
    """One whole run with a few commands at its prompt."""

    code: int
    result: dict[str, Any]
    prompt: str
    errors: str
    record: RunRecord


@pytest.fixture(scope="module")
def finished(place: Place) -> Finished:
    process = subprocess.Popen(
        [sys.executable, "-m", "weft.cli", "run-topo", "--json", "--cli"],
        cwd=REPOSITORY,
        env=place.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        pytest.fail(f"run-topo failed: {process.communicate()[1]}")
    (record,) = place.records()
    commands = ["help", "pingall", "exec h1 ip -4 addr", "counters", "tables s1", "", "# a comment"]
    code, out, err = answer(process, "\n".join([*commands, "exit", "pingall", ""]))
    return Finished(code, json.loads(line), out, err, record)


def test_the_run_is_good_and_leaves_nothing(finished: Finished, place: Place) -> None:
    assert (finished.code, finished.errors) == (0, "")
    assert finished.result["ok"] is True
    place.assert_nothing_is_left(finished.record)


def test_every_result_states_runtime_and_time_scale(finished: Finished) -> None:
    assert finished.result["runtime"] == "softswitch"
    assert finished.result["time_scale"] == 10000
    assert Path(finished.result["logs"]).is_dir()
    assert sorted(finished.result["p4runtime"]) == ["s1", "s2", "s3", "s4"]
    assert all(at.startswith("127.0.0.1:") for at in finished.result["p4runtime"].values())


def test_the_rows_show_ping_roce_tcp_and_counters(finished: Finished) -> None:
    rows = {row["what"].split()[0]: row["result"] for row in finished.result["rows"]}
    assert "12 pairs, 0 % lost, the first packets included" in rows["all-pairs"]
    assert "64 of 64 packets (32 flows) with right ICRC" in rows["RoCEv2"]
    by_spine = [int(number) for number in re.findall(r"s[34] (\d+)", rows["RoCEv2"])]
    assert len(by_spine) == 2
    assert min(by_spine) > 0
    assert sum(by_spine) == 64
    assert re.search(r"[\d.]+ Mb/s", rows["TCP"])
    assert "12 ports" in rows["port"]
    assert "agree" in rows["port"]


def test_the_counters_are_those_of_the_traffic(finished: Finished) -> None:
    counters = finished.result["counters"]
    assert {name: len(ports) for name, ports in counters.items()} == {
        "s1": 4, "s2": 4, "s3": 2, "s4": 2,
    }  # fmt: skip
    [rdma] = [row for row in finished.result["rows"] if row["what"] == "RDMA WRITE h1 -> h3"]
    written = re.search(r", (\d+) of 16 kB by ", rdma["result"])
    assert written is not None and rdma["ok"]
    sent = 64 + 16 * int(written[1])  # h1's: those of the proof, and 1024 bytes of data each
    assert counters["s1"]["1"]["roce_rx_packets"] >= sent
    assert 0 < counters["s2"]["1"]["roce_rx_packets"] < sent  # h3's are acknowledgements
    assert counters["s1"]["2"]["roce_rx_packets"] == 0  # h2 sent none
    assert all(
        port["rx_bytes"] >= 60 * port["rx_packets"] * 0.5 for port in counters["s1"].values()
    )


def test_the_prompt_answers_a_pipe(finished: Finished) -> None:
    parts = re.split(r"^weft> (.*)$", finished.prompt, flags=re.MULTILINE)
    said = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert list(said)[-1] == "exit", "nothing is done after exit"
    for command in ("pingall", "exec", "counters", "tables", "help", "exit"):
        assert command in said["help"]
    assert "12 pairs, 0 % lost" in said["pingall"]
    assert "inet 10.0.1.1/24" in said["exec h1 ip -4 addr"]
    assert "rx packets" in said["counters"]
    assert "ipv4_route" in said["tables s1"]
    assert "10.0.2.0/24" in said["tables s1"]


def test_a_person_gets_tables_and_where_things_are(start: Start, place: Place) -> None:
    code, out, err = answer(start("run-topo", "--keep-logs"))
    assert code == 0, err
    assert "all-pairs ping" in out
    assert "port counters, over P4Runtime" in out
    assert "runtime softswitch, real time; time_scale 10000" in out
    logs = re.search(r"^logs +(\S+)$", out, re.MULTILINE)
    assert logs is not None
    assert {path.name for path in Path(logs[1]).iterdir()} >= {f"s{n}.log" for n in range(1, 5)}
    assert "sockets  P4Runtime s1 127.0.0.1:" in out
    assert "\033" not in out + err, "no colours when this is no terminal"
    assert place.records() == []


@pytest.mark.parametrize(
    ("after", "number"),
    [
        ("compile", signal.SIGINT),
        ("network:", signal.SIGINT),
        ("4 switches", signal.SIGINT),
        ("P4Runtime:", signal.SIGTERM),
        ("RoCEv2", signal.SIGINT),
    ],
    ids=["network", "switches", "P4Runtime", "ping", "TCP"],
)
def test_ctrl_c_at_any_moment_leaves_nothing(
    start: Start, place: Place, after: str, number: int
) -> None:
    process = start("run-topo")
    wait_for_line(process, after)
    known = place.records()
    process.send_signal(number)
    code, _, err = answer(process)
    assert code == 130, err
    assert err.splitlines()[-1] == "interrupted: everything that the run made is removed"
    assert "Traceback" not in err
    assert "error" not in err
    assert place.records() == []
    for record in known:
        place.assert_nothing_is_left(record)


def test_a_second_run_is_refused_and_the_first_goes_on(start: Start, place: Place) -> None:
    first = start("run-topo", "--cli", "--json")
    assert first.stdout is not None
    assert json.loads(first.stdout.readline())["ok"] is True
    (record,) = place.records()

    code, out, err = answer(start("run-topo"))
    assert code == 1
    assert f"run {record.run} is up (process {first.pid})" in err
    assert "weft stop" in err
    assert answer(start("clean"))[0] == 1

    # Still there and working, until it is stopped from outside.
    assert first.stdin is not None
    first.stdin.write("pingall\n")
    first.stdin.flush()
    assert first.stdout.readline() == "weft> pingall\n"
    assert "0 % lost" in first.stdout.readline()
    code, out, err = answer(start("stop"))
    assert (code, out) == (0, f"run {record.run} is stopped\n")
    assert first.wait(PATIENCE_S) == 130
    place.assert_nothing_is_left(record)


def test_a_switch_that_dies_before_the_prompt_ends_the_run_with_its_log(
    start: Start, place: Place
) -> None:
    run = start("run-topo")
    wait_for_line(run, "P4Runtime:")
    (record,) = place.records()
    (victim,) = [process for process in record.processes if process.role == "switch s3"]
    os.kill(victim.pid, signal.SIGKILL)
    code, _, err = answer(run)
    assert code == 1
    assert "switch s3 was killed by signal 9; the end of its log:" in err
    assert "P4Runtime on 127.0.0.1" in err
    assert f"({record.log_dir}/s3.log)" in err
    assert "Traceback" not in err
    place.assert_nothing_is_left(record)


def test_after_a_crash_the_next_run_cleans_up_and_works(start: Start, place: Place) -> None:
    crashed = start("run-topo")
    wait_for_line(crashed, "P4Runtime:")
    (record,) = place.records()
    crashed.kill()
    crashed.wait()
    assert any(process.is_alive() for process in record.processes)  # its switches go on

    process = start("run-topo", "--json")
    code, out, err = answer(process)
    assert f"cleaned up after a crash: run {record.run}: " in err
    assert code == 0
    assert json.loads(out)["ok"] is True
    place.assert_nothing_is_left(record)


ONE_SWITCH = """
time_scale: 100
switches: [sw]
hosts: [a, b]
link: {rate: 10Gbps, delay: 1us, queue: 256KB}
links:
  - {a: a, b: sw:7}
  - {a: sw:9, b: b}
"""


def test_another_topology_runs_too(start: Start, place: Place, tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    path.write_text(ONE_SWITCH)
    code, out, err = answer(start("run-topo", str(path), "--json"))
    assert code == 0, err
    result = json.loads(out)
    assert result["time_scale"] == 100
    assert list(result["counters"]) == ["sw"]
    assert sorted(result["counters"]["sw"]) == ["7", "9"]
    assert "64 of 64 packets (32 flows) with right ICRC" in result["rows"][1]["result"]


def test_bmv2_that_is_not_installed_is_said_before_anything_is_made(
    start: Start, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(place.environment, "PATH", f"{tmp_path}:/usr/bin:/bin:/usr/sbin:/sbin")
    code, _, err = answer(start("run-topo", "--target", "bmv2"))
    assert code == 1
    assert "simple_switch_grpc (BMv2) is not on PATH" in err
    assert "remedy:" in err
    assert place.records() == []
