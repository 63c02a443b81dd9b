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

    A group has `rails` leaves; without spines (rail-only) rails do not meet.
    """

    generator: Literal["rail"]
    groups: Count = 1
    rails: Annotated[Count, Field(ge=2)] = 8
    hosts_per_group: Count
    spines: CountOrNone


class FatTreeFile(GeneratedFile):
    """A three-tier fat tree of switches with k ports: k pods, k*k/4 cores, k*k*k/4 hosts."""

    generator: Literal["fat_tree"]
    k: Annotated[Count, Field(ge=2)]
    hosts_per_leaf: Count | None = None
    core_link: LinkSettings = LinkSettings()


class DualPlaneFile(GeneratedFile):
    """Two leaf-spine planes that do not meet; every host has one interface in each."""

    generator: Literal["dual_plane"]
    spines: Count
    leaves: Count
    hosts_per_leaf: Count


class TwoDcFile(GeneratedFile):
    """Two leaf-spine data centres; border n of the one has a long link to border n of the other."""

    generator: Literal["two_dc"]
    spines: Count
    leaves: Count
    hosts_per_leaf: Count
    borders: Count = 1
    border_link: LinkSettings = LinkSettings()
    long_link: LinkSettings


AnyGenerated = SingleFile | LeafSpineFile | RailFile | FatTreeFile | DualPlaneFile | TwoDcFile

GENERATORS: dict[str, type[AnyGenerated]] = {
    "single": SingleFile,
    "leaf_spine": LeafSpineFile,
    "rail": RailFile,
    "fat_tree": FatTreeFile,
    "dual_plane": DualPlaneFile,
    "two_dc": TwoDcFile,
}
