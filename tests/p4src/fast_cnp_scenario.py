"""Packets that make fast CNPs whatever the time is, so that all switches can be compared on them.

    port 1  h1 10.0.1.1, reads notifications      port 2  10.0.1.0/24: the ports that are far away
    port 4  h4 10.0.1.4, a stock NIC              port 3  10.0.2.0/24: behind another switch

    sudo .venv/bin/python -m tests.p4src.fast_cnp_scenario      records what BMv2 and p4c answer

The queues are far ones (table fast_cnp_far), which exist as a number of bytes, and drain nothing.
Windows are as short as a packet and loops are for ever, so that no rate depends on the time.
Intervals and limits are for ever, or none.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from pathlib import Path
from typing import Any

from scapy.contrib.roce import AETH, BTH, CNPPadding
from scapy.layers.inet import IP, UDP, IPOption_NOP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from compat.parity import cases
from compat.parity.cases import Answer, Json, Round
from compat.parity.live import BMV2, LiveSwitch
from compat.parity.targets import InProcess, prepare
from protocols.notification import Notification, NotificationType
from protocols.rocev2 import RETH, Opcode
from tests.p4src.fast_cnp_rule import Queue, said

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "p4src" / "fast_cnp.p4"
RECORDED = ROOT / "tests" / "golden" / "fast_cnp.vectors.json"

H1, H4, RECEIVER, AWAY, UNKNOWN = "10.0.1.1", "10.0.1.4", "10.0.1.2", "10.0.2.1", "10.0.2.9"
SLOWED, CUT, LIMITED, FULL = (f"10.0.1.{n}" for n in range(5, 9))
NAMES = {SLOWED: "slowed", CUT: "cut", FULL: "full"}
FAR_STOCK = "10.0.2.4"
COLLIDING = (("10.0.2.24", 0x4BB447), ("10.0.2.25", 0x2E575D), ("10.0.2.26", 0x84BD1A))
ROUTER_MAC = "02:00:00:00:00:99"
SWITCH_ID = 513
FOREVER = (1 << 48) - 1
SLOW = (1 << 40) - 1  # a packet takes for ever: no queue has been empty for long
UNIT = 1 << 40  # of loops, in 1/256 ticks: none is ever over
PARTS = {128: 100, 300: 40, 2000: 1}  # the cut table: from which excess on, to which 256th
NOT_CAPABLE, CAPABLE, CONGESTED = 0, 2, 3
TOLD = 1


class Outcome(IntEnum):
    """Mirrors FastCnpOutcome of p4src/modules/fast_cnp/claim.p4."""

    SENT = 0
    INTERVAL = 1
    ALREADY_TOLD = 2
    PORT_LIMIT = 3
    COLLISION = 4
    NOBODY = 5
    UNKNOWN_QP = 6
    AMBIGUOUS_QP = 7


@dataclass(frozen=True)
class Case:
    """A packet, and what the module's words say becomes of it. `outcome` None: it came too early.

    `leaves`: whether it goes on at all. `rate` and `validity` are what its CNP says, where told.
    `hears`: its source will hear of the queue, which is long once this packet is there.
    """

    name: str
    port: int
    packet: Packet
    outcome: Outcome | None = None
    leaves: bool = True
    rate: int | None = None
    validity: int | None = None
    hears: bool = False


# --- entries --------------------------------------------------------------------------------------


def ip(text: str) -> str:
    return "0x" + bytes(map(int, text.split("."))).hex()


def word(value: Any) -> Any:
    """Return a number as updates have it; text and other kinds of match as they are."""
    return hex(value) if isinstance(value, int) else value


def entry(table: str, action: str, params: dict[str, Any], **match: Any) -> Json:
    """Return an entry; an exact match is a value, another kind a mapping."""
    keys = {
        name: value if isinstance(value, dict) else {"exact": word(value)}
        for name, value in match.items()
    }
    call = {"name": action, "params": {name: word(value) for name, value in params.items()}}
    return {"type": "INSERT", "table_entry": {"table": table, "match": keys, "action": call}}


def default(table: str, action: str, **params: int) -> Json:
    values = {name: word(value) for name, value in params.items()}
    body = {"table": table, "default": True, "action": {"name": action, "params": values}}
    return {"type": "MODIFY", "table_entry": body}


def cuts() -> Iterator[Json]:
    """Yield the table of what an excess makes of a rate."""
    firsts = [*PARTS, 1 << 16]
    for first, behind in pairwise(firsts):
        excess = {"range": [hex(first), hex(behind - 1)]}
        made = entry("fast_cnp_cut", "cut_to_part", {"part": PARTS[first]}, excess=excess)
        made["table_entry"]["priority"] = 1
        yield made


# Below the most from the first byte above the target on, and then never faster.
STEP = {
    "wanted_depth": 600, "burst_depth": 600, "drain": 0, "window": 0, "window_loop": 0,
    "unit": UNIT, "share": 1 << 16,
    "packets": 1 << 16, "line": 0, "speed": SLOW, "most": 10**11, "least": 10**11 - 1,
}  # fmt: skip
FIRST = {**STEP, "wanted_depth": 0, "burst_depth": 0}
QUEUES: dict[str, dict[str, int]] = {
    RECEIVER: {**STEP, "index": 512},
    # a few 256ths of a loop too much, and what its depth adds
    SLOWED: {**STEP, "index": 513, "least": 10**8, "share": 1 << 13, "window_loop": 2},
    CUT: {**STEP, "index": 514, "least": 10**7, "packets": 400, "line": 10**11 >> 16},
    LIMITED: {**FIRST, "index": 515},
    # down to the least, whose rate takes a few bits
    FULL: {
        **STEP,
        "index": 1023,
        "wanted_depth": 0,
        "burst_depth": 0,
        "least": 70_000,
        "share": (1 << 32) - 1,
    },
}


def far(destination: str) -> Iterator[Json]:
    """How a queue is watched, and what is asked of it: one packet in all of LIMITED's."""
    numbers, at = QUEUES[destination], {"port": 2, "destination": ip(destination)}
    yield entry("fast_cnp_far", "watch_far_queue", numbers, **at)
    limit = (FOREVER >> 1, 0) if destination == LIMITED else (0, FOREVER >> 1)
    asked = {
        **{name: numbers[name] for name in ("index", "unit", "speed")},
        "burst_time": numbers["packets"] * numbers["speed"],
        **dict(zip(("gap", "burst"), limit, strict=True)),
    }
    yield entry("fast_cnp_far_claims", "ask_far_queue", asked, **at)


