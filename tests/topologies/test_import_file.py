"""Others' topologies become ours: p4lang tutorials' topology.json and p4-utils' p4app.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import topologies
from topologies import Topology
from topologies.import_file import ImportFailedError, text

TUTORIALS: dict[str, Any] = {
    "hosts": {
        "h1": {
            "ip": "10.0.1.1/24",
            "mac": "08:00:00:00:01:11",
            "commands": [
                "route add default gw 10.0.1.10 dev eth0",
                "arp -i eth0 -s 10.0.1.10 08:00:00:00:01:00",
            ],
        },
        "h2": {"ip": "10.0.2.2/31", "mac": "08:00:00:00:02:22"},
    },
    "switches": {
        "s1": {"runtime_json": "pod-topo/s1-runtime.json", "program": "build/other.json"},
        "s2": {"cli_input": "pod-topo/s2-commands.txt"},
        "s3": {},
    },
    "links": [["h1", "s1-p1"], ["h2", "s1-p2"], ["s1-p3", "s2-p1", "2", 0.5], ["s2-p7", "s3-p1"]],
}

P4_UTILS: dict[str, Any] = {
    "p4_src": "p4src/l2.p4",
    "cli": True,
    "topology": {
        "assignment_strategy": "l2",
        "default": {"bw": 10},
        "links": [["h1", "s1"], ["h2", "s2", {"delay": "5ms"}], ["s1", "s2", {"bw": 20}]],
        "hosts": {"h1": {}, "h2": {}},
        "switches": {"s1": {"cli_input": "s1-commands.txt"}, "s2": {}},
    },
}


def imported(folder: Path, name: str, data: object, program: Path | None = None) -> Topology:
    source = folder / name
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(json.dumps(data))
    out = folder / "mine" / "net.yaml"
    out.parent.mkdir(exist_ok=True)
    out.write_text(text(source, out, program))
    return topologies.load(out)


@pytest.fixture
def tutorial(tmp_path: Path) -> Path:
    for name in ("pod-topo/s1-runtime.json", "pod-topo/s2-commands.txt", "basic.p4"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "solution").mkdir()
    (tmp_path / "solution" / "other.p4").write_text("")
    return tmp_path


def test_a_tutorials_topology_keeps_its_names_ports_and_files(tutorial: Path) -> None:
    (tutorial / "other.p4").write_text("")
    found = imported(tutorial, "pod-topo/topology.json", TUTORIALS, tutorial / "basic.p4")
    assert found.time_scale == 1
    h1, h2 = found.hosts
    assert (str(h1.address), h1.mac, str(h1.gateway)) == (
        *("10.0.1.1/24", "08:00:00:00:01:11"),
        "10.0.1.10",
    )
    assert (str(h2.address), str(h2.gateway)) == ("10.0.2.2/31", "10.0.2.3")
    assert found.own.commands_of("h1") == ("arp -i h1-eth0 -s 10.0.1.10 08:00:00:00:01:00",)
    assert found.own.controller == "none" and not found.own.static_arp
    files = {
        name: (found.own.program_of(name), found.own.entries_of(name))
        for name in ("s1", "s2", "s3")
    }
    resolved = {
        name: tuple(None if path is None else path.resolve() for path in paths)
        for name, paths in files.items()
    }
    assert resolved == {
        "s1": (tutorial / "other.p4", tutorial / "pod-topo/s1-runtime.json"),
        "s2": (tutorial / "basic.p4", tutorial / "pod-topo/s2-commands.txt"),
        "s3": (tutorial / "basic.p4", None),
    }
    slow = found.link_at("s1", 3)
    assert (slow.rate_bps, slow.delay_ps) == (500_000, 2 * 10**9)
    assert str(found.peer("s2", 7)) == "s3:1"
    assert [each.device_id for each in found.switches] == [0, 1, 2]


def test_a_program_beside_the_one_given_comes_first(tutorial: Path) -> None:
    (tutorial / "other.p4").write_text("")
    program = tutorial / "solution" / "other.p4"
    found = imported(tutorial, "pod-topo/topology.json", TUTORIALS, program)
    path = found.own.program_of("s1")
    assert path is not None and path.resolve() == program


@pytest.mark.parametrize(
    ("strategy", "addresses"),
    [
        ("l2", ["10.0.0.1/16 via 10.0.255.254", "10.0.0.2/16 via 10.0.255.254"]),
        ("mixed", ["10.0.1.1/24 via 10.0.1.254", "10.0.2.2/24 via 10.0.2.254"]),
        ("l3", ["10.1.1.2/24 via 10.1.1.1", "10.2.2.2/24 via 10.2.2.1"]),
    ],
)
def test_p4_utils_hosts_get_the_addresses_of_its_strategies(
    tmp_path: Path, strategy: str, addresses: list[str]
) -> None:
    (tmp_path / "p4src").mkdir()
    for name in ("p4src/l2.p4", "s1-commands.txt"):
        (tmp_path / name).write_text("")
    data = P4_UTILS | {"topology": P4_UTILS["topology"] | {"assignment_strategy": strategy}}
    found = imported(tmp_path, "p4app.json", data)
    assert [f"{host.address} via {host.gateway}" for host in found.hosts] == addresses
    first = ":".join(f"{byte:02x}" for byte in found.hosts[0].address.ip.packed)
    assert found.hosts[0].mac == f"00:00:{first}"
    assert found.own.static_arp
    assert [str(found.peer("s1", port)) for port in (1, 2)] == ["h1", "s2:2"]
    assert found.link_at("s1", 2).rate_bps == 20_000_000
    assert found.link_at("h2").delay_ps == 5 * 10**9
    assert found.link_at("h2").rate_bps == 10_000_000


def changed(data: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return data | parts


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "neither tutorials' topology.json"),
        ({"hosts": {}}, "neither tutorials' topology.json"),
        (changed(TUTORIALS, links=[["h1", "s9-p1"]]), "links[0]: there is no node 's9'"),
        (changed(TUTORIALS, links=[["h1", "s1"]]), "links[0]: 's1' needs a port: s1-p1"),
        (changed(TUTORIALS, links=[["h1"]]), "links[0]: ['h1'] is not a link"),
        (changed(TUTORIALS, links=[["h1", "s1-p1", "soon"]]), "'soon' is not a delay"),
        (changed(TUTORIALS, links=[["h1", "s1-p1", 0, "1"]]), "'1' is not a bandwidth in Mb/s"),
        (changed(TUTORIALS, switches={"Switch-1": {}}), "'Switch-1' can't be a name here"),
        (changed(TUTORIALS, switches=7), "switches must be an object of objects"),
        (
            changed(TUTORIALS, switches={"s1": {}, "s2": {}, "s3": {"runtime_json": "no.json"}}),
            "entries: no.json: no such file there",
        ),
        (
            {"topology": P4_UTILS["topology"] | {"assignment_strategy": "l4"}},
            "'l4' is not known; available: manual, l2, mixed, l3",
        ),
        (
            {"topology": P4_UTILS["topology"] | {"assignment_strategy": "manual"}},
            "topology.hosts.h1 has no ip",
        ),
        ({"topology": P4_UTILS["topology"] | {"links": [["h1", "s1"]]}}, "hosts.h2 has no link"),
    ],
)
def test_what_does_not_fit_is_one_error(tutorial: Path, data: object, said: str) -> None:
    (tutorial / "s1-commands.txt").write_text("")
    with pytest.raises(ImportFailedError) as caught:
        imported(tutorial, "topology.json", data, tutorial / "basic.p4")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_several_programs_or_none_want_to_be_chosen(tmp_path: Path) -> None:
    data = {"hosts": {"h1": {"ip": "10.0.0.1/24"}}, "switches": ["s1"], "links": [["h1", "s1-p1"]]}
    with pytest.raises(ImportFailedError, match="there is no P4 program beside it: --p4 FILE"):
        imported(tmp_path / "a/b/c/d", "topology.json", data)
    for name in ("one.p4", "two.p4"):
        (tmp_path / name).write_text("")
    with pytest.raises(ImportFailedError, match=r"which program\? .* has one.p4, two.p4"):
        imported(tmp_path, "topology.json", data)


def test_an_import_has_bmv2s_units_and_the_controllers_port(tutorial: Path) -> None:
    (tutorial / "other.p4").write_text("")
    network = TUTORIALS | {
        "switches": {
            name: given | {"cpu_port": "510"} for name, given in TUTORIALS["switches"].items()
        }
    }
    found = imported(tutorial, "pod-topo/topology.json", network, tutorial / "basic.p4")
    assert (found.own.bmv2_units, found.own.cpu_port) == (True, 510)
    network["switches"]["s2"] = network["switches"]["s2"] | {"cpu_port": 400}
    with pytest.raises(ImportFailedError, match="all switches have one here, not 400 and 510"):
        imported(tutorial, "pod-topo/topology.json", network, tutorial / "basic.p4")
    network["switches"] = {name: {"cpu_port": "2"} for name in TUTORIALS["switches"]}
    with pytest.raises(ImportFailedError, match="cpu_port: 2 must be from 255 to 510"):
        imported(tutorial, "pod-topo/topology.json", network, tutorial / "basic.p4")
