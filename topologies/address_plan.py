"""Which address each interface and each gateway gets: chosen by place, unless the file says it.

A switch with hosts has one network; all interfaces attached to it are in that network. Addresses
are refused that are given twice, belong to another switch's network or name no host. Where nobody
plans routes (`controller: none`) any host may be in any network.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network

from topologies.addressing import MAX_LEAVES, gateway_address, host_mac
from topologies.errors import FieldPath
from topologies.model import Interface
from topologies.schema import ExplicitFile, InterfaceEntry

_LONGEST_OF_A_LEAF = 30


@dataclass(frozen=True)
class Attachment:
    """Where a host's interface is plugged in."""

    switch: str
    port: int


class AddressPlan:
    """The addresses of one topology: first `networks()`, then `interfaces(i)` for each host."""

    def __init__(
        self,
        spec: ExplicitFile,
        attachments: Mapping[str, tuple[Attachment, ...]],
        report: Callable[[FieldPath, str], None],
    ) -> None:
        self.spec = spec
        self.attachments = attachments
        self.report = report
        self.is_free = spec.controller == "none"
        self.gateways: dict[str, IPv4Interface] = {}
        self._counts: dict[str, int] = {}
        self._owners: dict[str, str] = {}

    def networks(self) -> Mapping[str, IPv4Interface]:
        """Return the gateway (address and network) of each switch that has hosts."""
        given = self._given_networks()
        with_hosts = {at.switch for ends in self.attachments.values() for at in ends}
        names = [entry.name for entry in self.spec.switches if entry.name in with_hosts]
        if len(names) > MAX_LEAVES:
            message = f"{len(names)} switches with hosts: there are networks for {MAX_LEAVES}"
            self.report(("switches",), message)
            return {}
        self.gateways = {
            name: _last_address(given[name]) if name in given else gateway_address(1 + i)
            for i, name in enumerate(names)
        }
        if not self.is_free:
            self._check_overlaps()
        return self.gateways

    def interfaces(self, host: int) -> Iterator[Interface]:
        """Yield the interfaces of the spec's host number `host`, in order. Hosts in order, too."""
        entry = self.spec.hosts[host]
        for number, at in enumerate(self.attachments[entry.name]):
            settings = entry.settings(number)
            gateway = self.gateways[at.switch]
            if self.is_free and settings.address is not None:
                gateway = _beside(ipaddress.IPv4Interface(settings.address))
            path = self._path(host, number)
            if settings.gateway is not None:
                gateway = self._given_gateway(path, settings.gateway, gateway)
            self._counts[at.switch] = self._counts.get(at.switch, 0) + 1
            address = self._address(settings, gateway, self._counts[at.switch])
            if address is None:
                what = f"{entry.name!r}: {gateway.network}, the network of {at.switch}, is full"
                self.report(path, f"no address left for {what}")
                continue
            self._check_free(path, address, gateway)
            mac = settings.mac or host_mac(address.ip)
            for value, what in ((str(address.ip), "address"), (mac, "mac")):
                if value in self._owners:
                    self.report((*path, what), f"{value} is already {self._owners[value]}'s")
                self._owners.setdefault(value, entry.name)
            yield Interface(entry.name, number, address, mac, gateway.ip, at.switch, at.port)

    def _given_gateway(self, path: FieldPath, given: str, usual: IPv4Interface) -> IPv4Interface:
        """Return the gateway that a file gives a host; `usual`: what it would have without."""
        gateway = IPv4Interface((given, usual.network.prefixlen))
        if not self.is_free:
            message = f"the gateway is {usual.ip} here; with 'controller: none' it may be given"
            self.report((*path, "gateway"), message)
        elif gateway.network != usual.network:
            self.report(
                (*path, "gateway"), f"{given} is not in {usual.network}, the host's network"
            )
        return gateway

    def _path(self, host: int, number: int) -> FieldPath:
        listed = bool(self.spec.hosts[host].interfaces)
        return ("hosts", host, "interfaces", number) if listed else ("hosts", host)

    def _given_networks(self) -> dict[str, IPv4Network]:
        given: dict[str, IPv4Network] = {}
        for i, entry in enumerate(self.spec.hosts):
            for number, at in enumerate(self.attachments[entry.name]):
                address = entry.settings(number).address
                if address is None:
                    continue
                network = ipaddress.IPv4Interface(address).network
                others = given.setdefault(at.switch, network)
                if self.is_free:
                    continue
                if others != network or network.prefixlen > _LONGEST_OF_A_LEAF:
                    message = f"{address} is not in {others}, the network of {at.switch}"
                    if others == network:
                        message = f"{address}: a leaf's network has a prefix of at most 30 bits"
                    message += "; with 'controller: none' hosts may have any address"
                    self.report((*self._path(i, number), "address"), message)
        return given

    def _check_overlaps(self) -> None:
        # In order of their first addresses, a network that overlaps any overlaps the last one.
        ordered = sorted(self.gateways.items(), key=lambda item: item[1].network)
        clashes: dict[str, str] = {}
        widest: tuple[str, IPv4Interface] | None = None
        for name, gateway in ordered:
            if widest is not None and gateway.network.overlaps(widest[1].network):
                clashes[name] = widest[0]
                clashes[widest[0]] = name
            if widest is None or gateway.network[-1] > widest[1].network[-1]:
                widest = (name, gateway)
        for i, entry in enumerate(self.spec.hosts):
            for number, at in enumerate(self.attachments[entry.name]):
                other = clashes.get(at.switch)
                if other is None or entry.settings(number).address is None:
                    continue
                networks = self.gateways[at.switch].network, self.gateways[other].network
                message = f"{networks[0]} overlaps {networks[1]}, the network of {other}"
                self.report((*self._path(i, number), "address"), message)

    @staticmethod
    def _address(
        settings: InterfaceEntry, gateway: IPv4Interface, count: int
    ) -> IPv4Interface | None:
        if settings.address is not None:
            return IPv4Interface(settings.address)
        address = gateway.network.network_address + count
        if address >= gateway.ip:
            return None
        return IPv4Interface((int(address), gateway.network.prefixlen))

    def _check_free(self, path: FieldPath, address: IPv4Interface, gateway: IPv4Interface) -> None:
        network = address.network
        ends = [gateway.ip]
        if network.prefixlen <= _LONGEST_OF_A_LEAF:
            ends += [network.network_address, network.broadcast_address]
        if address.ip in ends:
            message = f"{address.ip} is taken by the gateway or the network itself"
            self.report((*path, "address"), message)


def _beside(address: IPv4Interface) -> IPv4Interface:
    """Return the gateway of a host: its network's last address, of two (a /31) the other one."""
    if address.network.prefixlen > _LONGEST_OF_A_LEAF:
        return IPv4Interface((int(address.ip) ^ 1, address.network.prefixlen))
    return _last_address(address.network)


def _last_address(network: IPv4Network) -> IPv4Interface:
    return IPv4Interface((int(network.broadcast_address) - 1, network.prefixlen))
