"""From the explicit form to the typed model: names resolved, ports counted, addresses given.

All mistakes that a schema can't see are found here: names used twice, links that end nowhere,
ports with two links, hosts with none, addresses that clash.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from topologies.addressing import gateway_address, host_address, host_mac, switch_mac
from topologies.document import Document
from topologies.errors import FieldPath, Problem, TopologyError, did_you_mean
from topologies.model import Endpoint, Host, Link, Role, Switch, Topology
from topologies.schema import MAX_PORT, ExplicitFile, HostEntry, LinkEntry

_END = re.compile(r"([^:]+)(?::([0-9]+))?")


@dataclass(frozen=True)
class _Attachment:
    switch: str
    port: int


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
        self.attachments: dict[str, _Attachment] = {}

    def build(self) -> Topology:
        self._check_names()
        links = self._links()
        self._find_attachments(links)
        self._stop_on_problems()
        networks = self._networks()
        hosts = self._hosts(networks)
        self._check_addresses(hosts)
        self._stop_on_problems()
        return Topology(
            name=self.name,
            switches=self._switches(networks),
            hosts=tuple(hosts),
            links=tuple(links),
            time_scale=self.spec.time_scale,
            description=self.spec.description,
        )

    def _report(self, path: FieldPath, message: str) -> None:
        self.problems.append(self.document.problem(path, message))

    def _stop_on_problems(self) -> None:
        if self.problems:
            raise TopologyError(self.problems)

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
                    message = f"{what} {end} already has a link, links[{used[end]}]"
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
                path, f"{text!r} is no link end: write s1:1 for a port of s1, h1 for a host"
            )
            return None
        node, port = match.group(1), match.group(2)
        if node in self.host_names:
            if port is not None:
                self._report(path, f"a host has one interface: write {node!r} without a port")
                return None
            return Endpoint(node, 0)
        if node not in self.switch_names:
            hint = did_you_mean(node, self.switch_names | self.host_names)
            self._report(path, f"no switch or host is called {node!r}{hint}")
            return None
        if port is None or not 1 <= int(port) <= MAX_PORT:
            self._report(path, f"{text!r} needs a port from 1 to {MAX_PORT}: write {node}:1")
            return None
        return Endpoint(node, int(port))

    def _link(self, i: int, entry: LinkEntry, a: Endpoint, b: Endpoint) -> Link | None:
        shared = self.spec.link
        rate = shared.rate if entry.rate is None else entry.rate
        delay = shared.delay if entry.delay is None else entry.delay
        queue = shared.queue if entry.queue is None else entry.queue
        if rate is None or delay is None or queue is None:
            given = {"rate": rate, "delay": delay, "queue": queue}
            missing = " and ".join(key for key, value in given.items() if value is None)
            self._report(("links", i), f"{a}-{b} has no {missing}: give it here or under 'link'")
            return None
        return Link(a, b, rate, delay, queue)

    def _find_attachments(self, links: list[Link]) -> None:
        for link in links:
            for host, switch in ((link.a, link.b), (link.b, link.a)):
                if host.node in self.host_names:
                    self.attachments[host.node] = _Attachment(switch.node, switch.port)
        if self.problems:
            return  # a link that was refused above may be the missing one
        for i, entry in enumerate(self.spec.hosts):
            if entry.name not in self.attachments:
                message = f"host {entry.name!r} has no link: add one to 'links'"
                self._report(("hosts", i), message)

    def _networks(self) -> dict[str, ipaddress.IPv4Interface]:
        """Return the gateway (address and network) of each switch that has hosts."""
        given: dict[str, ipaddress.IPv4Network] = {}
        for i, entry in enumerate(self.spec.hosts):
            if entry.address is None:
                continue
            switch = self.attachments[entry.name].switch
            network = ipaddress.IPv4Interface(entry.address).network
            if given.setdefault(switch, network) != network:
                message = f"{entry.address} is not in {given[switch]}, the network of {switch}"
                self._report(("hosts", i, "address"), message)
        self._stop_on_problems()
        with_hosts = {attachment.switch for attachment in self.attachments.values()}
        names = [entry.name for entry in self.spec.switches if entry.name in with_hosts]
        return {
            name: _last_address(given[name]) if name in given else gateway_address(1 + i)
            for i, name in enumerate(names)
        }

    def _hosts(self, gateways: dict[str, ipaddress.IPv4Interface]) -> list[Host]:
        counts: dict[str, int] = {}
        hosts: list[Host] = []
        leaves = list(gateways)
        for i, entry in enumerate(self.spec.hosts):
            at = self.attachments[entry.name]
            counts[at.switch] = counts.get(at.switch, 0) + 1
            try:
                address = self._host_address(entry, gateways[at.switch], counts[at.switch])
                host_address(1 + leaves.index(at.switch), counts[at.switch])
            except ValueError as error:
                self._report(("hosts", i), str(error))
                continue
            mac = entry.mac or host_mac(address.ip)
            gateway = gateways[at.switch].ip
            hosts.append(Host(entry.name, address, mac, gateway, at.switch, at.port))
        return hosts

    @staticmethod
    def _host_address(
        entry: HostEntry, gateway: ipaddress.IPv4Interface, count: int
    ) -> ipaddress.IPv4Interface:
        if entry.address is not None:
            return ipaddress.IPv4Interface(entry.address)
        address = gateway.network.network_address + count
        if address >= gateway.ip:
            raise ValueError(f"no address left for {entry.name!r} in {gateway.network}")
        return ipaddress.IPv4Interface((int(address), gateway.network.prefixlen))

    def _check_addresses(self, hosts: list[Host]) -> None:
        owners: dict[str, str] = {}
        networks: dict[ipaddress.IPv4Network, str] = {}
        index = {entry.name: i for i, entry in enumerate(self.spec.hosts)}
        for host in hosts:
            path: FieldPath = ("hosts", index[host.name])
            if host.address.ip in (host.gateway, host.address.network.network_address) or (
                host.address.ip == host.address.network.broadcast_address
            ):
                message = f"{host.address.ip} is taken by the gateway or the network itself"
                self._report((*path, "address"), message)
            for value, what in ((str(host.address.ip), "address"), (host.mac, "mac")):
                if value in owners:
                    self._report((*path, what), f"{value} is already {owners[value]}'s")
                owners.setdefault(value, host.name)
            for network, switch in networks.items():
                if switch != host.switch and network.overlaps(host.address.network):
                    message = f"{host.address.network} overlaps {network}, the network of {switch}"
                    self._report((*path, "address"), message)
            networks.setdefault(host.address.network, host.switch)

    def _switches(self, gateways: dict[str, ipaddress.IPv4Interface]) -> tuple[Switch, ...]:
        return tuple(
            Switch(
                name=entry.name,
                role=Role(entry.role or ("leaf" if entry.name in gateways else "spine")),
                device_id=1 + i,
                mac=switch_mac(1 + i),
                gateway=gateways.get(entry.name),
            )
            for i, entry in enumerate(self.spec.switches)
        )


def _last_address(network: ipaddress.IPv4Network) -> ipaddress.IPv4Interface:
    return ipaddress.IPv4Interface((int(network.broadcast_address) - 1, network.prefixlen))
