"""ENCC in virtual time while something goes wrong: pauses, losses, mute switches, other paths.

Three fabrics, 100 Gb/s and 500 ns a link, packets of 4 kB:

    h2 .. h9 -- s1 -- s2 -- h1                      a line, 400 Gb/s between the switches
    h1 .. h4 -- s1 -- s3, s4 (, ...) -- s2 -- h5 .. h8      leaves and spines, DPFR
    h1 .. h4 == s1 -- s2, and s3 -- s4 == h5 .. h8          two planes, 200 Gb/s between leaves

`python tests/bench/encc_adversity.py` prints the numbers of docs/encc.md.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler import compile_p4
from controller.program import CompiledProgram
from controller.steering import SwitchPrograms
from hostagent import own_algorithm
from hostagent.rnic.build import SHARED
from mechanisms.program import FABRIC
from mechanisms.registry import defines
from mechanisms.round_trips import longest_round_trip_ps
from simulator.core.own_algorithm import engine_in_place
from simulator.result_reader import ResultFolder
from simulator.runner import Simulation
from workloads.loader import read_run

PS_PER_US = 10**6
PAYLOAD = 4096 / (4096 + 58 + 24)
"""Of a line, without what switches add."""
LINE = """\
topology:
  switches: [s1, s2]
  hosts: [h1, h2, h3, h4, h5, h6, h7, h8, h9]
  link: {{rate: 100Gbps, delay: 500ns, queue: 16MB, mtu: 4200B}}
  links:
    - {{a: h1, b: "s2:1"}}
    - {{a: "s1:20", b: "s2:20", rate: {trunk}Gbps}}
    - {{a: h2, b: "s1:2"}}
    - {{a: h3, b: "s1:3"}}
    - {{a: h4, b: "s1:4"}}
    - {{a: h5, b: "s1:5"}}
    - {{a: h6, b: "s1:6"}}
    - {{a: h7, b: "s1:7"}}
    - {{a: h8, b: "s1:8"}}
    - {{a: h9, b: "s1:9"}}
  classes:
    cnp: {{dscp: 48, queue: 6}}
    roce: {{dscp: 26, queue: 3, path_telemetry: hops}}
    rest: {{queue: 0}}
until: {until}us
sample: 1us
events: [{events}]
transport: {{congestion_control: encc{transport}}}
traffic:
{traffic}
"""
SPINES = """\
topology:
  generator: leaf_spine
  leaves: 2
  spines: {spines}
  hosts_per_leaf: 4
  link: {{rate: 100Gbps, delay: 500ns, queue: 16MB, mtu: 4200B}}
  classes:
    cnp: {{dscp: 48, queue: 6}}
    roce: {{dscp: 26, queue: 3, path_telemetry: hops{more}}}
    rest: {{queue: 0}}
  dpfr: true
until: {until}us
sample: 1us
events: [{events}]
transport: {{congestion_control: encc{transport}}}
traffic:
{traffic}
"""
PLANES = """\
topology:
  switches: [s1, s2, s3, s4]
  hosts: [h1, h2, h3, h4, h5, h6, h7, h8]
  link: {{rate: 100Gbps, delay: 500ns, queue: 16MB, mtu: 4200B}}
  links:
    - {{a: "s1:20", b: "s2:20", rate: 200Gbps}}
    - {{a: "s3:20", b: "s4:20", rate: 200Gbps}}
{links}
  classes:
    cnp: {{dscp: 48, queue: 6}}
    roce: {{dscp: 26, queue: 3, path_telemetry: hops}}
    rest: {{queue: 0}}
until: {until}us
sample: 1us
events: [{events}]
transport: {{congestion_control: encc, interfaces: all{transport}}}
traffic:
{traffic}
"""
WITHIN_NS = 10_000
"""Senders begin within so long of each other, by the seed."""


@cache
def program(wanted: tuple[str, ...]) -> CompiledProgram:
    """Compile the fabric's program with these mechanisms."""
    return CompiledProgram.of(compile_p4(FABRIC, defines=wanted))


