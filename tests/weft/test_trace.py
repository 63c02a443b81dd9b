"""`weft trace` as a user runs it, on switch processes without interfaces (no root needed).

Packets come as packet-outs: fabric.p4 sends them by the port that their header says.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

import topologies
from compiler import compile_p4
from emulation import fabric_record, run_state
from emulation.fabric_record import FabricRecord
from emulation.processes import identify
from observe.errors import UsageError
from softswitch.diagnostics import DiagnosticsClient
from softswitch.p4runtime import protos
from softswitch.p4runtime.protos import p4r
from softswitch.tracing import Outcome, PacketTrace
from weft.trace import address_of

REPOSITORY = Path(run_state.__file__).resolve().parent.parent
PATIENCE_S = 60.0
p4r_grpc: Any = importlib.import_module(f"{protos.PACKAGE}.p4.v1.p4runtime_pb2_grpc")
Action = p4r.SetForwardingPipelineConfigRequest


class SwitchProcess:
    """A daemon, and its controller."""

    def __init__(self, folder: Path, address: str = "127.0.0.1:0") -> None:
        ready = folder / "ready"
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "softswitch", "--no-p4", "--", "--cpu-port", "255"]
        command += ["--grpc-server-addr", address, "--ready-file", str(ready)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_for(ready.exists, "the switch")
        self.address = ready.read_text().split()[1]
        self.channel = grpc.insecure_channel(self.address)
        self._out: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()
        stub = p4r_grpc.P4RuntimeStub(self.channel)
        self._stream = stub.StreamChannel(iter(self._out.get, None), timeout=2 * PATIENCE_S)
        update = p4r.MasterArbitrationUpdate()
        update.election_id.low = 1
        self._out.put(p4r.StreamMessageRequest(arbitration=update))
        assert next(self._stream).arbitration.status.code == 0
        result = compile_p4(REPOSITORY / "p4src" / "fabric.p4")
        request = Action(action=Action.VERIFY_AND_COMMIT)
        request.election_id.low = 1
        request.config.p4info.CopyFrom(result.p4info)
        request.config.p4_device_config = result.json_text.encode()
        stub.SetForwardingPipelineConfig(request)

    def packet(self, size: int = 60) -> None:
        message = p4r.PacketOut(payload=bytes(size))
        message.metadata.add(metadata_id=1, value=b"\x03")
        message.metadata.add(metadata_id=2, value=b"\x00")
        self._out.put(p4r.StreamMessageRequest(packet=message))

    def end(self, number: int = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(PATIENCE_S)
        self._out.put(None)
        self.channel.close()


class Trace:
    """A `weft trace` that runs; `line` gives its output."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "weft.cli", "trace", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self, number: int | None = None) -> tuple[int, str, str]:
        if number is not None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out, err


@contextmanager
def packets(switch: SwitchProcess) -> Iterator[None]:
    """One now and then: a tracer that has just come may miss the first. Not for ever."""
    over = threading.Event()

    def send() -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            switch.packet()
            if over.wait(0.5):
                return
        switch.end(signal.SIGKILL)  # the trace ends, too

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        over.set()
        sender.join()


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S} s for {what}"
        time.sleep(0.01)


@pytest.fixture
def switch(tmp_path: Path) -> Iterator[SwitchProcess]:
    made = SwitchProcess(tmp_path)
    yield made
    made.end()


def tracers(switch: SwitchProcess) -> int:
    with DiagnosticsClient(switch.address) as client:
        return int(client.switch_stats()["trace"]["tracers"])


def attached(switch: SwitchProcess, *arguments: str) -> Trace:
    trace = Trace(switch.address, *arguments)
    wait_for(lambda: tracers(switch) == 1, "the tracer")
    return trace


def test_a_block_a_packet_until_the_count(switch: SwitchProcess) -> None:
    trace = attached(switch, "--count", "2", "--port", "255")
    switch.packet()
    switch.packet(100)
    code, out, err = trace.end()
    assert (code, err) == (0, "")
    first, second = out.strip().split("\n\n")
    assert first.splitlines()[0].startswith(f"{switch.address} packet 1: 62 B on port 255 at ")
    assert second.splitlines()[0].startswith(f"{switch.address} packet 2: 102 B on port 255 at ")
    assert "extracts packet_out: egress_port 3, unused 0" in first
    assert "\033" not in out
    wait_for(lambda: tracers(switch) == 0, "the end of the tracer")


