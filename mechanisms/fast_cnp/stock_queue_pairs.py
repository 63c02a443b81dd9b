"""The table of stock NICs' queue pairs in a fabric: samples in, entries of each switch out.

    leaves' digests --> QueuePairs (who sends to whom) --> entries in the switches on the way

What is learned is state like any other: a switch that restarts gets it with its routes, and
where paths change, entries follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache

from controller.digests import DigestMessage
from controller.entries import (
    DigestSetting,
    Entry,
    Exact,
    TableEntry,
    call,
    match,
)
from controller.leaf_routes import PS_PER_S, Routes
from controller.parts import Learned
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from mechanisms.fast_cnp.loops import loop_ps
from mechanisms.fast_cnp.queue_pairs import (
    Ambiguous,
    Answer,
    Kind,
    QueuePairCounts,
    QueuePairs,
    Sighting,
    SourceIs,
    Target,
)
from mechanisms.fast_cnp.sequence_windows import SamplingTimes
from topologies.model import PS_PER_NS, Interface, Switch, Topology

DIGEST = "queue_pair_sighting"
STOCK_TABLE = "stock_queue_pairs"
PORT_TABLE = "queue_pair_port"

MOST_IN_A_LIST = 64

_LEAST_PACKET_BYTES = 256
"""On the wire, of queue pairs that send at line rate: what bounds how fast their PSNs can grow."""

_LEAST_WINDOW = 4096
_MOST_WINDOW = 1 << 20
"""Packets that a queue pair is granted in flight, however short or long the paths are."""


@dataclass(frozen=True)
class Sampling:
    """How the connections of stock NICs are sampled, in fabric picoseconds.

    A flow's first `reports` packets that are reported are `interval_ps` apart, others `later_ps`.
    What wasn't seen for `age_ps` is forgotten. `window_packets`: how many packets a queue pair may
    have in flight, None for what the topology's longest loop and queues hold.
    """

    interval_ps: int = 100_000_000
    later_ps: int = 4_000_000_000
    reports: int = 64
    age_ps: int = 1_000_000_000_000
    window_packets: int | None = None


def sampling_of(policy: FabricPolicy) -> Sampling:
    """Return how a fabric's connections are sampled: the policy's option, or the defaults."""
    found = policy.options.get("fast_cnp")
    return found if isinstance(found, Sampling) else Sampling()


def watches(policy: FabricPolicy) -> bool:
    """Say whether a fabric has use for the table at all."""
    return bool(policy.setting("fast_cnp")) and bool(policy.stock_nics)


def sampling_times(topology: Topology, facts: TargetFacts, policy: FabricPolicy) -> SamplingTimes:
    """Return how the fabric is sampled, in ns as they run.

    Nothing is sampled more often than digests can be heard in order.
    """

    def real_ns(fabric_ps: int) -> int:
        return fabric_ps * facts.time_scale // PS_PER_NS

    sampling = sampling_of(policy)
    interval = max(real_ns(sampling.interval_ps), facts.digest_jitter_ns, 1)
    later = max(real_ns(sampling.later_ps), interval)
    rates = [topology.link_at(each.switch, each.port).rate_bps for each in topology.interfaces()]
    fastest = max(rates, default=0)
    window = sampling.window_packets or _in_flight(topology, policy.packet_bytes, fastest)
    return SamplingTimes(
        interval_ns=interval,
        later_ns=later,
        reports=sampling.reports,
        jitter_ns=interval,
        age_ns=max(real_ns(sampling.age_ps), 4 * later),
        window_packets=window,
        packets_per_s=-(-fastest // (8 * _LEAST_PACKET_BYTES * facts.time_scale)),
    )


@lru_cache(maxsize=8)
def _in_flight(topology: Topology, packet_bytes: int, rate_bps: int) -> int:
    """Return how many packets a queue pair has on its way at most, with room to spare.

    Twice what the longest loop holds, and a full queue.
    """
    routes = Routes.of(topology)
    ends = {each.switch: each for each in topology.interfaces()}
    longest = max(
        (
            loop_ps(topology, ends[leaf.name], way.round_trip_ps)
            for name in ends
            for leaf, way in routes.ways(name)
            if leaf.name in ends
        ),
        default=0,
    )
    queue = max((link.queue_bytes for link in topology.links), default=0)
    held = 2 * longest * rate_bps // (8 * PS_PER_S) + queue
    return min(max(held // packet_bytes, _LEAST_WINDOW), _MOST_WINDOW)


def sampling_entries(
    topology: Topology, switch: Switch, facts: TargetFacts, policy: FabricPolicy
) -> Iterator[Entry]:
    """Yield what makes a leaf report the connections of stock NICs, if there are any."""
    interfaces = list(topology.interfaces_of(switch.name))
    if not interfaces or not watches(policy):
        return
    times = sampling_times(topology, facts, policy)
    yield DigestSetting(DIGEST, times.interval_ns // 2, MOST_IN_A_LIST)
    watch = call(
        "sample_host",
        interval=_ticks(facts, times.interval_ns),
        later=_ticks(facts, times.later_ns),
        reports=sampling_of(policy).reports,
    )
    for interface in interfaces:
        key = match(port=Exact(interface.port), source=Exact(int(interface.address.ip)))
        yield TableEntry(PORT_TABLE, key, watch)
    for address in sorted(stock_addresses(topology, policy)):
        yield TableEntry("stock_nics", match(address=Exact(address)), call("accept_sender"))


def _ticks(facts: TargetFacts, real_ns: int) -> int:
    return max(real_ns * PS_PER_NS // facts.tick_ps, 1)


def stock_addresses(topology: Topology, policy: FabricPolicy) -> frozenset[int]:
    """Return the addresses of all interfaces of hosts with stock NICs."""
    return frozenset(
        int(each.address.ip) for each in topology.interfaces() if each.host in policy.stock_nics
    )


class StockQueuePairs:
    """One fabric's table. Passive: every call says what time it is (ns)."""

    def __init__(self, topology: Topology, facts: TargetFacts, policy: FabricPolicy) -> None:
        """`policy` says which hosts have stock NICs, and how they are sampled."""
        self._topology = topology
        self._of_address: dict[int, Interface] = {
            int(each.address.ip): each for each in topology.interfaces()
        }
        places = {address: (each.switch, each.port) for address, each in self._of_address.items()}
        stock = stock_addresses(topology, policy)
        self.logic = QueuePairs(sampling_times(topology, facts, policy), places, stock)
        self._ways = _WaySwitches(topology, Routes.of(topology))
        self._placed: dict[Target, dict[str, TableEntry]] = {}

    @property
    def counts(self) -> QueuePairCounts:
        """What happened so far."""
        return self.logic.counts

    def heard(self, messages: Iterable[DigestMessage], now: int) -> Learned | None:
        """Take digests; return what follows from them, None if nothing does."""
        for message in messages:
            if message.digest == DIGEST:
                self.logic.saw(sighting_of(message), now)
        return self.elapsed(now)

    def elapsed(self, now: int) -> Learned | None:
        """Do what is due; return what follows from it, None if nothing does."""
        self.logic.elapse(now)
        return self._learned(self.logic.take_changes())

    def due(self) -> int | None:
        """Return when `elapsed` next has something to do."""
        return self.logic.due()

    def report(
        self, source: int, destination: int, destination_qp: int, source_qp: int | None
    ) -> Learned | None:
        """Record which queue pair sends to a target, as a host's agent reports.

        None: no longer any.
        """
        if source_qp is None:
            self.logic.withdraw(source, destination, destination_qp)
        else:
            self.logic.report(source, destination, destination_qp, source_qp)
        return self._learned(self.logic.take_changes())

    def routed(self, routes: Routes, now: int) -> Learned | None:
        """Take the present paths; return the entries that follow them."""
        self._ways = _WaySwitches(self._topology, routes)
        return self._learned(dict(self.logic.answers()))

    def switched(self, on: bool, now: int) -> Learned | None:
        """Keep what is known in the switches, which use it again when the mechanism is on."""
        return None

    def totals(self) -> dict[str, int]:
        """Return what became of the samples."""
        return {f"queue_pairs_{name}": value for name, value in asdict(self.counts).items()}

    def _learned(self, changes: Mapping[Target, Answer | None]) -> Learned | None:
        put: dict[str, list[TableEntry]] = {}
        gone: dict[str, list[TableEntry]] = {}
        for target, answer in changes.items():
            before = self._placed.get(target, {})
            wanted: dict[str, TableEntry] = {}
            if answer is not None:
                entry = entry_of(target, answer)
                wanted = dict.fromkeys(self._switches(target, answer), entry)
            for name, entry in wanted.items():
                if before.get(name) != entry:
                    put.setdefault(name, []).append(entry)
            for name, entry in before.items():
                if name not in wanted:
                    gone.setdefault(name, []).append(entry)
            if wanted:
                self._placed[target] = wanted
            else:
                self._placed.pop(target, None)
        if not put and not gone:
            return None
        return Learned(
            {name: tuple(entries) for name, entries in put.items()},
            {name: tuple(entries) for name, entries in gone.items()},
        )

    def _switches(self, target: Target, answer: Answer) -> list[str]:
        """Return the switches whose queues packets to a target may wait in, sorted."""
        sources = {answer.source} if isinstance(answer, SourceIs) else answer.sources
        destination = self._of_address.get(target.destination)
        if destination is None:
            return []
        found: set[str] = set()
        for address in sources:
            source = self._of_address.get(address)
            if source is not None:
                found |= self._ways.between(source.switch, destination.switch)
        return sorted(found)


