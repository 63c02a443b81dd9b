"""What there are marks for, and how a program is tried: random packets, exact answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from random import Random

from google.protobuf import text_format

from labs.grade import Detail, Finding, Item, Submission
from softswitch import Switch
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
STEADY = 60  # packets of each of two flows
STEADY_PAYLOAD = 1000
TICK_NS = 1000
NO_CNP = "the switch makes no packet of its own: nothing to judge"
FIRST = "TODO 1 (when to tell) and TODO 3 (clone, recirculate) make it send a first one"


class Bench:
    """The learner's program, and what it did in each scenario; each runs once."""

    def __init__(self, submission: Submission) -> None:
        info = text_format.Parse(submission.p4info_text, p4i.P4Info())
        self._pipeline = prepare(info, submission.json_text.encode())
        self.random = Random(submission.seed)
        self.setup = random_setup(self.random)

    def play(self, setup: Setup, burst: Sequence[Sent], sink: Host) -> Seen:
        """Run a burst on a fresh switch. Raises UnknownName, WriteError."""
        with Switch(CoreConfig(depth_cell_bytes=CELL_BYTES, queue_packets=1024)) as switch:
            switch.load(self._pipeline)
            switch.write(updates(switch.names, setup))
            return scenario.play(switch, setup, burst, sink)

    def data(self, flow: Connection, payload: int, *, told: bool = True) -> Sent:
        """Draw a data packet of a flow; `told`: its source may be told."""
        frame = scenario.data(self.random, flow, self.setup.router_mac, payload)
        return Sent(flow.source.port, frame, flow if told else None)

    @cached_property
    def quiet(self) -> Seen:
        """Two packets: the first finds the port idle, the second leaves nothing behind."""
        flows = random_connections(self.random, self.setup, 2)
        setup = replace(self.setup, connections=flows)
        return self.play(setup, [self.data(flow, 200) for flow in flows], setup.sink)

    @cached_property
    def burst(self) -> Seen:
        """Packets of many flows, one each, of all lengths; one meets just the threshold."""
        flows = random_connections(self.random, self.setup, BURST)
        packets = [self.data(flow, self.random.choice(PAYLOADS)) for flow in flows]
        packets[5] = self.data(flows[5], 0)  # shorter than a CNP
        queue = scenario.queue_of(packets)
        at = self.random.randrange(9, BURST - 5)
        setup = replace(self.setup, connections=flows, threshold=queue[at].cells)
        return self.play(setup, packets, setup.sink)

    @cached_property
    def steady(self) -> Seen:
        """Two flows whose packets take turns, for several intervals."""
        flows = random_connections(self.random, self.setup, 2)
        setup = replace(self.setup, connections=flows, threshold=10)
        packets = [self.data(flow, STEADY_PAYLOAD) for _ in range(STEADY) for flow in flows]
        return self.play(setup, packets, setup.sink)

    @cached_property
    def innocent(self) -> Seen:
        """A queue above the threshold, made of packets that nobody may be told of."""
        known, unknown = random_connections(self.random, self.setup, 2)
        setup = replace(self.setup, connections=[known], threshold=1)
        mac, random, port = setup.router_mac, self.random, known.source.port
        packets = [self.data(unknown, 500, told=False) for _ in range(6)]
        packets += [Sent(port, scenario.cnp(random, known, mac), None) for _ in range(3)]
        packets += [Sent(port, scenario.other_udp(random, known, mac, 300), None) for _ in range(3)]
        packets += [self.data(unknown, 500, told=False) for _ in range(4)]
        return self.play(setup, packets, setup.sink)

    @cached_property
    def unwatched(self) -> Seen:
        """A queue at a port that the control plane does not watch."""
        to = self.setup.sources[1]
        flows = [f._replace(sink=to) for f in random_connections(self.random, self.setup, 12)]
        setup = replace(self.setup, connections=flows, threshold=1)
        return self.play(setup, [self.data(flow, 500, told=False) for flow in flows], to)


def bench(submission: Submission) -> Bench:
    """Make the bench. Raises PipelineError if the switch does not take the program."""
    return Bench(submission)


# ---------------------------------------------------------------- the items


