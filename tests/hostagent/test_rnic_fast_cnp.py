"""A card that is sent fast CNPs: which queue pair each is for, and what it does to its rate.

    switch --- fast CNP (from "10.0.1.2", for its queue pair 77) ---> card 10.0.1.1

The card's queue pair 5 is joined to 10.0.1.2's 77; what BTH names does not count.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from scapy.contrib.roce import CNPPadding
from scapy.packet import Raw

from hostagent.algorithms import Parameters
from hostagent.rnic.card_records import CardError, Operation, QueuePairConfig, Work
from mechanisms.dcqcn.parameters import parameters
from mechanisms.fast_cnp.parameters import RATE_UNIT_BPS, FastCnpParameters
from protocols.notification import Notification, NotificationType, as_cnp_padding, rate_of
from protocols.rocev2 import Opcode
from tests.hostagent.scripted_peer import MTU, PEER_IP, PEER_QPN, QPN, ScriptedPeer
from tests.hostagent.virtual_wire import US

LINE = 1 << 37  # 137 Gb/s: a rate of 16 bits says each 16th of it exactly
BASE_NS = 5_000_000
FAST = FastCnpParameters(
    line_rate_bps=LINE,
    min_rate_bps=LINE // 1000,
    validity_unit_ns=256,
    rate_unit_q16=RATE_UNIT_BPS << 16,
)
DCQCN = replace(parameters("hpcc-dcqcn", LINE), increase_timer_ns=10**9, alpha_timer_ns=10**9)
PEER = "10.0.1.2"


def _control(dcqcn: Any, fast: FastCnpParameters | None) -> Parameters:
    given = {"dcqcn": dcqcn, "fast_cnp": fast}
    return {name: each.fields() for name, each in given.items() if each is not None}


def said_rate(parts: int) -> int:
    """As a notification says it."""
    return rate_of(LINE * parts // 16 // RATE_UNIT_BPS)


class Source(ScriptedPeer):
    """A card that goes by fast CNPs, and a switch beside its peer."""

    def __init__(self, *, fast: FastCnpParameters | None = FAST, dcqcn: Any = DCQCN) -> None:
        card = {"line_rate_bps": LINE, "cc_base_ns": BASE_NS}
        super().__init__(card=card, congestion_control=_control(dcqcn, fast))

    def also(self, qpn: int, peer_ip: int, peer_qpn: int, fast: Any = FAST) -> None:
        """One more queue pair of the card."""
        self.card.add_queue_pair(QueuePairConfig(qpn=qpn, mtu=MTU), _control(DCQCN, fast))
        self.card.connect(qpn, peer_ip, peer_qpn=peer_qpn, peer_psn=0)

    def told(self, parts: int = 8, *, qpn: int = 0, src: str = PEER, **fields: Any) -> bool:
        """Send a fast CNP as a switch makes it; return whether it was for a queue pair of the card.

        `parts`: in 1/16 of the line's rate.
        """
        values = {"type": 1, "validity": 3, "destination": PEER, "destination_qp": PEER_QPN,
                  "switch_id": 7, "port": 300, "sequence": 9}  # fmt: skip
        said = Notification(**{**values, "queue": said_rate(parts), **fields})
        return self.send(Opcode.CNP, 0, as_cnp_padding(said), qpn=qpn, src=src, becn=1)

    def rates(self, *qpns: int) -> list[int]:
        """Return their rates in 1/16 of the line's."""
        found = [self.card.queue_pair_stats(qpn, self.now).rate_bps for qpn in qpns or (QPN,)]
        return [(rate or LINE) * 16 // LINE for rate in found]


def test_a_fast_cnp_finds_its_queue_pair_by_the_peer() -> None:
    """DestQP is 0: the switch does not know the source's number."""
    source = Source()
    source.now = 7 * US
    assert source.told(4)
    assert source.rates() == [4]
    assert (source.stats.cnps_received, source.stats.notified_received) == (0, 1)
    assert source.stats.first_cut_at == 7 * US
    assert source.card.stats().unknown_qp == 0


def test_two_queue_pairs_to_the_same_peer_are_told_apart() -> None:
    source = Source()
    source.also(6, PEER_IP, 78)
    source.also(7, PEER_IP + 1, PEER_QPN)  # another peer, the same number there
    assert source.told(12, destination_qp=78)
    assert source.rates(QPN, 6, 7) == [16, 12, 16]
    assert source.told(8, src="10.0.1.3", destination="10.0.1.3")
    assert source.rates(QPN, 6, 7) == [16, 12, 8]
    assert source.told(1)
    assert source.rates(QPN, 6, 7) == [1, 12, 8]


def test_what_bth_names_does_not_count() -> None:
    source = Source()
    source.also(6, PEER_IP, 78)
    assert source.told(8, qpn=6)
    assert source.rates(QPN, 6) == [8, 16]
    assert source.card.queue_pair_stats(6).cnps_received == 0


WRONG: dict[str, dict[str, Any]] = {
    "a peer's queue pair that nobody has": {"destination_qp": 79},
    "another peer": {"destination": "10.0.1.9", "src": "10.0.1.9"},
    "in another's name": {"src": "10.0.1.9"},
    "of somebody else": {"destination": "10.0.1.9"},
}


@pytest.mark.parametrize("said", WRONG.values(), ids=WRONG)
def test_a_notification_for_nobody_changes_nothing(said: dict[str, Any]) -> None:
    source = Source()
    assert not source.told(8, **said)
    assert source.rates() == [16]
    assert source.stats.first_cut_at == -1
    assert (source.card.stats().notification_qp, source.card.stats().unknown_qp) == (1, 1)


def test_a_queue_pair_that_is_gone_is_nobody() -> None:
    source = Source()
    for peer_qpn in range(100, 140):  # the table grows, and what is removed leaves gaps
        source.also(peer_qpn + 1000, PEER_IP, peer_qpn)
    for peer_qpn in range(100, 140, 3):
        source.card.remove_queue_pair(peer_qpn + 1000)
    for peer_qpn in range(100, 140):
        assert source.told(8, destination_qp=peer_qpn) == ((peer_qpn - 100) % 3 != 0)
    assert source.rates(1101, 1138, QPN) == [8, 8, 16]
    assert source.card.stats().notification_qp == 14


def test_a_peer_that_uses_a_number_again_means_the_newer_queue_pair() -> None:
    source = Source()
    source.also(6, PEER_IP, PEER_QPN)
    assert source.told(8)
    assert source.rates(QPN, 6) == [16, 8]
    source.card.remove_queue_pair(QPN)  # the older one goes: the newer one is still found
    source.now = 100 * US
    assert source.told(8)
    assert source.card.queue_pair_stats(6).notified_received == 2
    source.card.remove_queue_pair(6)
    assert not source.told(8)


def test_a_word_that_is_said_again_stands_and_one_that_is_not_lets_go() -> None:
    held, alone = Source(dcqcn=None), Source(dcqcn=None)
    for us in range(60):
        held.now = us * US
        held.told(8)
        if us == 0:
            alone.told(4)
    held.now = alone.now = 60 * US
    assert held.rates() == [8]
    # 2 us (2^3 units of 256 ns) and two packets' time at a quarter of the line; then it doubles
    assert alone.rates() == [16]
    alone.now = 100 * US
    assert alone.told(4)
    for us, parts in ((103, 4), (107, 4), (108, 8), (111, 8), (112, 16)):
        alone.now = us * US
        assert alone.rates() == [parts]


def test_the_least_word_of_several_queues_is_the_rate() -> None:
    source = Source(dcqcn=None)
    assert source.told(6, port=1, validity=5)
    assert source.told(3, port=2, validity=0)
    assert source.told(9, switch_id=8, port=1, validity=9)
    assert source.rates() == [3]
    source.now = 5 * US
    assert source.rates() == [6]
    assert source.told(7, port=1, validity=5)  # the same queue's next word
    assert source.rates() == [7]


def test_the_smaller_of_both_rates_applies() -> None:
    source = Source()
    source.told(12)
    assert source.rates() == [12]
    source.cnp()  # DCQCN's first one halves
    assert source.rates() == [8]
    source.now = 10 * US
    source.told(3)
    assert source.rates() == [3]
    source.now = 500 * US  # DCQCN does not grow here, and the other one is back at the line
    assert source.rates() == [8]
    assert (source.stats.cnps_received, source.stats.notified_received) == (1, 2)
    assert source.stats.first_cut_at == 0


def test_a_card_sends_no_faster_than_it_was_told() -> None:
    source = Source(dcqcn=None)
    source.card.post(QPN, Work(1, Operation.WRITE, bytes(40 * MTU), rkey=1), 0)
    assert source.next() is not None
    source.told(2)
    departures: list[int] = []
    while len(departures) < 4:
        source.now = max(source.now, source.card.next_event())
        if source.next() is not None:
            departures.append(source.now)
    gaps = {later - before for before, later in pairwise(departures[1:])}
    # Ethernet to BTH, ICRC, preamble and gap, at an eighth of the line's rate
    assert gaps == {-(-(14 + 20 + 8 + 12 + MTU + 4 + 24) * 8 * 10**12 // (LINE // 8))}


def test_the_first_cut_is_the_first_one_whoever_made_it() -> None:
    source = Source()
    source.now = 3 * US
    source.told(16)
    assert source.stats.first_cut_at == -1  # the line's own rate is no cut
    source.now = 5 * US
    source.cnp()
    source.now = 9 * US
    source.told(8)
    assert source.stats.first_cut_at == 5 * US


def test_without_fast_cnp_it_is_a_cnp_for_the_queue_pair_in_bth() -> None:
    stock = Source(fast=None)
    assert stock.told(15, qpn=QPN)
    assert stock.rates() == [8]
    assert (stock.stats.cnps_received, stock.stats.notified_received) == (1, 0)
    assert not stock.told(15, qpn=0)
    assert (stock.card.stats().unknown_qp, stock.card.stats().notification_qp) == (1, 0)


def test_queue_pairs_with_and_without_it_on_one_card() -> None:
    source = Source()
    source.also(6, PEER_IP, 78, fast=None)
    assert source.told(4, destination_qp=78, qpn=6)
    assert source.told(4, qpn=6)
    assert source.rates(QPN, 6) == [4, 8]


def test_a_stock_cnp_is_dcqcn_s_alone() -> None:
    source = Source()
    source.send(Opcode.CNP, 0, CNPPadding(), becn=1)
    assert source.rates() == [8]
    assert (source.stats.cnps_received, source.stats.notified_received) == (1, 0)
    without = Source(dcqcn=None)
    without.send(Opcode.CNP, 0, CNPPadding(), becn=1)
    assert without.rates() == [16]


@pytest.mark.parametrize("kind", [kind for kind in range(16) if kind > 1])
def test_other_notifications_are_counted_and_are_cnps(kind: int) -> None:
    """Those that go between switches, and types that there are not."""
    source = Source()
    assert not source.told(15, type=kind)
    assert source.rates() == [16]
    assert source.told(15, type=kind, qpn=QPN)
    assert source.rates() == [8]
    assert source.stats.cnps_received == 1
    assert source.card.stats().notification_type == 2


def test_every_length_of_a_fast_cnp_is_safe() -> None:
    source = Source()
    said = Notification(type=NotificationType.CONGESTION, queue=said_rate(7), destination=PEER,
                        destination_qp=PEER_QPN)  # fmt: skip
    for size in range(16):
        assert not source.send(Opcode.CNP, 0, Raw(bytes(said)[:size]), qpn=QPN, becn=1)
    assert source.card.stats().malformed == 16
    whole = source.frame(Opcode.CNP, 0, as_cnp_padding(said), qpn=0, becn=1)
    for size in range(14, len(whole)):
        assert not source.card.receive(whole[:size], 0)
    assert source.rates() == [16]
    assert source.card.receive(whole, 0)


def test_a_damaged_fast_cnp_is_dropped() -> None:
    source = Source()
    said = Notification(type=1, queue=said_rate(7), destination=PEER, destination_qp=PEER_QPN)
    frame = bytearray(source.frame(Opcode.CNP, 0, as_cnp_padding(said), qpn=0, becn=1))
    frame[14 + 20 + 8 + 12] ^= 2
    assert not source.card.receive(bytes(frame), 0)
    assert (source.card.stats().bad_icrc, source.rates()) == (1, [16])


OUT_OF_RANGE: list[dict[str, int]] = [
    {"line_rate_bps": 0},
    {"line_rate_bps": 2**42 + 1},
    {"min_rate_bps": 0},
    {"min_rate_bps": LINE + 1},
    {"validity_unit_ns": 0},
    {"validity_unit_ns": 2**32},
    {"rate_unit_q16": 0},
    {"rate_unit_q16": 2**32 + 1},
]


@pytest.mark.parametrize("change", OUT_OF_RANGE, ids=str)
def test_parameters_out_of_range_are_refused(change: dict[str, int]) -> None:
    source = Source()
    (name,) = (field.removesuffix("_bps") for field in change)
    with pytest.raises(CardError, match=f"queue pair 6: fast_cnp: .*{name}"):
        source.also(6, PEER_IP, 78, fast=replace(FAST, **change))
