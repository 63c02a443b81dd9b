"""From the `events` of a topology file to elementary events, and from those to calls of switches.

    events of the file -> Event (links found, flaps unrolled; fabric time) -> Call (real time)

`calls` is the one place where events meet `time_scale`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from topologies.errors import FieldPath, did_you_mean
from topologies.event_model import Do, Event
from topologies.event_schema import EventEntry
from topologies.model import Endpoint, Link, Topology
from topologies.planes import Planes

Report = Callable[[FieldPath, str], None]

_SHARE_BITS = 32
_ENDS = {"kill": Do.REVIVE, "drain": Do.UNDRAIN}
"""What ends something that lasts, where that is not UP."""
_PLANE = "plane "
"""May stand before a plane's name."""
_PAIR = re.compile(r"([^-:]+(?::[0-9]+)?)-([^-:]+(?::[0-9]+)?)")


@dataclass(frozen=True)
class LinksCall:
    """Links that go down or come up, `at_ns` real nanoseconds after the start."""

    at_ns: int
    says: str
    links: tuple[Link, ...]
    up: bool


@dataclass(frozen=True)
class PortCall:
    """A port whose link changes, `at_ns` real nanoseconds after the start.

    `arguments` are those of `softswitch.diagnostics.DiagnosticsClient.set_link`, in real time.
    """

    at_ns: int
    says: str
    switch: str
    port: int
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class SwitchCall:
    """A switch that ends, or is started again, `at_ns` real nanoseconds after the start."""

    at_ns: int
    says: str
    switch: str
    up: bool


@dataclass(frozen=True)
class DrainCall:
    """Hosts' interfaces that are drained, or no longer, `at_ns` real nanoseconds after the start.

    Queue pairs over planes send nothing new by them; what is on the way arrives.
    """

    at_ns: int
    says: str
    ends: tuple[Endpoint, ...]
    on: bool


Call = LinksCall | PortCall | SwitchCall | DrainCall


def build_events(
    entries: Sequence[EventEntry],
    links: Sequence[Link],
    switches: set[str],
    report: Report,
    planes: Planes | None = None,
) -> tuple[Event, ...]:
    """Return the elementary events in order of time; `report` gets every mistake and its place.

    `planes`: those of the topology; None: not known yet, and entries on planes are passed over.
    """
    events: list[Event] = []
    for i, entry in enumerate(entries):
        where = _Place(links, switches, i, report)
        if entry.plane is not None and planes is None:
            continue
        found = where.of(entry, planes)
        if found and where.fits(entry, found):
            events += _unrolled(entry, found, links)
    return tuple(sorted(events, key=lambda event: event.at_ps))  # stable: the file's order


