"""What there are marks for, and how a program is tried: random packets, exact answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from random import Random

from google.protobuf import text_format

from labs.grade import Detail, Finding, Item, Submission
from softswitch import Output, Switch
from softswitch.core import CoreConfig
from softswitch.p4runtime.pipeline import prepare
from softswitch.p4runtime.protos import p4i

from . import cnp, scenario
from .control_plane import (
    CELL_BYTES,
    Connection,
    Host,
    Setup,
    random_connections,
    random_setup,
    updates,
)
from .scenario import Seen, Sent

BURST = 24
PAYLOADS = (0, 20, 256, 700, 1000, 1024, 1460)
BEHIND_PAYLOAD = 500
STEADY = 60  # packets of each of two flows
STEADY_PAYLOAD = 1000
TICK_NS = 1000
AT_ONCE_NS = 20_000  # recirculation takes 1 us, another flow's packet 8 us
NO_CNP = "the switch makes no packet of its own: nothing to judge"
FIRST = "TODO 1 (when to tell) and TODO 3 (clone, recirculate) make it send a first one"


@dataclass(frozen=True)
class Met:
    """One packet of a known flow that left so many cells behind, and what the switch made of it."""

    flow: Connection
    other: Connection
    cells: int
    seen: Seen

    @property
    def is_told(self) -> bool:
        """Say whether its source has to be told."""
        return self.cells >= self.seen.setup.threshold

    @property
    def made(self) -> list[Output]:
        """What the switch made of it, wherever that went; not what it made of the others."""
        others = self.other.udp_port.to_bytes(2)
        return [output for output in self.seen.made if output.packet[34:36] != others]


class Bench:
    """The learner's program, and what it did in each scenario; each runs once.

    Each scenario draws from a random source of its own: the same seed makes the same packets
    whatever the program does.
    """

    def __init__(self, submission: Submission) -> None:
        info = text_format.Parse(submission.p4info_text, p4i.P4Info())
        self._pipeline = prepare(info, submission.json_text.encode())
        self._seed = submission.seed
        self.setup = random_setup(self._random("setup"))

    def _random(self, scenario: str) -> Random:
        return Random(f"{self._seed} {scenario}")

    def play(self, setup: Setup, burst: Sequence[Sent], sink: Host) -> Seen:
        """Run a burst on a fresh switch. Raises UnknownName, WriteError."""
        with Switch(CoreConfig(depth_cell_bytes=CELL_BYTES, queue_packets=1024)) as switch:
            switch.load(self._pipeline)
            switch.write(updates(switch.names, setup))
            return scenario.play(switch, setup, burst, sink)

    def data(self, random: Random, flow: Connection, payload: int, *, known: bool = True) -> Sent:
        """Draw a data packet of a flow; `known`: its source may be told."""
        frame = scenario.data(random, flow, self.setup.router_mac, payload)
        return Sent(flow.source.port, frame, flow if known else None)

    @cached_property
    def met(self) -> list[Met]:
        """Single packets of known flows, each on a fresh switch, with more or less behind them.

        What is behind them is of nobody's, and nothing is behind that: a copy that the switch sends
        the same way is the last, and causes no other.
        """
        random = self._random("met")
        behind = [0, *sorted(random.sample(range(1, 16), 7))]
        just = random.choice(behind[3:6])
        found = []
        for number, packets in enumerate(behind):
            known, unknown = random_connections(random, self.setup, 2)
            before = random.randrange(1, 16)
            payloads = [BEHIND_PAYLOAD] * (before + 1 + packets)
            burst = [self.data(random, unknown, each, known=False) for each in payloads]
            payload = 0 if number == len(behind) - 1 else random.choice(PAYLOADS)
            burst[before] = self.data(random, known, payload)
            of_one = -(-len(burst[0].frame) // CELL_BYTES)
            setup = replace(self.setup, connections=[known], threshold=just * of_one)
            seen = self.play(setup, burst, setup.sink)
            found.append(Met(known, unknown, seen.queue[before].cells, seen))
        return found

    @property
    def made(self) -> list[tuple[Met, Output]]:
        """What the switch made of the packets of `met`, wherever it went."""
        return [(met, output) for met in self.met for output in met.made]

    @cached_property
    def burst(self) -> Seen:
        """Packets of many flows, one each, of all lengths."""
        random = self._random("burst")
        flows = random_connections(random, self.setup, BURST)
        packets = [self.data(random, flow, random.choice(PAYLOADS)) for flow in flows]
        setup = replace(self.setup, connections=flows)
        return self.play(setup, packets, setup.sink)

    @cached_property
    def steady(self) -> Seen:
        """Two flows whose packets take turns, for several intervals."""
        return self.two_flows("steady")

    def two_flows(self, name: str) -> Seen:
        """Draw and run such a scenario."""
        random = self._random(name)
        flows = random_connections(random, self.setup, 2)
        setup = replace(self.setup, connections=flows, threshold=10)
        packets = [self.data(random, flow, STEADY_PAYLOAD) for _ in range(STEADY) for flow in flows]
        return self.play(setup, packets, setup.sink)

    @cached_property
    def innocent(self) -> Seen:
        """A queue above the threshold, made of packets that nobody may be told of."""
        random = self._random("innocent")
        known, unknown = random_connections(random, self.setup, 2)
        setup = replace(self.setup, connections=[known], threshold=1)
        mac, port = setup.router_mac, known.source.port
        packets = [self.data(random, unknown, 500, known=False) for _ in range(6)]
        packets += [Sent(port, scenario.cnp(random, known, mac), None) for _ in range(3)]
        packets += [Sent(port, scenario.other_udp(random, known, mac, 300), None) for _ in range(3)]
        packets += [self.data(random, unknown, 500, known=False) for _ in range(4)]
        return self.play(setup, packets, setup.sink)

    @cached_property
    def unwatched(self) -> Seen:
        """A queue at a port that the control plane does not watch."""
        random, to = self._random("unwatched"), self.setup.sources[1]
        flows = [flow._replace(sink=to) for flow in random_connections(random, self.setup, 12)]
        setup = replace(self.setup, connections=flows, threshold=1)
        return self.play(setup, [self.data(random, flow, 500, known=False) for flow in flows], to)


def bench(submission: Submission) -> Bench:
    """Make the bench. Raises PipelineError if the switch does not take the program."""
    return Bench(submission)


# ---------------------------------------------------------------- the items


def routes(b: Bench) -> Finding:
    """All originals come out as a router sends them, congested or not."""
    rows = []
    tried = {"a burst": b.burst, "two flows": b.steady, "CNPs and others": b.innocent}
    for name, seen in tried.items():
        sent, lost = len(seen.originals), len(seen.missing)
        rows.append(Detail.of(f"{name}: packets that left unchanged", sent, sent - lost))
    changed = _change(b)
    hint = "what is rewritten must be the clone, where std.instance_type == EGRESS_CLONE"
    return Finding.of(rows, hint, f"packets are lost or changed{changed}")


def _change(b: Bench) -> str:
    """Say where a packet was changed, if something like it came out."""
    for missing, output in (*b.burst.changed, *b.steady.changed):
        frame = output.packet
        if len(frame) != len(missing):
            return f": {len(frame)} bytes instead of {len(missing)}"
        where = next(i for i, (x, y) in enumerate(zip(missing, frame, strict=True)) if x != y)
        return f": at byte {where} of the frame, for one"
    return ""


def sends(b: Bench) -> Finding:
    """Check that the switch makes one packet for each that it reports, and comes to rest."""
    if any(met.seen.goes_on for met in b.met):
        return Finding.nothing(
            "packets still go round in the switch when it should be at rest",
            "clone only what is no clone, recirculate only the clone: see std.instance_type",
        )
    if not b.made:
        return Finding.nothing(f"the switch makes no packet: {_why_none(b.met[-1].seen)}", FIRST)
    told = [met for met in b.met if met.made]
    rows = [
        Detail.of(f"packets made for one with {met.cells} cells behind it", 1, len(met.made))
        for met in told
    ]
    return Finding.of(rows, "one clone a packet, and only of what comes to egress the first time")


def _why_none(seen: Seen) -> str:
    after = seen.later
    if seen.stranded:
        return f"{len(seen.stranded)} clones left by a port without a link, none recirculates"
    if after.clone_unknown_session:
        return f"{after.clone_unknown_session} were cloned to a session that is not there"
    if after.cloned:
        return f"{after.cloned} clones were made, and none was routed to a host"
    if after.recirculated:
        return f"{after.recirculated} packets recirculate, and none is a clone"
    return "nothing is cloned"


def threshold(b: Bench) -> Finding:
    """Check that a packet that leaves `threshold` or more behind makes a CNP, and others don't."""
    if not b.made:
        return Finding.nothing(NO_CNP, FIRST)
    least = b.met[0].seen.setup.threshold
    rows = []
    for met in b.met:
        count, expected = len(met.made), "a CNP" if met.is_told else "none"
        came = "none" if not count else "a CNP" if count == 1 else f"{count} packets"
        what = f"{met.cells} cells behind it, threshold {least}"
        rows.append(Detail(what, expected, came, bool(count) == met.is_told))
    wrong = [row for row in rows if not row.right]
    if not wrong:
        return Finding(1.0, details=tuple(rows))
    told = sum(row.expected == "none" for row in wrong)
    if len(wrong) == 1 and not told and wrong[0].what.startswith(f"{least} cells"):
        hint = "a queue of exactly the threshold is too long: >=, not >"
    else:
        hint = "compare std.deq_qdepth, what is left when the packet leaves, with the parameter"
    reason = f"{told} notified without need, {len(wrong) - told} not notified"
    # A program that tells everybody, or nobody, is right about half of them by chance.
    share = max(0.0, 1 - 2 * len(wrong) / len(rows))
    return Finding(share, reason, hint, tuple(rows))


