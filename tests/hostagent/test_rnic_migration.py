"""Automatic path migration: queue pairs that use one interface, in virtual time and exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostagent.rnic.binding import Card
from hostagent.rnic.card_records import (
    Access,
    CardError,
    EventKind,
    Failure,
    Operation,
    PacketKind,
    QueuePairConfig,
    QueuePairState,
    Repeat,
    Work,
)
from hostagent.rnic.planes import (
    FIRST_HASH,
    FIRST_TURN,
    MigrationCause,
    MigrationState,
    MigrationStats,
    PlaneConfig,
    PlaneUse,
)
from tests.hostagent.virtual_links import (
    GBPS,
    RKEY,
    SANITIZE,
    US,
    Link,
    Pair,
    Sent,
    device,
    tolerant,
)

MS = 1000 * US
MTU = 256
PACKETS = 64
LONG = 4 << 20
TIMEOUT = 200 * US
M_AT = 14 + 20 + 8 + 1
APM = PlaneConfig(PlaneUse.SINGLE, tries=2)
"""As the specification has it, with two time-outs."""
BY_LINK = replace(APM, by_link=True)
ITSELF = replace(BY_LINK, return_ps=2 * MS)
VERBS = [Operation.SEND, Operation.WRITE, Operation.READ]
BOTH = [pytest.param(Repeat.GO_BACK_N, marks=pytest.mark.long), Repeat.SELECTIVE]


def config(planes: PlaneConfig = APM, **changes: object) -> QueuePairConfig:
    values: dict[str, object] = {"planes": planes, "reorder_ps": 0, "retries": 7}
    return tolerant(**{**values, **changes})  # type: ignore[arg-type]


@dataclass
class Messages:
    """Whole messages from `a` to `b` (READ: back), and what must have become of them."""

    pair: Pair
    random: Random
    written: bytearray = field(init=False)
    kept: bytes = field(init=False)
    expected: list[tuple[bytearray, int, bytes]] = field(default_factory=list)
    place: int = 0

    def __post_init__(self) -> None:
        """Expose memory of `b`."""
        self.written, self.kept = bytearray(1 << 18), self.random.randbytes(1 << 18)
        self.pair.b.register(RKEY, 0, self.written, Access.REMOTE_WRITE)
        self.pair.b.register(RKEY + 1, 0, self.kept, Access.REMOTE_READ)

    def post(self, operation: Operation, size: int) -> None:
        number, at = len(self.expected), self.place
        data, buffer = self.random.randbytes(size), bytearray(size)
        if operation is Operation.READ:
            self.expected.append((buffer, 0, self.kept[at : at + size]))
            work = Work(number, operation, buffer, rkey=RKEY + 1, remote_address=at)
        else:
            work = Work(number, operation, data, rkey=RKEY, remote_address=at)
            if operation is Operation.SEND:
                self.pair.b.post_receive(1, number, buffer)
                self.expected.append((buffer, 0, data))
            else:
                self.expected.append((self.written, at, data))
        self.place += size
        self.pair.a.post(1, work, self.pair.now)

    def check(self) -> int:
        """Those that are complete are exact and came in order; how many are."""
        done = [e.id for e in self.pair.events[self.pair.a] if e.kind is EventKind.COMPLETED]
        assert done == list(range(len(done)))
        for number in done:
            place, at, wanted = self.expected[number]
            assert place[at : at + len(wanted)] == wanted
        return len(done)

    def check_all(self) -> None:
        assert self.check() == len(self.expected)
        for events in self.pair.events.values():
            assert not [e for e in events if e.kind in (EventKind.FAILED, EventKind.QP_FAILED)]


def whole_pair(planes: PlaneConfig, n: int = 2, seed: int = 0, **changes: object) -> Messages:
    pair = Pair([Link() for _ in range(n)], whole=True, seed=seed)
    values: dict[str, object] = {"mtu": MTU, "ack_every": 4, "window_packets": 256, "interfaces": n}
    pair.join(config(planes, **{**values, **changes}))
    return Messages(pair, Random(seed))


def lines_pair(planes: PlaneConfig = APM, n: int = 2, rate: int = 100, **changes: object) -> Pair:
    pair = Pair([Link(rate * GBPS) for _ in range(n)])
    pair.join(config(planes, interfaces=n, **changes))
    return pair


def states(pair: Pair) -> tuple[MigrationStats, MigrationStats]:
    return pair.a.migration_stats(1), pair.b.migration_stats(1)


def by(pair: Pair, card: Card, first: int = 0, last: int = 1 << 62) -> set[int]:
    """Return the links by which a card has sent between two times."""
    return {row.link for row in pair.sent if row.card is card and first <= row.at < last}


def migrated(sent: Sent) -> int:
    return sent.packet.frame[M_AT] >> 6 & 1


def dead_from(pair: Pair, link: int, at: int, card: Card | None = None) -> None:
    """Lose everything on a link from a time on, or what one card sends; no card is informed."""
    before = pair.lose
    pair.lose = lambda sent: (
        before(sent) or (sent.link == link and sent.at >= at and card in (None, sent.card))
    )


# --- one interface at a time ---------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 1])
def test_without_a_failure_one_interface_is_used_and_armed(first: int) -> None:
    pair = lines_pair(replace(APM, first=first))
    pair.post(LONG)
    pair.run()
    assert pair.a.queue_pair_stats(1).repeated_packets == 0
    assert {row.link for row in pair.sent} == {first}
    assert {migrated(row) for row in pair.sent} == {0}
    assert pair.used()[first] >= 0.98
    for end in states(pair):
        assert (end.state, end.interface, end.migrations) == (MigrationState.ARMED, first, 0)
        assert end.alternate == 1 - first


def test_others_say_that_they_have_migrated_as_before() -> None:
    pair = Pair([Link(), Link()])
    pair.join(tolerant())
    pair.post(LONG)
    pair.run()
    assert {migrated(row) for row in pair.sent} == {1}
    with pytest.raises(CardError, match="there is no queue pair 1 that migrates"):
        pair.a.migration_stats(1)


@pytest.mark.parametrize("first", [FIRST_TURN, FIRST_HASH])
def test_queue_pairs_are_spread_and_both_ends_agree(first: int) -> None:
    pair = Pair([Link(), Link()])
    for qpn in range(1, 101):
        pair.join(config(replace(APM, first=first), qpn=qpn))
    found = [
        card.migration_stats(qpn).interface for card in (pair.a, pair.b) for qpn in range(1, 101)
    ]
    assert found[:100] == found[100:]
    if first == FIRST_TURN:
        assert found[:100] == [qpn % 2 for qpn in range(1, 101)]
    else:
        assert 30 <= sum(found[:100]) <= 70  # p = 1e-4 that a fair hash does worse


# --- a cut at each packet ------------------------------------------------------------------------

CUTS = pytest.mark.parametrize(
    "cuts",
    [(0, 1, 31, 63), pytest.param(range(PACKETS), marks=pytest.mark.long)],
    ids=["some", "all"],
)


@CUTS
@pytest.mark.parametrize("repeat", BOTH)
@pytest.mark.parametrize("operation", VERBS)
@pytest.mark.parametrize("side", ["data", "answers", "both"])
def test_cut_at_every_packet(
    side: str, operation: Operation, repeat: Repeat, cuts: Sequence[int]
) -> None:
    for cut in cuts:
        messages = whole_pair(APM, repeat=repeat)
        pair = messages.pair
        sender = pair.b if operation is Operation.READ else pair.a
        count = lost = 0

        def lose(sent: Sent, cut: int = cut, sender: Card = sender) -> bool:
            nonlocal count, lost
            is_data = sent.card is sender and sent.link == 0
            takes = side == "both" or is_data == (side == "data")
            is_lost = sent.link == 0 and count >= cut and takes
            count += is_data
            lost += is_lost
            return is_lost

        pair.lose = lose
        messages.post(operation, PACKETS * MTU)
        messages.post(operation, 5)
        pair.run()
        messages.check_all()
        assert pair.done_at() < 2 * TIMEOUT + 200 * US
        if not lost:  # requests of READs that were all through
            assert operation is Operation.READ
            continue
        ends = states(pair)
        assert [end.interface for end in ends] == [1, 1]
        assert [end.cause for end in ends] == [MigrationCause.TIMEOUT, MigrationCause.PEER]
        assert [e.kind for e in pair.events[pair.b]].count(EventKind.MIGRATED) == 1


@CUTS
@pytest.mark.parametrize("repeat", BOTH)
@pytest.mark.parametrize("operation", VERBS)
@pytest.mark.parametrize("end", ["a", "b", "both"])
def test_link_cut_at_every_packet(
    end: str, operation: Operation, repeat: Repeat, cuts: Sequence[int]
) -> None:
    """A card whose own link goes down tells the other one, also if it only receives."""
    for cut in cuts:
        messages = whole_pair(replace(BY_LINK, tries=0, switch_ps=5 * US), repeat=repeat)
        pair = messages.pair
        at = US + cut * 22_000  # a packet each
        pair.at(at, lambda pair=pair: cut_link(pair, 0, end))
        messages.post(operation, PACKETS * MTU)
        pair.run()
        messages.check_all()
        assert pair.done_at() < 60 * US, cut


def cut_link(pair: Pair, link: int, end: str = "both") -> None:
    """Nothing passes any more; the card of `end` knows, or both do."""
    pair._cut[link] += 1
    pair.links[link].up = False
    for name, card in (("a", pair.a), ("b", pair.b)):
        if end in (name, "both"):
            card.set_link(link, False)


# --- what both ends know, and when ---------------------------------------------------------------

Step = tuple[str, bool]
ORDERS = [
    order
    for order in permutations([("a", False), ("b", False), ("a", True), ("b", True)])
    if order.index(("a", False)) < order.index(("a", True))
    and order.index(("b", False)) < order.index(("b", True))
]


@pytest.mark.parametrize(
    "order", ORDERS, ids=lambda order: "-".join(f"{c}{int(u)}" for c, u in order)
)
@pytest.mark.parametrize("planes", [BY_LINK, ITSELF, replace(ITSELF, switch_ps=70 * US, tries=0)])
@pytest.mark.parametrize("operation", [Operation.WRITE, Operation.READ])
def test_link_events_in_every_order(
    order: tuple[Step, ...], planes: PlaneConfig, operation: Operation
) -> None:
    """The link is dead from the first one that knows to the last one."""
    messages = whole_pair(planes)
    pair = messages.pair
    for i, (name, up) in enumerate(order):
        card = pair.a if name == "a" else pair.b

        def happen(i: int = i, card: Card = card, up: bool = up) -> None:
            pair._cut[0] += i == 0
            pair.links[0].up = i == 3
            card.set_link(0, up)

        pair.at((1 + 50 * i) * US, happen)
    for _ in range(15):
        messages.post(operation, PACKETS * MTU)
    pair.run(until=50 * MS)
    messages.check_all()
    ends = states(pair)
    home = 0 if planes.return_ps else 1
    assert [end.interface for end in ends] == [home, home]
    if home == 0:
        messages.post(operation, 0)
        pair.run(until=60 * MS)
        messages.check_all()
        assert [end.state for end in states(pair)] == [MigrationState.ARMED] * 2


def test_the_peer_is_followed_and_both_say_so() -> None:
    pair = lines_pair()
    pair.post(LONG)
    pair.at(100 * US, lambda: pair.a.migrate(1, 100 * US))
    pair.run()
    assert by(pair, pair.a, 0, 100 * US) == by(pair, pair.b, 0, 100 * US) == {0}
    assert by(pair, pair.a, 100 * US) == {1}
    assert by(pair, pair.b, 103 * US) == {1}
    for row in pair.sent:
        assert migrated(row) == row.link
    mine, peer = states(pair)
    assert (mine.cause, peer.cause) == (MigrationCause.USER, MigrationCause.PEER)
    assert mine.state == peer.state == MigrationState.MIGRATED
    assert pair.a.queue_pair_stats(1).repeated_packets == 0  # nothing was lost
    assert [e.id for e in pair.events[pair.a] if e.kind is EventKind.MIGRATED] == [1]


def test_rearm_and_back() -> None:
    pair = lines_pair()
    pair.post(4096)
    pair.run()
    pair.a.migrate(1, pair.now)
    pair.run()
    with pytest.raises(CardError, match="queue pair 1 is not armed"):
        pair.a.migrate(1, pair.now)
    pair.a.rearm(1, 0)
    pair.post(4096)
    pair.run()
    # The peer has not rearmed: neither is armed.
    assert [end.state for end in states(pair)] == [MigrationState.REARM, MigrationState.MIGRATED]
    pair.b.rearm(1, 0)
    pair.post(4096)
    pair.run()
    assert [end.state for end in states(pair)] == [MigrationState.ARMED, MigrationState.ARMED]
    dead_from(pair, 1, pair.now)
    pair.post(LONG)
    pair.run()
    mine, peer = states(pair)
    assert (mine.interface, peer.interface) == (0, 0)
    assert (mine.migrations, peer.migrations) == (2, 2)
    assert [e.kind for e in pair.events[pair.a]].count(EventKind.COMPLETED) == 4


def test_without_rearming_the_second_failure_is_the_last() -> None:
    pair = lines_pair(retries=2)
    dead_from(pair, 0, 100 * US)
    dead_from(pair, 1, 600 * US)
    pair.post(LONG)
    pair.run()
    stats = pair.a.queue_pair_stats(1)
    assert (stats.state, stats.failure) == (QueuePairState.ERROR, Failure.RETRY_EXCEEDED)
    assert stats.timeouts == 2 + 3
    kinds = [e.kind for e in pair.events[pair.a]]
    assert kinds == [EventKind.MIGRATED, EventKind.QP_FAILED, EventKind.FAILED]


@pytest.mark.parametrize("planes", [APM, BY_LINK, ITSELF])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("idle", [True, False], ids=["before the message", "during it"])
@pytest.mark.parametrize("lasting", [True, False])
def test_both_paths_dead(planes: PlaneConfig, known: bool, idle: bool, lasting: bool) -> None:
    """Within the time-outs it is survived, beyond them there is one failure, and then rest."""
    pair = lines_pair(planes, retries=3)
    down, up = 100 * US, 100 * US + 3 * TIMEOUT
    pair.at(150 * US if idle else 0, lambda: pair.post(LONG))
    for link in (0, 1):
        if known:
            pair.at(down, lambda link=link: pair.set_link(link, False))
            if not lasting:
                pair.at(up, lambda link=link: pair.set_link(link, True))
    if not known:
        pair.lose = lambda sent: sent.at >= down and (lasting or sent.at < up)
    pair.run(until=100 * MS)
    kinds = [e.kind for e in pair.events[pair.a] if e.kind is not EventKind.MIGRATED]
    assert kinds == ([EventKind.QP_FAILED, EventKind.FAILED] if lasting else [EventKind.COMPLETED])
    if lasting:
        assert pair.a.queue_pair_stats(1).failure is Failure.RETRY_EXCEEDED
        assert pair.events[pair.a][-1].at <= down + 50 * US + (2 * 3 + 4) * TIMEOUT
    if not planes.return_ps:
        assert not pair.step(until=200 * MS)  # at rest


@pytest.mark.parametrize("planes", [APM, BY_LINK])
def test_work_that_comes_while_the_link_is_down(planes: PlaneConfig) -> None:
    pair = lines_pair(planes)
    pair.set_link(0, False)
    pair.post(LONG)
    pair.run()
    assert pair.done_at() < 1200 * US
    assert {row.link for row in pair.sent} == {1}
    assert pair.a.queue_pair_stats(1).repeated_packets == 0


@pytest.mark.parametrize("known", [True, False])
def test_software_takes_its_time_and_sends_nothing_meanwhile(known: bool) -> None:
    pair = lines_pair(replace(BY_LINK, switch_ps=MS))
    pair.post(LONG)
    if known:
        pair.at(100 * US, lambda: pair.set_link(0, False))
    else:
        dead_from(pair, 0, 100 * US)
    pair.run(until=150 * US + 2 * TIMEOUT)
    while states(pair)[0].switching:
        pair.step(until=1 << 62)
    end = states(pair)[0]
    assert end.migrated_at - end.found_at == MS
    assert not [r for r in pair.sent if r.card is pair.a and end.found_at < r.at < end.migrated_at]
    pair.run()
    assert pair.done_at() < end.migrated_at + 700 * US


def test_a_target_that_goes_down_while_switching_is_not_used() -> None:
    pair = lines_pair(replace(BY_LINK, switch_ps=MS), n=3)
    pair.post(LONG)
    pair.at(100 * US, lambda: pair.set_link(0, False))
    pair.at(200 * US, lambda: pair.set_link(1, False))
    pair.run()
    assert states(pair)[0].interface == 2
    assert pair.done_at() < 1800 * US


def test_it_returns_when_its_link_has_been_up_long_enough() -> None:
    pair = lines_pair(replace(ITSELF, tries=0), rate=10)
    for _ in range(3):
        pair.post(LONG)
    pair.at(100 * US, lambda: pair.set_link(0, False))
    pair.at(500 * US, lambda: pair.set_link(0, True))
    pair.at(900 * US, lambda: pair.set_link(0, False))
    pair.at(1000 * US, lambda: pair.set_link(0, True))
    pair.run(until=4 * MS)
    assert by(pair, pair.a, 100 * US, 2990 * US) == {1}
    assert by(pair, pair.a, 3 * MS) == {0}
    assert by(pair, pair.b, 3 * MS + 10 * US) == {0}
    assert [end.state for end in states(pair)] == [MigrationState.ARMED] * 2


def test_it_returns_when_its_probes_are_answered() -> None:
    pair = lines_pair(ITSELF, rate=10)
    for _ in range(3):
        pair.post(LONG)
    pair.lose = lambda sent: sent.link == 0 and 100 * US <= sent.at < 5 * MS
    pair.run(until=10 * MS)
    mine = states(pair)[0]
    assert mine.cause is MigrationCause.RETURN
    assert 5 * MS + 4 * 400 * US <= mine.migrated_at <= 5 * MS + 6 * 400 * US
    assert mine.probes_answered == 5 < mine.probes_sent
    assert by(pair, pair.a, mine.migrated_at) == {0}
    probes = [row for row in pair.sent if row.packet.kind is PacketKind.PROBE]
    assert {row.link for row in probes} == {0}


def test_it_fails_again_after_it_has_returned() -> None:
    messages = whole_pair(ITSELF)
    pair = messages.pair
    for i in range(4):
        pair.at(6 * i * MS + 100 * US, lambda: pair.set_link(0, False))
        pair.at(6 * i * MS + 2 * MS, lambda: pair.set_link(0, True))
        for k in range(12):
            pair.at(
                (6 * i + k // 2) * MS + k * US,
                lambda: messages.post(Operation.WRITE, PACKETS * MTU // 8),
            )
    pair.run(until=40 * MS)
    messages.check_all()
    assert [end.migrations for end in states(pair)] == [8, 8]
    assert [end.state for end in states(pair)] == [MigrationState.ARMED] * 2


@pytest.mark.parametrize("ends", ["a", "ab", "b"])
@pytest.mark.parametrize("operation", VERBS)
def test_draining_loses_nothing(ends: str, operation: Operation) -> None:
    pair = lines_pair()
    pair.post(LONG, operation)
    cards = [pair.a if name == "a" else pair.b for name in ends]
    pair.at(100 * US, lambda: [card.drain(0, True) for card in cards])
    pair.run()
    for card in (pair.a, pair.b):
        stats = card.queue_pair_stats(1)
        assert stats.timeouts == stats.naks_received == 0
        assert by(pair, card, 104 * US) <= {1}
    assert pair.done_at() < 370 * US


def test_drained_without_being_armed_it_moves_all_the_same() -> None:
    pair = lines_pair()
    pair.a.migrate(1, 0)
    pair.post(LONG)
    pair.at(100 * US, lambda: [card.drain(1, True) for card in (pair.a, pair.b)])
    pair.run()
    assert by(pair, pair.a, 100 * US) == {0}
    assert pair.a.queue_pair_stats(1).timeouts == 0


def test_a_window_is_never_left_shut() -> None:
    """Of two packets, and for a path that takes all of them with it."""
    pair = lines_pair(window_packets=2, ack_every=2)
    dead_from(pair, 0, 100 * US)
    pair.post(1 << 20)
    pair.run()
    assert pair.done_at() < 3 * MS


def test_what_can_not_be_is_refused() -> None:
    card = device(1, [Link(), Link()])
    for planes, changes, says in (
        (APM, {"interfaces": 1}, "path migration needs two interfaces at least"),
        (replace(APM, first=2), {}, "path migration begins with interface 2 of 2"),
        (replace(APM, tries=9), {}, "after 9 time-outs, but with 8 it has failed"),
        (replace(APM, switch_ps=-1), {}, "delay or return of path migration out of range"),
        (replace(APM, return_ps=-1), {}, "delay or return of path migration out of range"),
    ):
        with pytest.raises(CardError, match=says):
            card.add_queue_pair(config(planes, **changes))
    card.add_queue_pair(config())
    with pytest.raises(CardError, match="queue pair 1 is not connected"):
        card.rearm(1, 1)
    pair = lines_pair()
    with pytest.raises(CardError, match="queue pair 1 is armed"):
        pair.a.rearm(1, 1)
    pair.a.migrate(1, 0)
    for interface in (1, 2):
        with pytest.raises(CardError, match=f"interface {interface} is not its own, or the one"):
            pair.a.rearm(1, interface)
    pair.a.rearm(1, 0)
    with pytest.raises(CardError, match="there is no queue pair 9 that migrates"):
        pair.a.rearm(9, 0)


# --- anything ------------------------------------------------------------------------------------


@settings(max_examples=20 if SANITIZE else 80, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    n=st.sampled_from([2, 2, 3]),
    loss=st.sampled_from([0.0, 0.01, 0.05]),
    repeat=st.sampled_from(Repeat),
    planes=st.builds(
        PlaneConfig,
        use=st.just(PlaneUse.SINGLE),
        first=st.sampled_from([0, 1, FIRST_TURN, FIRST_HASH]),
        tries=st.sampled_from([0, 1, 3]),
        by_link=st.booleans(),
        switch_ps=st.sampled_from([0, 30 * US, 300 * US]),
        return_ps=st.sampled_from([0, 100 * US, MS]),
    ),
    changes=st.lists(
        st.tuples(
            st.integers(0, 900 * US), st.integers(0, 2), st.booleans(), st.sampled_from("abcd")
        ),
        max_size=10,
    ),
    retries=st.sampled_from([3, 60]),
)
def test_any_faults(
    seed: int,
    n: int,
    loss: float,
    repeat: Repeat,
    planes: PlaneConfig,
    changes: list[tuple[int, int, bool, str]],
    retries: int,
) -> None:
    """Links of one end or both come and go, lines are drained, packets lost: exact, no hang."""
    messages = whole_pair(planes, n, seed, repeat=repeat, retries=retries, window_packets=64)
    pair, random = messages.pair, messages.random
    pair.loss = loss
    for at, link, up, whom in changes:

        def happen(link: int = link % n, up: bool = up, whom: str = whom) -> None:
            if whom == "d":
                random.choice([pair.a, pair.b]).drain(link, not up)
            elif whom == "c":
                pair.set_link(link, up)
            else:
                (pair.a if whom == "a" else pair.b).set_link(link, up)

        pair.at(at, happen)

    def well() -> None:
        for link in range(n):
            pair.set_link(link, True)
            for card in (pair.a, pair.b):
                card.drain(link, False)

    pair.at(MS, well)
    for i in range(random.randrange(1, 8)):
        operation, size = random.choice(VERBS), random.randrange(0, 5000)
        pair.at(i * 100 * US, lambda o=operation, s=size: post_or_failed(messages, o, s))
    pair.run(until=100 * MS)
    whole = messages.check()
    failed = pair.a.queue_pair_stats(1).state is QueuePairState.ERROR
    assert failed or whole == len(messages.expected)
    assert not failed or retries == 3


def post_or_failed(messages: Messages, operation: Operation, size: int) -> None:
    if messages.pair.a.queue_pair_stats(1).state is QueuePairState.READY:
        messages.post(operation, size)
