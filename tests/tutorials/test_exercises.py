"""The solution of every exercise of p4lang/tutorials gives what its README promises."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.tutorials.exercise import PROMPT

if TYPE_CHECKING:
    from tests.tutorials.conftest import Play
    from tests.tutorials.exercise import Exercise

MESSAGE = "P4 is cool"
CONGESTION_S = 15
"""How long the READMEs' iperf lasts."""


def promise(exercise: str, text: str) -> pytest.MarkDecorator:
    """Mark a test with what its exercise promises, for the table at the end."""
    return pytest.mark.promise(exercise, text)


def loss(output: str) -> str:
    """Return the share of lost pings that `pingall` reports."""
    found = re.search(r"(\d+)% dropped", output)
    assert found, output
    return found[1]


def rate(output: str) -> float:
    """Return the rate in Mbit/s of iperf's last line; 0 where there is none."""
    found = re.findall(r"([\d.]+) ([KMG]?)bits/sec", output)
    return (
        float(found[-1][0]) * {"": 1e-6, "K": 1e-3, "M": 1.0, "G": 1e3}[found[-1][1]]
        if found
        else 0
    )


def tcp(exercise: Exercise, client: str, server: str, address: str, options: str = "") -> float:
    """Mbit/s of a TCP transfer, 0 if it can't be opened; `options` are iperf's.

    By iperf's own commands: with Debian 12's iperf 2.1.8, which does not report a connection that
    closes at once, the `iperf` of Mininet's prompt never ends, whatever the switches are.
    """
    exercise.starts(server, "iperf -s", f"iperf-{server}.log")
    listening = f"{server} netstat -lnt"
    exercise.until(lambda: ":5001 " in exercise.says(listening), f"iperf listens on {server}")
    return rate(exercise.says(f"{client} timeout -s KILL 12 iperf -c {address} -t 5 {options}"))


def fields(log: str, name: str) -> list[str]:
    """Return the values of a field in what scapy's show() printed."""
    return re.findall(rf"^\W*{name} *= *(\S+)", log, re.M)


@promise("basic", "any two hosts can ping each other")
def test_basic(play: Play) -> None:
    with play("basic") as exercise:
        assert loss(exercise.says("pingall")) == "0"


@promise("basic_tunnel", "dst_id, not the IP address, says who gets a tunnelled packet")
def test_basic_tunnel(play: Play) -> None:
    with play("basic_tunnel") as exercise:
        exercise.sniffs("h2", "./receive.py", "h2.log")
        exercise.sniffs("h3", "./receive.py", "h3.log")
        exercise.says(f'h1 ./send.py 10.0.2.2 "{MESSAGE}"')
        exercise.until(lambda: MESSAGE in exercise.log("h2.log"), "h2 got the plain packet")
        assert "MyTunnel" not in exercise.log("h2.log")
        exercise.says(f'h1 ./send.py 10.0.2.2 "{MESSAGE}" --dst_id 2')
        exercise.until(lambda: "MyTunnel" in exercise.log("h2.log"), "h2 got a tunnelled packet")
        exercise.says('h1 ./send.py 10.0.3.3 "elsewhere" --dst_id 2')
        exercise.until(lambda: "elsewhere" in exercise.log("h2.log"), "h2 got what is for h3")
        assert "got a packet" not in exercise.log("h3.log")


@promise("calc", "the switch answers 1+1 with 2; the other operators too")
def test_calc(play: Play) -> None:
    with play("calc") as exercise:
        exercise.type("h1 python3 calc.py")
        exercise.waits_for("> ")
        for sum_, result in (("1+1", 2), ("9-4", 5), ("12&10", 8), ("12|10", 14), ("12^10", 6)):
            exercise.type(sum_)
            assert exercise.waits_for("\n> ").split()[-1] == str(result)
        exercise.type("quit")
        exercise.waits_for(PROMPT)