def interval(b: Bench) -> Finding:
    """Check that a flow is notified at once, then once an interval, whatever other flows do.

    Two flows may share a cell of the register by chance, so a failure gets a second try.
    """
    found = _interval(b.steady)
    return found if found.share == 1 else max(found, _interval(b.two_flows("again")), key=_share)


def _share(finding: Finding) -> float:
    return finding.share


def _interval(seen: Seen) -> Finding:
    if not seen.told:
        if seen.made:
            reason = "nothing that the switch makes goes to the source, where it would be counted"
            return Finding.nothing(reason, "TODO 4 first")
        return Finding.nothing(NO_CNP, FIRST)
    rows = []
    ticks = seen.setup.interval
    for number, flow in enumerate(seen.setup.connections, 1):
        times = [output.at_ns for output in seen.of(flow)]
        own = [waited for waited in seen.queue if waited.sent.flow == flow]
        leaves = [waited.at_ns for waited in own if waited.cells >= seen.setup.threshold]
        least, most = _expected(leaves, ticks)
        right = least <= len(times) <= most
        shown = str(least) if least == most else f"{least} to {most}"
        rows.append(Detail(f"flow {number}: CNPs", shown, str(len(times)), right))
        late = times[0] - leaves[0] if times else None
        rows.append(
            Detail(
                f"flow {number}: its first CNP",
                "at once",
                "never" if late is None else f"{late / 1000:.1f} us later",
                late is not None and late < AT_ONCE_NS,
            )
        )
        gaps = [b - a for a, b in pairwise(times)]
        if gaps:
            shortest = min(gaps)
            rows.append(
                Detail(
                    f"flow {number}: shortest time between two",
                    f"{ticks} us",
                    f"{shortest / 1000:.1f} us",
                    shortest >= (ticks - 1) * TICK_NS,
                )
            )
    hint = (
        "a cell of next_cnp for each flow: read it, compare with std.egress_global_timestamp, "
        "write when the flow may be notified again; a cell that was never written is 0"
    )
    return Finding.of(rows, hint)


