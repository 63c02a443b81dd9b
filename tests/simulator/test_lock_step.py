"""Controllers of others' making over P4Runtime, while virtual time waits for them."""

from __future__ import annotations

import importlib
import queue
import threading
import time
from pathlib import Path
from typing import Any

import grpc
import pytest

from controller.program import CompiledProgram
from mechanisms.program import job
from simulator.lock_step import Calls, LockStep
from simulator.runner import Simulation
from softswitch import program_cache
from softswitch.p4runtime import protos
from softswitch.p4runtime.names import Names
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.server import AddressError
from workloads.loader import read_run

p4r_grpc: Any = importlib.import_module(f"{protos.PACKAGE}.p4.v1.p4runtime_pb2_grpc")
PROGRAM = Path(__file__).parent / "learn.p4"
CPU_PORT = 300
MS = 1_000_000
PATIENT_S = 2.0  # so that a machine that is busy for a second changes nothing
H2 = "02:00:00:00:00:02"
RUN = f"""
topology:
  program: {PROGRAM}
  controller: none
  cpu_port: {CPU_PORT}
  switches: [s1]
  hosts: [h1, {{name: h2, mac: "{H2}"}}]
  link: {{rate: 1Gbps, delay: 1us, queue: 1MB}}
  links: [{{a: h1, b: "s1:1"}}, {{a: h2, b: "s1:2"}}]
until: 100ms
traffic:
  - script:
"""


def lines(*at: str) -> str:
    """Return the end of the run file: h1 sends h2 frames at these times."""
    frame = bytes.fromhex(H2.replace(":", "")) + bytes(6) + b"\x88\xb5" + bytes(50)
    return "".join(f"      - {{at: {each}, from: h1, hex: '{frame.hex()}'}}\n" for each in at)


def simulation(*at: str) -> Simulation:
    """Return a run in which h1 sends h2 frames at these times."""
    run = read_run(RUN + lines(*at), directory=PROGRAM.parent)
    source = program_cache.compile_program(job(run.topology, PROGRAM))
    return Simulation(run, CompiledProgram.of(source, PROGRAM))


class Learner:
    """A controller that needs `slow_s` for each answer; `wait`: until the server is there."""

    def __init__(
        self, address: str, names: Names, *, slow_s: float = 0.0, wait: bool = False
    ) -> None:
        self._names, self._slow_s = names, slow_s
        self._stub = p4r_grpc.P4RuntimeStub(grpc.insecure_channel(address))
        self._outgoing: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()
        outgoing = iter(self._outgoing.get, None)
        self._stream = self._stub.StreamChannel(outgoing, wait_for_ready=wait)
        update = p4r.MasterArbitrationUpdate(device_id=1)
        update.election_id.low = 1
        self._outgoing.put(p4r.StreamMessageRequest(arbitration=update))
        assert next(self._stream).arbitration.status.code == 0
        self.asked: list[bytes] = []
        self.idle = 0
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    def _answer(self) -> None:
        try:
            for message in self._stream:
                if message.HasField("packet"):
                    self.asked.append(message.packet.payload)
                    time.sleep(self._slow_s)
                    self.write(p4r.Update.INSERT, idle_timeout_ns=20 * MS)
                    out = self._names.packet_out(message.packet.payload, {"port": 2})
                    self._outgoing.put(p4r.StreamMessageRequest(packet=out))
                elif message.HasField("idle_timeout_notification"):
                    self.idle += 1
                    self.write(p4r.Update.DELETE)
        except grpc.RpcError:
            pass  # the server ended

    def write(self, kind: Any, **more: Any) -> None:
        entry = self._names.entry("known", {"hdr.ethernet.destination": H2}, "forward", {"port": 2})
        for key, value in more.items():
            setattr(entry, key, value)
        request = p4r.WriteRequest(device_id=1)
        request.election_id.low = 1
        request.updates.add(type=kind).entity.table_entry.CopyFrom(entry)
        self._stub.Write(request)

    def learned(self) -> int:
        request = p4r.ReadRequest(device_id=1)
        counter = request.entities.add().counter_entry
        counter.counter_id, counter.index.index = self._names.counter_id("learned"), 0
        (response,) = self._stub.Read(request)
        return int(response.entities[0].counter_entry.data.packet_count)


def names_of(run: Simulation) -> Names:
    pipeline = run.fabric.switches["s1"].device.pipeline
    assert pipeline is not None
    return Names(pipeline.schema)


def test_an_answer_is_in_force_at_the_moment_of_its_question() -> None:
    run = simulation("1ms", "2ms", "3ms")
    with LockStep(run, settle_s=PATIENT_S) as step:
        learner = Learner(step.addresses["s1"], names_of(run), slow_s=0.1)
        step.wait_for_controller()
        outcome = run.run()
        assert learner.learned() == 1
    assert outcome.end.totals["received"] == 3  # what was asked about came by a packet-out
    assert len(learner.asked) == 1
    assert outcome.end.now_ps == 100 * MS * 1000


def test_entries_that_idle_are_told_at_their_virtual_time_and_learnt_again() -> None:
    run = simulation("1ms", "2ms", "50ms", "51ms")
    with LockStep(run, settle_s=PATIENT_S) as step:
        learner = Learner(step.addresses["s1"], names_of(run))
        step.wait_for_controller()
        outcome = run.run()
        assert (learner.learned(), learner.idle) == (2, 2)
    assert outcome.end.totals["received"] == 4


def test_without_a_controller_nothing_is_learnt() -> None:
    run = simulation("1ms", "2ms")
    with LockStep(run):
        outcome = run.run()
    assert outcome.end.totals["received"] == 0


def test_waiting_for_a_controller_ends_by_what_the_check_raises() -> None:
    run = simulation("1ms")

    def check() -> None:
        raise KeyboardInterrupt

    with LockStep(run) as step, pytest.raises(KeyboardInterrupt):
        step.wait_for_controller(check)


def test_a_port_that_is_taken_is_said() -> None:
    run = simulation("1ms")
    with LockStep(run) as step:
        port = int(step.addresses["s1"].rpartition(":")[2])
        with pytest.raises(AddressError, match=f"can't listen on 127.0.0.1:{port}"):
            LockStep(simulation("1ms"), first_port=port)


def test_there_must_be_a_port_for_each_switch() -> None:
    with pytest.raises(AddressError, match="would have port 65536, 65535 is the last"):
        LockStep(simulation("1ms"), first_port=65536)


def test_calls_that_are_under_way_are_waited_for() -> None:
    calls = Calls()
    entered, leave = threading.Event(), threading.Event()

    def call() -> None:
        with calls.one():
            entered.set()
            leave.wait()

    threading.Thread(target=call, daemon=True).start()
    entered.wait()
    waiting = threading.Thread(target=calls.wait, args=(0.0,), daemon=True)
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    leave.set()
    waiting.join(60)
    assert not waiting.is_alive()
