"""What a run hands to its results: who it was, and how everything stood when it ended.

Numbers of the engine and of the switches come as mappings and structured arrays whose names are
those of the C structs (simulator/core/sim.h, softswitch/core/weft_switch.h); a number that is not
there is left out of the results rather than written as zero.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

if TYPE_CHECKING:
    from simulator.result_due import DueEnd
    from simulator.result_paths import PathsEnd

Records = npt.NDArray[Any]
Counters = Mapping[str, int]


class ResultError(Exception):
    """A result folder can't be written or read; says which file and what would be right."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class Stop(enum.Enum):
    """Why a run ended."""

    UNTIL = "until"  # its time was up
    IDLE = "idle"  # nothing could happen any more
    DONE = "done"  # everything was sent and had arrived
    INTERRUPTED = "interrupted"  # by the user


@dataclass(frozen=True)
class RunIdentity:
    """What a run is, as far as its result depends on it. No machine, path or time of day.

    `time_scale`: links are that much slower and longer than the topology says; all times of results
    are the run's own. `paths_window_ps`: of record.paths, None without it. `telemetry_ports`,
    `telemetry_every_ps`: with record.telemetry, switch and port by the number in packets' records,
    and the least time between two packets of a flow. `versions`: what else the numbers depend on,
    for example "weft" and the SHA-256 of "fabric.p4".
    """

    name: str
    seed: int
    sample_ps: int
    description: str = ""
    until_ps: int | None = None
    time_scale: int = 1
    paths_window_ps: int | None = None
    telemetry_ports: Mapping[int, tuple[str, int]] | None = None
    telemetry_every_ps: int = 0
    run_file_sha256: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SwitchEnd:
    """One switch when the run ended.

    `stats`: ws_stats. `ports`: ws_port_stats by port. `pfc`: ws_pfc_stats by port, whose members
    are numbers or eight numbers, one a class. `wires`: ws_impair_stats by port and then "send" or
    "receive". `waiting`: the rows of ws_waiting. `buffer`: of the shared buffer. `taken`: of the
    packets that `stats` has as dropped in ingress, those that were for the switch itself.
    """

    stats: Counters = field(default_factory=dict)
    ports: Mapping[int, Counters] = field(default_factory=dict)
    pfc: Mapping[int, Mapping[str, int | Sequence[int]]] = field(default_factory=dict)
    wires: Mapping[int, Mapping[str, Counters]] = field(default_factory=dict)
    waiting: Records | Sequence[Any] = ()
    buffer: Counters = field(default_factory=dict)
    taken: int = 0


@dataclass(frozen=True)
class RunEnd:
    """A run when it ended, at `now_ps`.

    `totals`: sim_totals. `flow_stats`, `message_times`: one sim_flow_stats and sim_message_times
    for each flow and message. `switches` by name. `host_ports`: sim_host_port_stats by host and
    interface. `flow_paths`: where known, the switch ports that a flow leaves through, in order.
    `transport_stats`: one sim_transport_stats for each flow, None where all are open loop.
    `receivers`: sim_receiver_stats by interface, of hosts that take frames slowly.
    `programs`: what runs on hosts: its name, its host and what it counted.
    `counters`: what mechanisms have counted in all switches, by the counter's key and by label.
    `due`: what became of `Traffic.due`. `paths`: which links flows took, if that was recorded.
    `planes`: sim_plane_row, None where no interfaces are planes. `migrations`: sim_migration_row,
    None where no queue pair uses one of them at a time.
    """

    stop: Stop
    now_ps: int
    totals: Counters
    flow_stats: Records
    message_times: Records
    switches: Mapping[str, SwitchEnd] = field(default_factory=dict)
    host_ports: Mapping[tuple[str, int], Mapping[str, int | Sequence[int]]] = field(
        default_factory=dict
    )
    flow_paths: Mapping[int, Sequence[tuple[str, int]]] = field(default_factory=dict)
    transport_stats: Records | None = None
    counters: Mapping[str, Counters] = field(default_factory=dict)
    receivers: Mapping[str, Counters] = field(default_factory=dict)
    programs: Sequence[Mapping[str, str | Counters]] = ()
    due: DueEnd | None = None
    paths: PathsEnd | None = None
    planes: Records | None = None
    migrations: Records | None = None