class Seen:
    """A run that is over, microsecond by microsecond."""

    def __init__(self, text: str, *, seed: int = 1, mute: Sequence[str] = ()) -> None:
        """Play it. `mute`: switches whose program has nothing of path telemetry."""
        run = read_run(text)
        wanted = defines(run.topology)
        usual = program(wanted)
        without = tuple(each for each in wanted if "PATH" not in each)
        assert without != wanted
        others = {name: program(without) for name in mute}
        simulation = Simulation(run, usual, seed=seed, programs=SwitchPrograms(usual, others))
        with tempfile.TemporaryDirectory() as folder:
            end = simulation.run(Path(folder)).end
            results = ResultFolder(Path(folder))
            queues = results.table("queues", ("at_ps", "node", "port", "bytes"))
            rates = results.table("flow_rates", ("at_ps", "flow", "bytes"))
        self.topology = run.topology
        self.us = end.now_ps // PS_PER_US
        stats: Any = end.transport_stats
        self.repeated = stats["repeated_packets"].astype(np.int64)
        self._queues = {name: queues[name].to_numpy() for name in queues.column_names}
        self.delivered = np.zeros((len(simulation.traffic.flows), self.us + 2))
        at = np.minimum(rates["at_ps"].to_numpy() // PS_PER_US, self.us + 1)
        np.add.at(self.delivered, (rates["flow"].to_numpy(), at), rates["bytes"].to_numpy())

    @property
    def trip_us(self) -> float:
        """The longest base round trip of the fabric, which ENCC aims at."""
        return longest_round_trip_ps(self.topology) / PS_PER_US

    def gbps(self, first: int, last: int) -> npt.NDArray[np.float64]:
        """Return what each flow delivered in these microseconds, in Gb/s of payload."""
        delivered: npt.NDArray[np.float64] = self.delivered[:, first + 1 : last + 1].sum(axis=1)
        return delivered * 8 / (last - first) / 1000

    def silence(self, first: int, last: int) -> int:
        """Return for how many microseconds in a row a flow got nothing, of all the longest."""
        longest = 0
        for row in self.delivered:
            came = np.flatnonzero(row[first : last + 1] > 0)
            bounds = np.concatenate(([-1], came, [last - first + 1]))
            longest = max(longest, int(np.diff(bounds).max()) - 1)
        return longest

    def queue(self, switch: str, port: int | None = None) -> npt.NDArray[np.float64]:
        """Return what waited at a switch (or one port) at each microsecond, in kB."""
        found = np.zeros(self.us + 2)
        here = self._queues["node"] == switch
        if port is not None:
            here &= self._queues["port"] == port
        at = np.minimum(self._queues["at_ps"][here] // PS_PER_US, self.us + 1)
        np.add.at(found, at, self._queues["bytes"][here])
        return found / 1000


def jain(rates: npt.NDArray[np.float64]) -> float:
    """Return 1 if all have the same, and 1/n if one has everything."""
    return float(rates.sum() ** 2 / (len(rates) * (rates**2).sum()))


# --- pauses ---------------------------------------------------------------------------------------

PAUSE_MS = 20


@dataclass(frozen=True)
class Paused:
    """Eight senders of 2 MB, twice: kB that waited at most, and how long all took.

    `fresh`: in the first 100 us, when all begin at the line; `settled`: from 300 us to 300 us
    before the last is done; `again`: in the first 300 us after the pause.
    """

    fresh: float
    settled: float
    again: float
    first_us: int
    second_us: int


def paused(seed: int) -> Paused:
    """Idle for 20 ms, then on: the same messages again."""
    what = f"bytes: 2MB, count: 2, gap: {PAUSE_MS}ms"
    seen = Seen(line(24_500, to_receiver("message", what, 8, seed)), seed=seed)
    queue = seen.queue("s2", 1)
    busy = np.flatnonzero(seen.delivered.sum(axis=0))
    (pause,) = np.flatnonzero(np.diff(busy) > 1000 * PAUSE_MS - 1000)
    last, first = int(busy[pause]), int(busy[pause + 1])
    return Paused(
        queue[:100].max(),
        queue[300 : last - 300].max(),
        queue[first - 5 : first + 300].max(),
        last - int(busy[0]),
        int(busy[-1]) - first,
    )


def to_receiver(kind: str, what: str, senders: int, seed: int) -> str:
    """Return the traffic of so many senders to h1."""
    chance = random.Random(seed)
    return "\n".join(
        f"  - {kind}: {{to: h1, from: [h{n + 2}], {what}, start: {chance.randrange(WITHIN_NS)}ns}}"
        for n in range(senders)
    )


def line(
    until: int, traffic: str, *, trunk: int = 400, events: str = "", transport: str = ""
) -> str:
    """Return a run over the line of two switches, of so many microseconds."""
    return LINE.format(
        until=until, traffic=traffic, trunk=trunk, events=events, transport=transport
    )


# --- acknowledgements that get lost, switches that write nothing ----------------------------------


@dataclass(frozen=True)
class Shared:
    """Senders that never stop, from 300 us on: Gb/s of payload, and the queues in kB."""

    gbps: float
    jain: float
    queue_mean: float
    queue_most: float
    silence_us: int
    repeated: int


def shared(
    seed: int,
    *,
    senders: int = 8,
    ack_loss: int = 0,
    timeout: str = "",
    mute: Sequence[str] = (),
    trunk: int = 400,
    until: int = 3000,
) -> Shared:
    """Play an incast. `ack_loss`: in %, of what the receiver sends; `trunk`: Gb/s."""
    events = f"{{at: 0us, link: h1-s2, towards: s2, loss: {ack_loss}%}}" if ack_loss else ""
    traffic = to_receiver("incast", "persistent: true", senders, seed)
    transport = f", timeout: {timeout}" if timeout else ""
    text = line(until, traffic, trunk=trunk, events=events, transport=transport)
    seen = Seen(text, seed=seed, mute=mute)
    rates = seen.gbps(300, until)
    queue = seen.queue("s1", 20) + seen.queue("s2", 1)
    waits = queue[300:until]
    return Shared(
        float(rates.sum()),
        jain(rates),
        float(waits.mean()),
        float(waits.max()),
        seen.silence(300, until),
        int(seen.repeated.sum()),
    )


# --- ends of messages -----------------------------------------------------------------------------

STAR = """\
topology:
  generator: single
  hosts: {hosts}
  link: {{rate: 100Gbps, delay: 1us, queue: 64MB, mtu: 4200B}}
  classes:
    cnp: {{dscp: 48, queue: 6}}
    roce: {{dscp: 26, queue: 3, path_telemetry: hops}}
    rest: {{queue: 0}}
until: 200ms
clocks: {{ppm: 50, jitter: 1us}}
events: [{{at: 0us, link: h1-s1, towards: h1, loss: {loss}%}}]
transport: {{congestion_control: {control}}}
traffic: [{traffic}]
"""


@dataclass(frozen=True)
class Ends:
    """Messages: how long they take, in us, and how many of 100 packets are sent twice."""

    median_us: float
    longest_us: float
    twice_percent: float


def ends(seed: int, *, senders: int, size: str, loss: float = 0, control: str = "encc") -> Ends:
    """Play messages to h1: of one sender 400, one after the other; of several five at once.

    `loss`: in %, of what goes to h1.
    """
    one = f"message: {{from: h2, to: h1, bytes: {size}, count: 400, gap: 20us}}"
    many = f"incast: {{to: h1, senders: {senders}, bytes: {size}, rounds: 5, every: 3ms}}"
    traffic = one if senders == 1 else many
    text = STAR.format(
        hosts=senders + 1, loss=loss or "0.0000001", control=control, traffic=traffic
    )
    run = read_run(text)
    simulation = Simulation(run, program(defines(run.topology)), seed=seed)
    end = simulation.run().end
    times, rows = end.message_times, simulation.traffic.messages.messages
    took = (times["done"] - times["ready"]) / PS_PER_US
    assert (times["done"] >= 0).all(), "a message was not done"
    stats: Any = end.transport_stats
    packets = np.ceil(rows["bytes"] / 4096).sum()
    repeated = float(stats["repeated_packets"].sum())
    return Ends(float(np.median(took)), float(took.max()), 100 * repeated / float(packets))


# --- other paths ----------------------------------------------------------------------------------

CUT_US = 600
RTO = "16384ns"
"""4.096 us x 2^2, of the times that RoCE cards have: some three round trips."""


@dataclass(frozen=True)
class Moved:
    """Four flows over two spines, of which one is lost at 600 us.

    `gone_us`: for how long all together got less than 0.9 of what they get later, as a mean of
    5 us, within 300 us; `silence_us`: of the flow that got nothing for longest; `least`: what the
    slowest had from 100 to 300 us after, as a part of an equal share; `missing_trips`: what did not
    come in these 300 us, in base round trips of what comes later.
    """

    trip_us: float
    gbps_before: float
    gbps_after: float
    gone_us: int
    silence_us: int
    least: float
    missing_trips: float
    queue_most: float


def moved(seed: int, link: str, *, timeout: str = RTO, form: str = "hops") -> Moved:
    """Take a link to a spine down, and look at what it costs."""
    flows = (f"  - incast: {{to: h{n + 4}, from: [h{n}], persistent: true}}" for n in (1, 2, 3, 4))
    text = spines(
        1500,
        "\n".join(flows),
        events=f"{{at: {CUT_US}us, link: {link}, do: down}}",
        timeout=timeout,
    ).replace("path_telemetry: hops", f"path_telemetry: {form}")
    seen = Seen(text, seed=seed)
    later = seen.gbps(CUT_US + 400, 1500)
    each = seen.delivered.sum(axis=0) * 8 / 1000
    smooth = np.array([each[us : us + 5].mean() for us in range(CUT_US + 1, CUT_US + 301)])
    total = float(later.sum())
    missing = 300 * total - each[CUT_US + 1 : CUT_US + 301].sum()
    return Moved(
        seen.trip_us,
        float(seen.gbps(300, CUT_US - 10).sum()),
        total,
        int((smooth < 0.9 * total).sum()),
        seen.silence(CUT_US, CUT_US + 300),
        float(seen.gbps(CUT_US + 100, CUT_US + 300).min() / (total / 4)) if total else 0.0,
        missing / total / seen.trip_us if total else np.inf,
        seen.queue("s1")[CUT_US:].max(),
    )


@dataclass(frozen=True)
class PlaneCut:
    """Four flows over two planes; a sender's link into the second is cut at 600 us, and mended.

    `gone_us`, `silence_us` and `missing_trips` as in Moved, of the 300 us after the cut; what comes
    later is the mean from 350 us after it until the link is mended. `back_missing`: by how much all
    flows together fell below that within 400 us from then on, in base round trips of it.
    `queue_most`: of all switches together, from the cut on.
    """

    trip_us: float
    gbps_before: float
    gbps_later: float
    gbps_end: float
    gone_us: int
    silence_us: int
    missing_trips: float
    back_missing: float
    queue_most: float
    repeated: int


MENDED_US = 1300
PLANES_END_US = 2400
PLANE_FAILOVER = (
    ", retransmission: selective-repeat,"
    " failover: {hold: 100us, answers: 1, probe: 50us, ramp: 0ns}"
)
NO_FAILOVER = ", retransmission: selective-repeat, reorder: 10us"
"""The same two lines as one device's: one congestion state, and packets in turn."""


def plane_cut(
    seed: int,
    *,
    known: bool = True,
    as_planes: bool = True,
) -> PlaneCut:
    """Cut a sender's link into the second plane, and mend it.

    `known`: its card sees that at once; else nothing says so but silence. `as_planes`: with
    failover, and a congestion state a plane.
    """
    chance = random.Random(seed)
    flows = (
        f"  - incast: {{to: h{n + 4}, from: [h{n}], persistent: true,"
        f" start: {chance.randrange(WITHIN_NS)}ns}}"
        for n in (1, 2, 3, 4)
    )
    links = (
        f'    - {{a: "h{n}:{plane}", b: "s{2 * plane + (1 if n < 5 else 2)}:{n}"}}'
        for n in range(1, 9)
        for plane in (0, 1)
    )
    text = PLANES.format(
        until=PLANES_END_US,
        links="\n".join(links),
        traffic="\n".join(flows),
        events=", ".join(
            f'{{at: {at}us, link: "h1:1-s3:1", do: {do}}}'
            for at, do in ((CUT_US, "down"), (MENDED_US, "up"))
        ),
        transport=(PLANE_FAILOVER if as_planes else NO_FAILOVER)
        + f", link_delay: {'0ns' if known else '5ms'}",
    )
    seen = Seen(text, seed=seed)
    each = seen.delivered.sum(axis=0) * 8 / 1000

    def smooth(first: int, last: int) -> npt.NDArray[np.float64]:
        return np.array([each[us : us + 5].mean() for us in range(first + 1, last + 1)])

    before = float(seen.gbps(300, CUT_US - 10).sum())
    later = float(seen.gbps(CUT_US + 350, MENDED_US).sum())
    missing = 300 * later - each[CUT_US + 1 : CUT_US + 301].sum()
    again = smooth(MENDED_US, MENDED_US + 400)
    below = np.clip(later - again, 0, None).sum()
    queues = np.sum([seen.queue(f"s{n}") for n in (1, 2, 3, 4)], axis=0)
    return PlaneCut(
        seen.trip_us,
        before,
        later,
        float(seen.gbps(PLANES_END_US - 300, PLANES_END_US).sum()),
        int((smooth(CUT_US, CUT_US + 300) < 0.9 * later).sum()),
        seen.silence(CUT_US, CUT_US + 300),
        float(missing / later / seen.trip_us) if later else np.inf,
        float(below / later / seen.trip_us) if later else np.inf,
        float(np.max(queues[CUT_US:])),
        int(seen.repeated.sum()),
    )


def flowlets(seed: int, policy: str) -> float:
    """Return Gb/s of payload of four senders of 128 kB, with pauses, over four spines."""
    flows = (
        f"  - message: {{from: h{n}, to: h{n + 4}, bytes: 128kB, count: 400, gap: 15us}}"
        for n in (1, 2, 3, 4)
    )
    more = "" if policy == "ecmp" else f", load_balancing: {{policy: {policy}, gap: 10us}}"
    text = spines(2000, "\n".join(flows), spines=4, more=more)
    return float(Seen(text, seed=seed).gbps(200, 2000).sum())


def spines(
    until: int,
    traffic: str,
    *,
    spines: int = 2,
    more: str = "",
    events: str = "",
    timeout: str = RTO,
) -> str:
    """Return a run over leaves and spines, of so many microseconds."""
    transport = f", timeout: {timeout}" if timeout else ""
    return SPINES.format(
        until=until, traffic=traffic, spines=spines, more=more, events=events, transport=transport
    )


@contextmanager
def without_path_identity() -> Iterator[None]:
    """Let runs meanwhile have an ENCC that takes the records of two ports for those of one."""
    identity = re.compile(r"last->hop == hop\.hop && ")
    last = (SHARED / "path_telemetry_last.h").read_text(encoding="utf-8")
    text = (SHARED / "encc.h").read_text(encoding="utf-8")
    changed, found = identity.subn("last->hop && ", last)
    assert found == 1, "path_telemetry_last.h asks in another way whether a hop is the same"
    include = '#include "path_telemetry_last.h"\n'
    assert text.count(include) == 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "encc.h"
        path.write_text(text.replace(include, changed), encoding="utf-8")
        with engine_in_place(own_algorithm.built(own_algorithm.read(path))):
            yield