def test_json_is_an_object_a_line(switch: SwitchProcess) -> None:
    trace = attached(switch, "--json", "--count", "1", "--filter", "len = 62")
    switch.packet(61)
    switch.packet(60)
    code, out, err = trace.end()
    assert (code, err) == (0, "")
    (line,) = out.splitlines()
    event = json.loads(line)
    assert event.pop("event") == "packet"
    assert PacketTrace.from_json(event).outcomes == [Outcome.SENT]


def test_ctrl_c_detaches(switch: SwitchProcess) -> None:
    trace = attached(switch)
    switch.packet()
    assert "packet 1" in trace.line()
    code, _, err = trace.end(signal.SIGINT)
    assert (code, err) == (0, "1 packet traced\n")
    wait_for(lambda: tracers(switch) == 0, "the end of the tracer")


def test_a_reader_that_goes(switch: SwitchProcess) -> None:
    trace = attached(switch)
    assert trace.process.stdout is not None
    trace.process.stdout.close()
    trace.process.stdout = None
    wait_for(lambda: (switch.packet(), trace.process.poll() is not None)[1], "its end")
    wait_for(lambda: tracers(switch) == 0, "the end of the tracer")


def test_a_switch_that_is_killed_and_started_again(switch: SwitchProcess, tmp_path: Path) -> None:
    trace = attached(switch)
    switch.packet()
    assert "packet 1" in trace.line()
    switch.end(signal.SIGKILL)
    again = SwitchProcess(tmp_path, switch.address)
    try:
        wait_for(lambda: tracers(again) == 1, "the tracer")
        with packets(again):
            while "packet 1:" not in (line := trace.line()):
                assert line, "the trace has ended"
        code, _, err = trace.end(signal.SIGINT)
        assert code == 0
        assert f"{switch.address} has gone; waiting for it up to 60 s" in err
    finally:
        again.end()


def test_a_switch_that_stops(switch: SwitchProcess) -> None:
    trace = attached(switch)
    switch.end()
    code, out, err = trace.end()
    assert (code, out) == (1, "")
    assert err.endswith(f"error: {switch.address} has stopped\n")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--filter", "udp prt 1"], 1, "error: filter 'udp prt 1': can't parse"),
        (["--port", "70000"], 1, "65535"),
        (["--count", "0"], 2, "0 is not a number from 1"),
    ],
)
def test_what_can_not_be(switch: SwitchProcess, arguments: list[str], code: int, says: str) -> None:
    got, out, err = Trace(switch.address, *arguments).end()
    assert (got, out) == (code, "")
    assert says in err
    assert "Traceback" not in err


def test_nobody_there() -> None:
    code, out, err = Trace("127.0.0.1:1").end()
    assert (code, out) == (1, "")
    assert "no switch answers on 127.0.0.1:1" in err


# --- by name --------------------------------------------------------------------------------


@pytest.fixture
def run_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Yield a function that records a run of this process, with a fabric of the given runtime."""
    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path / "run"))
    lock = run_state.RunLock.take()
    assert lock is not None

    def up(runtime: str) -> None:
        me = identify(os.getpid(), "runner")
        assert me is not None
        lock.name_holder("w0000", me)
        (tmp_path / "run" / "w0000").mkdir()
        addresses = {"s1": "127.0.0.1:9001", "s2": "127.0.0.1:9002"}
        FabricRecord("w0000", runtime, topologies.load("leafspine"), addresses).save()

    yield up
    lock.release()


def test_the_address_of_a_switch_of_the_run(run_up: Callable[[str], None]) -> None:
    with pytest.raises(fabric_record.NoRunError):
        address_of("s1")
    run_up("softswitch")
    assert address_of("s2") == "127.0.0.1:9002"
    assert address_of("10.0.0.1:9559") == "10.0.0.1:9559"
    with pytest.raises(UsageError, match="no switch 's9' in run w0000: it has s1, s2"):
        address_of("s9")


def test_bmv2_has_no_traces(run_up: Callable[[str], None]) -> None:
    run_up("bmv2")
    with pytest.raises(UsageError, match="are bmv2, which has no traces"):
        address_of("s1")
