"""An exercise as a topology of ours, and what its hosts say to each other on either runtime.

    exercise's topology.json --import--> net.yaml --> Virtual: the simulator, in process, no root
                                                      Real: run-topo's session over namespaces

Hosts run `talk.Talk` on both. What a controller of the exercise's does, it does over P4Runtime: in
lock-step with virtual time, or on the session's switches.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import topologies
from compat.dropin import p4lang_python
from emulation.errors import RunActiveError
from emulation.programs import HostPrograms
from emulation.session import Session
from emulation.switch_node import Target
from mechanisms.switch_programs import Chosen, choose, compile_for
from simulator.fabric import target_facts
from simulator.lock_step import LockStep
from simulator.runner import Outcome, Simulation
from tests.tutorials.exercise import solve
from topologies import Topology, import_file
from workloads.loader import read_run
from workloads.model import PlacedProgram

HERE = Path(__file__).parent
MS = 1_000_000
START_NS = 200 * MS
"""When the first frame is sent: between namespaces hosts do not begin at the same moment."""

PATIENCE_S = 20.0
"""How long what was sent may take to arrive in real time: far longer than any machine needs."""

BUSY_PATIENCE_S = 180.0
FIRST_THEIR_PORT = 50051
SETTLE_S = 1.0
_POLL_S = 0.2
_TAIL_NS = 1_000 * MS

T = TypeVar("T")
Records = Mapping[str, Sequence[tuple[int, bytes]]]
"""By host: when a frame came (nanoseconds from the start) and its first bytes."""


class Unkept(AssertionError):
    """An exercise does not do what its README says; the message says what came instead."""


@dataclass(frozen=True)
class Send:
    """A frame that a host sends at `at_ns`, `times` times."""

    host: str
    at_ns: int
    frame: bytes
    times: int = 1
    every_ns: int = 0

    @property
    def last_ns(self) -> int:
        """When it is sent for the last time."""
        return self.at_ns + (self.times - 1) * self.every_ns


@dataclass(frozen=True)
class Script:
    """What hosts send, and the EtherTypes that each host records."""

    sends: Sequence[Send]
    listens: Mapping[str, Sequence[int]]
    rest_ns: int = _TAIL_NS
    sample_ns: int = 10 * MS

    @property
    def end_ns(self) -> int:
        """When everything has been sent, and had time to arrive."""
        return max(each.last_ns for each in self.sends) + self.rest_ns


@dataclass
class Played:
    """What came of a script: frames by host, what the controller said, the result's folder."""

    records: Records = field(default_factory=dict)
    log: str = ""
    out: Path = Path()
    topology: Topology | None = None


Verdict = Callable[[Played], None]
"""Raises Unkept where the exercise does not do what it should."""


@dataclass(frozen=True)
class Imported:
    """An exercise's folder as its reader has it, imported. `controller`: its program, if any."""

    folder: Path
    net: Path
    controller: Path | None = None
    log: str = "controller.log"

    @classmethod
    def make(
        cls, folder: Path, topology: str, program: str, controller: str | None = None
    ) -> Imported:
        """Import `topology` of a folder, with `program` on switches that it gives none."""
        net = folder / "net.yaml"
        net.write_text(import_file.text(folder / topology, net, folder / program))
        return cls(folder, net, None if controller is None else folder / controller)

    @property
    def topology(self) -> Topology:
        """The network."""
        return topologies.load(self.net)


class Runtime(ABC):
    """Where an exercise is played."""

    name: str

    patience_s = PATIENCE_S

    @abstractmethod
    def play(self, exercise: Imported, script: Script, verdict: Verdict) -> Played:
        """Play a script. Raises Unkept, or an error of what can't run."""

    def until(self, judged: Callable[[], Played]) -> Played:
        """Judge again and again until it holds; raises the last Unkept."""
        return _until(judged, self.patience_s)


class Virtual(Runtime):
    """The simulator."""

    name = "virtual"

    def play(self, exercise: Imported, script: Script, verdict: Verdict) -> Played:
        programs = [
            {"program": each.program, "hosts": list(each.hosts), "settings": dict(each.settings)}
            for each in _talk(exercise, script, answers=True)
        ]
        text = json.dumps(
            {
                "topology": str(exercise.net),
                "until": f"{script.end_ns}ns",
                "sample": f"{script.sample_ns}ns",
                "programs": programs,
            }
        )
        run = read_run(text, name=exercise.net.stem, directory=HERE)
        chosen = _chosen(run.topology)
        simulation = Simulation(run, chosen.programs.program, programs=chosen.programs)
        out = exercise.folder / "result"
        if exercise.controller is None:
            _whole(simulation.run(out))
            return self._judged(exercise, out, verdict)
        with LockStep(simulation, settle_s=SETTLE_S) as step:
            switches = {_their_address(i): each for i, each in enumerate(step.addresses.values())}
            with _controller(exercise, chosen, switches) as process:
                step.wait_for_controller(lambda: _alive(process, exercise))
                _whole(simulation.run(out))
                # What it tells by a clock of its own it tells later, of switches that wait.
                return self.until(lambda: self._judged(exercise, out, verdict))

    @staticmethod
    def _judged(exercise: Imported, out: Path, verdict: Verdict) -> Played:
        played = Played(*_read(exercise), out, exercise.topology)
        verdict(played)
        return played