@promise("source_routing", "the route 2 3 2 2 1 arrives with TTL 59; 2 1 with 62")
def test_source_routing(play: Play) -> None:
    with play("source_routing") as exercise:
        exercise.sniffs("h2", "./receive.py", "h2.log")
        exercise.type("h1 ./send.py 10.0.2.2")
        for ports, ttl in (("2 3 2 2 1", "59"), ("2 1", "62")):
            exercise.waits_for("to quit: ")
            exercise.type(ports)
            exercise.until(lambda ttl=ttl: ttl in fields(exercise.log("h2.log"), "ttl"), ttl)
        exercise.waits_for("to quit: ")
        exercise.type("q")
        exercise.waits_for(PROMPT)


@promise("multicast", "all four hosts, each in the group, can ping each other")
def test_multicast(play: Play) -> None:
    with play("multicast") as exercise:
        assert loss(exercise.says("pingall")) == "0"


@promise("load_balance", "of several messages to 10.0.0.1 some reach h2, some h3")
def test_load_balance(play: Play) -> None:
    with play("load_balance") as exercise:
        exercise.sniffs("h2", "./receive.py", "h2.log")
        exercise.sniffs("h3", "./receive.py", "h3.log")
        for _ in range(12):
            exercise.says(f'h1 ./send.py 10.0.0.1 "{MESSAGE}"')

        def got() -> list[int]:
            return [exercise.log(f"{host}.log").count(MESSAGE) for host in ("h2", "h3")]

        exercise.until(lambda: sum(got()) == 12, "all messages arrived")
        assert min(got()) > 0, got()


@promise("firewall", "TCP within and outwards works; h3 can't open TCP to h1")
def test_firewall(play: Play) -> None:
    with play("firewall") as exercise:
        assert tcp(exercise, "h1", "h2", "10.0.2.2") > 0
        assert tcp(exercise, "h1", "h3", "10.0.3.3") > 0
        assert tcp(exercise, "h3", "h1", "10.0.1.1") == 0
        assert "connected" not in exercise.log("iperf-h1.log")


def congested(exercise: Exercise, receive: str, send: str) -> str:
    """Run the READMEs' congestion: slow h1 -> h2 and iperf h11 -> h22; return what h2 saw."""
    exercise.sniffs("h2", receive, "h2.log")
    exercise.starts("h22", "iperf -s -u", "h22.log")
    exercise.starts("h1", send, "h1.log")
    exercise.until(
        lambda: exercise.log("h2.log").count("got a packet") >= 3, "h2 gets packets before iperf"
    )
    exercise.says(f"h11 iperf -c 10.0.2.22 -t {CONGESTION_S} -u")
    before = exercise.log("h2.log").count("got a packet")
    exercise.until(
        lambda: exercise.log("h2.log").count("got a packet") >= before + 3,
        "h2 gets packets after iperf",
    )
    return exercise.log("h2.log")


@promise("ecn", "tos goes from 0x1 to 0x3 while iperf fills the queue, and back")
def test_ecn(play: Play) -> None:
    with play("ecn") as exercise:
        log = congested(exercise, "./receive.py", f'./send.py 10.0.2.2 "{MESSAGE}" 40')
        tos = fields(log, "tos")
        assert "0x3" in tos, tos
        assert tos[0] == "0x1", tos
        exercise.until(lambda: fields(exercise.log("h2.log"), "tos")[-1] == "0x1", "0x1 again")


