"""The controller of a simulated fabric: the same passive logic, called directly.

What a real controller would hear and write takes time; here that is one delay, from an event in
the network to the moment at which all its writes are in force, and again for what is written only
when those are. Before the run everything is installed at once. Digests take that time from the
moment at which their list is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial

from controller.diff import Change, batches
from controller.digests import DigestMessage, digest_messages
from controller.entries import describe
from controller.entry_files import OwnEntries
from controller.errors import FailedUpdate, WriteFailed
from controller.fabric_state import Event, FabricModel, FabricReady
from controller.jobs import JobsEnded, JobsSubmitted
from controller.loop import ControlLoop, Work
from controller.policy import FabricPolicy
from controller.program import CompiledProgram
from mechanisms.contract import PortCounter
from simulator.core.binding import Punt
from simulator.fabric import Fabric, target_facts
from softswitch.p4runtime.status import Code

BATCH = 512
_BY_REASON, _BY_TYPE = "dropped", "notifications"
"""Counters of p4src/modules/drops.p4, and of notification.p4: cell n < 16 is type n, taken."""

PS_PER_NS = 1000

At = Callable[[int, Callable[[], None]], None]
"""Do something at a virtual time (ps)."""


def at_once(_time_ps: int, action: Callable[[], None]) -> None:
    """Do it now: for a network that does not run yet."""
    action()


@dataclass
class ControlPlane:
    """One fabric's controller. `updates` counts what it wrote.

    `at` and `delay_ps`: how it has things done later, and how long digests take. `others`: programs
    of switches that run another one; `own`: those that nothing is planned for, and what each holds.
    """

    fabric: Fabric
    program: CompiledProgram
    policy: FabricPolicy | None = None
    updates: int = 0
    at: At = at_once
    delay_ps: int = 0
    dead: Set[str] = frozenset()
    others: Mapping[str, CompiledProgram] = field(default_factory=dict)
    own: Mapping[str, OwnEntries] = field(default_factory=dict)
    _wakes: dict[str, int] = field(default_factory=dict)
    _due: int | None = None

    def __post_init__(self) -> None:
        topology = self.fabric.topology
        policy = self.policy or FabricPolicy.of(topology)
        facts = target_facts(topology)
        p4infos = {name: other.p4info for name, other in self.others.items()}
        model = FabricModel(topology, self.program.p4info, facts, policy, p4infos=p4infos)
        self.loop = ControlLoop(model)
        self._names = {switch.node: name for name, switch in self.fabric.switches.items()}

    def bring_up(self) -> int:
        """Install everything in all switches; return how many updates that took."""
        planned = [name for name in self.fabric.switches if name not in self.own]
        given = sum(self._give(name) for name in self.own)
        ready = FabricReady(dict.fromkeys(planned, ()))
        return given + (self._do(self.loop.handle(ready, self._now)) if planned else 0)

    def _give(self, name: str) -> int:
        """Write what a switch that nothing is planned for holds; return how many updates."""
        entries = self.own[name]
        statuses = self.fabric.switches[name].device.write(entries.updates)
        failed = [
            FailedUpdate(entries.place(i), status.code.name, status.message)
            for i, status in enumerate(statuses)
            if status.code is not Code.OK
        ]
        if failed:
            raise WriteFailed(name, failed)
        self.updates += len(statuses)
        return len(statuses)

    def take(self, event: Event | JobsSubmitted | JobsEnded, dead: Set[str] = frozenset()) -> int:
        """React to an event; return how many updates that took.

        Nothing is written to switches that are `dead`: they get it all when they are back.
        """
        given = 0
        if self.own and isinstance(event, FabricReady):
            for name in (name for name in event.entries if name in self.own and name not in dead):
                given += self._give(name)
                self.fabric.engine.touch(self.fabric.switches[name].node)
            planned = {name: e for name, e in event.entries.items() if name not in self.own}
            if not planned:
                return given
            event = FabricReady(planned)
        return given + self._do(self.loop.handle(event, self._now), dead)

    def counts(self, counter: PortCounter) -> dict[str, int]:
        """Return the packets of a mechanism's counter by label, at all switches together.

        Empty where the program does not have it. Each switch counts since its program started.
        """
        known = {
            name: self.model.info(name).counters
            for name in self.fabric.switches
            if name not in self.own and counter.name in self.model.info(name).counters
        }
        if not known:
            return {}
        found = dict.fromkeys(counter.labels, 0)
        for name, counters in known.items():
            switch, number = self.fabric.switches[name], counters[counter.name].id
            pipeline = switch.device.pipeline
            assert pipeline is not None
            array = pipeline.schema.counters[number].index
            for port in self.fabric.topology.ports_of(name):
                for cell, label in counter.cells(port.number).items():
                    found[label] += switch.device.core.counter_get(array, cell).packets
        return found

    def lost_and_taken(self, name: str) -> tuple[int, int]:
        """Return packets that a switch's program dropped for a reason, and those it took itself.

        The latter are notifications of its neighbours: they end there, and are not lost.
        (0, 0) where the program does not count both.
        """
        counters = self.model.info(name).counters
        if name in self.own or _BY_REASON not in counters or _BY_TYPE not in counters:
            return 0, 0
        device = self.fabric.switches[name].device
        assert device.pipeline is not None
        schema = device.pipeline.schema.counters
        lost, taken = (
            sum(
                device.core.counter_get(schema[counters[each].id].index, n).packets
                for n in range(16)
            )
            for each in (_BY_REASON, _BY_TYPE)
        )
        return lost, taken

    # --- digests --------------------------------------------------------------------------------

    def punted(self, punts: Sequence[Punt]) -> None:
        """Take what switches have for the controller, which gets it `delay_ps` later."""
        touched: dict[str, None] = {}
        for punt in punts:
            name = self._names[punt.node]
            message = self.fabric.switches[name].device.notification(punt.output)
            if message is not None and message.HasField("digest"):
                found = digest_messages(name, message.digest, self.model.info(name))
                self.at(punt.output.at_ps + self.delay_ps, partial(self._heard, found))
            touched[name] = None
        for name in touched:
            self._wake(name)

    def _wake(self, switch: str) -> None:
        """See to it that the lists of a switch that are not full are sent in time."""
        timer = self.fabric.switches[switch].device.next_timer()
        if timer is not None and self._wakes.get(switch) != timer:
            self._wakes[switch] = timer
            self.at(timer, partial(self._timer, switch))

    def _timer(self, switch: str) -> None:
        now = self.fabric.engine.now
        for message in self.fabric.switches[switch].device.timers(now):
            if message.HasField("digest"):
                found = digest_messages(switch, message.digest, self.model.info(switch))
                self.at(now + self.delay_ps, partial(self._heard, found))
        self._wake(switch)

    def _heard(self, messages: Sequence[DigestMessage]) -> None:
        self._do(self.loop.heard(messages, self._now), self.dead)

    def _elapsed(self) -> None:
        self._do(self.loop.elapsed(self._now), self.dead)

    # --- writes ---------------------------------------------------------------------------------

    @property
    def model(self) -> FabricModel:
        """What the logic remembers."""
        return self.loop.model

    @property
    def _now(self) -> int:
        return self.fabric.engine.now // PS_PER_NS

    def _do(self, work: Work, dead: Set[str] = frozenset()) -> int:
        """Write what is to be written, and see to it that the loop goes on when it is due."""
        due = self.loop.due()
        if due is not None and self._due != due:
            self._due = due
            self.at(due * PS_PER_NS, self._elapsed)
        written = sum(
            self._write({name: found for name, found in writes.items() if name not in dead})
            for writes in (work.planned, *work.learned)
        )
        if work.then:
            failed = {name for writes in work.learned for name, found in writes.items() if found}
            follow = partial(self._follow, work, failed & dead)
            if self._now:
                self.at(self.fabric.engine.now + self.delay_ps, follow)
            else:  # before the run
                follow()
        return written

    def _follow(self, work: Work, failed: Set[str]) -> None:
        """Write what follows from work that has been written: one more delay later."""
        self._do(self.loop.written(work, failed, self._now), self.dead)

    def _write(self, writes: Mapping[str, Sequence[Change]]) -> int:
        written = 0
        for name, changes in writes.items():
            switch = self.fabric.switches[name]
            for batch in batches(changes, BATCH):
                updates = [change.encode(self.model.info(name)) for change in batch]
                for status, change in zip(switch.device.write(updates), batch, strict=True):
                    if status.code is not Code.OK:
                        update = f"{change.operation.value} {describe(change.entry)}"
                        failed = FailedUpdate(update, status.code.name, status.message)
                        raise WriteFailed(name, [failed])
                written += len(batch)
            if changes:
                self.fabric.engine.touch(switch.node)
        self.updates += written
        return written
