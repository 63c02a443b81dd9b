"""Programs, entries and hosts' commands in topology files."""

from __future__ import annotations

from pathlib import Path

import pytest

import topologies
from topologies import TopologyError
from topologies.own_program import NOTHING_OWN, entry_files

HEAD = """
time_scale: 1
link: {rate: 1Gbps, delay: 0ns, queue: 1MB}
links: [{a: h1, b: "s1:1"}, {a: h2, b: "s1:2"}, {a: h3, b: "s2:1"}, {a: "s1:3", b: "s2:2"}]
"""
NODES = "switches: [s1, s2]\nhosts: [h1, h2, h3]\n"


def load(folder: Path, text: str) -> topologies.Topology:
    path = folder / "net.yaml"
    path.write_text(HEAD + text)
    return topologies.load(path)


def files(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


def refused(folder: Path, text: str) -> str:
    with pytest.raises(TopologyError) as caught:
        load(folder, text)
    return str(caught.value)


def test_a_file_that_says_nothing_has_nothing_of_its_own(tmp_path: Path) -> None:
    assert load(tmp_path, NODES).own is NOTHING_OWN


def test_paths_are_relative_to_the_file_and_switches_may_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path, "a.p4", "b.p4", "e/s1-runtime.json", "e/s2-commands.txt", "e/README", "x.txt")
    monkeypatch.chdir("/")
    text = (
        "program: a.p4\nentries: e\nswitches: [s1, {name: s2, program: b.p4}]\nhosts: [h1, h2, h3]"
    )
    own = load(tmp_path, text).own
    assert own.program_of("s1") == tmp_path / "a.p4"
    assert own.program_of("s2") == tmp_path / "b.p4"
    assert own.entries_of("s1") == tmp_path / "e/s1-runtime.json"
    assert own.entries_of("s2") == tmp_path / "e/s2-commands.txt"
    own = load(tmp_path, "entries: {s2: x.txt}\n" + NODES).own
    assert (own.program_of("s1"), own.entries_of("s1")) == (None, None)
    assert own.entries_of("s2") == tmp_path / "x.txt"


def test_generated_fabrics_take_a_program_too(tmp_path: Path) -> None:
    files(tmp_path, "a.p4")
    path = tmp_path / "net.yaml"
    path.write_text(
        "time_scale: 1\ngenerator: single\nhosts: 2\nprogram: a.p4\narp: static\n"
        "link: {rate: 1Gbps, delay: 0ns, queue: 1MB}\n"
    )
    own = topologies.load(path).own
    assert own.program_of("s1") == tmp_path / "a.p4"
    assert own.static_arp


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("program: no.p4\n" + NODES, "no.p4: no such file in"),
        ("entries: none\n" + NODES, "no such folder"),
        ("entries: empty\n" + NODES, "no file called as s1-runtime.json or s1-commands.txt"),
        ("entries: stray\n" + NODES, "there is no switch 's9' in this topology"),
        ("entries: twice\n" + NODES, "s1 has s1-commands.txt too: keep one of the two"),
        ("entries: {s3: a.p4}\n" + NODES, "there is no switch 's3'; available: s1, s2"),
        ("entries: [a.p4]\n" + NODES, "a folder, or a file a switch"),
        ("controller: some\n" + NODES, "must be 'none' or 'fabric', not 'some'"),
        ("switches: [{name: s1, entries: gone}, s2]\nhosts: [h1, h2, h3]", "gone: no such file in"),
        (
            "entries: {s1: a.p4}\nswitches: [{name: s1, entries: a.p4}, s2]\nhosts: [h1, h2, h3]",
            "'entries' of the file gives s1 one already",
        ),
        ("switches: [s1, s2]\nhosts: [{name: h1, commands: ls}, h2, h3]", "must be a list"),
    ],
)
def test_what_does_not_fit_is_one_error_with_its_place(
    tmp_path: Path, text: str, said: str
) -> None:
    files(tmp_path, "a.p4", "stray/s9-runtime.json")
    files(tmp_path, "twice/s1-runtime.json", "twice/s1-commands.txt", "empty/README")
    found = refused(tmp_path, text)
    assert said in found
    assert found.startswith(f"{tmp_path}/net.yaml:")
    assert "\n" not in found


ONE_NET = """
hosts:
  - {name: h1, address: 10.0.0.1/24}
  - {name: h2, address: 10.0.9.2/24}
  - {name: h3, address: 10.0.0.3/24}
switches: [s1, s2]
"""