def routes() -> Iterator[Json]:
    prefixes = {f"{H1}/32": 1, "10.0.1.0/24": 2, "10.0.2.0/24": 3, f"{H4}/32": 4}
    for prefix, port in prefixes.items():
        address, _, length = prefix.partition("/")
        match = {"lpm": [ip(address), int(length)]}
        yield entry("ipv4_route", "route_to", {"next_hop": port}, dst=match)
        macs = {"src_mac": "0x020000000099", "dst_mac": f"0x02000000000{port}"}
        yield entry("next_hop", "forward_to", {"port": port, **macs}, next_hop=port)


def setup() -> tuple[Json, ...]:
    """Everything that the controller would have written, and queues that need no time."""
    mac = int(ROUTER_MAC.replace(":", ""), 16)
    session = {"id": 510, "replicas": [{"port": 510, "instance": 1}], "packet_length_bytes": 0}
    return (
        {"type": "INSERT", "clone_session": session},
        default("router", "set_router_mac", mac=mac),
        default("fast_cnp_mode", "enable_fast_cnp", dscp=48, switch_id=SWITCH_ID),
        *routes(),
        entry("host_port", "guard_host", {"address": ip(H1)}, port=1),
        entry("host_port", "guard_host", {"address": ip(H4)}, port=4),
        entry("fast_cnp_source", "notify_source", {"stands": 5, "every": FOREVER}, source=ip(H1)),
        *(
            entry("fast_cnp_source", "send_plain_cnp", {"every": FOREVER}, source=ip(at))
            for at in (H4, FAR_STOCK)
        ),
        entry("fast_cnp_source", "notify_source", {"stands": 15, "every": 0}, source=ip(AWAY)),
        *(
            entry(
                "fast_cnp_source", "notify_source", {"stands": 1, "every": FOREVER}, source=ip(at)
            )
            for at, _ in COLLIDING
        ),
        entry(
            "stock_queue_pairs", "set_source_qp", {"qp": 0x1234}, destination=ip(RECEIVER), qp=77
        ),
        entry("stock_queue_pairs", "skip_ambiguous_qp", {}, destination=ip(RECEIVER), qp=78),
        *(each for to in QUEUES for each in far(to)),
        *cuts(),
    )


# --- packets --------------------------------------------------------------------------------------


