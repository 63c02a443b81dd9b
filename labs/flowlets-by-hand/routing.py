"""Items about what the starter does already, and what compares whole schedules with a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from labs.grade import Finding

from .bed import WAYS, Bed, Left, started
from .control_plane import Hop
from .flows import ICMP, MAIN, MORE_FRAGMENTS, TCP, UDP, Flow, backwards, routed
from .verdicts import Claim, counted, found

if TYPE_CHECKING:
    from .grading import Bench

STARTER = "the starter does this: what has changed?"
PACKETS = 3000
DECISIONS = 12
FEW = 0.6
"""Of the flowlets of a schedule so many change their way at least: 0.75 or less is expected."""


def up(bench: Bench) -> Finding:
    """Check packets to other leaves, one by one."""
    with started(bench.pipeline, bench.random("up")) as bed:
        flows = bed.flows(24)
        packets = [bed.packet(flow, 1_000_000 + n) for n, flow in enumerate(flows)]
        left = bed.send(packets)
        hops = bed.leaf.group(MAIN).ways
        wrong = [
            _wrong(bed, packet.frame, each, hops)
            for packet, each in zip(packets, left, strict=True)
        ]
        aged = bed.send([bed.packet(flows[0], 1_000_100, ttl=1)])
    bad = next((each for each in wrong if each), "")
    right = "each leaves once, with its way's MAC addresses, TTL - 1 and the checksum for it"
    claims = [
        Claim("first packets of 24 flows", right, bad or right, not bad),
        Claim("a packet with TTL 1", "nothing", bed.words(aged[0]), not aged[0]),
    ]
    return found(claims, STARTER)


def down(bench: Bench) -> Finding:
    """Check packets from other leaves, and between hosts of this leaf."""
    with started(bench.pipeline, bench.random("down")) as bed:
        ways = bed.leaf.group(MAIN).ways
        claims = []
        for protocol in (TCP, UDP, ICMP):
            wrong = ""
            for n in range(12):
                flow = bed.flow(protocol=protocol)
                to = next(hop for address, hop in bed.leaf.hosts if address == flow.src)
                at = max(1_000_000, bed.now + 1)
                packet = bed.packet(backwards(flow, ways[n % WAYS].port), at)
                wrong = wrong or _wrong(bed, packet.frame, bed.send([packet])[0], [to])
            right = "each leaves once, by its host's port"
            what = f"12 packets of protocol {protocol} to hosts here"
            claims.append(Claim(what, right, wrong or right, not wrong))
    return found(claims, STARTER)


def others(bench: Bench) -> Finding:
    """Check packets of no flow, with pauses below and above the gap, and flows beside them."""
    with started(bench.pipeline, bench.random("others")) as bed:
        at, rows = 1_000_000, []
        for kind in ("ICMP", "fragments"):
            fixed = []
            for _ in range(24):
                flow = bed.flow(protocol=ICMP if kind == "ICMP" else UDP)
                beside = replace(flow, protocol=UDP)
                packets = []
                for n in range(12):
                    at += bed.gap // 2 if n % 2 else 3 * bed.gap
                    bits = MORE_FRAGMENTS if n % 3 else 185
                    cut = bits if kind == "fragments" else 0
                    packets += [bed.packet(beside, at), bed.packet(flow, at, fragment=cut)]
                ways = [bed.route(each) for each in bed.send(packets)[1::2]]
                fixed.append(ways[0] if len(set(ways)) == 1 else "several ways")
            right = all(isinstance(way, int) for way in fixed) and len(set(fixed)) > 1
            what = f"{kind} between 24 pairs of hosts, 12 packets each"
            rows.append(Claim(what, "a fixed way for each pair, not one for all", counted(fixed),
                              right))  # fmt: skip
        left = bed.send([bed.arp(bed.flow(), at + n) for n in range(4)])
    came = counted([bed.words(each) for each in left])
    rows.append(Claim("four ARP requests", "4 x nothing", came, came == "4 x nothing"))
    return found(rows, "only packets with hdr.ports have a cell, and draw")


def _wrong(bed: Bed, frame: bytes, left: Sequence[Left], hops: Sequence[Hop]) -> str:
    """Say what is wrong with what left; it has to leave once by one of these hops."""
    if len(left) != 1:
        return bed.words(left)
    hop = next((hop for hop in hops if hop.port == left[0].port), None)
    if hop is None:
        return f"one leaves by port {left[0].port}"
    right, came = routed(frame, bed.leaf, hop), left[0].frame
    if len(came) != len(right):
        return f"{len(came)} bytes instead of {len(right)}"
    where = next((n for n, (x, y) in enumerate(zip(right, came, strict=True)) if x != y), None)
    return "" if where is None else f"one differs at byte {where} of the frame"


# ---------------------------------------------------------------- flows in pairs, and by the dozen


def nearly(bed: Bed, flow: Flow) -> list[tuple[str, Flow]]:
    """Return flows that differ from one in a field each."""
    other = next((address, hop) for address, hop in bed.leaf.hosts if address != flow.src)
    return [
        ("source", replace(flow, src=other[0], port=other[1].port)),
        ("destination", replace(flow, dst=flow.dst ^ 1)),
        ("protocol", replace(flow, protocol=TCP + UDP - flow.protocol)),
        ("source port", replace(flow, src_port=flow.src_port ^ 0x100)),
        ("destination port", replace(flow, dst_port=flow.dst_port ^ 1)),
    ]


@dataclass
class _Model:
    """What is known of a flow: when its last packet came, and by which way it left."""

    at: int
    way: int


def schedule(bed: Bed, at: int) -> Claim:
    """Send random packets while ways go down and come back, and name the first that is wrong."""
    random, gap = bed.random, bed.gap
    flows = bed.flows(16)
    known: dict[Flow, _Model] = {}
    new, moved = 0, 0
    what = f"{PACKETS} packets of 16 flows at random times, {DECISIONS} changes of what is up"
    right = "each keeps its way within the gap if it is up, and else takes any that is"
    for number in range(DECISIONS):
        down = tuple(random.sample(range(WAYS), random.randrange(WAYS)))
        bed.take_down(*down)
        sent = []
        for _ in range(PACKETS // DECISIONS):
            at += random.randrange(gap // 6)
            sent.append((at, random.choice(flows)))
        for (tick, flow), way in zip(sent, bed.routes(sent), strict=True):
            last = known.get(flow)
            kept = last is not None and tick - last.at < gap and last.way not in down
            packet = f"after change {number + 1} (down: {list(down) or 'none'}), a packet"
            if last is not None:
                packet += f" {tick - last.at} ticks (gap {gap}) after one by way {last.way}"
            strays = last is not None and kept and way != last.way
            if not isinstance(way, int) or way in down or strays:
                came = f"way {way}" if isinstance(way, int) else way
                return Claim(what, right, f"{packet}: {came}", False)
            if last is not None and not kept and not down:
                new, moved = new + 1, moved + (way != last.way)
            known[flow] = _Model(tick, way)
    fair = moved >= FEW * new
    came = right if fair else f"{moved} of {new} new flowlets took another way"
    return Claim(what, right, came, fair)
