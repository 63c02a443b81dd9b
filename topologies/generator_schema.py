"""What a generator may be given, one class a generator.

generator: two_dc                          every parameter of the fabric by its name
link: {rate: 400Gbps, delay: 500ns, ...}   every link, unless
host_link: {rate: 200Gbps}                 ... it leads to a host
long_link: {length: 100km}                 ... it is of a kind that the generator knows
overrides:
  - {between: [s1, s3], rate: 100Gbps}     ... or joins these two nodes
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from topologies.event_schema import EventEntry
from topologies.fields import CommonFile, Count, CountOrNone, LinkSettings

MAX_PLANES = 8  # interfaces of a card


class Override(LinkSettings):
    """Settings of the link or links between two nodes of a generated fabric."""

    between: Annotated[list[str], Field(min_length=2, max_length=2)]


class GeneratedFile(CommonFile):
    """What every generator takes."""

    link: LinkSettings
    host_link: LinkSettings = LinkSettings()
    overrides: list[Override] = Field(default=[])
    events: list[EventEntry] = Field(default=[])


class SingleFile(GeneratedFile):
    """One switch with hosts."""

    generator: Literal["single"]
    hosts: Count


class LeafSpineFile(GeneratedFile):
    """A two-level fabric: each leaf has `links_per_spine` links to every spine."""

    generator: Literal["leaf_spine"]
    spines: Count
    leaves: Count
    hosts_per_leaf: Count
    links_per_spine: Count = 1


class RailFile(GeneratedFile):
    """Groups of hosts with one interface a rail: interface i of each host is at leaf i.

    A group has `rails` leaves, which all `spines` join. With `rail_only` rails do not meet: each is
    a network of its own, whose leaves are joined by `spines` of its own.
    """

    generator: Literal["rail"]
    groups: Count = 1
    rails: Annotated[Count, Field(ge=2)] = 8
    hosts_per_group: Count
    spines: CountOrNone
    rail_only: bool = False


class FatTreeFile(GeneratedFile):
    """A three-tier fat tree of switches with k ports: k pods, k*k/4 cores, k*k*k/4 hosts."""

    generator: Literal["fat_tree"]
    k: Annotated[Count, Field(ge=2)]
    hosts_per_leaf: Count | None = None
    core_link: LinkSettings = LinkSettings()


class PlanesFile(GeneratedFile):
    """What fabrics of several planes take: planes do not meet, each host has a port in each.

    `spines` are of each plane and pod, `cores` of each plane: they join the pods, and spine j of
    every pod meets the j-th part of them.
    """

    planes: Annotated[Count, Field(ge=2, le=MAX_PLANES)] = 2
    spines: Count
    pods: Count = 1
    cores: CountOrNone = 0
    core_link: LinkSettings = LinkSettings()


class DualPlaneFile(PlanesFile):
    """Planes of two tiers, or of three with `pods` and `cores`, that do not meet.

    Every host has one interface in each plane. `leaves` are of each plane and pod.
    """

    generator: Literal["dual_plane"]
    leaves: Count
    hosts_per_leaf: Count


class HpnFile(PlanesFile):
    """A fabric as Alibaba's HPN 7.0: rails, a leaf of each plane for each, and separate planes.

    A host is a NIC with a port in each plane. Of each server in a segment NIC r is at the leaves of
    rail r, one in each plane (dual ToR); `spines` join all leaves of a plane and pod. `segments`
    are of each pod. Qian et al., "Alibaba HPN", SIGCOMM 2024.
    """

    generator: Literal["hpn"]
    segments: Count = 1
    servers_per_segment: Count
    rails: Count = 8


class CentresFile(GeneratedFile):
    """What fabrics of several leaf-spine data centres take; counts are of each centre."""

    spines: Count
    leaves: Count
    hosts_per_leaf: Count
    borders: Count = 1
    border_link: LinkSettings = LinkSettings()
    long_link: LinkSettings


class TwoDcFile(CentresFile):
    """Two leaf-spine data centres; border n of the one has a long link to border n of the other."""

    generator: Literal["two_dc"]


class BetweenCentres(LinkSettings):
    """Settings of the long links between two data centres, which count from 1."""

    between: Annotated[list[Count], Field(min_length=2, max_length=2)]


class DataCentresFile(CentresFile):
    """Leaf-spine data centres in a line or a ring, or each joined to all others.

    Border n of a centre has a long link to border n of each centre that it is joined to. Three in a
    ring are a triangle. `long_links`: what is otherwise between two of them.
    """

    generator: Literal["data_centres"]
    centres: Annotated[Count, Field(ge=2)]
    shape: Literal["line", "ring", "full"] = "ring"
    long_links: list[BetweenCentres] = Field(default=[])


AnyGenerated = (
    SingleFile
    | LeafSpineFile
    | RailFile
    | FatTreeFile
    | DualPlaneFile
    | HpnFile
    | TwoDcFile
    | DataCentresFile
)

GENERATORS: dict[str, type[AnyGenerated]] = {
    "single": SingleFile,
    "leaf_spine": LeafSpineFile,
    "rail": RailFile,
    "fat_tree": FatTreeFile,
    "dual_plane": DualPlaneFile,
    "hpn": HpnFile,
    "two_dc": TwoDcFile,
    "data_centres": DataCentresFile,
}
