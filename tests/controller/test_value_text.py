"""Values as people read them: an address only where the program says that it is one."""

from __future__ import annotations

import pytest

from controller.p4info import P4Info
from controller.value_text import Meaning, meaning, show_value
from softswitch.p4runtime.protos import p4i


@pytest.mark.parametrize(
    ("name", "bits", "expected"),
    [
        ("slope", 32, Meaning.NUMBER),
        ("burst", 48, Meaning.NUMBER),
        ("hdr.ipv4.dstAddr", 32, Meaning.IPV4),
        ("target_ip", 32, Meaning.IPV4),
        ("nhop_ipv4", 32, Meaning.IPV4),
        ("destination", 32, Meaning.IPV4),
        ("hdr.ethernet.dstAddr", 48, Meaning.MAC),
        ("addr1", 48, Meaning.MAC),
        ("eth_dst", 48, Meaning.MAC),
        ("hdr.ipv6.src_addr", 128, Meaning.IPV6),
        ("hdr.ipv4.flow_hash", 32, Meaning.NUMBER),
        ("hdr.tcp.seq", 32, Meaning.NUMBER),
        ("src_port", 32, Meaning.NUMBER),
        ("ip_index", 32, Meaning.NUMBER),
        ("dst", 9, Meaning.NUMBER),
    ],
)
def test_names_say_what_values_are(name: str, bits: int, expected: Meaning) -> None:
    assert meaning(name, bits) is expected


def test_types_and_annotations_say_it_before_names() -> None:
    assert meaning("to", 32, type_name="ipv4_addr_t") is Meaning.IPV4
    assert meaning("to", 48, annotations=["@format(MAC_ADDRESS)"]) is Meaning.MAC
    assert meaning("address", 32, annotations=["@format(HEX_STRING)"]) is Meaning.NUMBER
    assert meaning("address", 32, annotations=['@brief("of a host")']) is Meaning.IPV4


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        (0x0A000101, Meaning.IPV4, "10.0.1.1"),
        (1, Meaning.MAC, "00:00:00:00:00:01"),
        (1, Meaning.IPV6, "::1"),
        (0x0A000101, Meaning.NUMBER, "167772417"),
    ],
)
def test_values_to_read(value: int, kind: Meaning, shown: str) -> None:
    assert show_value(value, kind) == shown


def test_p4info_says_it_of_keys_and_parameters() -> None:
    message = p4i.P4Info()
    action = message.actions.add()
    action.preamble.id, action.preamble.name, action.preamble.alias = 1, "C.set", "set"
    action.params.add(id=1, name="to", bitwidth=32).annotations.append("@format(IPV4_ADDRESS)")
    action.params.add(id=2, name="threshold", bitwidth=32)
    params = P4Info(message).actions["set"].params
    assert [param.meaning for param in params] == [Meaning.IPV4, Meaning.NUMBER]
