"""How much headroom a lossless class needs behind a link.

    XOFF is decided       the frame that has just begun holds the link:   one MTU
    XOFF is sent          PFC frames of other classes go before it:       eight PFC frames
    it arrives            after the way there:                            delay x rate
    the far end stops     the frame that it has begun goes on:            one MTU
    its last bit arrives  what it had sent until then is on the way:      delay x rate
    and what decided      others have taken the pool, the threshold fell: one MTU

The sum is an upper bound: 2 x delay x rate + 3 MTU + 8 PFC frames, each frame with what it takes on
the wire. IEEE 802.1Q annex O has two frames, the way there and back, and the delays of real
interfaces, which are none here. The usual 2 x delay x rate + 2 MTU leaves out XOFF's own time on
the wire, and the frame that meets a threshold that the use by others has lowered below its class's
own.

It holds for packets that are queued once and grow by no more than the 24 bytes that a frame takes
on the wire; a port whose lossless packets are multicast to n ports needs n times as much.
"""

from __future__ import annotations

from topologies.model import Link, Topology

_BITS = 8 * 10**12
ETHERNET_BYTES = 14
WIRE_BYTES = 24  # preamble 8, FCS 4, gap 12
MINIMUM_BYTES = 84  # a minimum frame, as PFC frames are, on the wire
PFC_FRAMES = 8  # one a class


def headroom_of(delay_ps: int, rate_bps: int, frame_bytes: int, latency_ps: int = 0) -> int:
    """Return what may be added to a headroom once XOFF is decided, in bytes.

    `delay_ps`: one way; `frame_bytes`: the longest frame, without its FCS; `latency_ps`: of the
    switches at both ends together.
    """
    on_the_way = -(-(2 * delay_ps + latency_ps) * rate_bps // _BITS)
    frame = max(frame_bytes + WIRE_BYTES, MINIMUM_BYTES)
    return on_the_way + 3 * frame + PFC_FRAMES * MINIMUM_BYTES


def headroom_bytes(topology: Topology, link: Link) -> int:
    """Return the headroom that a lossless class needs at either end of a link, in bytes."""
    latency_ps = topology.there_and_back_ps(link) - 2 * link.delay_ps
    return headroom_of(link.delay_ps, link.rate_bps, link.mtu_bytes + ETHERNET_BYTES, latency_ps)
