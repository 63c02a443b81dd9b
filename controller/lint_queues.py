"""Which queue a packet of each DSCP really waits in: asked of the compiled program itself.

A leaf of the topology runs in this process with the entries that the controller gives it. All its
queues are paused, a packet of each DSCP goes from one host to another, then one queue after the
other is opened: what comes out waited there. What never comes out was dropped.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

from controller.diff import changes
from controller.entries import describe
from controller.errors import UnknownName
from controller.fabric_state import FabricModel, desired_entries
from controller.policy import FabricPolicy
from controller.program import CompiledProgram
from controller.target_facts import TargetFacts
from softswitch import Switch
from softswitch.core import CoreConfig, PortConfig, PortState
from softswitch.p4runtime.status import Code
from topologies.errors import FieldPath
from topologies.lint.classes import UNMAPPED_QUEUE
from topologies.lint.findings import Remark, Severity
from topologies.model import CNP_DSCP, Interface, Topology, TrafficClass

DSCPS = range(64)
QUEUES = 8
_ROCE_PORT = 4791
_CPU_PORT = 255
_ALL_PAUSED = (1 << QUEUES) - 1
_TICK_PS = 1000
_CELL_BYTES = 256
_MS = 10**6  # in ns: long after everything is through


class LintError(Exception):
    """The class map can't be tried on this program; says why."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


def queues_of_dscps(topology: Topology, program: CompiledProgram) -> dict[int, int | None]:
    """Return the queue of each DSCP, None where its packets are dropped.

    Empty where no switch has two host interfaces to send between. Raises LintError for a program
    that doesn't take the controller's entries.
    """
    pair = _pair(topology)
    if pair is None:
        return {}
    source, target = pair
    config = CoreConfig(
        cpu_port=_CPU_PORT,
        priorities=QUEUES,
        tick_ps=_TICK_PS,
        depth_cell_bytes=_CELL_BYTES,
    )
    with Switch(config) as switch:
        switch.set_pipeline(program.p4info.message, program.device_config)
        _install(switch, topology, program, source.switch)
        switch.core.configure_port(target.port, PortConfig(queue_packets=2 * len(DSCPS)))
        switch.core.set_port(target.port, PortState.UP, pause_mask=_ALL_PAUSED)
        gateway = topology.switch(source.switch).mac
        for dscp in DSCPS:
            switch.inject(source.port, _frame(source, target, gateway, dscp))
        found: dict[int, int | None] = dict.fromkeys(DSCPS)
        for queue in range(QUEUES):
            now_ps = switch.now_ns * 1000
            mask = _ALL_PAUSED & ~(1 << queue)
            switch.core.set_port(target.port, PortState.UP, pause_mask=mask, now_ps=now_ps)
            for output in switch.run_until(switch.now_ns + _MS):
                if output.port == target.port and len(output.packet) > 15:
                    found[output.packet[-1]] = queue
    return found


def _pair(topology: Topology) -> tuple[Interface, Interface] | None:
    """Return two host interfaces of one switch, which a packet can go between."""
    for switch in topology.switches:
        interfaces = topology.interfaces_of(switch.name)
        for target in interfaces[1:]:
            if target.host != interfaces[0].host:
                return interfaces[0], target
    return None


def _install(switch: Switch, topology: Topology, program: CompiledProgram, name: str) -> None:
    facts = TargetFacts(
        tick_ps=_TICK_PS, depth_cell_bytes=_CELL_BYTES, priorities=QUEUES, clone_classes=True
    )
    model = FabricModel(topology, program.p4info, facts, FabricPolicy.of(topology))
    remedy = "lint with the program that this controller is for: p4src/fabric.p4 or one made of it"
    try:
        wanted = changes(desired_entries(model, name), (), program.p4info)
        updates = [change.encode(program.p4info) for change in wanted]
    except UnknownName as error:
        raise LintError(str(error), remedy) from None
    for status, change in zip(switch.device.write(updates), wanted, strict=True):
        if status.code is not Code.OK:
            message = f"the program refuses {describe(change.entry)}: {status.message}"
            raise LintError(message, remedy)


