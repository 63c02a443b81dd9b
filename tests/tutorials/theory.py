"""`ecn`'s queue and marks, and `link_monitor`'s utilisation, beside what theory says of them.

A link of rate C with frames of one size is a queue of constant times: it serves m = C / size frames
a second, and a flood of l > m lets it grow by l - m frames a second, to be marked from the moment
on in which 10 wait; a flow of less than m lets it shrink again. What a port sends is what was
offered to it, as long as that is less than its rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from matplotlib.figure import Figure
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from tests.tutorials.checks import (
    CHECKS,
    PROBE,
    PROBE_PORTS,
    S,
    hops_of,
    load_of,
    probe_frame,
)
from tests.tutorials.frames import IPV4, Hosts
from tests.tutorials.network import MS, START_NS, Imported, Played, Script, Send, Virtual, copied

TOLERANCE = 0.05
_WIRE_BYTES = 24  # preamble, FCS and gap: what a link carries beside the frame
_MARKS_FROM = 10
_PS_PER_S = 10**12


@dataclass(frozen=True)
class Point:
    """One quantity of one run."""

    what: str
    theory: float
    measured: float
    unit: str

    @property
    def off(self) -> float:
        """How far it is off, as a share of theory."""
        return self.measured / self.theory - 1


@dataclass(frozen=True)
class Study:
    """The points of an exercise, and their figure."""

    name: str
    points: Sequence[Point]
    figure: Figure

    @property
    def worst(self) -> Point:
        """The point that is off the most."""
        return max(self.points, key=lambda each: abs(each.off))


def _play(name: str, checkout: Path, folder: Path, script: Script) -> Played:
    check = CHECKS[name]
    home = copied(checkout, name, folder, solved=True)
    exercise = Imported.make(home, check.topology, check.p4)
    return Virtual().play(exercise, script, lambda played: None)


def _hosts(name: str, checkout: Path, folder: Path) -> Hosts:
    check = CHECKS[name]
    home = copied(checkout, name, folder, solved=True)
    return Hosts(Imported.make(home, check.topology, check.p4).topology)


# ---------------------------------------------------------------- ecn

_LINK_BPS = 500_000
_FLOODS = ((1.1, 14.0), (1.2, 8.0), (1.5, 4.0))
"""Rate as a multiple of the link's, and for how many seconds."""

_AFTER = 0.5
"""The rate afterwards."""


@dataclass(frozen=True)
class _Flood:
    """A flood's numbers: rates in frames a second, times in seconds from its start."""

    share: float
    lasts_s: float
    frame_bytes: int

    @property
    def served(self) -> float:
        return _LINK_BPS / 8 / (self.frame_bytes + _WIRE_BYTES)

    @property
    def grows(self) -> float:
        return (self.share - 1) * self.served

    @property
    def shrinks(self) -> float:
        return (1 - _AFTER) * self.served

    @property
    def peak(self) -> float:
        return self.grows * self.lasts_s

    @property
    def marks_at(self) -> float:
        return _MARKS_FROM / self.grows

    @property
    def marks_until(self) -> float:
        return self.lasts_s + (self.peak - _MARKS_FROM) / self.shrinks

    @property
    def empty_at(self) -> float:
        return self.lasts_s + self.peak / self.shrinks

    def sends(self, frame: bytes) -> list[Send]:
        every = round(S / (self.share * self.served))
        first = Send("h11", START_NS, frame, round(self.lasts_s * S / every), every)
        slower = round(S / (_AFTER * self.served))
        times = int((self.empty_at - self.lasts_s + 2) * S / slower)
        return [first, Send("h11", first.last_ns + every, frame, times, slower)]


def ecn(checkout: Path, folder: Path) -> Study:
    """Play floods of several rates, and compare s1's queue and its marks."""
    points: list[Point] = []
    figure = Figure(figsize=(11, 6.5), layout="constrained")
    axes = figure.subplots(2, len(_FLOODS), sharex="col", squeeze=False)
    hosts = _hosts("ecn", checkout, folder / "hosts")
    frame = bytes(hosts.udp("h11", "h22", bytes(1000), tos=1))
    for column, (share, lasts_s) in enumerate(_FLOODS):
        flood = _Flood(share, lasts_s, len(frame))
        sends = flood.sends(frame)
        script = Script(sends, {"h22": [IPV4]}, sample_ns=20 * MS)
        played = _play("ecn", checkout, folder / f"{share}", script)
        at, queue = _queue(played)
        sent_at, marked = _marks(played, sends)
        points += _ecn_points(flood, at, queue, sent_at, marked)
        above, below = axes[0][column], axes[1][column]
        corners = [0, lasts_s, flood.empty_at, flood.empty_at + 1]
        above.plot(corners, [0, flood.peak, 0, 0], color="0.6", linewidth=4, label="theory")
        above.plot(at, queue, linewidth=1, label="measured")
        above.axhline(_MARKS_FROM, linestyle=":", color="0.4", linewidth=1)
        above.set_title(f"{share:g} x the link's rate for {lasts_s:g} s")
        steps = [0, flood.marks_at, flood.marks_until, flood.empty_at + 1]
        below.step(steps, [0, 1, 0, 0], where="post", color="0.6", linewidth=4)
        below.plot(sent_at, marked, ".", markersize=3)
        below.set_xlabel("s since the flood began")
    axes[0][0].set_ylabel("packets that wait at s1's port 3")
    axes[1][0].set_ylabel("marked (tos 3)")
    axes[0][0].legend()
    figure.suptitle("ecn: 500 kb/s between s1 and s2; simulator, virtual time, time_scale 1")
    return Study("ecn", points, figure)


