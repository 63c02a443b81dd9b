"""From the explicit form to the typed model: names resolved, ports counted, addresses given.

All mistakes that a schema can't see are found here: names used twice, links that end nowhere,
ports with two links, hosts with none, classes that share a DSCP. Addresses are `address_plan`'s.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from topologies.address_plan import AddressPlan, Attachment
from topologies.addressing import switch_mac
from topologies.document import Document
from topologies.errors import FieldPath, Problem, TopologyError, did_you_mean
from topologies.event_model import Event
from topologies.events import build_events
from topologies.extensions import Settings
from topologies.fields import MAX_PORT, ClassFields
from topologies.model import DEFAULT_MTU, Endpoint, Host, Link, Role, Switch, Topology, TrafficClass
from topologies.own_program import build_own_program
from topologies.planes import planes_of
from topologies.schema import ExplicitFile, LinkEntry
from topologies.tickers import Ticker, TickerRule

MAX_INTERFACES = 64  # of a host

_END = re.compile(r"([^:]+)(?::([0-9]+))?")


def build(name: str, spec: ExplicitFile, document: Document) -> Topology:
    """Build the model. `document` gives positions to messages. Raises TopologyError."""
    return _Builder(name, spec, document).build()


class _Builder:
    def __init__(self, name: str, spec: ExplicitFile, document: Document) -> None:
        self.name = name
        self.spec = spec
        self.document = document
        self.problems: list[Problem] = []
        self.switch_names = {entry.name for entry in spec.switches}
        self.host_names = {entry.name for entry in spec.hosts}

    def build(self) -> Topology:
        self._check_names()
        links = self._links()
        are_whole = not self.problems  # a link that was refused may be one that an event names
        classes = self._classes()
        self._stock_nics()
        tickers = self._tickers()
        self._check_device_ids()
        attachments = self._attachments(links)
        events = self._events(links) if are_whole else ()
        own = build_own_program(self.spec, self.document.file, self._report)
        self._stop_on_problems()
        plan = AddressPlan(self.spec, attachments, self._report)
        networks = plan.networks()
        self._stop_on_problems()
        hosts = [
            Host(entry.name, tuple(plan.interfaces(i)), entry.group)
            for i, entry in enumerate(self.spec.hosts)
        ]
        self._stop_on_problems()
        topology = Topology(
            name=self.name,
            switches=tuple(
                Switch(
                    name=entry.name,
                    role=Role(entry.role or ("leaf" if entry.name in networks else "spine")),
                    device_id=self._device_id(i),
                    mac=switch_mac(1 + i),
                    gateway=networks.get(entry.name),
                    group=entry.group,
                    latency_ps=self.spec.latency if entry.latency is None else entry.latency,
                )
                for i, entry in enumerate(self.spec.switches)
            ),
            hosts=tuple(hosts),
            links=tuple(links),
            time_scale=self.spec.time_scale,
            description=self.spec.description,
            classes=classes,
            events=events,
            stock_nics=self._stock_nics(),
            settings=Settings.said(self.spec, "topology"),
            tickers=tickers,
            own=own,
        )
        return self._with_planes(topology)

    def _with_planes(self, topology: Topology) -> Topology:
        """Return it with events on planes, too, which are found in the whole graph."""
        if not any(entry.plane is not None for entry in self.spec.events):
            return topology
        events = build_events(
            self.spec.events, topology.links, self.switch_names, self._report, planes_of(topology)
        )
        self._stop_on_problems()
        return replace(topology, events=events)

    def _report(self, path: FieldPath, message: str) -> None:
        self.problems.append(self.document.problem(path, message))

    def _stop_on_problems(self) -> None:
        if self.problems:
            raise TopologyError(self.problems)

    def _device_id(self, number: int) -> int:
        given = self.spec.switches[number].device_id
        return 1 + number if given is None else given

    def _check_device_ids(self) -> None:
        owners: dict[int, str] = {}
        for i, entry in enumerate(self.spec.switches):
            path: FieldPath = ("switches", i, "device_id")
            if entry.device_id is not None and self.spec.controller != "none":
                self._report(path, "'device_id' is for switches that the fabric does not plan for: "
                             "say 'controller: none' too")  # fmt: skip
            number = self._device_id(i)
            if number in owners:
                self._report(path, f"device {number} is already {owners[number]}'s")
            owners.setdefault(number, entry.name)

    def _check_names(self) -> None:
        seen: dict[str, str] = {}
        named = {
            "switches": [entry.name for entry in self.spec.switches],
            "hosts": [entry.name for entry in self.spec.hosts],
        }
        for kind, names in named.items():
            for i, name in enumerate(names):
                if name in seen:
                    message = f"the name {name!r} is taken by {seen[name]}"
                    self._report((kind, i), message + ": every node needs its own")
                seen.setdefault(name, f"{kind}[{i}]")

    def _links(self) -> list[Link]:
        links: list[Link] = []
        used: dict[Endpoint, int] = {}
        for i, entry in enumerate(self.spec.links):
            a = self._end(entry.a, ("links", i, "a"))
            b = self._end(entry.b, ("links", i, "b"))
            for end, side in ((a, "a"), (b, "b")):
                if end is None:
                    continue
                if end in used:
                    what = "host" if end.node in self.host_names else "port"
                    hint = f"; its next interface is {end.node}:1" if what == "host" else ""
                    message = f"{what} {end} already has a link, links[{used[end]}]{hint}"
                    self._report(("links", i, side), message)
                used.setdefault(end, i)
            if a is None or b is None:
                continue
            if a.node == b.node:
                self._report(("links", i), f"both ends are at {a.node}: a link joins two nodes")
            elif a.node in self.host_names and b.node in self.host_names:
                self._report(("links", i), "a link of two hosts: one end must be a switch")
            link = self._link(i, entry, a, b)
            if link is not None:
                links.append(link)
        return links

    def _end(self, text: str, path: FieldPath) -> Endpoint | None:
        match = _END.fullmatch(text)
        if match is None:
            self._report(
                path, f"{text!r} is not a link end: write s1:1 for a port of s1, h1 for a host"
            )
            return None
        node, port = match.group(1), match.group(2)
        if node in self.host_names:
            number = int(port or 0)
            if number >= MAX_INTERFACES:
                self._report(path, f"a host has interfaces from 0 to {MAX_INTERFACES - 1}")
                return None
            return Endpoint(node, number)
        if node not in self.switch_names:
            hint = did_you_mean(node, self.switch_names | self.host_names)
            self._report(path, f"no switch or host is called {node!r}{hint}")
            return None
        if port is None or not 1 <= int(port) <= MAX_PORT:
            self._report(path, f"{text!r} needs a port from 1 to {MAX_PORT}: write {node}:1")
            return None
        return Endpoint(node, int(port))

    def _link(self, i: int, entry: LinkEntry, a: Endpoint, b: Endpoint) -> Link | None:
        given = entry.over(self.spec.link)
        needed = {"rate": given.rate, "delay": given.delay_ps, "queue": given.queue}
        missing = " and ".join(key for key, value in needed.items() if value is None)
        if given.rate is None or given.delay_ps is None or given.queue is None:
            self._report(("links", i), f"{a}-{b} has no {missing}: give it here or under 'link'")
            return None
        mtu = DEFAULT_MTU if given.mtu is None else given.mtu
        return Link(a, b, given.rate, given.delay_ps, given.queue, mtu)

    def _attachments(self, links: list[Link]) -> Mapping[str, tuple[Attachment, ...]]:
        """Return where each interface of each host is attached, in the interfaces' order."""
        found: dict[str, dict[int, Attachment]] = {}
        for link in links:
            for host, switch in ((link.a, link.b), (link.b, link.a)):
                if host.node in self.host_names:
                    at = Attachment(switch.node, switch.port)
                    found.setdefault(host.node, {})[host.port] = at
        if self.problems:
            return {}  # a link that was refused above may be the missing one
        for i, entry in enumerate(self.spec.hosts):
            numbers = found.get(entry.name, {})
            if not numbers:
                message = f"host {entry.name!r} has no link: add one to 'links'"
                self._report(("hosts", i), message)
                continue
            missing = next(number for number in range(MAX_INTERFACES + 1) if number not in numbers)
            if missing < len(numbers):
                end = Endpoint(entry.name, missing)
                message = f"no link for {end}: a host's interfaces count from 0 without a gap"
                self._report(("hosts", i), message)
            if len(entry.interfaces) > len(numbers):
                number = len(numbers)
                message = f"no link for {entry.name}:{number}: add one to 'links'"
                self._report(("hosts", i, "interfaces", number), message)
        return {
            name: tuple(numbers[number] for number in sorted(numbers))
            for name, numbers in found.items()
        }

    def _events(self, links: list[Link]) -> tuple[Event, ...]:
        return build_events(self.spec.events, links, self.switch_names, self._report)

    def _stock_nics(self) -> frozenset[str]:
        for i, name in enumerate(self.spec.stock_nics):
            if name not in self.host_names:
                hint = did_you_mean(name, self.host_names)
                self._report(("stock_nics", i), f"no host {name!r}{hint}")
        return frozenset(self.spec.stock_nics)

    def _tickers(self) -> tuple[TickerRule, ...]:
        for i, entry in enumerate(self.spec.tickers):
            for k, name in enumerate(entry.switches):
                if name not in self.switch_names:
                    hint = did_you_mean(name, self.switch_names)
                    self._report(("tickers", i, "switches", k), f"no switch {name!r}{hint}")
        return tuple(
            TickerRule(Ticker(entry.period, entry.packet, entry.start), tuple(entry.switches))
            for entry in self.spec.tickers
        )

    def _classes(self) -> tuple[TrafficClass, ...]:
        owners: dict[int, str] = {}
        for name, entry in self.spec.classes.items():
            for dscp in entry.dscp:
                if dscp in owners:
                    whose = "twice" if owners[dscp] == name else f"already in {owners[dscp]!r}"
                    message = f"DSCP {dscp} is {whose}: a packet has one class"
                    self._report(("classes", name, "dscp"), message)
                owners.setdefault(dscp, name)
        return tuple(_traffic_class(name, entry) for name, entry in self.spec.classes.items())


def _traffic_class(name: str, entry: ClassFields) -> TrafficClass:
    return TrafficClass(
        name,
        tuple(entry.dscp),
        entry.queue,
        entry.lossless,
        entry.weight,
        Settings.said(entry, "class"),
    )