@promise("mri", "swids 2 and 1 are in the packet, with a queue depth under iperf")
def test_mri(play: Play) -> None:
    with play("mri") as exercise:
        log = congested(exercise, "./receive.py", f'./send.py 10.0.2.2 "{MESSAGE}" 40')
        assert set(fields(log, "count")) == {"2"}
        swids, depths = fields(log, "swid"), [int(depth) for depth in fields(log, "qdepth")]
        assert swids == ["2", "1"] * (len(swids) // 2)
        of_s1 = depths[1::2]
        assert of_s1[0] == 0, of_s1
        assert max(of_s1) > 10, of_s1


@promise("qos", "tos 0xb9 for UDP and 0xb1 for TCP")
def test_qos(play: Play) -> None:
    with play("qos") as exercise:
        exercise.sniffs("h2", "./receive.py", "h2.log")
        for protocol, tos in (("UDP", "0xb9"), ("TCP", "0xb1")):
            exercise.says(f'h1 ./send.py --p={protocol} --des=10.0.2.2 --m="{MESSAGE}" --dur=3')
            exercise.until(
                lambda tos=tos: fields(exercise.log("h2.log"), "tos").count(tos) >= 3, tos
            )


def utilisation(log: str) -> list[float]:
    """All utilisations in Mbit/s that link_monitor's receive.py printed."""
    return [float(value) for value in re.findall(r"Port \d+: ([\d.e+-]+) Mbps", log)]


@promise("link_monitor", "the links' utilisation rises to what iperf reports")
def test_link_monitor(play: Play) -> None:
    with play("link_monitor") as exercise:
        exercise.sniffs("h1", "python3 -u ./receive.py", "probes.log")
        exercise.starts("h1", "./send.py", "send.log")
        exercise.until(lambda: len(utilisation(exercise.log("probes.log"))) > 15, "probes return")
        idle = max(utilisation(exercise.log("probes.log")))
        # At a rate that a busy machine carries: at full speed the probes themselves are lost.
        before = len(utilisation(exercise.log("probes.log")))
        reported = tcp(exercise, "h1", "h4", "10.0.4.4", "-b 10M")
        exercise.until(
            lambda: len(utilisation(exercise.log("probes.log"))) > before + 40,
            "probes return that have met the transfer",
        )
        busy = max(utilisation(exercise.log("probes.log")))
        assert idle < 1, idle
        assert 0.5 * reported < busy < 2 * reported, (busy, reported)


@promise("p4runtime", "mycontroller.py installs the tunnels: ping works, counters rise")
def test_p4runtime(play: Play) -> None:
    with play("p4runtime") as exercise:
        assert "100% packet loss" in exercise.says("h1 ping -c 2 -W 1 h2")
        exercise.starts("", "python3 -u ./mycontroller.py", "controller.log")
        exercise.until(lambda: "Reading tunnel" in exercise.log("controller.log"), "it is ready")
        assert " 0% packet loss" in exercise.says("h1 ping -c 5 h2")
        for counter in (
            "s1 MyIngress.ingressTunnelCounter 100",
            "s2 MyIngress.egressTunnelCounter 100",
            "s2 MyIngress.ingressTunnelCounter 200",
            "s1 MyIngress.egressTunnelCounter 200",
        ):
            expected = f"{counter}: 5 packets"
            exercise.until(lambda text=expected: text in exercise.log("controller.log"), expected)


@promise("flowcache", "the controller learns flows from packet-ins; idle ones are deleted")
def test_flowcache(play: Play) -> None:
    with play("flowcache") as exercise:
        exercise.starts("", "python3 -u ./mycontroller.py", "controller.log")

        def said(text: str) -> bool:
            return text in exercise.log("controller.log")

        exercise.until(lambda: said("SetForwardingPipelineConfig on s3"), "the programs are set")
        # Its notifications are read a moment later, and until then pings are lost.
        exercise.until(
            lambda: " 0% packet loss" in exercise.says("h1 ping -c 1 -W 1 h2"), "a reply"
        )
        assert " 0% packet loss" in exercise.says("h1 ping -c 3 h2")
        for told in (
            "Received PacketIn message",
            "added table entry to send packets to port 2",
            "MyEgress.egressPktInCounter 2: 1 packets",
        ):
            assert said(told), told
        exercise.until(lambda: said("Deleted flow_cache entry on s1"), "idle entries are deleted")
        exercise.says("h1 ping -c 3 h2")
        exercise.until(
            lambda: said("s1 MyEgress.egressPktInCounter 2: 2 packets"),
            "flows that were deleted are learnt again",
        )
