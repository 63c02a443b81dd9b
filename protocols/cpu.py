"""The headers between a switch's CPU port and its controller, as p4src/include/headers.p4 has them.

P4Runtime carries them as metadata; bytes are what the in-process switch and a raw CPU port show.
"""

from __future__ import annotations

from typing import Any, ClassVar

from scapy.fields import BitField
from scapy.layers.l2 import Ether
from scapy.packet import Packet, bind_layers

CPU_PORT = 255


class PacketInHeader(Packet):
    """In front of a frame that a switch sends to its controller."""

    name = "PacketIn"
    fields_desc: ClassVar[list[Any]] = [
        BitField("ingress_port", 0, 9),
        BitField("reason", 0, 7),
    ]


class PacketOutHeader(Packet):
    """In front of a frame that a controller sends by a switch's port."""

    name = "PacketOut"
    fields_desc: ClassVar[list[Any]] = [
        BitField("egress_port", 0, 9),
        BitField("unused", 0, 7),
    ]


bind_layers(PacketInHeader, Ether)
bind_layers(PacketOutHeader, Ether)