class _Place:
    """Finds what an entry is about."""

    def __init__(
        self, links: Sequence[Link], switches: set[str], number: int, report: Report
    ) -> None:
        self._links = links
        self._switches = switches
        self._number = number
        self._tell = report

    def _report(self, key: str, message: str) -> None:
        self._tell(("events", self._number, key), message)

    def of(self, entry: EventEntry, planes: Planes | None) -> tuple[int, ...]:
        """Return the numbers of an entry's links; none after a report."""
        if entry.plane is not None and planes is not None:
            return self.of_plane(entry.plane, planes)
        return self.of_switch(entry.switch) if entry.link is None else self.of_link(entry.link)

    def of_plane(self, name: str, planes: Planes) -> tuple[int, ...]:
        """Return the links into a plane, of hosts that have others, too."""
        if not planes.planes:
            self._report("plane", "there are no planes: no host has interfaces that do not meet")
            return ()
        try:
            plane = planes.named(name.removeprefix(_PLANE))
        except KeyError:
            names = [plane.name for plane in planes.planes]
            hint = did_you_mean(name, names) or f"; available: {', '.join(names)}"
            self._report("plane", f"no plane is called {name!r}{hint}")
            return ()
        count = self._interfaces()
        ends = {part.end for part in plane.interfaces if count[part.host] > 1}
        return tuple(i for i, link in enumerate(self._links) if {link.a, link.b} & ends)

    def _interfaces(self) -> Counter[str]:
        """Return how many links each node has."""
        return Counter(end.node for link in self._links for end in (link.a, link.b))

    def of_switch(self, name: str | None) -> tuple[int, ...]:
        if name not in self._switches:
            hint = did_you_mean(str(name), self._switches)
            self._report("switch", f"no switch is called {name!r}{hint}")
            return ()
        found = tuple(i for i, link in enumerate(self._links) if name in (link.a.node, link.b.node))
        if not found:
            self._report("switch", f"{name} has no links")
        return found

    def of_link(self, text: str) -> tuple[int, ...]:
        match = _PAIR.fullmatch(text.replace(" ", ""))
        if match is None:
            self._report(
                "link", f"{text!r} is not a link: write s1-s3, or s1:3-s3:1 with its ports"
            )
            return ()
        ends = match.groups()
        nodes = {end.node for link in self._links for end in (link.a, link.b)}
        for end in ends:
            node = end.partition(":")[0]
            if node not in nodes:
                self._report("link", f"no link leads to {node!r}{did_you_mean(node, nodes)}")
                return ()
        found = tuple(i for i, link in enumerate(self._links) if _joins(link, *ends))
        if not found:
            self._report("link", f"there is no link between {ends[0]} and {ends[1]}")
        if len(found) > 1:
            first = self._links[found[0]]
            named = f"{_with_port(first.a)}-{_with_port(first.b)}"
            self._report("link", f"{len(found)} links join them: name the ports, as {named}")
            return ()
        return found

    def fits(self, entry: EventEntry, found: tuple[int, ...]) -> bool:
        if entry.do in (Do.DRAIN.value, Do.UNDRAIN.value) and entry.link is not None:
            return self._drains(self._links[found[0]], entry.do)
        if entry.towards is None:
            return True
        link = self._links[found[0]]
        if entry.towards not in (link.a.node, link.b.node):
            ends = f"{link.a.node} or {link.b.node}"
            self._report("towards", f"{entry.towards!r} is not an end of the link: it has {ends}")
            return False
        sender = link.b if entry.towards == link.a.node else link.a
        shaped = entry.rate is not None or entry.degraded is not None
        if shaped and sender.node not in self._switches:
            self._report("towards", f"{sender.node} is a host: its own rate can't be changed")
            return False
        return True

    def _drains(self, link: Link, do: str) -> bool:
        """Say whether a link's host can be kept from sending by it."""
        hosts = [end for end in (link.a, link.b) if end.node not in self._switches]
        if not hosts:
            self._report(
                "link",
                f"{_with_port(link.a)}-{_with_port(link.b)} joins two switches, and {do} is for "
                "links of hosts: name one, as h1:1-s3, or write plane: B",
            )
            return False
        name = hosts[0].node
        if self._interfaces()[name] == 1:
            self._report(
                "link",
                f"{name} has one interface, and could send by no other: {do} is for hosts with "
                "several",
            )
            return False
        return True


def _joins(link: Link, one: str, other: str) -> bool:
    def at(end: Endpoint, text: str) -> bool:
        return text in (end.node, _with_port(end))

    return (at(link.a, one) and at(link.b, other)) or (at(link.a, other) and at(link.b, one))


def _with_port(end: Endpoint) -> str:
    return f"{end.node}:{end.port}"


def _plane_of(entry: EventEntry) -> str:
    return f"plane {(entry.plane or '').removeprefix(_PLANE)}"


