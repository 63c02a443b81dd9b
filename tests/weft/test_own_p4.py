"""A program of the user's own on a topology: every command of the prompt works with it.

               h1
               |
               s1
              /  \\
        h2 - s2 - s3 - h3
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.weft.other_clients import client
from tests.weft.prompt_lab import REPOSITORY, Lab, opened, rows

pytestmark = pytest.mark.root

EXAMPLE = REPOSITORY / "docs" / "my-own-p4"


def ping(lab: Lab, source: str = "h1", target: str = "10.0.3.1") -> bool:
    said = lab.do(f"exec {source} ping -c 1 -W 5 {target}")
    return " 0% packet loss" in said


def routes(lab: Lab, switch: str) -> list[str]:
    return [
        row[1].split()[-1] for row in rows(lab.do(f"tables {switch} route")) if row[0] == "route"
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mine") / "example"
    shutil.copytree(EXAMPLE, path)
    net = path / "net.yaml"
    text = net.read_text().replace(
        "hosts: [h1, h2, h3]", "hosts: [{name: h1, commands: [HELLO]}, h2, h3]"
    )
    net.write_text(text.replace("HELLO", "ip addr show dev h1-eth0; sleep 60 &"))
    return path


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[Lab]:
    with opened(tmp_path_factory.mktemp("lab"), "softswitch", str(folder / "net.yaml")) as lab:
        yield lab
        assert "Traceback" not in lab.said and "bug in Weft" not in lab.said


def test_the_run_says_what_it_left_out(lab: Lab) -> None:
    assert lab.result["ok"] and not lab.result["rows"]
    assert lab.result["left_out"].startswith("pings, RoCEv2, RDMA, TCP: no controller plans routes")
    said = lab.said
    assert "controller: none for all switches, with forward.p4: the program has no table" in said


def test_entries_of_both_kinds_are_in_force_and_arp_is_not_needed(lab: Lab) -> None:
    assert routes(lab, "s1") == ["10.0.1.1/32", "10.0.2.0/24", "10.0.3.0/24", "(default)"]
    assert "10.0.2.1/32" in routes(lab, "s2")
    for source in ("h1", "h2", "h3"):
        for target in ("1", "2", "3"):
            if source != f"h{target}":
                assert ping(lab, source, f"10.0.{target}.1")
    known = lab.do("exec h1 ip neigh")
    assert re.search(r"10\.0\.1\.254 .*02:01:00:00:00:01 PERMANENT", known)


def test_commands_of_hosts_have_run(lab: Lab) -> None:
    log = Path(lab.result["logs"]) / "h1-commands.log"
    assert "10.0.1.1/24" in log.read_text()


def test_counters_links_and_views(lab: Lab) -> None:
    counted = {
        (row[0], row[1]): int(row[3])
        for row in rows(lab.do("counters"))
        if len(row) >= 7 and row[1].isdecimal()
    }
    assert counted["s1", "1"] > 0
    assert lab.do("link s1 s3 down") == "s3:3 - s1:3: down; no route changes\n"
    assert not ping(lab)
    assert lab.do("link s1 s3 up") == "s3:3 - s1:3: up; no route changes\n"
    assert ping(lab)
    assert "DOWN" not in lab.do("links")
    assert "s1:1" in lab.do("top")
    lab.do("exec h1 sh -c 'ping -i 0.2 -w 5 10.0.3.1 >/dev/null 2>&1 &'")
    traced = lab.other_terminal("trace", "s1", "--port", "1", "--count", "1")
    assert "MyIngress.route" in traced.stdout and "forward" in traced.stdout
    top = json.loads(lab.other_terminal("top", "--once", "--json").stdout)
    assert set(top["switches"]) == {"s1", "s2", "s3"}


def test_a_restarted_controller_writes_nothing_and_a_dead_switch_gets_its_own_back(
    lab: Lab,
) -> None:
    assert "0 programs loaded, 0 updates written" in lab.do("controller restart")
    lab.kill("s1")
    assert "forward.p4 loaded, 3 entries written" in lab.hears(r"it is back after [^\n]*\n")
    assert ping(lab)
    assert len(routes(lab, "s1")) == 4


def test_another_controller_is_primary_with_election_id_1_and_dies(lab: Lab) -> None:
    lab.do("links")  # from here on somebody is told
    for _ in range(2):
        lab.forget()
        with client(lab, "plain", "s1", "1") as other:
            lab.hears("s1: another controller is primary now, with election id 1;")
            for line in ("reload s1 --drop-entries", "reload all --drop-entries"):
                said = lab.do(line)
                assert "error: s1: another controller is primary, with election id 1\n" in said
                assert "controller restart --election-id 2" in said
            assert "multicast group   77" in lab.do("tables s1") and ping(lab)
            for line in ("link s1 s3 down", "link s1 s3 up", "controller restart", "counters"):
                assert "error: " not in lab.do(line)
            other.kill()
        with client(lab, "plain", "s2", "1"):
            said = lab.do("reload all --drop-entries")  # of all or of none
            assert "error: s2: another controller is primary" in said
            assert "multicast group   77" in lab.do("tables s1")
        for switch in ("s1", "s2"):
            lab.hears(f"{switch}: the other controller has left: what it wrote stays")
            assert f"{switch}: begins anew" in lab.do(f"reload {switch} --drop-entries")
        assert len(routes(lab, "s1")) == 4
    with client(lab, "plain", "s1", "1"):  # one that stays is sent off
        assert "0 updates written" in lab.do("controller restart --election-id 2")
        assert "begins anew" in lab.do("reload s1 --drop-entries")


def test_reload_keeps_entries_or_begins_anew(lab: Lab, folder: Path) -> None:
    source = folder / "forward.p4"
    text = source.read_text()
    source.write_text(text.replace("size = 1024", "size = 2048"))
    assert "entries kept by the switch" in lab.do("reload s1")
    assert ping(lab)
    source.write_text(
        text.replace("table route", "table routes").replace("route.apply", "routes.apply")
    )
    said = lab.do("reload s1")
    assert "the old one stays" in said and "--drop-entries" in said
    wrong = lab.do("reload s1 --drop-entries")
    assert "s1-runtime.json:3: P4Info has no table 'MyIngress.route'" in wrong
    assert ping(lab)
    source.write_text(text)
    assert "begins anew with forward.p4, and 3 entries of its file" in lab.do(
        "reload s1 --drop-entries"
    )
    assert ping(lab)


def test_a_switch_can_change_to_the_fabrics_program_and_back(lab: Lab) -> None:
    fabric = REPOSITORY / "p4src" / "fabric.p4"
    said = lab.do(f"reload all {fabric} --drop-entries")
    assert said.count("entries of the fabric's plan") == 3
    assert ping(lab)
    assert "the controller wrote 2 updates" in lab.do("link s1 s3 down")
    assert ping(lab)  # by s2
    lab.do("link s1 s3 up")
    said = lab.do(f"reload all {EXAMPLE}/forward.p4 --drop-entries")
    assert said.count("and 3 entries of its file") == 3
    assert "no route changes" in lab.do("link s1 s3 down")
    assert not ping(lab)
    lab.do("link s1 s3 up")
    assert ping(lab)


@pytest.mark.parametrize(
    "command",
    [
        "help", "pingall", "links", "counters", "tables s2", "tables s2 nothing", "queue-pairs",
        "fast-cnp", "fast-cnp on", "agent", "top", "capture", "reload all", "reload s9",
        "perf write h1 h3 --bw -n 5", "iperf h1 h3 1", "controller restart",
    ],
)  # fmt: skip
def test_no_command_fails_for_the_program(lab: Lab, command: str) -> None:
    said = lab.do(command)
    assert "Traceback" not in said and "bug in Weft" not in said and "UNKNOWN" not in said
    wrong = command.split()[-1] in ("nothing", "s9", "on")
    assert ("error: " in said) is wrong, said


def test_a_program_that_another_client_loads_stays(lab: Lab, folder: Path) -> None:
    other = folder / "other.p4"
    text = (folder / "forward.p4").read_text()
    text = text.replace("table route", "table roads").replace("route.apply", "roads.apply")
    # It has a name that the fabric's program has, too, for something else.
    text = text.replace(
        "    counter(256", "    counter(2, CounterType.packets) roce_rx;\n    counter(256"
    )
    other.write_text(text.replace("apply { if", "apply { roce_rx.count(0); if"))
    assert lab.other_terminal("compile", str(other), "-o", str(folder / "out")).returncode == 0
    loaded = lab.other_terminal(
        "cli", "s3", "-c", f"load_new_config_file {folder}/out/other.json", "-c", "swap_configs"
    )
    assert loaded.returncode == 0, loaded.stderr
    said = lab.do("tables s3")
    assert "s3 has a program of another client, and is left alone with it" in said
    assert "roads" in said
    top = json.loads(lab.other_terminal("top", "--once", "--json").stdout)
    assert not any(switch["error"] for switch in top["switches"].values())
    assert "0 programs loaded" in lab.do("controller restart")
    assert "roads" in lab.do("tables s3")
    lab.kill("s3")
    lab.hears(r"it is back after [^\n]*\n")
    assert "roads" in lab.do("tables s3")
    assert "anew with forward.p4" in lab.do(f"reload s3 {folder}/forward.p4 --drop-entries")
    assert ping(lab, "h3", "10.0.1.1")


@pytest.mark.reference("simple_switch_grpc")
def test_bmv2_runs_the_same_files(tmp_path: Path) -> None:
    with opened(tmp_path, "bmv2", str(EXAMPLE / "net.yaml")) as lab:
        assert lab.result["ok"]
        assert ping(lab)
        assert set(routes(lab, "s2")) >= {"10.0.1.0/24", "10.0.2.1/32", "10.0.3.0/24"}
        assert "BMv2 reports nothing else" in lab.do("counters")
        assert "no route changes" in lab.do("link s1 s3 down")
        assert not ping(lab)
        lab.do("link s1 s3 up")
        lab.kill("s1")
        assert "forward.p4 loaded, 3 entries written" in lab.hears(r"it is back after [^\n]*\n")
        assert ping(lab)
        assert "and 3 entries of its file" in lab.do("reload s1 --drop-entries")
        assert ping(lab)
        for _ in range(2):
            lab.forget()
            with client(lab, "plain", "s1", "1"):
                lab.hears("s1: another controller is primary now, with election id 1;")
                assert "with election id 1\n" in lab.do("reload s1 --drop-entries")
                assert "0 updates written" in lab.do("controller restart")
                assert "multicast group   77" in lab.do("tables s1")
            lab.hears("s1: the other controller has left: what it wrote stays")
            assert "0 updates written" in lab.do("controller restart")
            assert "and 3 entries of its file" in lab.do("reload s1 --drop-entries")
            assert ping(lab)
