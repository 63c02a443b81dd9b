"""Tries entries on a switch in this process before the real one gets any, and keeps what it wrote.

So a mistake in the last line of a file is found before the first line is in force, and in the
words of the switch itself: names, widths, priorities, entries given twice, tables that are full.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from types import TracebackType
from typing import Self

from controller.program import CompiledProgram
from softswitch.core import CoreConfig, SwitchCore
from softswitch.device import Device
from softswitch.p4runtime import pipeline
from softswitch.p4runtime.names import Names
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.status import Code, UpdateStatus
from topologies.own_program import CPU_PORT

_NO_LINK = frozenset({0, 510, 511})
"""Ports that are no links: none, and those that v1model programs drop by."""
_PORT_BITS = 9  # of v1model's PortId_t
_PRIORITIES = 8

Mark = object
"""Where an update stands in its file, in the reader's own terms."""


class Rehearsal:
    """One switch with one program. Use as a context manager.

    `kept`: the updates that it took, in order, each with its mark.
    """

    def __init__(
        self, program: CompiledProgram, ports: Collection[int], cpu_port: int = CPU_PORT
    ) -> None:
        """`ports`: those of the switch that have a link. Raises PipelineError."""
        self.program = program
        self._ports = frozenset(ports)
        self._known = self._ports | _NO_LINK | {cpu_port}
        prepared = pipeline.prepare(program.p4info.message, program.device_config)
        core = SwitchCore(CoreConfig(cpu_port=cpu_port, priorities=_PRIORITIES))
        self._device = Device(core, clock=lambda: 0)
        self._device.load(prepared)
        self._bits = {
            (action.preamble.id, param.id): (param.name, param.bitwidth)
            for action in program.p4info.message.actions
            for param in action.params
        }
        self.names = Names(prepared.schema)
        self.kept: list[tuple[p4r.Update, Mark]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._device.core.close()

    def write(self, updates: Sequence[p4r.Update], mark: Mark) -> list[UpdateStatus]:
        """Write updates; return what became of each."""
        statuses = []
        for update in updates:
            status = self._refused(update) or self._device.write([update])[0]
            if status.code is Code.OK:
                self.kept.append((update, mark))
            statuses.append(status)
        return statuses

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """Yield what the switch has of it. Raises ReadError."""
        return self._device.read([entity])

    def _refused(self, update: p4r.Update) -> UpdateStatus | None:
        """Say that an update names a port without a link, which no switch minds."""
        if update.type == p4r.Update.DELETE:
            return None
        for port in _ports(update.entity, self._bits):
            if port not in self._known:
                there = ", ".join(map(str, sorted(self._ports))) or "none"
                message = f"the switch has no link at port {port}: it has {there}"
                return UpdateStatus(Code.INVALID_ARGUMENT, message)
        return None


def _ports(entity: p4r.Entity, bits: dict[tuple[int, int], tuple[str, int]]) -> Iterator[int]:
    """Yield the ports that an entity names: replicas', and action parameters that are ports."""
    engine = entity.packet_replication_engine_entry
    for replica in (*engine.multicast_group_entry.replicas, *engine.clone_session_entry.replicas):
        is_bytes = replica.WhichOneof("port_kind") == "port"
        yield int.from_bytes(replica.port, "big") if is_bytes else replica.egress_port
    member = entity.action_profile_member.action
    for action in (entity.table_entry.action.action, member):
        for param in action.params:
            name, width = bits.get((action.action_id, param.param_id), ("", 0))
            if width == _PORT_BITS and "port" in name.lower():
                yield int.from_bytes(param.value, "big")
