"""How much headroom a lossless class needs behind a link.

    XOFF is decided       the frame that just left holds the link:      one MTU
    XOFF is sent          it takes its own time, and the way:           a PFC frame, delay x rate
    the far end stops     the frame that it has begun goes on:          one MTU
    its last bit arrives  what it had sent until then is on the way:    delay x rate

Together 2 x delay x rate + 2 MTU + one PFC frame, all as they count on the wire (IEEE 802.1Q
annex O; DESIGN's formula with the PFC frame's own 84 bytes written out).
"""

from __future__ import annotations

from topologies.model import Link

_BITS = 8 * 10**12
ETHERNET_BYTES = 14
WIRE_BYTES = 24  # preamble 8, FCS 4, gap 12
PFC_BYTES = 84  # a minimum frame on the wire


def headroom_bytes(link: Link) -> int:
    """Return what may still arrive over a link after its receiver has decided on XOFF, in bytes."""
    on_the_way = -(-2 * link.delay_ps * link.rate_bps // _BITS)
    frame = link.mtu_bytes + ETHERNET_BYTES + WIRE_BYTES
    return on_the_way + 2 * frame + PFC_BYTES