def routes(b: Bench) -> Finding:
    """All originals come out as a router sends them, congested or not."""
    rows = []
    tried = {
        "an idle port": b.quiet,
        "a burst": b.burst,
        "two flows": b.steady,
        "CNPs and others": b.innocent,
    }
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
    """The switch makes packets, all of them go to the source, and it comes to rest."""
    seen = b.burst
    if seen.goes_on:
        return Finding.nothing(
            "packets still go round in the switch when it should be at rest",
            "clone only what is no clone, recirculate only the clone: see std.instance_type",
        )
    if not seen.made:
        return Finding.nothing(f"the switch makes no packet: {_why_none(seen)}", FIRST)
    rows = [Detail.of("packets made that left by other ports", 0, len(seen.made) - len(seen.told))]
    rows.append(Detail("packets made that went to the source", "1 and more", str(len(seen.told)),
                       bool(seen.told)))  # fmt: skip
    to = {output.port for output in seen.made} - {seen.setup.sources[0].port}
    hint = "TODO 4: a copy that still has the data's addresses takes the data's way"
    return Finding.of(rows, hint, f"copies leave by port {', '.join(map(str, sorted(to)))}, "
                      f"the source is at port {seen.setup.sources[0].port}")  # fmt: skip


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


def _rest(seen: Seen) -> str:
    return "no" if seen.goes_on else "yes"


def threshold(b: Bench) -> Finding:
    """Flows whose packet left `threshold` and more behind are told, others are not."""
    if not b.burst.told:
        return _none(b.burst)
    least = b.burst.setup.threshold
    rows = []
    for waited in b.burst.queue:
        flow = waited.sent.flow
        assert flow is not None
        came = len(b.burst.of(flow))
        expected = "a CNP" if waited.cells >= least else "none"
        shown = "none" if not came else "a CNP" if came == 1 else f"{came} CNPs"
        what = f"queue {waited.cells} cells, threshold {least}"
        rows.append(Detail(what, expected, shown, bool(came) == (waited.cells >= least)))
    quiet = len(b.quiet.made)
    rows.append(Detail("an idle port", "none", f"{quiet} CNPs" if quiet else "none", not quiet))
    wrong = [row for row in rows if not row.right]
    told = [row for row in wrong if row.expected == "none"]
    silent = [row for row in wrong if row.expected != "none"]
    if len(wrong) <= 2 and silent and all(f" {least} cells" in row.what for row in silent):
        hint = "a queue of exactly the threshold is too long: >=, not >"
    else:
        hint = "compare std.deq_qdepth, what is left when the packet leaves, with the parameter"
    reason = f"{len(told)} told without need, {len(silent)} not told"
    # A program that tells everybody, or nobody, is right about half of them by chance.
    share = max(0.0, 1 - 2 * len(wrong) / len(rows))
    return Finding(1.0 if not wrong else share, reason if wrong else "",
                   hint if wrong else "", tuple(rows))  # fmt: skip


def interval(b: Bench) -> Finding:
    """A flow is told at once, then once in each interval, whatever other flows do."""
    seen = b.steady
    if not seen.told:
        return _none(seen)
    rows = []
    ticks = seen.setup.interval
    for number, flow in enumerate(seen.setup.connections, 1):
        times = [output.at_ns for output in seen.of(flow)]
        least, most = _expected(seen, flow)
        right = least <= len(times) <= most
        shown = str(least) if least == most else f"{least} to {most}"
        rows.append(Detail(f"flow {number}: CNPs", shown, str(len(times)), right))
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
        "write when the flow may be told again; a cell that was never written is 0"
    )
    return Finding.of(rows, hint)


def _expected(seen: Seen, flow: Connection) -> tuple[int, int]:
    """How many CNPs a flow gets; two numbers where a tick more or less makes a difference."""
    leaves = [
        w.at_ns for w in seen.queue if w.sent.flow == flow and w.cells >= seen.setup.threshold
    ]
    counts = []
    for gap in (seen.setup.interval - 1, seen.setup.interval + 1):
        count, next_ns = 0, 0.0
        for at_ns in leaves:
            if at_ns >= next_ns:
                count, next_ns = count + 1, at_ns + gap * TICK_NS
        counts.append(count)
    return min(counts), max(counts)


def addresses(b: Bench) -> Finding:
    """Ethernet, IPv4 and UDP of the CNPs."""
    return _worst(
        b,
        cnp.LEAST_BYTES,
        "TODO 4: what the destination would put there",
        lambda frame, flow, _: cnp.address_details(frame, b.burst.setup, flow),
    )


