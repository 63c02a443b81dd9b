"""Which queue pair sends to which: found out from samples of both directions of RC connections.

BTH names the destination's queue pair only. A switch that is to notify a stock NIC of congestion
has to know the source's (`stock_queue_pairs` in p4src/modules/fast_cnp/). What B acknowledges to A,
A has sent before, so the packet sequence number of an answer lies in the window of the requests of
its own connection:

    requests  A -> B, to queue pair b, PSN p     DATA, READ_REQUEST
    answers   B -> A, to queue pair a, PSN q     ACKNOWLEDGEMENT, READ_RESPONSE

An answer that lies outside the window of the requests to b is proof that a isn't b's partner. One
that lies inside proves nothing as long as it lies inside other windows, too: windows of new
connections may overlap, and part sooner or later. So: the partner is the only one left, in both
directions, and has been inside more than once; as long as several are, there is no answer.

Passive: `saw`, `report` and `elapse` take the time, `take_changes` returns what is to be written.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from mechanisms.fast_cnp.sequence_windows import Continuity, SamplingTimes, SentWindow

CONFIRMATIONS = 2
"""Answers inside a window before a partner is believed."""

_WAITING = 4
"""Answers of one queue pair that may wait for what its candidates had sent."""

_LEAST_PATH_MTU = 1024
"""What RNICs use on Ethernet of 1500 bytes: so many bytes of a READ take a PSN at least."""


class Kind(enum.IntEnum):
    """What a sample is of: SightingKind in p4src/modules/fast_cnp/queue_pairs.p4."""

    DATA = 0
    ACKNOWLEDGEMENT = 1
    READ_REQUEST = 2
    READ_RESPONSE = 3

    @property
    def is_answer(self) -> bool:
        """Whether its PSN is one that the other end has chosen."""
        return self in (Kind.ACKNOWLEDGEMENT, Kind.READ_RESPONSE)


@dataclass(frozen=True, slots=True)
class Sighting:
    """A reported packet: addresses as numbers, `length` of what a READ request asks for (bytes).

    `reports`: how often its flow was reported in a row.
    """

    switch: str
    port: int
    source: int
    destination: int
    destination_qp: int
    psn: int
    kind: Kind
    length: int = 0
    reports: int = 1


class Target(NamedTuple):
    """What packets say of their connection: the key of `stock_queue_pairs`."""

    destination: int
    qp: int


@dataclass(frozen=True, slots=True)
class SourceIs:
    """Packets to a target come from this queue pair of the host at `source`."""

    source: int
    qp: int


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Several queue pairs of these hosts may be a target's source."""

    sources: frozenset[int]


Answer: TypeAlias = SourceIs | Ambiguous


@dataclass
class QueuePairCounts:
    """What happened so far.

    `foreign`: sightings of an address at another host's port, which prove nothing. `unfit`:
    partners that turned out wrong: their connection is gone. `restarted`: queue pairs whose numbers
    broke off: they serve another connection. `contested`: partners that others became possible
    beside. `aged`: queue pairs that were forgotten because they were not seen any more.
    """

    sightings: int = 0
    foreign: int = 0
    resolved: int = 0
    contested: int = 0
    unfit: int = 0
    restarted: int = 0
    aged: int = 0
    reported: int = 0


class _Requests:
    """The requests from one host to a queue pair of another."""

    __slots__ = ("fitting", "pair", "partner", "qp", "sent", "serial", "waiting")

    def __init__(self, pair: _Pair, qp: int, serial: int, sent: SentWindow) -> None:
        self.pair = pair
        self.qp = qp
        self.serial = serial
        self.sent = sent
        self.partner: _Answers | None = None
        self.fitting: dict[int, _Answers] = {}  # whose answers were inside, and never outside
        self.waiting: list[_Waiting] = []

    @property
    def last_at(self) -> int:
        """When the connection was last seen: one READ may be answered for long."""
        return max(self.sent.last_at, self.partner.last_at if self.partner else 0)


class _Answers:
    """The answers to one queue pair of the requesting host."""

    __slots__ = ("candidates", "examined", "last_at", "pair", "partner", "qp", "waiting")

    def __init__(self, pair: _Pair, qp: int, at: int) -> None:
        self.pair = pair
        self.qp = qp
        self.last_at = at
        self.partner: _Requests | None = None
        self.examined = 0  # requests up to this serial are candidates or excluded
        self.candidates: dict[int, int] = {}  # by serial: how often inside
        self.waiting = 0

    @property
    def is_torn(self) -> bool:
        """Whether they have been inside several windows."""
        return sum(fits > 0 for fits in self.candidates.values()) > 1