def _frame(source: Interface, target: Interface, gateway: str, dscp: int) -> bytes:
    """Return a RoCEv2 packet whose last byte is its DSCP, for when the program rewrites it."""
    payload = bytes(31) + bytes([dscp])
    udp = struct.pack("!HHHH", 49152, _ROCE_PORT, 8 + len(payload), 0) + payload
    ip = bytearray(struct.pack("!BBHHHBBH", 0x45, dscp << 2 | 2, 20 + len(udp), 0, 0, 64, 17, 0))
    ip += source.address.ip.packed + target.address.ip.packed
    total = sum(struct.unpack("!10H", ip))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    ip[10:12] = (~total & 0xFFFF).to_bytes(2, "big")
    macs = bytes.fromhex((gateway + source.mac).replace(":", ""))
    return macs + b"\x08\x00" + bytes(ip) + udp


def queue_faults(
    topology: Topology, queues: Mapping[int, int | None], prefix: FieldPath = ()
) -> Iterator[Remark]:
    """Yield where the class map and what the program does differ.

    `queues`: of `queues_of_dscps`. `prefix`: where the topology stands in its file.
    """
    if not queues:
        return
    mapped = {dscp: each for each in topology.classes for dscp in each.dscps}
    for each in topology.classes:
        yield from _class_faults(each, queues, prefix)
    yield from _unmapped(topology, mapped, queues, prefix)
    if not topology.classes:
        yield from _notifications(queues, prefix)


def _class_faults(
    each: TrafficClass, queues: Mapping[int, int | None], prefix: FieldPath
) -> Iterator[Remark]:
    if each.queue is None:
        return  # the lint of topologies says so
    path = (*prefix, "classes", each.name, "dscp")
    subject = f"class {each.name}"
    for queue, dscps in _by_queue({dscp: queues[dscp] for dscp in each.dscps}):
        if queue == each.queue:
            continue
        if queue is None:
            message = f"the program drops packets of {_dscps(dscps)}"
            right = "the class map says which queue they wait in; the program must forward them"
        else:
            message = f"the program puts {_dscps(dscps)} into queue {queue}, not {each.queue}"
            right = (
                f"PFC would pause queue {each.queue} while they wait in {queue}: they are lossy"
                if each.lossless
                else "change queue here, or the program's and the controller's class table"
            )
        yield Remark(Severity.ERROR, path, subject, message, right)


def _unmapped(
    topology: Topology,
    mapped: Mapping[int, TrafficClass],
    queues: Mapping[int, int | None],
    prefix: FieldPath,
) -> Iterator[Remark]:
    lossless = {each.queue: each for each in topology.classes if each.lossless}
    others = {dscp: queue for dscp, queue in queues.items() if dscp not in mapped}
    for queue, dscps in _by_queue(others):
        if queue is None:
            message = f"the program drops packets of {_dscps(dscps)}, which have no class"
            yield Remark(Severity.WARNING, (*prefix, "classes"), "classes", message, "")
        elif queue in lossless and queue != UNMAPPED_QUEUE:
            each = lossless[queue]
            path = (*prefix, "classes", each.name, "queue")
            message = f"the program puts {_dscps(dscps)}, which have no class, into its queue too"
            right = "they take its buffer and are paused with it: map them to another queue"
            yield Remark(Severity.ERROR, path, f"class {each.name}", message, right)


def _notifications(queues: Mapping[int, int | None], prefix: FieldPath) -> Iterator[Remark]:
    """Yield remarks on notifications.

    With a class map the other rules say the same, more exactly.
    """
    queue = queues[CNP_DSCP]
    above = [dscp for dscp in DSCPS if dscp != CNP_DSCP and (queues[dscp] or 0) >= (queue or 0)]
    if queue is not None and above:
        message = (
            f"the program serves congestion notifications (DSCP {CNP_DSCP}) in queue {queue}, "
            f"not before {_dscps(above)}"
        )
        right = f"give DSCP {CNP_DSCP} the highest queue, 7, for itself"
        yield Remark(Severity.WARNING, prefix, "queues", message, right)


def _by_queue(queues: Mapping[int, int | None]) -> Sequence[tuple[int | None, list[int]]]:
    found: dict[int | None, list[int]] = {}
    for dscp in sorted(queues):
        found.setdefault(queues[dscp], []).append(dscp)
    return list(found.items())


def _dscps(dscps: Sequence[int]) -> str:
    """Return numbers as a reader wants them: 1, 5-7, 9."""
    ranges: list[list[int]] = []
    for dscp in dscps:
        if ranges and dscp == ranges[-1][-1] + 1:
            ranges[-1][1:] = [dscp]
        else:
            ranges.append([dscp])
    return "DSCP " + ", ".join("-".join(map(str, each)) for each in ranges)