def _unrolled(entry: EventEntry, found: tuple[int, ...], links: Sequence[Link]) -> list[Event]:
    where = entry.link or (f"switch {entry.switch}" if entry.switch else _plane_of(entry))
    end_ps = entry.at + (entry.lasts or 0)
    if entry.flap is not None:
        period, half = entry.flap.period, entry.flap.period // 2
        return [
            Event(entry.at + n * period + late, do, found, f"{where} flaps {do.value}")
            for n in range(entry.flap.count)
            for late, do in ((0, Do.DOWN), (half, Do.UP))
        ]
    if entry.do is not None:
        ends = _ENDS.get(entry.do, Do.UP)
        does = [(entry.at, Do(entry.do))]
        does += [] if entry.lasts is None else [(end_ps, ends)]
        return [
            Event(at_ps, do, found, f"{where} {do.value}", switch=entry.switch or "")
            for at_ps, do in does
        ]
    link = links[found[0]]
    what = ", ".join(entry.settings())
    where += f" towards {entry.towards}" if entry.towards else ""
    members = entry.impairment()
    before: dict[str, int] = dict.fromkeys(members, 0)
    rate = entry.rate
    if entry.degraded is not None:
        rate = max(1, link.rate_bps * entry.degraded >> _SHARE_BITS)
    for name, value, usual in (
        ("rate_bps", rate, link.rate_bps),
        ("delay_ps", entry.delay, link.delay_ps),
    ):
        if value is not None:
            members[name], before[name] = value, usual
    towards = entry.towards or ""
    events = [Event(entry.at, Do.SET, found, f"{where}: {what}", towards, tuple(members.items()))]
    if entry.lasts is not None:
        says = f"{where}: {what} over"
        events.append(Event(end_ps, Do.SET, found, says, towards, tuple(before.items())))
    return events


# --- calls ------------------------------------------------------------------------------------


def calls(topology: Topology) -> tuple[Call, ...]:
    """Return what the events ask of the switches, in order of (real) time."""
    return tuple(call for event in topology.events for call in _calls_of(topology, event))


def _calls_of(topology: Topology, event: Event) -> list[Call]:
    at_ns = topology.real_duration_ns(event.at_ps)
    links = tuple(topology.links[i] for i in event.links)
    if event.do in (Do.DOWN, Do.UP):
        return [LinksCall(at_ns, event.says, links, event.do is Do.UP)]
    if event.do in (Do.KILL, Do.REVIVE):
        return [SwitchCall(at_ns, event.says, event.switch, event.do is Do.REVIVE)]
    if event.do in (Do.DRAIN, Do.UNDRAIN):
        ends = tuple(end for link in links for end in (link.a, link.b))
        hosts = tuple(end for end in ends if not topology.is_switch(end.node))
        return [DrainCall(at_ns, event.says, hosts, event.do is Do.DRAIN)]
    found: list[Call] = []
    settings = dict(event.settings)
    for link in links:
        if event.do is Do.CLEAR:
            settings = {"rate_bps": link.rate_bps, "delay_ps": link.delay_ps}
        for port, arguments in _ends(topology, link, event.towards, settings).items():
            if event.do is Do.CLEAR:
                arguments["clear"] = True
            if arguments:
                found.append(PortCall(at_ns, event.says, port.node, port.port, arguments))
    if event.do is Do.CLEAR:
        found.append(LinksCall(at_ns, event.says, links, True))
    return found


def _ends(
    topology: Topology, link: Link, towards: str, settings: Mapping[str, int]
) -> dict[Endpoint, dict[str, object]]:
    """Return what each switch end of a link has to set.

    A direction belongs to the switch that sends, and where a host sends, to the switch that
    receives. A host's own rate is its own matter.
    """
    scale = topology.time_scale
    impairment = {
        name: value * scale if name.endswith("_ps") else value
        for name, value in settings.items()
        if name not in ("rate_bps", "delay_ps")
    }
    found: dict[Endpoint, dict[str, object]] = {}
    for sender, receiver in ((link.a, link.b), (link.b, link.a)):
        if towards not in ("", receiver.node):
            continue
        sends = topology.is_switch(sender.node)
        at = found.setdefault(sender if sends else receiver, {})
        if "rate_bps" in settings and sends:
            at["rate_bps"] = max(1, settings["rate_bps"] // scale)
        if "delay_ps" in settings:
            delay_ps = settings["delay_ps"] + topology.latency_ps(sender.node)
            at["tx_delay_ps" if sends else "rx_delay_ps"] = delay_ps * scale
        if impairment:
            at["send" if sends else "receive"] = impairment
    return found