class Real(Runtime):
    """Mininet's namespaces, and a process a switch."""

    name = "real"

    def play(self, exercise: Imported, script: Script, verdict: Verdict) -> Played:
        topology = exercise.topology
        session = Session(topology, Target.SOFTSWITCH)
        with ExitStack() as stack:
            chosen = _chosen(topology, session)
            _claimed(session)
            stack.callback(session.close)
            session.build_network()
            session.wait_for_switches()
            programs = chosen.programs
            session.bring_up(programs.program, programs=programs.others, own=programs.own)
            session.host_agent_outcome()
            session.run_host_commands()
            if exercise.controller is not None:
                switches = {
                    _their_address(i): each.settings.address
                    for i, each in enumerate(session.network.switches.values())
                }
                process = stack.enter_context(_controller(exercise, chosen, switches))
                _until(lambda: _ready(exercise, process), PATIENCE_S)
            talk = _talk(exercise, script, answers=False)
            with HostPrograms(session, talk, HERE) as hosts:
                time.sleep(script.end_ns / 1e9)

                def judged() -> Played:
                    hosts.check()
                    played = Played(*_read(exercise), topology=topology)
                    verdict(played)
                    return played

                return self.until(judged)


def copied(checkout: Path, name: str, folder: Path, *, solved: bool) -> Path:
    """Copy what an exercise needs into `folder`, its solution in place or not; return its own."""
    shutil.copytree(checkout / "utils", folder / "utils", dirs_exist_ok=True)
    exercise = Path(shutil.copytree(checkout / "exercises" / name, folder / "exercises" / name))
    if solved:
        solve(exercise)
    return exercise


# ---------------------------------------------------------------- what both do


def _chosen(topology: Topology, session: Session | None = None) -> Chosen:
    facts = target_facts(topology) if session is None else session.target_facts()
    return choose(topology, facts, compile_for(topology))


def _talk(exercise: Imported, script: Script, *, answers: bool) -> list[PlacedProgram]:
    placed = []
    for host in (each.name for each in exercise.topology.hosts):
        record = exercise.folder / f"{host}.frames"
        record.unlink(missing_ok=True)
        settings = {
            "sends": [
                [each.at_ns, each.frame.hex(), each.times, each.every_ns]
                for each in script.sends
                if each.host == host
            ],
            "listens": list(script.listens.get(host, ())),
            "record": str(record),
            "answers": answers,
        }
        placed.append(PlacedProgram("talk.py:Talk", (host,), settings))
    return placed


def _read(exercise: Imported) -> tuple[Records, str]:
    """Return what hosts and controller have written so far, whole lines alone."""
    records: dict[str, list[tuple[int, bytes]]] = {}
    for path in exercise.folder.glob("*.frames"):
        lines = path.read_text().split("\n")[:-1]
        pairs = (line.split(" ") for line in lines)
        records[path.stem] = [(int(at), bytes.fromhex(frame)) for at, frame in pairs]
    log = exercise.folder / exercise.log
    return records, log.read_text(errors="replace") if log.exists() else ""


def _until(judged: Callable[[], T], patience_s: float) -> T:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return judged()
        except Unkept:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)


def _whole(outcome: Outcome) -> None:
    assert not outcome.summary["end"]["interrupted"]


def _claimed(session: Session) -> None:
    """Wait for a machine on which nobody else has a fabric up."""
    deadline = time.monotonic() + BUSY_PATIENCE_S
    while True:
        try:
            session.claim()
            return
        except RunActiveError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)


# ---------------------------------------------------------------- controllers of the exercises


def _their_address(number: int) -> str:
    return f"127.0.0.1:{FIRST_THEIR_PORT + number}"


@contextmanager
def _controller(
    exercise: Imported, chosen: Chosen, switches: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the exercise's controller with the program that it looks for."""
    assert exercise.controller is not None
    program = chosen.programs.program
    build = exercise.folder / "build"
    build.mkdir(exist_ok=True)
    (exercise.folder / "logs").mkdir(exist_ok=True)
    stem = Path(program.name).stem
    (build / f"{stem}.json").write_text(program.json_text)
    (build / f"{stem}.p4.p4info.txtpb").write_text(program.p4info_text)
    python = p4lang_python.ensure()
    variables = {**os.environ, "WEFT_SWITCHES": json.dumps(switches), "PYTHONUNBUFFERED": "1"}
    with (exercise.folder / exercise.log).open("wb") as log:
        process = subprocess.Popen(
            [python, HERE / "relay.py", exercise.controller],
            cwd=exercise.folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        process.kill()
        process.wait()


def _alive(process: subprocess.Popen[bytes], exercise: Imported) -> None:
    if process.poll() is not None:
        tail = (exercise.folder / exercise.log).read_text(errors="replace").strip()[-300:]
        raise Unkept(f"its controller ended: {tail}")


def _ready(exercise: Imported, process: subprocess.Popen[bytes]) -> None:
    """Raise Unkept until the controller has written nothing for a second."""
    _alive(process, exercise)
    path = exercise.folder / exercise.log
    before = path.stat().st_size
    time.sleep(1.0)
    if not before or path.stat().st_size != before:
        raise Unkept("its controller is not ready")