class _WaySwitches:
    """The switches on the shortest paths from a switch to a leaf, both included."""

    def __init__(self, topology: Topology, routes: Routes) -> None:
        self._topology = topology
        self._routes = routes
        self._known: dict[tuple[str, str], frozenset[str]] = {}

    def between(self, start: str, end: str) -> frozenset[str]:
        known = self._known.get((start, end))
        if known is None:
            known = self._known[start, end] = self._walk(start, end)
        return known

    def _walk(self, start: str, end: str) -> frozenset[str]:
        found = {start, end}
        todo = [start]
        while todo:
            here = todo.pop()
            for port in self._routes.towards(here, end):
                peer = self._topology.peer(here, port).node
                if peer not in found:
                    found.add(peer)
                    todo.append(peer)
        return frozenset(found)


def entry_of(target: Target, answer: Answer) -> TableEntry:
    """Return the entry of `stock_queue_pairs` that says so."""
    key = match(destination=Exact(target.destination), qp=Exact(target.qp))
    if isinstance(answer, Ambiguous):
        return TableEntry(STOCK_TABLE, key, call("skip_ambiguous_qp"))
    return TableEntry(STOCK_TABLE, key, call("set_source_qp", qp=answer.qp))


def sighting_of(message: DigestMessage) -> Sighting:
    """Return what a digest message says."""
    values = message.values
    return Sighting(
        message.switch,
        values["ingress_port"],
        values["source"],
        values["destination"],
        values["destination_qp"],
        values["sequence"],
        Kind(values["kind"]),
        values["length"],
        values["reports"],
    )
