"""The same in real time: processes and namespaces, RDMA WRITEs and probes, and then the fault.

Nobody tells the controller of it. On the links that die every frame is lost at both ends, and they
stay up; a switch that dies is killed, as `kill -9` does it.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from emulation import rdma
from emulation.errors import EmulationError
from emulation.interrupts import Interrupts, handled
from emulation.programs import HostPrograms
from emulation.session import Session, explain, require_root
from emulation.switch_node import Target
from labs import Context, LabError, Measured
from mechanisms.switch_programs import around
from softswitch.diagnostics import DiagnosticsClient
from softswitch.impairments import changes
from topologies.model import Interface, Link, Topology
from workloads.model import RunFile

from .faults import Fault
from .gaps import Gaps
from .simulated import probe_every_ns, run_file

MESSAGE_BYTES = 1 << 14
DEPTH = 4
SETTLED_S = 60.0
LATE_MS = 500  # between the ends of two hosts' programs on a busy machine
POLL_S = 0.02
TC_S = 30.0
BEFORE_S = 0.2


@dataclass
class _Pair:
    """RDMA WRITEs from one host to another, in a thread of its own."""

    source: Interface
    target: Interface
    answers: list[rdma.Answer] = field(default_factory=list)
    error: Exception | None = None

    def write(self, topology: Topology, places: Any, duration_ms: int) -> None:
        """Write for so long; what goes wrong is kept."""
        rate_bps = min(topology.real_rate_bps(link) for link in topology.links)
        count = rate_bps * duration_ms // (8000 * MESSAGE_BYTES) + DEPTH
        work = rdma.Work("write", "bandwidth", MESSAGE_BYTES, count, 1, DEPTH, duration_ms)
        try:
            self.answers += rdma.measure(topology, places, [self.source], self.target, work)
        except Exception as error:
            self.error = error


def measure(context: Context) -> dict[str, Measured]:
    """Run a variant in real time. Raises LabError, EmulationError; needs root."""
    require_root("a lab in real time")
    run, found = run_file(context)
    assert run.until_ps is not None, "lab.yaml says how long it takes"
    topology = replace(run.topology, events=()).with_time_scale(context.time_scale)
    with _fabric(topology, context) as (session, interrupts):
        return _Play(context, run, found, session, interrupts).measured()


@contextmanager
def _fabric(topology: Topology, context: Context) -> Iterator[tuple[Session, Interrupts]]:
    """Run a forwarding fabric for the block; remove all of it afterwards."""
    session = Session(topology, Target(context.runtime.value))
    try:
        with handled() as interrupts:
            try:
                session.claim()
                context.tell(0.0, "network")
                session.build_network()
                session.wait_for_switches()
                chosen = around(topology, session.target_facts(), context.program)
                session.bring_up(chosen.program, programs=chosen.others, own=chosen.own)
                session.host_agent_outcome()
                interrupts.check()
                yield session, interrupts
            except EmulationError as error:
                shown = explain(session, error)
                if shown is error:
                    raise
                raise shown from error
            finally:
                interrupts.close()
                session.close()
    finally:
        session.close()  # once more: a signal may have come just before the clean-up


class _Play:
    """One run on a fabric that is up."""

    def __init__(
        self,
        context: Context,
        run: RunFile,
        found: Fault,
        session: Session,
        interrupts: Interrupts,
    ) -> None:
        self.context, self.run, self.fault = context, run, found
        self.session, self.interrupts = session, interrupts
        self.topology = session.topology
        own, scale = context.settings, context.time_scale
        self.cut_s = own["live_cut_us"] * scale / 1e6
        self.length_s = own["live_until_us"] * scale / 1e6

    def measured(self) -> dict[str, Measured]:
        """Let it run, and return what was seen."""
        pairs = list(self._pairs())
        live = {host.name: host for host in self.session.network.live_interfaces()}
        names = {str(end.end) for pair in pairs for end in (pair.source, pair.target)}
        places = self.session.endpoints.places([live[name] for name in names])
        duration_ms = round(1000 * (self.length_s + BEFORE_S))
        threads = [
            threading.Thread(
                target=pair.write, args=(self.topology, places, duration_ms), daemon=True
            )
            for pair in pairs
        ]
        with HostPrograms(self.session, self.run.programs, self.run.directory) as probes:
            began = time.monotonic()
            for thread in threads:
                thread.start()
            self._wait_until(began + self.cut_s)
            self._break()
            self._wait_until(began + self.length_s)
            probes.check()
            counted = probes.stop()
        deadline = time.monotonic() + SETTLED_S
        for thread in threads:
            while thread.is_alive() and time.monotonic() < deadline:
                self.interrupts.check()
                thread.join(POLL_S)
        return self._metrics(pairs, counted, any(thread.is_alive() for thread in threads))

    def _pairs(self) -> Iterator[_Pair]:
        """Yield a ring over all hosts."""
        hosts = [host.interfaces[0] for host in self.topology.hosts]
        for source, target in zip(hosts, [*hosts[1:], hosts[0]], strict=True):
            yield _Pair(source, target)

    def _wait_until(self, at: float) -> None:
        while (left := at - time.monotonic()) > 0:
            self.interrupts.check()
            self.context.tell(min(1.0, 1 - left / self.length_s), self.fault.says)
            time.sleep(min(POLL_S, left))

    def _break(self) -> None:
        """Kill the switch, or lose everything on the links."""
        node = self.session.network.switches.get(self.fault.says)
        if node is not None:
            assert node.process is not None
            node.process.kill()
            return
        for link in self.fault.links:
            self._cut(link)

    def _cut(self, link: Link) -> None:
        """Lose every frame of a link as it is sent."""
        for end, far in ((link.a, link.b), (link.b, link.a)):
            if self.fault.towards not in ("", far.node):
                continue
            if self.session.target is Target.BMV2:
                _lose_all(self.session.network.interface_name(end.node, end.port))
                continue
            address = self.session.network.switches[end.node].settings.address
            with DiagnosticsClient(address) as switch:
                switch.set_link(end.port, send=changes(loss="100%"))

    def _metrics(
        self, pairs: list[_Pair], counted: Any, still_writing: bool
    ) -> dict[str, Measured]:
        errors = [str(pair.error) for pair in pairs if pair.error is not None]
        if errors or still_writing:
            raise LabError(errors[0] if errors else f"WRITEs were not over after {SETTLED_S} s")
        answers = [answer for pair in pairs for answer in pair.answers]
        every_ns = probe_every_ns(self.run)
        gaps = Gaps.of(counted, every_ns, LATE_MS * 1_000_000 // self.context.time_scale)
        if not gaps.longest_ns:
            raise LabError(f"{self.context.variant.name}: no probe arrived")
        written = sum(answer.said.get("messages", 0) for answer in answers)
        return {
            "blackout": Measured(gaps.blackout_us, "us"),
            "cut off for good": Measured(gaps.for_good),
            "lost probes": Measured(gaps.missing),
            "failed work requests": Measured(sum(len(each.failures) for each in answers)),
            "WRITEs": Measured(written),
        }


def _lose_all(interface: str) -> None:
    """Lose what an interface sends, while it stays up: BMv2 emulates no links.

    A queue with room for one byte takes no frame. Raises LabError.
    """
    command = ["tc", "qdisc", "replace", "dev", interface, "root", "bfifo", "limit", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TC_S)
    if done.returncode:
        raise LabError(f"{interface} can't be made to lose frames: {done.stderr.strip()}")