def _expected(leaves: Sequence[float], ticks: int) -> tuple[int, int]:
    """How many CNPs a flow gets; two numbers where a tick more or less makes a difference.

    `leaves`: when its packets leave the queue that is too long.
    """
    counts = []
    for gap in (ticks - 1, ticks + 1):
        count, next_ns = 0, 0.0
        for at_ns in leaves:
            if at_ns >= next_ns:
                count, next_ns = count + 1, at_ns + gap * TICK_NS
        counts.append(count)
    return min(counts), max(counts)


def addresses(b: Bench) -> Finding:
    """Which way the CNPs take; Ethernet, IPv4 and UDP."""

    def look(met: Met, output: Output) -> list[Detail]:
        port = Detail.of("leaves by port", met.flow.source.port, output.port)
        return [port, *cnp.address_details(output.packet, met.seen.setup, met.flow)]

    return _worst(b, cnp.LEAST_BYTES, "TODO 4: what the destination would put there", look)


def bth(b: Bench) -> Finding:
    """BTH of the CNPs."""
    return _worst(
        b,
        cnp.LEAST_BYTES,
        "TODO 5: all of BTH is new; meta.source_qp is 0 in a clone unless @field_list names it",
        lambda met, output: cnp.bth_details(output.packet, met.flow),
    )