def data(src: str, dst: str, qp: int, length: int = 300, **fields: Any) -> Packet:
    """Return a RoCEv2 data packet of `length` bytes from Ethernet on."""
    ip_fields = {"tos": CAPABLE, "id": 9, "flags": "DF", "ttl": 64, **fields.pop("ip", {})}
    more = fields.pop("more", None)
    bth = BTH(opcode=fields.pop("opcode", Opcode.SEND_MIDDLE), dqpn=qp, psn=7, **fields)
    packet = Ether(src="02:00:00:00:00:77", dst=ROUTER_MAC) / IP(src=src, dst=dst, **ip_fields)
    packet /= UDP(sport=50001, dport=4791, chksum=0)
    packet /= bth if more is None else bth / more
    return packet / Raw(bytes(length - len(packet)))


def cnp(src: str, dst: str, signal: Notification | None = None) -> Packet:
    padding = CNPPadding(bytes(signal)) if signal else CNPPadding()
    packet = Ether(src="02:00:00:00:00:77", dst=ROUTER_MAC) / IP(src=src, dst=dst, tos=48 << 2)
    return packet / UDP(sport=5, dport=4791, chksum=0) / BTH(opcode=Opcode.CNP, becn=1) / padding


def scenario() -> Iterator[Case]:
    """All cases, in order: queues and cells remember the ones before."""
    yield Case("below-the-target", 1, data(H1, RECEIVER, 0x11))
    yield Case("at-the-target", 1, data(H1, RECEIVER, 0x11))
    yield Case("above-it", 1, data(H1, RECEIVER, 0x11), hears=True)
    first = {"rate": said(10**11 - 1), "validity": 5}
    yield Case("first-told", 1, data(H1, RECEIVER, 0x11), Outcome.SENT, **first)
    yield Case("told-a-moment-ago", 1, data(H1, RECEIVER, 0x11), Outcome.INTERVAL)
    yield Case("another-queue-pair", 1, data(H1, RECEIVER, 0xFFFFFF), Outcome.SENT)
    clean = {"ip": {"tos": NOT_CAPABLE}}
    yield Case("not-capable-of-ecn", 1, data(H1, RECEIVER, 0x13, **clean), Outcome.SENT)
    reth = RETH(address=1, rkey=2, length=3)
    write = data(H1, RECEIVER, 0x14, opcode=Opcode.WRITE_FIRST, more=reth)
    yield Case("write-with-reth", 1, write, Outcome.SENT)
    response = data(H1, RECEIVER, 0x15, opcode=Opcode.READ_ONLY, more=AETH(msn=5))
    yield Case("read-response-with-aeth", 1, response, Outcome.SENT)
    options = {"ip": {"options": [IPOption_NOP()] * 8}}
    yield Case("ip-options", 1, data(H1, RECEIVER, 0x16, **options), Outcome.SENT)
    yield Case("shorter-than-its-cnp", 1, data(H1, RECEIVER, 0x17, length=60), Outcome.SENT)
    yield Case("payload-of-4096", 1, data(H1, RECEIVER, 0x18, length=4154), Outcome.SENT)

    # only data has a source to slow down
    ack = data(H1, RECEIVER, 0x21, length=62, opcode=Opcode.ACK, more=AETH(msn=5))
    yield Case("acknowledgement", 1, ack)
    request = data(H1, RECEIVER, 0x22, length=74, opcode=Opcode.READ_REQUEST, more=reth)
    yield Case("read-request", 1, request)

    # stock NICs: a plain CNP to the right queue pair and a mark, or a guess that is not made
    yield Case("stock", 4, data(H4, RECEIVER, 77), Outcome.SENT)
    yield Case("stock-again", 4, data(H4, RECEIVER, 77), Outcome.INTERVAL)
    yield Case("stock-ambiguous", 4, data(H4, RECEIVER, 78), Outcome.AMBIGUOUS_QP)
    yield Case("stock-unknown", 4, data(H4, RECEIVER, 79), Outcome.UNKNOWN_QP)
    yield Case("nobody", 3, data(UNKNOWN, RECEIVER, 77), Outcome.NOBODY)

    # what the switch before this one said: each has a rate of its own, but a stock NIC is told once
    told = data(AWAY, RECEIVER, 0x30, resv6=TOLD)
    yield Case("told-upstream", 3, told, Outcome.SENT)
    upstream = data(FAR_STOCK, RECEIVER, 77, resv6=TOLD)
    yield Case("stock-told-upstream", 3, upstream, Outcome.ALREADY_TOLD)
    yield Case("no-interval", 3, data(AWAY, RECEIVER, 0x31), Outcome.SENT)
    yield Case("no-interval-again", 3, data(AWAY, RECEIVER, 0x31), Outcome.SENT)
    other_bits = data(AWAY, RECEIVER, 0x31, resv6=0x3E)
    yield Case("other-reserved-bits", 3, other_bits, Outcome.SENT)

    # three flows, two cells
    for number, (at, qp) in enumerate(COLLIDING):
        outcome = Outcome.COLLISION if number == 2 else Outcome.SENT
        yield Case(f"cell-{number + 1}", 3, data(at, RECEIVER, qp), outcome)

    # rates: down by what comes and stands too much, cut where it is far too much, the least
    for to in (SLOWED, CUT, FULL):
        queue = Queue(QUEUES[to], PARTS)
        for number, length in enumerate((300, 600, 1400, 90, 1400, 300, 300)):
            rate = queue.asked(1, 15)
            queue.packet(1, length)
            packet = data(AWAY, to, 0x41, length)
            name = f"{NAMES[to]}-{number + 1}"
            if rate is not None:
                yield Case(name, 3, packet, Outcome.SENT, rate=rate, validity=15)
            else:
                yield Case(name, 3, packet, hears=queue.active)

    # a port's share
    yield Case("fills-it", 3, data(AWAY, LIMITED, 0x71), hears=True)
    yield Case("within-the-share", 3, data(AWAY, LIMITED, 0x71), Outcome.SENT)
    yield Case("above-the-share", 3, data(AWAY, LIMITED, 0x71), Outcome.PORT_LIMIT)

    # what hosts may not say
    yield Case("own-plain-cnp", 1, cnp(H1, RECEIVER))
    yield Case("cnp-of-another", 1, cnp(H4, RECEIVER), leaves=False)
    for kind in list(NotificationType)[1:]:
        signal = Notification(type=kind, severity=15, queue=500, destination=RECEIVER)
        yield Case(f"host-says-{kind.name}", 1, cnp(H1, RECEIVER, signal), leaves=False)
    signal = Notification(type=NotificationType.CONGESTION, queue=500, destination=H1)
    yield Case("switch-says-congestion", 3, cnp(AWAY, H1, signal))
    claims = data(H1, RECEIVER, 0x81, resv6=0x3F)
    yield Case("host-claims-to-be-told", 1, claims, Outcome.SENT)


