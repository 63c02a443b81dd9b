"""The commands at the prompt, in one run: links, captures, reloads, dead switches.

             s3     s4
             | \\  / |
             s1     s2
            / \\     / \
           h1  h2  h3  h4
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from softswitch.diagnostics import DiagnosticsClient
from softswitch.impairments import changes
from tests.weft.prompt_lab import PATIENCE_S, REPOSITORY, Lab, opened, rows, until

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with opened(tmp_path_factory.mktemp("lab"), "softswitch") as lab:
        yield lab


def test_queue_pairs_of_a_fabric_without_stock_nics(lab: Lab) -> None:
    assert lab.do("queue-pairs").startswith("no host has a stock NIC")


def test_fast_cnps_of_a_fabric_whose_classes_have_none(lab: Lab) -> None:
    assert lab.do("fast-cnp") == "no class of leafspine has fast CNPs: no switch sends any\n"
    for word in ("on", "off"):
        said = lab.do(f"fast-cnp {word}")
        assert said.startswith("error: no class of leafspine has fast CNPs: no switch sends any\n")
        assert "fast_cnp: true" in said


def test_help_of_one_command(lab: Lab) -> None:
    assert "reload all" in lab.do("help reload")
    assert "udp dst port 4791" in lab.do("help capture")
    said = lab.do("help nothing")
    assert "no command 'nothing'" in said


def test_host_commands_take_names_as_mininet_s_do(lab: Lab) -> None:
    assert "1 received, 0% packet loss" in lab.do("h1 ping -c1 h3")
    assert lab.do("h1 echo h3 h9 's h3' xh3") == "10.0.2.1 h9 s h3 xh3\n"
    assert lab.do("h2 false") == "error: exit code 1\n"
    assert "a command is missing: h1 COMMAND" in lab.do("h1")
    assert "no command 'h9': try help" in lab.do("h9 ls")
    assert "no command 's1': try help" in lab.do("s1 ls")


def test_names_resolve_at_once_in_every_host(lab: Lab) -> None:
    started = time.monotonic()
    assert "1 received, 0% packet loss" in lab.do("exec h1 ping -c1 h3")
    assert lab.do("exec h4 getent hosts h1").split()[:2] == ["10.0.1.1", "h1"]
    assert "localhost" in lab.do("exec h2 getent hosts 127.0.0.1")
    assert time.monotonic() - started < 5  # it asked a name server for 10 s once
    done = lab.other_terminal("exec", "h2", "getent", "hosts", "h4")
    assert done.stdout.split()[0] == "10.0.2.2"


def test_a_flow_s_path_is_traced_to_where_it_vanishes(lab: Lab) -> None:
    done = lab.other_terminal("path", "h1", "h3", "--count", "3", "--json")
    found = json.loads(done.stdout)
    assert (found["sent"], found["arrived"], found["vanished"]) == (3, 3, [])
    first, spine, last = found["hops"]
    assert (first["switch"], last["switch"], last["left"][0]["towards"]) == ("s1", "s2", "h3")
    assert {hop["left"][0]["queue"] for hop in found["hops"]} == {3}
    port = spine["left"][0]["port"]
    with DiagnosticsClient(lab.result["p4runtime"][spine["switch"]]) as switch:
        switch.set_link(port, send=changes(loss="100%"))
        try:
            said = lab.do("path h1 h3 --count 3")
        finally:
            switch.set_link(port, clear=True)
    assert "0 of 3 probes arrived at h3" in said
    assert f"3 vanished at {spine['switch']}:{port} to {spine['left'][0]['towards']}" in said


def test_what_there_is_in_mininet_s_form(lab: Lab) -> None:
    # Plain, unless something else has these names on this machine: then with the run's id.
    moved = any("interfaces" in line for line in lab.result["moved"])
    eth = f"{lab.result['run']}-s{{}}-{{}}".format if moved else "s{}-eth{}".format
    assert lab.do("nodes") == "available nodes are:\nh1 h2 h3 h4 s1 s2 s3 s4\n"
    joined = lab.do("net").splitlines()
    assert joined[0] == f"h1 h1-eth0:{eth(1, 1)}"
    assert joined[6] == f"s3 {eth(3, 1)}:{eth(1, 3)} {eth(3, 2)}:{eth(2, 3)}"
    dumped = lab.do("dump").splitlines()
    assert re.fullmatch(r"<Host h1: h1-eth0:10\.0\.1\.1 pid=\d+>", dumped[0])
    assert re.fullmatch(
        rf"<Switch s3: softswitch 127\.0\.0\.1:\d+ {eth(3, 1)},{eth(3, 2)} pid=\d+>", dumped[6]
    )
    for word in ("nodes", "net", "dump"):
        assert f"{word} takes no arguments" in lab.do(f"{word} x")


def test_sh_and_py(lab: Lab) -> None:
    assert lab.do("sh echo $((40 + 2)) | cat") == "42\n"
    assert lab.do("sh exit 3") == "error: exit code 3\n"
    assert "a command is missing" in lab.do("sh")
    assert lab.do("py h3.address") == "'10.0.2.1'\n"
    assert lab.do("py found = [host.name for host in topology.hosts]") == ""
    assert lab.do("py found[-1]") == "'h4'\n"  # names stay
    assert lab.do("py 1 / 0") == "error: ZeroDivisionError: division by zero\n"
    assert "error: SyntaxError: " in lab.do("py 1 +")
    assert "exit is a command of the prompt" in lab.do("py exit()")
    assert "error: SystemExit: 3" in lab.do("py raise SystemExit(3)")
    assert "code is missing" in lab.do("py")


def test_iperf(lab: Lab) -> None:
    assert re.match(r"TCP h2 -> h4: [\d.]+ Mb/s for 1\.\d* s", lab.do("iperf h2 h4 1"))
    for wrong in ("iperf h2", "iperf h2 h2", "iperf h2 h9", "iperf h1 h2 0"):
        said = lab.do(wrong)
        assert "error: " in said
        assert "iperf [HOST HOST] [SECONDS]" in said


def test_a_link_that_is_down_passes_nothing_and_is_routed_around(lab: Lab) -> None:
    def carried(port: str) -> int:
        stats = lab.do("counters").splitlines()
        (row,) = [re.split(r" +", line.strip()) for line in stats if re.search(port, line)]
        return int(row[3])

    assert lab.do("link s1 s3 down") == "s1:3 - s3:1: down; the controller wrote 11 updates\n"
    state = {row[0]: row[-1] for row in rows(lab.do("links"))}
    assert state["s1:3 - s3:1"] == "DOWN"
    assert state["s1:4 - s4:1"] == "up"
    routes = lab.do("tables s1 ipv4_route")
    assert re.search(r"10\.0\.2\.0/24 +route_to\(next_hop=4\)", routes)
    assert "arp_targets" not in routes
    before = carried(r"^ *s3 +1 ")
    # A packet sent out of the port by hand does not arrive either: the port is down, not only idle.
    lab.do("exec h1 ping -c 3 -i 0.1 10.0.2.1")
    assert "0% packet loss" in lab.do("exec h1 ping -c 3 -i 0.1 10.0.2.1")
    assert "0 % lost" in lab.do("pingall")
    assert carried(r"^ *s3 +1 ") == before
    assert "the controller wrote 11 updates" in lab.do("link s3 s1 up")
    assert "DOWN" not in lab.do("links")


def test_both_ends_of_a_link_really_stop(lab: Lab) -> None:
    def states() -> set[str]:
        found = set()
        for switch, port in (("s1", 4), ("s4", 1)):
            with DiagnosticsClient(lab.result["p4runtime"][switch]) as client:
                found.add(client.port_stats()[port]["state"])
        return found

    done = lab.other_terminal("link", "s4", "s1", "down")
    assert done.stdout == "s1:4 - s4:1: down; the controller wrote 11 updates\n", done.stderr
    assert states() == {"down"}
    assert lab.other_terminal("link", "s1:4", "s4:1", "up").returncode == 0
    assert states() == {"up"}
    wrong = lab.other_terminal("link", "s1", "s2", "down")
    assert wrong.returncode == 1
    assert "there is no link between s1 and s2" in wrong.stderr


def test_a_hosts_cable(lab: Lab) -> None:
    assert "h1 - s1:1: down" in lab.do("link h1 s1 down")
    assert "NO-CARRIER" in lab.do("exec h1 ip link show h1-eth0")
    said = lab.do("pingall")
    assert "not every ping was answered" in said
    lab.do("link h1 s1 up")
    until(lambda: "0 % lost" in lab.do("pingall"))


def test_capture_into_a_file_that_others_read(lab: Lab) -> None:
    from scapy.layers.inet import ICMP, IP
    from scapy.utils import rdpcap

    path = lab.root / "s1-2.pcap"
    assert re.search(
        r"capturing s1-eth2 \((s1-eth2|w\w+-s1-2)\) to", lab.do(f"capture s1-eth2 {path} icmp")
    )
    said = lab.do(f"capture s1-2 {path}")
    assert "captured already" in said
    lab.do("exec h2 ping -c 3 -i 0.1 10.0.2.1")
    assert lab.do("capture") == f"s1-eth2 -> {path}\n"
    assert lab.do("capture s1-2 stop") == f"s1-eth2: 6 packets in {path}\n"
    packets = rdpcap(str(path))
    assert [packet[ICMP].type for packet in packets] == [8, 0] * 3
    assert {packet[IP].src for packet in packets} == {"10.0.1.2", "10.0.2.1"}


def test_capture_prints_packets(lab: Lab) -> None:
    lab.do("exec h1 ping -c 50 -i 0.1 10.0.1.2 >/dev/null &")
    shown = lab.do("capture h1 2 icmp")
    assert shown.count("ICMP echo") == 2
    said = lab.do("capture s1-2")
    assert "a number is needed" in said
    said = lab.do("capture s1-9 2")
    assert "no interface 's1-9'" in said


def test_xterm_without_a_display_says_what_else_there_is(lab: Lab) -> None:
    if os.environ.get("DISPLAY"):
        pytest.fail("this test is about a machine without a display")
    said = lab.do("xterm h1")
    assert "no X display" in said
    assert "at this prompt: h1 bash" in said


def test_exec_from_another_terminal(lab: Lab) -> None:
    done = lab.other_terminal("exec", "h3", "sh", "-c", "ip -4 addr; exit 3")
    assert "inet 10.0.2.1/24" in done.stdout
    assert done.returncode == 3


def test_a_restarted_controller_writes_nothing_when_nothing_differs(lab: Lab) -> None:
    said = lab.do("controller restart")
    assert re.search(r"read back 4 switches in .* s: 0 programs loaded, 0 updates written", said)


def test_a_restarted_controller_mends_only_what_differs(lab: Lab) -> None:
    lab.do("link s1 s3 down")
    assert "0 programs loaded, 0 updates written" in lab.do("controller restart")
    lab.do("link s1 s3 up")
    assert "0 programs loaded, 0 updates written" in lab.do("controller restart")


def test_reload_under_traffic_loses_no_entry_and_no_packet(lab: Lab) -> None:
    copy = lab.root / "p4"
    shutil.copytree(REPOSITORY / "p4src", copy)
    routing = copy / "modules" / "routing.p4"
    routing.write_text(routing.read_text().replace("size = ROUTES;", "size = 2 * ROUTES;"))
    before = {switch: lab.do(f"tables {switch}") for switch in ("s1", "s2", "s3", "s4")}

    log = lab.root / "ping.log"
    log.touch()
    lab.do(f"exec h1 ping -c 100 -i 0.05 10.0.2.1 >{log} 2>&1 &")
    until(lambda: "icmp_seq=5 " in log.read_text())
    said = lab.do(f"reload s1 {copy / 'fabric.p4'}")
    assert re.search(r"s1: fabric.p4 compiled in .* s; 27 entries kept by the switch", said)
    said = lab.do(f"reload all {copy / 'fabric.p4'}")
    assert "s1: fabric.p4 is what it runs already" in said
    assert said.count("kept by the switch") == 3
    until(lambda: "packets transmitted" in log.read_text())
    summary = log.read_text()
    assert "100 packets transmitted, 100 received, 0% packet loss" in summary, summary
    assert {switch: lab.do(f"tables {switch}") for switch in before} == before
    assert "0 programs loaded, 0 updates written" in lab.do("controller restart")


def test_reload_of_a_program_with_an_error_says_where_and_changes_nothing(lab: Lab) -> None:
    copy = lab.root / "broken"
    shutil.copytree(REPOSITORY / "p4src", copy)
    routing = copy / "modules" / "routing.p4"
    routing.write_text(routing.read_text().replace("size = ROUTES;", "size = NO_SUCH_SIZE;"))
    said = lab.do(f"reload s2 {copy / 'fabric.p4'}")
    assert re.search(r"routing\.p4:\d+:\d+: error: ", said)
    assert "what it runs already" in lab.do("reload s2")


def test_a_switch_that_is_killed_comes_back_as_it_was(lab: Lab) -> None:
    lab.do("link s2 s3 down")
    before = lab.do("tables s3")
    address = lab.result["p4runtime"]["s3"]
    lab.kill("s3")
    told = lab.hears(r"it is back after")
    assert "switch s3 was killed by signal 9; the end of its log:" in told
    assert f"P4Runtime on {address}" in told
    assert re.search(r"back after [\d.]+ s: fabric.p4 loaded, \d+ entries written", told)
    assert lab.do("tables s3") == before
    assert "DOWN" in lab.do("links")
    assert "0 % lost" in lab.do("pingall")
    lab.do("link s2 s3 up")
    assert "0 % lost" in lab.do("pingall")
    assert "0 programs loaded, 0 updates written" in lab.do("controller restart")


def test_a_switch_that_keeps_dying_is_given_up_and_routed_around(lab: Lab) -> None:
    lab.kill("s4")
    for _ in range(5):
        lab.hears(r"it is back after")
        lab.kill("s4")
    assert "switch s4 died 6 times in 60 s: not started again" in lab.hears("not started again")
    until(lambda: "0 % lost" in lab.do("pingall"))
    said = lab.do("tables s4")
    assert "error: s4: lost" in said


def test_the_end_leaves_nothing(lab: Lab) -> None:
    record = lab.record()
    lab.do("capture s1-1 " + str(lab.root / "until-exit.pcap"))
    assert lab.process.stdin is not None
    lab.process.stdin.close()
    assert lab.process.wait(PATIENCE_S) == 1, "some of the commands above were wrong"
    assert not (lab.root / "run").exists()
    assert not [process for process in record.processes if process.is_alive()]
    assert (lab.root / "until-exit.pcap").exists()


@pytest.mark.reference("simple_switch_grpc")
def test_bmv2_loses_no_entry_either(tmp_path: Path) -> None:
    with opened(tmp_path, "bmv2") as lab:
        copy = shutil.copytree(REPOSITORY / "p4src", tmp_path / "p4")
        routing = copy / "modules" / "routing.p4"
        routing.write_text(routing.read_text().replace("size = ROUTES;", "size = 2 * ROUTES;"))
        before = lab.do("tables s1")
        assert "written again: traffic was interrupted" in lab.do(f"reload s1 {copy}/fabric.p4")
        assert lab.do("tables s1") == before
        assert "s1:3 - s3:1: down" in lab.do("link s1 s3 down")
        assert "DOWN" in lab.do("links")
        assert "0 % lost" in lab.do("pingall")
        lab.do("link s1 s3 up")
        lab.kill("s3")
        lab.hears("it is back after")
        assert "0 % lost" in lab.do("pingall")
        assert "0 programs loaded, 0 updates written" in lab.do("controller restart")
