"""The controller of a simulated fabric: the same passive logic, called directly.

What a real controller would hear and write takes time; here that is one delay, from an event in
the network to the moment at which all its writes are in force. Before the run everything is
installed at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from controller.diff import Change, batches
from controller.entries import describe
from controller.errors import FailedUpdate, WriteFailed
from controller.fabric_state import Event, FabricModel, FabricReady, step
from controller.policy import FabricPolicy
from controller.program import CompiledProgram
from simulator.fabric import Fabric, target_facts
from softswitch.p4runtime.status import Code

BATCH = 512


@dataclass
class ControlPlane:
    """One fabric's controller. `updates` counts what it wrote."""

    fabric: Fabric
    program: CompiledProgram
    policy: FabricPolicy | None = None
    updates: int = 0

    def __post_init__(self) -> None:
        topology = self.fabric.topology
        self.model = FabricModel(
            topology,
            self.program.p4info,
            target_facts(topology),
            self.policy or FabricPolicy.of(topology),
        )

    def bring_up(self) -> int:
        """Install everything in all switches; return how many updates that took."""
        return self._step(FabricReady(dict.fromkeys(self.fabric.switches, ())))

    def take(self, event: Event, dead: Set[str] = frozenset()) -> int:
        """React to an event; return how many updates that took.

        Nothing is written to switches that are `dead`: they get it all when they are back.
        """
        return self._step(event, dead)

    def _step(self, event: Event, dead: Set[str] = frozenset()) -> int:
        self.model, writes = step(self.model, event, self.fabric.engine.now // 1000)
        return self._write({name: found for name, found in writes.items() if name not in dead})

    def _write(self, writes: Mapping[str, Sequence[Change]]) -> int:
        written = 0
        for name, changes in writes.items():
            switch = self.fabric.switches[name]
            for batch in batches(changes, BATCH):
                updates = [change.encode(self.program.p4info) for change in batch]
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
