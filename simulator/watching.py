"""Which flows' packets collect what switches write on their way, and of which that is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hostagent.rnic.planes import PlaneUse
from mechanisms.contract import PathRecords
from mechanisms.registry import path_records
from simulator.core.binding import Engine
from topologies.errors import TopologyError
from workloads.dag import OPERATIONS
from workloads.model import RunFile, Traffic, WatchedFlows

_SHOWN = 4  # pairs in an error


def watch(run: RunFile, traffic: Traffic, engine: Engine, time_scale: int) -> None:
    """Let packets collect where their class says so, and keep what the run file asks for.

    Once, when flows have been added. Raises TopologyError.
    """
    records = path_records(run.topology)
    _begin_collecting(engine, traffic, records)
    if run.watched is not None:
        flows = _watched_flows(run, run.watched, traffic, engine, records)
        engine.collecting.record(flows, run.watched.every_ps, time_scale)


def what_is_watched(run: RunFile) -> dict[str, Any]:
    """Return what a result has to know of that (`RunIdentity`); nothing if nothing is kept."""
    if run.watched is None:
        return {}
    ports = path_records(run.topology).ports
    return {"telemetry_ports": ports, "telemetry_every_ps": run.watched.every_ps}


def _begin_collecting(engine: Engine, traffic: Traffic, records: PathRecords) -> None:
    """Let flows collect whose class says so, once they are added.

    Left out are those that can't: of open loop, READs, and those that share their load over planes.
    """
    flows = traffic.flows
    if not records.always or not len(flows):
        return
    shared = [each.planes.use is PlaneUse.SHARED for each in traffic.transports]
    can = (flows["transport"] > 0) & (flows["operation"] != OPERATIONS["read"])
    can &= np.isin(flows["dscp"], sorted(records.always))
    chosen = np.flatnonzero(can).tolist()
    several, transport = flows["interfaces"] > 1, flows["transport"]
    engine.collecting.begin(
        flow for flow in chosen if not (several[flow] and shared[transport[flow] - 1])
    )


def _watched_flows(
    run: RunFile, watched: WatchedFlows, traffic: Traffic, engine: Engine, records: PathRecords
) -> list[int]:
    """Return the numbers of the flows that are to be watched and that collect.

    Raises TopologyError: a name is no flow's, or none of the flows of a name collects records of
    hops.
    """
    hosts = [host.name for host in traffic.topology.hosts]
    pairs = [
        (hosts[src], hosts[dst])
        for src, dst in zip(traffic.flows["src"], traffic.flows["dst"], strict=True)
    ]
    written = np.isin(traffic.flows["dscp"], sorted(records.dscps))
    found: set[int] = set()
    for name in watched.names or ("*>*",):
        named = _named(name, pairs)
        if not named:
            shown = dict.fromkeys(f"{src}>{dst}" for src, dst in pairs)
            more = ", ..." if len(shown) > _SHOWN else ""
            there = f": there is {', '.join(list(shown)[:_SHOWN])}{more}" if shown else ""
            raise _wrong(run, f"no flow {name}{there}")
        here = [flow for flow in named if written[flow] and engine.collecting.collects(flow)]
        if not here:
            what = "no flow" if name == "*>*" else f"{name}: none of its flows"
            why = "" if written[named].any() else ", and switches write nothing into their class"
            message = f"{what} collects records of hops{why}: {records.right}"
            raise _wrong(
                run,
                f"{message} (not READs, open-loop packets, shared "
                "planes, or senders whose packets need the shim for something else)",
            )
        found.update(here)
    return sorted(found)


def _wrong(run: RunFile, message: str) -> TopologyError:
    return TopologyError([run.document.problem(("record", "telemetry"), message)])


def _named(name: str, pairs: Sequence[tuple[str, str]]) -> list[int]:
    if name.isdecimal():
        return [int(name)] if int(name) < len(pairs) else []
    src, _, dst = name.partition(">")
    return [n for n, pair in enumerate(pairs) if src in ("*", pair[0]) and dst in ("*", pair[1])]