def recorded_round() -> Round:
    """Return the scenario as parity runs have it."""
    packets = (cases.Packet(case.port, bytes(case.packet)) for case in scenario())
    return Round(setup(), tuple(packets))


# --- recording ------------------------------------------------------------------------------------


def write(
    recorded: Path, note: str, program: str, names: Iterable[str], round_: Round, answer: Answer
) -> None:
    """Write vectors, a line for each update and case."""
    answers = zip(names, round_.packets, answer.seen, strict=True)
    document: dict[str, Any] = {
        "program": program,
        "recorded_with": "BMv2 1.15.5 simple_switch_grpc, p4c 1.2.5.16",
        "note": note,
        "ports": list(cases.PORTS),
        "cpu_port": cases.CPU_PORT,
        "setup": list(round_.setup),
        "cases": [
            {"name": name, "in": packet.as_json(), **cases.seen_as_json(seen)}
            for name, packet, seen in answers
        ],
        "counters": [],
    }
    parts = []
    for name, value in document.items():
        rows = isinstance(value, list) and value and isinstance(value[0], dict)
        inner = ",\n".join(f"  {json.dumps(row)}" for row in value) if rows else ""
        parts.append(f" {json.dumps(name)}: " + (f"[\n{inner}\n ]" if rows else json.dumps(value)))
    recorded.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def record(recorded: Path, note: str, source: Path, names: Iterable[str], round_: Round) -> None:
    """Write what BMv2 answers with p4c's program. Root."""
    with tempfile.TemporaryDirectory() as folder:
        json_path, p4info_path = Path(folder, "p.json"), Path(folder, "p.txtpb")
        files = ["-o", str(json_path), "--p4runtime-files", str(p4info_path)]
        command = ["p4c-bm2-ss", "--std", "p4-16", *files, str(source)]
        subprocess.run(command, check=True)
        prepared = prepare(json_path.read_text(), p4info_path.read_text())
    switch = LiveSwitch(BMV2, prepared)
    try:
        answer = switch.run(round_, InProcess(prepared).run(round_).seen, patience=10)
    finally:
        switch.close()
    write(recorded, note, source.stem, names, round_, answer)
    refused = [text for text in answer.refused if text]
    print(f"{recorded}: {len(answer.seen)} cases; updates refused: {refused}")


def main() -> None:
    """Write what BMv2 answers with p4c's program to tests/golden. Root."""
    note = "written by tests/p4src/fast_cnp_scenario.py, which says what each case is about"
    record(RECORDED, note, PROGRAM, (case.name for case in scenario()), recorded_round())


if __name__ == "__main__":
    main()
