"""What lint says where source ports or their pins should decide paths, and something else does."""

from __future__ import annotations

from collections.abc import Iterator

from mechanisms.iglb.settings import KEY, Pinning, setting_of
from topologies.errors import FieldPath
from topologies.lint.findings import Remark, Severity
from topologies.model import Topology
from workloads.model import RunFile

_CHOOSES = "load_balancing"
"""Key of classes whose packets take their ports by something else than the hash of their flow."""

_ENTRIES = "pinning: entries, which is obeyed before anything else"


def by_ports(topology: Topology) -> bool:
    """Say whether source ports are to lead flows along their paths."""
    setting = setting_of(topology)
    return setting is not None and setting.pinning is Pinning.PORTS


def port_remarks(topology: Topology, prefix: FieldPath) -> Iterator[Remark]:
    """Yield the classes in which a packet's path does not follow from its source port alone."""
    if not by_ports(topology):
        return
    for of in topology.classes:
        if of.setting(_CHOOSES) is not None:
            path = (*prefix, "classes", of.name, _CHOOSES)
            message = (
                f"{of.name} has {_CHOOSES}, and its packets take no notice of the source ports "
                f"that {KEY} chooses for jobs"
            )
            right = f"leave {_CHOOSES} out, or use {_ENTRIES}"
            yield Remark(Severity.WARNING, path, of.name, message, right)


def run_port_remarks(run: RunFile, prefix: FieldPath) -> Iterator[Remark]:
    """Yield that a run's queue pairs choose among source ports themselves."""
    transport = run.transport
    if transport is None or transport.source_ports == 1 or setting_of(run.topology) is None:
        return
    does = "leaves them alone" if by_ports(run.topology) else "has pins for the first of them only"
    message = (
        f"each queue pair sends from {transport.source_ports} source ports and so over several "
        f"paths, and {KEY} {does}"
    )
    right = "leave udp_ports and path_choice out"
    yield Remark(Severity.WARNING, (*prefix, KEY), run.topology.name, message, right)