def _queue(played: Played) -> tuple[np.ndarray, np.ndarray]:
    """Return when s1's narrow port was looked at, and how many packets waited."""
    table = pq.read_table(played.out / "queues.parquet").to_pydict()
    rows = [
        (at / _PS_PER_S - START_NS / S, packets)
        for at, node, port, packets in zip(
            table["at_ps"], table["node"], table["port"], table["packets"], strict=True
        )
        if (node, port) == ("s1", 3)
    ]
    at, packets = np.array(rows).T
    return at, packets


def _marks(played: Played, sends: Sequence[Send]) -> tuple[np.ndarray, np.ndarray]:
    """Return when each packet was sent, and 1 where it arrived marked, else 0."""
    times = [each.at_ns + i * each.every_ns for each in sends for i in range(each.times)]
    frames = [Ether(data) for _, data in played.records["h22"]]
    tos = [frame[IP].tos for frame in frames if UDP in frame]
    assert len(tos) == len(times), f"{len(tos)} of {len(times)} packets arrived"
    return (np.array(times) - START_NS) / S, np.array([each == 3 for each in tos], dtype=float)


def _ecn_points(
    flood: _Flood, at: np.ndarray, queue: np.ndarray, sent_at: np.ndarray, marked: np.ndarray
) -> Iterator[Point]:
    name = f"flood of {flood.share:g}"
    rising = (at > 0.1 * flood.lasts_s) & (at < 0.9 * flood.lasts_s)
    fall_s = flood.empty_at - flood.lasts_s
    falling = (at > flood.lasts_s + 0.1 * fall_s) & (at < flood.lasts_s + 0.9 * fall_s)
    for what, during, slope in (
        ("grows", rising, flood.grows),
        ("shrinks", falling, -flood.shrinks),
    ):
        measured = float(np.polyfit(at[during], queue[during], 1)[0])
        yield Point(f"{name}: queue {what} by", slope, measured, "packets/s")
    yield Point(f"{name}: longest queue", flood.peak, float(queue.max()), "packets")
    is_marked = np.flatnonzero(marked)
    yield Point(f"{name}: marks from", flood.marks_at, float(sent_at[is_marked[0]]), "s")
    yield Point(f"{name}: marks until", flood.marks_until, float(sent_at[is_marked[-1]]), "s")
    between = marked[is_marked[0] : is_marked[-1] + 1]
    yield Point(f"{name}: of those between, marked", 1.0, float(between.mean()), "")


# ---------------------------------------------------------------- link_monitor

_LOADS_MBPS = (10, 50, 100, 250, 500, 800)
_LOAD_NS = 200 * MS
_PROBE_EVERY_NS = 20 * MS
_BUSY_HOPS = (0, 1)  # of the probe's way: s1's port 4, s4's port 1


def link_monitor(checkout: Path, folder: Path) -> Study:
    """Offer several loads from h1 to h4, and compare what probes say of the links on their way."""
    hosts = _hosts("link_monitor", checkout, folder / "hosts")
    probe = probe_frame(hosts)
    sends, windows = [], []
    for i, mbps in enumerate(_LOADS_MBPS):
        start = START_NS + 2 * i * _LOAD_NS
        sends.append(load_of(hosts, mbps, start, _LOAD_NS))
        windows.append((start // 1000, (start + _LOAD_NS) // 1000))
    probes = (2 * len(_LOADS_MBPS) * _LOAD_NS) // _PROBE_EVERY_NS
    sends.append(Send("h1", START_NS - _PROBE_EVERY_NS, probe, probes, _PROBE_EVERY_NS))
    played = _play(
        "link_monitor", checkout, folder / "run", Script(sends, {"h1": [PROBE]}, 100 * MS)
    )
    told = [hops_of(data) for _, data in played.records["h1"]]
    assert len(told) == probes, f"{len(told)} of {probes} probes came back"
    points = []
    for mbps, (start_us, end_us) in zip(_LOADS_MBPS, windows, strict=True):
        for number in range(len(PROBE_PORTS)):
            inside = [
                hop
                for hop in (each[number] for each in told)
                if hop.since_us >= start_us + 1000 and hop.now_us <= end_us - 1000
            ]
            mean = float(np.mean([hop.mbps for hop in inside]))
            name = f"s{inside[0].switch} port {inside[0].port}"
            if number in _BUSY_HOPS:
                points.append(Point(f"{name} under {mbps} Mb/s", mbps, mean, "Mb/s"))
            else:
                assert mean < 0.1, f"{name}, which carries no load: {mean} Mb/s"
    figure = Figure(figsize=(6, 5), layout="constrained")
    axes = figure.subplots()
    offered = np.array([0, max(_LOADS_MBPS)])
    axes.fill_between(
        offered, offered * (1 - TOLERANCE), offered * (1 + TOLERANCE), color="0.9", label="5 %"
    )
    axes.plot(offered, offered, color="0.6", label="theory")
    for number in _BUSY_HOPS:
        found = points[number :: len(_BUSY_HOPS)]
        label = found[0].what.partition(" under")[0]
        axes.plot([p.theory for p in found], [p.measured for p in found], "ox"[number], label=label)
    axes.set_xlabel("offered, Mb/s of frames")
    axes.set_ylabel("as probes tell it, Mb/s")
    axes.legend()
    axes.set_title("link_monitor: simulator, virtual time, time_scale 1", fontsize=10)
    return Study("link_monitor", points, figure)


STUDIES = {"ecn": ecn, "link_monitor": link_monitor}