def test_without_a_controller_hosts_may_have_any_addresses(tmp_path: Path) -> None:
    assert "with 'controller: none' hosts may have any address" in refused(tmp_path, ONE_NET)
    topology = load(tmp_path, "controller: none\n" + ONE_NET)
    gateways = [str(host.gateway) for host in topology.hosts]
    assert gateways == ["10.0.0.254", "10.0.9.254", "10.0.0.254"]
    pairs = ONE_NET.replace("10.0.0.1/24", "10.0.0.1/31").replace("10.0.9.2/24", "10.0.9.2/31")
    topology = load(tmp_path, "controller: none\n" + pairs)
    assert [str(host.gateway) for host in topology.hosts] == ["10.0.0.0", "10.0.9.3", "10.0.0.254"]
    assert "at most 30 bits" in refused(tmp_path, pairs.replace("10.0.9.2/31", "10.0.0.2/31"))


def test_a_host_may_say_its_gateway(tmp_path: Path) -> None:
    given = ONE_NET.replace("10.0.9.2/24", "10.0.9.2/24, gateway: 10.0.9.7")
    assert str(load(tmp_path, "controller: none\n" + given).host("h2").gateway) == "10.0.9.7"
    wrong = given.replace("10.0.9.7", "10.1.9.7")
    said = refused(tmp_path, "controller: none\n" + wrong)
    assert "10.1.9.7 is not in 10.0.9.0/24, the host's network" in said
    said = refused(tmp_path, NODES.replace("h1,", "{name: h1, gateway: 10.0.1.7},"))
    assert "the gateway is 10.0.1.254 here; with 'controller: none' it may be given" in said
    wrong = given.replace("10.0.9.7", "ten")
    assert "'ten' is not a gateway's address" in refused(tmp_path, "controller: none\n" + wrong)


def test_folders_of_entries_are_found_by_the_names_that_others_use(tmp_path: Path) -> None:
    files(tmp_path, "s1-runtime.json", "s10-commands.txt", "topology.json")
    assert {name: path.name for name, path in entry_files(tmp_path, ["s1", "s10"]).items()} == {
        "s1": "s1-runtime.json",
        "s10": "s10-commands.txt",
    }


def test_units_and_cpu_port_are_those_of_switches_that_nobody_plans_for(tmp_path: Path) -> None:
    own = load(tmp_path, "controller: none\nunits: bmv2\ncpu_port: 510\n" + NODES).own
    assert (own.bmv2_units, own.cpu_port) == (True, 510)
    own = load(tmp_path, "controller: none\n" + NODES).own
    assert (own.bmv2_units, own.cpu_port) == (False, 255)
    for key in ("units: bmv2", "cpu_port: 300"):
        said = refused(tmp_path, f"{key}\n{NODES}")
        assert "say 'controller: none' too" in said, said
    said = refused(tmp_path, "controller: none\ncpu_port: 511\n" + NODES)
    assert "must be at most 510, not 511" in said
    said = refused(tmp_path, "controller: none\nunits: ns\n" + NODES)
    assert "must be 'weft' or 'bmv2', not 'ns'" in said


def test_a_generated_network_has_them_too(tmp_path: Path) -> None:
    path = tmp_path / "net.yaml"
    path.write_text(
        "time_scale: 1\ngenerator: single\nhosts: 2\n"
        "link: {rate: 1Gbps, delay: 0ns, queue: 1MB}\n"
        "controller: none\nunits: bmv2\ncpu_port: 400\n"
    )
    own = topologies.load(path).own
    assert (own.bmv2_units, own.cpu_port) == (True, 400)


def test_switches_have_device_ids_from_one_or_those_that_are_given(tmp_path: Path) -> None:
    def given(s1: str, s2: str) -> str:
        return f"controller: none\nswitches: [{s1}, {s2}]\nhosts: [h1, h2, h3]\n"

    def ids(text: str) -> list[int]:
        return [each.device_id for each in load(tmp_path, text).switches]

    assert ids(NODES) == [1, 2]
    assert ids(given("{name: s1, device_id: 0}", "{name: s2, device_id: 7}")) == [0, 7]
    said = refused(tmp_path, given("{name: s1, device_id: 2}", "s2"))
    assert "device 2 is already s1's" in said
    said = refused(tmp_path, given("{name: s1, device_id: -1}", "s2"))
    assert "must be at least 0, not -1" in said
    text = given("{name: s1, device_id: 5}", "s2").replace("controller: none\n", "")
    assert "say 'controller: none' too" in refused(tmp_path, text)