@dataclass(slots=True, eq=False)
class _Waiting:
    """An answer, until it is known what its candidates had sent when it came."""

    answers: _Answers
    psn: int
    at: int
    is_done: bool = False


class _Pair:
    """Two hosts: who requests, who answers."""

    __slots__ = ("answers", "asker", "by_serial", "newest", "requests", "responder")

    def __init__(self, asker: int, responder: int) -> None:
        self.asker = asker
        self.responder = responder
        self.requests: dict[int, _Requests] = {}
        self.by_serial: dict[int, _Requests] = {}  # ascending
        self.answers: dict[int, _Answers] = {}
        self.newest = 0


@dataclass(slots=True)
class _Claim:
    """That one direction's samples say so. It stands as long as it is not withdrawn."""

    source: int
    qp: int
    confirmed_at: int


class QueuePairs:
    """The correlation. `places`: switch and port of each host address; `stock`: whose NICs are."""

    def __init__(
        self, times: SamplingTimes, places: Mapping[int, tuple[str, int]], stock: frozenset[int]
    ) -> None:
        """Start without known pairs. Times are nanoseconds; addresses are IPv4 as numbers."""
        self.times = times
        self.counts = QueuePairCounts()
        self._places = places
        self._stock = stock
        self._pairs: dict[tuple[int, int], _Pair] = {}
        # Of each target, by who says so: the pair and whether by its requests or by its answers.
        self._claims: dict[Target, dict[tuple[int, int], _Claim]] = {}
        self._doubts: dict[Target, set[int]] = {}
        self._reports: dict[Target, SourceIs] = {}
        self._answers: dict[Target, Answer] = {}
        self._touched: dict[Target, None] = {}
        self._changed: dict[Target, None] = {}
        self._deadlines: list[tuple[int, int, _Waiting]] = []
        self._order = 0
        self._swept_at: int | None = None

    # ---------------------------------------------------------------- what comes in

    def saw(self, sighting: Sighting, now: int) -> None:
        """Take a sample, heard at `now`."""
        self.counts.sightings += 1
        if self._places.get(sighting.source) != (sighting.switch, sighting.port):
            self.counts.foreign += 1
            return
        if sighting.kind.is_answer:
            self._saw_answer(sighting, now)
        else:
            self._saw_request(sighting, now)
        self.elapse(now)

    def report(self, source: int, destination: int, destination_qp: int, source_qp: int) -> None:
        """Record a host agent's report of which of its queue pairs sends to a target.

        A report overrides what was observed, until it is withdrawn or replaced.
        """
        self.counts.reported += 1
        target = Target(destination, destination_qp)
        self._reports[target] = SourceIs(source, source_qp)
        self._touched[target] = None
        self._settle_touched()

    def withdraw(self, source: int, destination: int, destination_qp: int) -> None:
        """Withdraw a host agent's report: the connection has ended."""
        target = Target(destination, destination_qp)
        said = self._reports.get(target)
        if said is not None and said.source == source:
            del self._reports[target]
            self._touched[target] = None
            self._settle_touched()

    def elapse(self, now: int) -> None:
        """Do what is due at `now`."""
        while self._deadlines and self._deadlines[0][0] <= now:
            waiting = heapq.heappop(self._deadlines)[2]
            self._try(waiting, now)
        if self._swept_at is None:
            self._swept_at = now
        if now >= self._swept_at + self._sweep_ns:
            self._swept_at = now
            self._sweep(now)
        self._settle_touched()

    def due(self) -> int | None:
        """Return when `elapse` can judge something, None if nothing waits.

        Ageing waits for any call.
        """
        while self._deadlines and self._deadlines[0][2].is_done:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    # ---------------------------------------------------------------- what comes out

    def take_changes(self) -> dict[Target, Answer | None]:
        """Return the targets whose answer has changed since the last call; None: no answer now."""
        changed, self._changed = self._changed, {}
        return {target: self._answers.get(target) for target in changed}

    def answers(self) -> Mapping[Target, Answer]:
        """Return all that is known."""
        return self._answers

    @property
    def queue_pairs(self) -> int:
        """How many queue pairs are remembered."""
        return sum(len(pair.requests) + len(pair.answers) for pair in self._pairs.values())

    # ---------------------------------------------------------------- samples

    def _pair(self, asker: int, responder: int) -> _Pair:
        key = (asker, responder)
        pair = self._pairs.get(key)
        if pair is None:
            pair = self._pairs[key] = _Pair(asker, responder)
        return pair

    def _saw_request(self, sighting: Sighting, now: int) -> None:
        pair = self._pair(sighting.source, sighting.destination)
        qp, psn = sighting.destination_qp, sighting.psn
        span = -(-sighting.length // _LEAST_PATH_MTU)
        requests = pair.requests.get(qp)
        if requests is not None:
            if requests.sent.add(now, psn, span, sighting.reports) is not Continuity.BREAKS:
                self._retry(requests, now)
                return
            self.counts.restarted += 1
            self._forget_requests(requests, now)
        pair.newest += 1
        sent = SentWindow(self.times, now, psn, span, sighting.reports)
        requests = _Requests(pair, qp, pair.newest, sent)
        pair.requests[qp] = pair.by_serial[pair.newest] = requests

    def _saw_answer(self, sighting: Sighting, now: int) -> None:
        pair = self._pair(sighting.destination, sighting.source)
        answers = pair.answers.get(sighting.destination_qp)
        if answers is None:
            answers = _Answers(pair, sighting.destination_qp, now)
            pair.answers[answers.qp] = answers
        answers.last_at = now
        if answers.waiting < _WAITING:
            answers.waiting += 1
            self._try(_Waiting(answers, sighting.psn, now), now)

    def _retry(self, requests: _Requests, now: int) -> None:
        waiting, requests.waiting = requests.waiting, []
        for each in waiting:
            self._try(each, now)

    def _try(self, waiting: _Waiting, now: int) -> None:
        """Judge an answer if it is known what all its candidates had sent when it came."""
        if waiting.is_done:
            return
        for requests in self._possible(waiting.answers):
            settled_at = requests.sent.settled_at(waiting.at)
            if settled_at > now:
                requests.waiting = [each for each in requests.waiting if not each.is_done]
                if waiting not in requests.waiting:
                    requests.waiting.append(waiting)
                self._wake_at(settled_at, waiting)
                return
        if now < waiting.at + 2 * self.times.jitter_ns:  # requests may be on the way to us
            self._wake_at(waiting.at + 2 * self.times.jitter_ns, waiting)
            return
        waiting.is_done = True
        waiting.answers.waiting -= 1
        self._judge(waiting, now)

    def _wake_at(self, at: int, waiting: _Waiting) -> None:
        self._order += 1
        heapq.heappush(self._deadlines, (at, self._order, waiting))

    @staticmethod
    def _possible(answers: _Answers) -> Iterator[_Requests]:
        """Yield the requests that the answers may belong to: candidates, and unexamined ones."""
        by_serial = answers.pair.by_serial
        for serial in answers.candidates:
            if serial in by_serial:
                yield by_serial[serial]
        if answers.examined < answers.pair.newest:
            for serial in reversed(by_serial):
                if serial <= answers.examined:
                    break
                yield by_serial[serial]

    # ---------------------------------------------------------------- judgement

    def _judge(self, waiting: _Waiting, now: int) -> None:
        answers = waiting.answers
        pair = answers.pair
        if pair.answers.get(answers.qp) is not answers:
            return  # forgotten meanwhile
        examined = list(self._possible(answers))
        fits: dict[int, int] = {}
        for requests in examined:
            before = answers.candidates.get(requests.serial, 0)
            inside = requests.sent.may_have_sent(waiting.psn, waiting.at)
            if inside is None:
                fits[requests.serial] = before
            elif inside:
                fits[requests.serial] = before + 1
                requests.fitting[answers.qp] = answers
                if requests.partner is answers:
                    self._join(requests, answers, now)
            else:
                requests.fitting.pop(answers.qp, None)
                if requests.partner is answers:
                    self.counts.unfit += 1
                    self._part(requests)
        answers.candidates = fits
        # Without any, its requests are new to us, or it was wronged: all may be it again.
        answers.examined = pair.newest if fits else 0
        for requests in examined:
            self._decide(requests, now)
        self._doubt(
            Target(pair.asker, answers.qp),
            pair.responder,
            answers.partner is None and answers.is_torn,
        )

    def _decide(self, requests: _Requests, now: int) -> None:
        """Say which queue pair is the partner of some requests, if only one is left."""
        pair = requests.pair
        recent = now - self.times.stale_ns
        active = [answers for answers in requests.fitting.values() if answers.last_at >= recent]
        if requests.partner is not None:
            if all(answers is requests.partner for answers in active):
                return
            self.counts.contested += 1
            self._part(requests)
        is_ambiguous = len(active) > 1
        if len(active) == 1:
            (answers,) = active
            is_ambiguous = answers.is_torn
            alone = len(answers.candidates) == 1
            if alone and answers.candidates[requests.serial] >= CONFIRMATIONS:
                self.counts.resolved += 1
                self._join(requests, answers, now)
        self._doubt(Target(pair.responder, requests.qp), pair.asker, is_ambiguous)

    def _join(self, requests: _Requests, answers: _Answers, now: int) -> None:
        requests.partner, answers.partner = answers, requests
        pair = requests.pair
        for target, source, qp in self._targets(requests, answers.qp):
            if source in self._stock:
                claim = _Claim(source, qp, now)
                self._claims.setdefault(target, {})[(pair.asker, pair.responder)] = claim
                self._touched[target] = None

    def _part(self, requests: _Requests) -> None:
        partner = requests.partner
        if partner is None:
            return
        requests.partner = partner.partner = None
        pair = requests.pair
        for target, _, _ in self._targets(requests, partner.qp):
            claims = self._claims.get(target)
            if claims is not None:
                claims.pop((pair.asker, pair.responder), None)
                self._touched[target] = None

    @staticmethod
    def _targets(requests: _Requests, qp: int) -> tuple[tuple[Target, int, int], ...]:
        """Return what a connection says of both its directions: the target, its source and qp."""
        pair = requests.pair
        return (
            (Target(pair.responder, requests.qp), pair.asker, qp),
            (Target(pair.asker, qp), pair.responder, requests.qp),
        )

    def _doubt(self, target: Target, source: int, is_ambiguous: bool) -> None:
        """Note whether several of a host's queue pairs may send to a target."""
        if is_ambiguous and source in self._stock:
            self._doubts.setdefault(target, set()).add(source)
        elif target in self._doubts:
            self._doubts[target].discard(source)
        self._touched[target] = None

    # ---------------------------------------------------------------- answers

    def _settle_touched(self) -> None:
        for target in self._touched:
            answer = self._answer(target)
            if answer != self._answers.get(target):
                self._changed[target] = None
                if answer is None:
                    del self._answers[target]
                else:
                    self._answers[target] = answer
        self._touched.clear()

    def _answer(self, target: Target) -> Answer | None:
        said = self._reports.get(target)
        if said is not None:
            return said
        claims = self._claims.get(target, {})
        doubts = self._doubts.get(target, set())
        if not claims:
            self._claims.pop(target, None)
        else:
            newest = max(claim.confirmed_at for claim in claims.values())
            fresh = {
                SourceIs(claim.source, claim.qp)
                for claim in claims.values()
                if newest - claim.confirmed_at <= self.times.stale_ns
            }
            if len(fresh) == 1 and not doubts - {each.source for each in fresh}:
                return fresh.pop()
            return Ambiguous(frozenset(each.source for each in fresh) | doubts)
        if doubts:
            return Ambiguous(frozenset(doubts))
        self._doubts.pop(target, None)
        return None

    # ---------------------------------------------------------------- age

    @property
    def _sweep_ns(self) -> int:
        return max(self.times.age_ns // 4, 1)

    def _sweep(self, now: int) -> None:
        oldest = now - self.times.age_ns
        for key, pair in list(self._pairs.items()):
            for answers in list(pair.answers.values()):
                if answers.last_at <= oldest:
                    self.counts.aged += 1
                    self._forget_answers(answers, now)
            for requests in list(pair.requests.values()):
                if requests.last_at <= oldest:
                    self.counts.aged += 1
                    self._forget_requests(requests, now)
            if not pair.requests and not pair.answers:
                del self._pairs[key]

    def _forget_requests(self, requests: _Requests, now: int) -> None:
        self._part(requests)
        pair = requests.pair
        self._doubt(Target(pair.responder, requests.qp), pair.asker, False)
        del pair.requests[requests.qp], pair.by_serial[requests.serial]
        for answers in list(requests.fitting.values()):
            answers.candidates.pop(requests.serial, None)
        self._retry(requests, now)

    def _forget_answers(self, answers: _Answers, now: int) -> None:
        pair = answers.pair
        self._doubt(Target(pair.asker, answers.qp), pair.responder, False)
        del pair.answers[answers.qp]
        for serial in list(answers.candidates):
            requests = pair.by_serial.get(serial)
            if requests is not None and requests.fitting.pop(answers.qp, None) is not None:
                if requests.partner is answers:
                    self._part(requests)
                self._decide(requests, now)
