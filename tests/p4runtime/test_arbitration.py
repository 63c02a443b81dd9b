"""Arbitration: who is primary, and what everybody is told (specification, "Arbitration")."""

from __future__ import annotations

import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from softswitch.p4runtime.arbitration import MAX_CLIENTS, Arbitration, Client
from softswitch.p4runtime.protos import p4r, rpc_status, stratum
from softswitch.p4runtime.roles import FULL
from softswitch.p4runtime.status import Code, EntityError


def update(
    election_id: int | None,
    device_id: int = 1,
    role: str = "",
    config: Message | None = None,
) -> p4r.MasterArbitrationUpdate:
    message = p4r.MasterArbitrationUpdate(device_id=device_id)
    if role:
        message.role.name = role
    if config is not None:
        message.role.config.Pack(config)
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
    assert arbitration.role("").primary is high
    assert told(low) == [(Code.ALREADY_EXISTS, 1 << 70)]
    assert told(high) == [(Code.OK, 1 << 70)]
    assert arbitration.may_write(arbitration.role(""), uint128(1 << 70))
    assert not arbitration.may_write(arbitration.role(""), uint128(5))


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
    assert arbitration.role("").primary is None
    assert told(client) == [(Code.NOT_FOUND, 0)]
    assert not arbitration.may_write(arbitration.role(""), None)


def test_the_highest_id_ever_seen_counts(arbitration: Arbitration) -> None:
    first, second = Client(), Client()
    arbitration.update(first, update(9))
    arbitration.update(second, update(3))
    told(second)
    arbitration.remove(first)
    assert arbitration.role("").primary is None
    assert told(second) == [(Code.NOT_FOUND, 9)]
    arbitration.update(second, update(9))
    assert arbitration.role("").primary is second


def test_a_primary_may_step_down(arbitration: Arbitration) -> None:
    client, other = Client(), Client()
    arbitration.update(client, update(9))
    arbitration.update(other, update(4))
    told(client), told(other)
    arbitration.update(client, update(1))
    assert arbitration.role("").primary is None
    assert told(client) == [(Code.NOT_FOUND, 9)]
    assert told(other) == [(Code.NOT_FOUND, 9)]


def test_calls_without_election_id_pass_while_nobody_is_connected(
    arbitration: Arbitration,
) -> None:
    assert arbitration.may_write(arbitration.role(""), None)
    assert not arbitration.may_write(arbitration.role(""), uint128(1))


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
    with pytest.raises(EntityError) as refused:
        arbitration.update(client, update(1, role="sdn"))  # a stream has one role
    assert refused.value.code is Code.FAILED_PRECONDITION
    for number in range(2, MAX_CLIENTS + 1):
        arbitration.update(Client(), update(number))
    with pytest.raises(EntityError) as refused:
        arbitration.update(other, update(100))
    assert refused.value.code is Code.RESOURCE_EXHAUSTED


# --- roles ----------------------------------------------------------------------------------------


def test_each_role_has_its_own_primary(arbitration: Arbitration) -> None:
    default, sdn, backup = Client(), Client(), Client()
    arbitration.update(default, update(9))
    arbitration.update(sdn, update(9, role="sdn"))
    arbitration.update(backup, update(3, role="sdn"))
    assert told(default) == [(Code.OK, 9)]
    assert told(sdn) == [(Code.OK, 9)]
    assert told(backup) == [(Code.ALREADY_EXISTS, 9)]
    assert arbitration.role("sdn").primary is sdn
    assert arbitration.may_write(arbitration.role("sdn"), uint128(9))
    arbitration.remove(sdn)
    assert told(backup) == [(Code.NOT_FOUND, 9)]
    assert told(default) == []
    with pytest.raises(EntityError) as refused:
        arbitration.role("other")
    assert refused.value.code is Code.NOT_FOUND


def test_all_of_a_role_are_told_its_config(arbitration: Arbitration) -> None:
    config = stratum.P4RoleConfig(shared_p4_ids=[5], receives_packet_ins=True)
    primary, backup = Client(), Client()
    arbitration.update(backup, update(1, role="sdn"))
    arbitration.update(primary, update(2, role="sdn", config=config))
    message = backup.outbox.get()
    message = backup.outbox.get()
    assert isinstance(message, p4r.StreamMessageResponse)
    sent = stratum.P4RoleConfig()
    assert message.arbitration.role.name == "sdn"
    assert message.arbitration.role.config.Unpack(sent) and sent == config
    assert arbitration.role("sdn").scope.ids == frozenset({5})
    told(primary), told(backup)
    arbitration.update(primary, update(2, role="sdn"))  # without config: full access from now on
    assert arbitration.role("sdn").scope.ids is None
    assert told(backup) == [(Code.ALREADY_EXISTS, 2)]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (update(1, role="sdn", config=rpc_status.Status()), Code.INVALID_ARGUMENT),
        (update(1, config=stratum.P4RoleConfig()), Code.INVALID_ARGUMENT),
        (
            update(1, role="sdn", config=stratum.P4RoleConfig(shared_p4_ids=[7])),
            Code.INVALID_ARGUMENT,
        ),
        (
            p4r.MasterArbitrationUpdate(device_id=1, role=p4r.Role(id=4)),
            Code.UNIMPLEMENTED,
        ),
    ],
    ids=["unknown config", "default role", "taken exclusively", "number"],
)
def test_role_configs_that_are_refused(
    arbitration: Arbitration, message: p4r.MasterArbitrationUpdate, code: Code
) -> None:
    owner = stratum.P4RoleConfig(exclusive_p4_ids=[7])
    arbitration.update(Client(), update(1, role="owner", config=owner))
    with pytest.raises(EntityError) as refused:
        arbitration.update(Client(), message)
    assert refused.value.code is code
    assert len(arbitration.clients) == 1


def test_an_empty_config_is_full_access(arbitration: Arbitration) -> None:
    """For clients that can't leave a role's config away, as finsy."""
    client = Client()
    arbitration.update(client, update(9, role="mine", config=Empty()))
    assert told(client) == [(Code.OK, 9)]
    assert arbitration.role("mine").scope is FULL