def length(b: Bench) -> Finding:
    """How long the CNPs are, and what their reserved bytes say."""
    return _worst(
        b,
        0,
        "TODO 6: 16 zero bytes, and truncate() for what is left of the data",
        lambda _, output: cnp.length_details(output.packet),
    )


def icrc(b: Bench) -> Finding:
    """Check the ICRC of all CNPs."""
    findings = [cnp.icrc_finding(output.packet) for _, output in b.made]
    nothing = Finding.nothing(NO_CNP, FIRST)
    return min(findings, key=_share, default=nothing)


def innocent(b: Bench) -> Finding:
    """Nobody is told for CNPs, for what is no RoCE, without a known source, or unasked."""
    if not b.made:
        return Finding.nothing(NO_CNP, FIRST)
    made = {"CNP": 0, "no RoCE": 0, "unknown queue pair": 0}
    for output in b.innocent.made:
        made[_cause(b.innocent, output.packet)] += 1
    rows = [
        Detail.of("CNPs for a CNP in a long queue", 0, made["CNP"]),
        Detail.of("CNPs for packets to other UDP ports", 0, made["no RoCE"]),
        Detail.of("CNPs for an unknown queue pair", 0, made["unknown queue pair"]),
        Detail.of("CNPs for a port that is not watched", 0, len(b.unwatched.made)),
        Detail.of("is at rest afterwards", "yes", "no" if b.innocent.goes_on else "yes"),
    ]
    return Finding.of(rows, "TODO 1: only a RoCE packet that is no CNP itself may cause one")


def _cause(seen: Seen, frame: bytes) -> str:
    """Say for which kind of packet one was made, by its UDP source port and what else was sent."""
    (known,) = seen.setup.connections
    if frame[34:36] != known.udp_port.to_bytes(2):
        return "unknown queue pair"
    return "no RoCE" if frame[36:38] != (4791).to_bytes(2) else "CNP"


def notification(b: Bench) -> Finding:
    """Check the notification in the reserved bytes."""
    return _worst(
        b,
        cnp.RESERVED.stop,
        "TODO 8: @field_list for the port; fill it before the addresses are swapped",
        lambda met, output: cnp.notification_details(
            output.packet, met.seen.setup, met.flow, met.seen.sink.port
        ),
    )


Look = Callable[[Met, Output], list[Detail]]
"""From a packet and what the switch made of it, what is in that."""


def _worst(b: Bench, least: int, hint: str, look: Look) -> Finding:
    """Look at everything that the switch made of single packets, and tell of the worst."""
    findings = []
    for met, output in b.made:
        size = len(output.packet)
        if size < least:
            findings.append(Finding.nothing(f"{size} bytes are too few for a CNP", hint))
        else:
            findings.append(Finding.of(look(met, output), hint))
    nothing = Finding.nothing(NO_CNP, FIRST)
    return min(findings, key=_share, default=nothing)


def items() -> Sequence[Item]:
    """Return them in the order of the README."""
    return (
        Item("routes", "data passes unchanged", 2,
             "every packet leaves once, with new MAC addresses, TTL and checksum", routes),
        Item("threshold", "TODO 1: a long queue is reported", 3,
             "a CNP for a packet that leaves `threshold` cells or more behind", threshold),
        Item("innocent", "TODO 1: and nothing else is", 2,
             "no CNP for CNPs, other protocols, unknown queue pairs, other ports", innocent),
        Item("interval", "TODO 2: once in an interval", 2,
             "a flow is notified at once, then once in each interval", interval),
        Item("sends", "TODO 3: clone and recirculate", 2,
             "one copy of a packet comes back and is routed, then the switch is at rest", sends),
        Item("addresses", "TODO 4: Ethernet, IPv4 and UDP", 3,
             "as the destination would have sent it", addresses),
        Item("bth", "TODO 5: BTH", 3,
             "a CNP for the source's queue pair", bth),
        Item("length", "TODO 6: 74 bytes", 1,
             "16 reserved bytes behind BTH, then the ICRC, then nothing", length),
        Item("icrc", "TODO 7: ICRC", 2,
             "CRC-32 over 8 bytes of ones and the masked packet, least significant byte first",
             icrc),
        Item("notification", "TODO 8: the notification", 3,
             "the reserved bytes describe what happened, where, and to which packet", notification,
             bonus=True),
    )  # fmt: skip
