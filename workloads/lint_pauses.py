"""Faults of a run's pauses: whether its own traffic can deadlock, class by class."""

from __future__ import annotations

from collections.abc import Iterator

from topologies.errors import TopologyError
from topologies.lint.findings import Remark, Severity
from topologies.lint.pauses import cycle_text, is_planned
from topologies.model import Endpoint, Topology
from topologies.pause_cycles import Pair, PauseCycles
from workloads.model import Flow, RunFile, Traffic
from workloads.plan import plan

_SHOWN_PAIRS = 6


def pause_faults(run: RunFile) -> Iterator[Remark]:
    """Yield the lossless classes whose flows can wait for each other in a cycle.

    Flows take any of the shortest ways. Without a buffer there are no pauses; routes of switches
    that hold entries of the user's own are not known here.
    """
    topology = run.topology
    lossless = [each for each in topology.classes if each.lossless]
    if run.buffer is None or not lossless or not is_planned(topology):
        return
    cycles = PauseCycles(topology)
    if not cycles.of_all():
        return  # so none of any traffic's
    try:
        traffic = plan(run)
    except TopologyError:
        return  # the run itself says what is wrong with it
    queues = _by_queue(run, traffic)
    watched = run.buffer.watchdog_ps > 0
    for each in lossless:
        users = queues.get(each.queue if each.queue is not None else 0, {})
        cycle = cycles.of(users)
        if not cycle:
            continue
        flows = [users[pair] for pair in cycles.users(cycle, users)]
        shown = ", ".join(flows[:_SHOWN_PAIRS])
        more = f" and {len(flows) - _SHOWN_PAIRS} more" if len(flows) > _SHOWN_PAIRS else ""
        ends = "only the watchdog would end it" if watched else "nothing would end it"
        message = f"{cycle_text(cycle)}, made by {shown}{more}: they can deadlock, and {ends}"
        right = "put some of these flows into another lossless class, or use other routes"
        if not watched:
            right += "; buffer: {watchdog: 1ms} ends a deadlock by dropping packets"
        path = ("topology", "classes", each.name)
        yield Remark(Severity.WARNING, path, f"class {each.name}", message, right)


def _by_queue(run: RunFile, traffic: Traffic) -> dict[int, dict[Pair, str]]:
    """Return, by queue, the pairs of switches between which packets go, each with a flow's name.

    Acknowledgements go back in the data's class, unless the transport says which.
    """
    topology, found = run.topology, dict[int, dict[Pair, str]]()
    for number in range(len(traffic.flows)):
        flow = traffic.flow(number)
        acked = bool(traffic.flows["transport"][number])
        for source, target in _ends(topology, flow):
            pairs = found.setdefault(flow.queue, {})
            pairs.setdefault((source, target), f"{flow.src} to {flow.dst}")
            if acked:
                pairs = found.setdefault(_ack_queue(run, flow), {})
                name = f"acknowledgements of {flow.src} to {flow.dst}"
                pairs.setdefault((target, source), name)
    return found


def _ends(topology: Topology, flow: Flow) -> Iterator[Pair]:
    """Yield the switches at the two ends of a flow, of each interface that it uses."""
    if flow.interfaces == 1:
        yield topology.interface(flow.src).switch, topology.interface(flow.dst).switch
        return
    for number in range(flow.interfaces):
        source, target = (Endpoint(end.node, number) for end in (flow.src, flow.dst))
        yield topology.interface(source).switch, topology.interface(target).switch


def _ack_queue(run: RunFile, flow: Flow) -> int:
    name = run.transport.ack_class if run.transport is not None else None
    of_class = next((each.queue for each in run.topology.classes if each.name == name), None)
    return flow.queue if of_class is None else of_class
