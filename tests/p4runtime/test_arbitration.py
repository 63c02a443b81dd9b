"""Arbitration: who is primary, and what everybody is told (specification, "Arbitration")."""

from __future__ import annotations

import pytest

from softswitch.p4runtime.arbitration import MAX_CLIENTS, Arbitration, Client
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.status import Code, EntityError


def update(election_id: int | None, device_id: int = 1) -> p4r.MasterArbitrationUpdate:
    message = p4r.MasterArbitrationUpdate(device_id=device_id)
    if election_id is not None:
        message.election_id.high = election_id >> 64
        message.election_id.low = election_id & (1 << 64) - 1
    return message


def told(client: Client) -> list[tuple[Code, int]]:
    """(status, highest election id) of each arbitration message that waits for `client`."""
    found = []
    while not client.outbox.empty():
        message = client.outbox.get()
        assert isinstance(message, p4r.StreamMessageResponse)
        arbitration = message.arbitration
        highest = (arbitration.election_id.high << 64) | arbitration.election_id.low
        found.append((Code(arbitration.status.code), highest))
    return found


def uint128(value: int) -> p4r.Uint128:
    return p4r.Uint128(high=value >> 64, low=value & (1 << 64) - 1)


@pytest.fixture
def arbitration() -> Arbitration:
    return Arbitration(device_id=1)


def test_highest_election_id_is_primary_and_all_are_told(arbitration: Arbitration) -> None:
    low, high = Client(), Client()
    arbitration.update(low, update(5))
    assert told(low) == [(Code.OK, 5)]
    arbitration.update(high, update(1 << 70))
    assert arbitration.primary is high
    assert told(low) == [(Code.ALREADY_EXISTS, 1 << 70)]
    assert told(high) == [(Code.OK, 1 << 70)]
    assert arbitration.may_write(uint128(1 << 70))
    assert not arbitration.may_write(uint128(5))


def test_a_backup_alone_is_told(arbitration: Arbitration) -> None:
    primary, backup = Client(), Client()
    arbitration.update(primary, update(9))
    told(primary)
    arbitration.update(backup, update(3))
    assert told(backup) == [(Code.ALREADY_EXISTS, 9)]
    assert told(primary) == []


def test_without_election_id_never_primary(arbitration: Arbitration) -> None:
    client = Client()
    arbitration.update(client, update(None))
    assert arbitration.primary is None
    assert told(client) == [(Code.NOT_FOUND, 0)]
    assert not arbitration.may_write(None)


def test_the_highest_id_ever_seen_counts(arbitration: Arbitration) -> None:
    first, second = Client(), Client()
    arbitration.update(first, update(9))
    arbitration.update(second, update(3))
    told(second)
    arbitration.remove(first)
    assert arbitration.primary is None
    assert told(second) == [(Code.NOT_FOUND, 9)]
    arbitration.update(second, update(9))
    assert arbitration.primary is second


def test_a_primary_may_step_down(arbitration: Arbitration) -> None:
    client, other = Client(), Client()
    arbitration.update(client, update(9))
    arbitration.update(other, update(4))
    told(client), told(other)
    arbitration.update(client, update(1))
    assert arbitration.primary is None
    assert told(client) == [(Code.NOT_FOUND, 9)]
    assert told(other) == [(Code.NOT_FOUND, 9)]


def test_calls_without_election_id_pass_while_nobody_is_connected(
    arbitration: Arbitration,
) -> None:
    assert arbitration.may_write(None)
    assert not arbitration.may_write(uint128(1))


def test_errors_that_end_the_stream(arbitration: Arbitration) -> None:
    client, other = Client(), Client()
    with pytest.raises(EntityError) as refused:
        arbitration.update(client, update(1, device_id=7))
    assert refused.value.code is Code.NOT_FOUND
    arbitration.update(client, update(1))
    with pytest.raises(EntityError) as refused:
        arbitration.update(client, update(1, device_id=7))
    assert refused.value.code is Code.FAILED_PRECONDITION
    with pytest.raises(EntityError) as refused:
        arbitration.update(other, update(1))
    assert refused.value.code is Code.INVALID_ARGUMENT
    with_role = update(2)
    with_role.role.name = "sdn"
    with pytest.raises(EntityError) as refused:
        arbitration.update(other, with_role)
    assert refused.value.code is Code.UNIMPLEMENTED
    for number in range(2, MAX_CLIENTS + 1):
        arbitration.update(Client(), update(number))
    with pytest.raises(EntityError) as refused:
        arbitration.update(other, update(100))
    assert refused.value.code is Code.RESOURCE_EXHAUSTED
