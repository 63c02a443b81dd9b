"""The hosts that talk in exercises, on a network without any exercise."""

from __future__ import annotations

from pathlib import Path

from scapy.layers.inet import ICMP, IP
from scapy.layers.l2 import ARP, Ether

from tests.tutorials.checks import S, hops_of
from tests.tutorials.frames import ARP_TYPE, IPV4, Hosts, came, pings_answered
from tests.tutorials.network import START_NS, Imported, Script, Send, Virtual

# A wire between ports 1 and 2.
WIRE = """
#include <core.p4>
#include <v1model.p4>
struct headers_t { }
struct metadata_t { }
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t standard) { state start { transition accept; } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { standard.egress_spec = 3 - standard.ingress_port; }
}
control D(packet_out packet, in headers_t hdr) { apply { } }
control N(inout headers_t hdr, inout metadata_t meta) { apply { } }
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}
V1Switch(P(), N(), I(), E(), N(), D()) main;
"""
TOPOLOGY = """{
  "hosts": {"h1": {"ip": "10.0.0.1/24"}, "h2": {"ip": "10.0.0.2/24"}},
  "switches": {"s1": {}},
  "links": [["h1", "s1-p1"], ["h2", "s1-p2"]]
}"""


def test_simulated_hosts_answer_what_is_for_them_and_record_everything(tmp_path: Path) -> None:
    (tmp_path / "wire.p4").write_text(WIRE)
    (tmp_path / "topology.json").write_text(TOPOLOGY)
    exercise = Imported.make(tmp_path, "topology.json", "wire.p4")
    hosts = Hosts(exercise.topology)
    stranger = Ether(hosts.ping("h1", "h2", 8))
    stranger[Ether].dst = "02:00:00:00:00:99"
    frames = [
        hosts.arp_request("h1", "h2"),
        hosts.ping("h1", "h2", 7, direct=True),
        bytes(stranger),
    ]
    sends = [Send("h1", START_NS + i * S // 1000, frame) for i, frame in enumerate(frames)]
    sends.append(Send("h1", START_NS + S // 100, hosts.ping("h1", "h2", 9, direct=True), 3, S // 5))
    script = Script(sends, {name: [IPV4, ARP_TYPE] for name in hosts.names})
    assert script.end_ns == START_NS + S // 100 + 2 * S // 5 + S
    played = Virtual().play(exercise, script, lambda played: None)
    (answer,) = came(played, "h1", ARP_TYPE)
    assert (answer[ARP].op, answer[ARP].hwsrc, answer[ARP].psrc) == (2, hosts.mac("h2"), "10.0.0.2")
    assert pings_answered(played, "h1", "10.0.0.2") == {7, 9}
    assert [each[ICMP].seq for each in came(played, "h2")] == [7, 8, 9, 9, 9]
    reply = came(played, "h1")[0]
    checked = IP(bytes(reply[IP]))
    del checked.chksum, checked[ICMP].chksum
    assert bytes(checked) == bytes(reply[IP])


def test_a_probe_is_read_hop_by_hop() -> None:
    def hop(last: bool, swid: int, count: int) -> bytes:
        head = bytes([last << 7 | swid, 4]) + count.to_bytes(4, "big")
        return head + (1000).to_bytes(6, "big") + (3000).to_bytes(6, "big")

    frame = bytes(12) + b"\x08\x12" + bytes([2]) + hop(False, 5, 250) + hop(True, 9, 500)
    first, second = hops_of(frame)
    assert (first.switch, first.port, first.mbps) == (9, 4, 2.0)
    assert (second.switch, second.mbps) == (5, 1.0)
