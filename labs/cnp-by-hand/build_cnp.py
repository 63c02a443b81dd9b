"""Step 1 of the lab: build a CNP with scapy, byte by byte, and see whether a network card takes it.

    .venv/bin/python labs/cnp-by-hand/build_cnp.py             builds one, hands it to a card
    .venv/bin/python labs/cnp-by-hand/build_cnp.py --write cnp.pcap
    .venv/bin/python labs/cnp-by-hand/build_cnp.py --read some.pcap    explains the CNPs in a file

Change `build` and run it again: which fields does the card look at, and which not?
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

# Started as a script: the repository is what this folder is in.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scapy.contrib.roce import BTH
from scapy.error import Scapy_Exception
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from scapy.utils import rdpcap, wrpcap

from hostagent.rnic.binding import Card
from hostagent.rnic.card_records import CardConfig, Operation, QueuePairConfig, Work
from mechanisms.dcqcn.parameters import parameters
from protocols.notification import RATE_UNIT_BPS, Notification, NotificationType, rate_units
from protocols.rocev2 import ROCE_V2_PORT, Opcode, icrc

LINE_RATE = 10 * 10**9
SOURCE_QP, SINK_QP = 0x000021, 0x000042
SOURCE_MAC, ROUTER_MAC = 0x02000A000101, 0x020100000001
SOURCE_IP, SINK_IP = 0x0A000101, 0x0A000301
US = 1_000_000  # in picoseconds, the card's unit


def build(data: Packet, source_qp: int) -> bytes:
    """Make the CNP that tells the sender of `data` to slow down.

    `source_qp`: the queue pair that sends. No field of the data packet says which one that is: BTH
    names only the destination's.
    """
    packet = (
        Ether(dst=data.src, src=data.dst)
        / IP(
            src=data[IP].dst,  # as if the destination had sent it
            dst=data[IP].src,
            tos=48 << 2,  # DSCP 48: the class that overtakes data; ECN 0: not capable
            id=0,
            flags="DF",
            ttl=64,
        )
        / UDP(sport=data[UDP].sport, dport=ROCE_V2_PORT, chksum=0)
        / BTH(opcode=int(Opcode.CNP), becn=1, pkey=0xFFFF, dqpn=source_qp, psn=0, icrc=0)
        / Raw(bytes(16))  # reserved: zeros, or a notification
    )
    frame: bytes = bytes(packet)
    # CRC-32 over 8 bytes of ones and the packet from IPv4 on, with ones where routers write.
    return frame[:-4] + icrc(frame).to_bytes(4, "little")


# ---------------------------------------------------------------- the card that gets it


def sender() -> Card:
    """Return a card whose queue pair sends to another host's, with DCQCN."""
    card = Card(
        CardConfig(mac=SOURCE_MAC, gateway_mac=ROUTER_MAC, ip=SOURCE_IP, line_rate_bps=LINE_RATE)
    )
    control = parameters("hpcc-dcqcn", line_rate_bps=LINE_RATE)
    card.add_queue_pair(QueuePairConfig(qpn=SOURCE_QP, queue=0), {"dcqcn": control.fields()})
    card.connect(SOURCE_QP, SINK_IP, peer_qpn=SINK_QP, peer_psn=0)
    card.post(SOURCE_QP, Work(id=1, operation=Operation.SEND, data=b"sixteen bytes..."))
    return card


def try_it(cnp: bytes, card: Card) -> str:
    """Hand a frame to the card; say what became of it."""
    card.receive(cnp, US)
    pair, counts = card.queue_pair_stats(SOURCE_QP, 2 * US), card.stats()
    rate = (pair.rate_bps or LINE_RATE) / 1e9
    if pair.cnps_received:
        return f"the card takes it: its rate falls from {LINE_RATE / 1e9:g} to {rate:g} Gb/s"
    reasons = {
        "its ICRC is wrong": counts.bad_icrc,
        "it is no packet that RoCEv2 knows": counts.malformed,
        "no such queue pair, or its peer is another host": counts.unknown_qp,
        "it is no RoCEv2 packet for this address": counts.other,
    }
    why = [reason for reason, count in reasons.items() if count]
    return f"the card does not take it: {', '.join(why) or 'it says nothing'}; still {rate:g} Gb/s"


# ---------------------------------------------------------------- reading


def explain(frame: bytes) -> list[str]:
    """Say in lines what a CNP says, and what is odd about it."""
    packet = Ether(frame)
    bth = packet[BTH]
    right = icrc(frame).to_bytes(4, "little")
    lines = [
        f"{packet[IP].src} tells {packet[IP].dst}, queue pair {bth.dqpn:#08x}: slow down",
        f"  DSCP {packet[IP].tos >> 2}, ECN {packet[IP].tos & 3}, TTL {packet[IP].ttl}, "
        f"{len(frame)} bytes",
        f"  BTH opcode {int(bth.opcode):#04x}, BECN {bth.becn}, P_Key {bth.pkey:#06x}, "
        f"PSN {bth.psn}",
        f"  ICRC {frame[-4:].hex(' ')}: "
        + ("right" if frame[-4:] == right else f"wrong, it should be {right.hex(' ')}"),
    ]
    told = Notification(frame[54:70])
    if told.type == NotificationType.CONGESTION:
        lines.append(
            f"  from switch {told.switch_id}, port {told.port}, of a packet for "
            f"{told.destination}, queue pair {told.destination_qp:#08x}: no faster than "
            f"{rate_units(told.queue) * RATE_UNIT_BPS / 1e9:.3g} Gb/s"
        )
    else:
        lines.append(f"  reserved bytes {frame[54:70].hex()}: a stock CNP")
    return lines


def is_cnp(frame: bytes) -> bool:
    """Say whether a frame is a CNP, whatever else is wrong with it."""
    packet = Ether(frame)
    return BTH in packet and int(packet[BTH].opcode) == Opcode.CNP and len(frame) >= 74


def read(path: Path) -> int:
    """Explain the CNPs in a capture; the exit code."""
    try:
        frames = [bytes(packet) for packet in rdpcap(str(path))]
    except (OSError, Scapy_Exception) as error:
        print(f"{path}: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
        return 2
    found = [frame for frame in frames if is_cnp(frame)]
    for frame in found:
        print("\n".join(explain(frame)))
    print(f"{len(found)} of {len(frames)} packets are CNPs")
    return 0


def main() -> int:
    """Run the exercise; return the exit code."""
    parser = argparse.ArgumentParser(description="Build a CNP with scapy, or read some.")
    parser.add_argument("--write", type=Path, metavar="PCAP", help="write the CNP to a capture")
    parser.add_argument("--read", type=Path, metavar="PCAP", help="explain the CNPs of a capture")
    arguments = parser.parse_args()
    if arguments.read:
        return read(arguments.read)
    card = sender()
    sent = card.transmit(0)
    assert sent is not None
    data = Ether(sent.frame)
    print("A data packet of the card:")
    data.show()
    cnp = build(data, SOURCE_QP)
    print("The CNP for it:")
    print("\n".join(explain(cnp)))
    print(try_it(cnp, card))
    if arguments.write:
        wrpcap(str(arguments.write), [Ether(cnp)])
        print(f"{arguments.write}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