def bth(b: Bench) -> Finding:
    """BTH of the CNPs."""
    return _worst(
        b,
        cnp.LEAST_BYTES,
        "TODO 5: all of BTH is new; meta.source_qp is 0 in a clone unless @field_list names it",
        lambda frame, flow, _: cnp.bth_details(frame, flow),
    )


def length(b: Bench) -> Finding:
    """How long the CNPs are, and what their reserved bytes say."""
    return _worst(b, 0, "TODO 6: 16 zero bytes, and truncate() for what is left of the data",
                  lambda frame, _, __: cnp.length_details(frame))  # fmt: skip


def icrc(b: Bench) -> Finding:
    """The ICRC of all CNPs."""
    if not b.burst.told:
        return _none(b.burst)
    findings = [cnp.icrc_finding(output.packet) for output in b.burst.told]
    return min(findings, key=lambda finding: finding.share)


def innocent(b: Bench) -> Finding:
    """Nobody is told for CNPs, for what is no RoCE, without a known source, or unasked."""
    if not b.burst.told:
        return _none(b.burst)
    made = {"CNP": 0, "no RoCE": 0, "unknown queue pair": 0}
    for output in b.innocent.made:
        made[_cause(b.innocent, output.packet)] += 1
    rows = [
        Detail.of("CNPs for a CNP in a long queue", 0, made["CNP"]),
        Detail.of("CNPs for packets to other UDP ports", 0, made["no RoCE"]),
        Detail.of("CNPs for an unknown queue pair", 0, made["unknown queue pair"]),
        Detail.of("CNPs for a port that is not watched", 0, len(b.unwatched.made)),
        Detail.of("is at rest afterwards", "yes", _rest(b.innocent)),
    ]
    return Finding.of(rows, "TODO 1: only a RoCE packet that is no CNP itself may cause one")


def _cause(seen: Seen, frame: bytes) -> str:
    """Say for which kind of packet one was made, by its UDP source port and what else was sent."""
    (known,) = seen.setup.connections
    if frame[34:36] != known.udp_port.to_bytes(2):
        return "unknown queue pair"
    return "no RoCE" if frame[36:38] != (4791).to_bytes(2) else "CNP"


def notification(b: Bench) -> Finding:
    """The notification in the reserved bytes."""
    port = b.burst.sink.port
    return _worst(
        b,
        cnp.RESERVED.stop,
        "TODO 8: @field_list for port and depth; fill it before the addresses are swapped",
        lambda frame, flow, cells: cnp.notification_details(
            frame, b.burst.setup, flow, port, cells
        ),
    )


# ---------------------------------------------------------------- what they share


def _none(seen: Seen) -> Finding:
    if seen.made:
        return Finding.nothing("nothing that the switch makes goes to the source", "TODO 4 first")
    return Finding.nothing(NO_CNP, FIRST)


Look = Callable[[bytes, Connection, int], list[Detail]]
"""From a CNP, the flow that it is for and the depth that its packet left behind, what is in it."""


def _worst(b: Bench, least: int, hint: str, look: Look) -> Finding:
    """Look at every CNP of the burst, and tell of the worst."""
    seen = b.burst
    if not seen.told:
        return _none(seen)
    findings = []
    for waited in seen.queue:
        flow = waited.sent.flow
        assert flow is not None
        for output in seen.of(flow):
            if len(output.packet) < least:
                size = len(output.packet)
                findings.append(Finding.nothing(f"{size} bytes are too few for a CNP", hint))
            else:
                findings.append(Finding.of(look(output.packet, flow, waited.cells), hint))
    if not findings:
        return Finding.nothing("no CNP has the UDP source port of the data it is for", "TODO 4")
    return min(findings, key=lambda finding: finding.share)


def items() -> Sequence[Item]:
    """Return them in the order of the README."""
    return (
        Item("routes", "data passes unchanged", 2,
             "every packet leaves once, with new MAC addresses, TTL and checksum", routes),
        Item("threshold", "TODO 1: a long queue is told", 3,
             "one CNP for each flow whose packet left `threshold` cells or more behind", threshold),
        Item("innocent", "TODO 1: and nothing else is", 2,
             "no CNP for CNPs, other protocols, unknown queue pairs, other ports", innocent),
        Item("interval", "TODO 2: once in an interval", 2,
             "a flow is told at once, then once in each interval", interval),
        Item("sends", "TODO 3: clone and recirculate", 2,
             "what the switch makes goes to the source, and it comes to rest", sends),
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
             "the reserved bytes say what happened, where, and to which packet", notification,
             bonus=True),
    )  # fmt: skip
