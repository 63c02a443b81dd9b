"""The Lingjun dataset's topo.csv as a topology: lines of its format, none of its data."""

from __future__ import annotations

from pathlib import Path

import pytest

import topologies
from topologies import lingjun
from topologies.import_file import ImportFailedError
from topologies.lingjun import Sizes
from topologies.model import Role
from topologies.reach import Reach

TOPO = """\
ip,DSW,PSW,ASW
aa01,G1,P1,S1
aa02,G1,P2,S1
aa03,G1,P1,S2
aa04,G1,P1,S1
"""


def made(tmp_path: Path, text: str = TOPO, **given: object) -> topologies.Topology:
    source = tmp_path / "topo.csv"
    source.write_text(text)
    return topologies.loads(lingjun.text(source, tmp_path / "net.yaml", Sizes.of(given)))


def test_hosts_are_where_the_dataset_has_them(tmp_path: Path) -> None:
    topology = made(tmp_path, spines=2, cores=3, nics=2, rate="100Gbps")
    assert [host.switch for host in topology.hosts] == ["p1s1", "p2s1", "p1s2", "p1s1"]
    assert all(len(host.interfaces) == 2 for host in topology.hosts)
    counts = {role: len(list(topology.switches_with(role))) for role in Role}
    assert counts == {Role.LEAF: 3, Role.SPINE: 4, Role.CORE: 6, Role.BORDER: 0}
    assert {link.rate_bps for link in topology.links} == {100 * 10**9}
    # Each core joins one spine of each pod, and those of one place have three in common.
    peers = [{p.peer.node for p in topology.ports_of(f"c{n}")} for n in range(1, 7)]
    assert peers == [{"a1", "a3"}] * 3 + [{"a2", "a4"}] * 3
    assert {topology.switch(name).group for name in ("p1s1", "p1s2", "a1", "a2")} == {"G1P1"}
    assert lingjun.hosts(tmp_path / "topo.csv")["aa03"] == "h3"


def test_one_pod_has_no_cores_and_groups_do_not_meet(tmp_path: Path) -> None:
    one = made(tmp_path, TOPO.replace("aa02,G1,P2,S1\n", ""))
    assert not list(one.switches_with(Role.CORE))
    two = made(tmp_path, TOPO.replace("aa02,G1", "aa02,G2"))
    interfaces = list(two.interfaces())
    reach = Reach(two)
    assert not reach.meet(interfaces[0], interfaces[1]) and reach.meet(interfaces[0], interfaces[2])


def test_labels_that_can_be_no_names_are_numbered(tmp_path: Path) -> None:
    topology = made(tmp_path, TOPO.replace("P1", "pod-number-1"))
    assert [switch.name for switch in topology.switches_with(Role.LEAF)] == ["l1", "l2", "l3"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ip,DSW,PSW\na,G1,P1\n", "topo.csv:1: no column ASW"),
        ("ip,DSW,PSW,ASW\n", "there is no host in it"),
        (TOPO + "aa01,G1,P1,S9\n", "topo.csv:6: aa01 has a row already"),
        (TOPO + "aa09,G1,,S9\n", "topo.csv:6: a host needs ip, DSW, PSW, ASW"),
    ],
)
def test_what_is_wrong_in_the_file_is_said(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ImportFailedError, match=says):
        made(tmp_path, text)


def test_sizes_that_are_wrong_are_said() -> None:
    with pytest.raises(ValueError, match="nothing is called 'spine' here; did you mean 'spines'"):
        Sizes.of({"spine": 2})
    with pytest.raises(ValueError, match="cores is a number from 1 to 254, not 0"):
        Sizes.of({"cores": 0})
    with pytest.raises(ValueError, match="nics is a number from 1 to 254, not 255"):
        Sizes.of({"nics": 255})
    with pytest.raises(ValueError, match="'fast' is not a rate: write a number with a unit"):
        Sizes.of({"rate": "fast"})
