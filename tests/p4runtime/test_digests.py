"""Digest lists: batching, duplicates, acknowledgement, time-outs (specification, "DigestEntry")."""

from __future__ import annotations

import pytest

from softswitch.p4runtime.digests import DigestManager
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.schema import Digest
from softswitch.p4runtime.status import Code, EntityError

LEARN = Digest(id=7, name="learn_t", learns=(0,), widths=(32, 9), shape="struct")
A, B, C = b"\n\0\0\1\0\1", b"\n\0\0\2\0\1", b"\n\0\0\3\1\xff"


def make(max_timeout_ns: int = 0, max_list_size: int = 0, ack_timeout_ns: int = 0) -> DigestManager:
    manager = DigestManager({7: LEARN})
    manager.write(p4r.Update.INSERT, entry(max_timeout_ns, max_list_size, ack_timeout_ns))
    return manager


def entry(*config: int) -> p4r.DigestEntry:
    names = ("max_timeout_ns", "max_list_size", "ack_timeout_ns")
    message = p4r.DigestEntry(digest_id=7)
    for name, value in zip(names, config, strict=True):
        setattr(message.config, name, value)
    message.config.SetInParent()
    return message


def rows(message: p4r.DigestList | None) -> list[tuple[int, ...]]:
    assert message is not None
    return [
        tuple(int.from_bytes(m.bitstring, "big") for m in data.struct.members)
        for data in message.data
    ]


def test_members_are_cut_out_of_the_bytes() -> None:
    assert rows(make().sample(0, C, 0)) == [(0x0A000003, 511)]


def test_nothing_comes_while_not_configured() -> None:
    manager = DigestManager({7: LEARN})
    assert manager.sample(0, A, 0) is None


def test_a_full_list_is_sent_and_an_old_one_too() -> None:
    manager = make(max_timeout_ns=100, max_list_size=2)
    assert manager.sample(0, A, 0) is None
    assert rows(manager.sample(0, B, 10)) == [(0x0A000001, 1), (0x0A000002, 1)]
    assert manager.next_due() is None
    assert manager.sample(0, C, 50) is None
    assert manager.next_due() == 150
    assert manager.due(149) == []
    assert [rows(m) for m in manager.due(150)] == [[(0x0A000003, 511)]]


def test_equal_messages_wait_for_the_acknowledgement() -> None:
    manager = make(ack_timeout_ns=1000)
    first = manager.sample(0, A, 0)
    assert first is not None
    assert manager.sample(0, A, 10) is None
    assert rows(manager.sample(0, B, 20)) == [(0x0A000002, 1)]
    manager.acknowledge(p4r.DigestListAck(digest_id=7, list_id=first.list_id))
    again = manager.sample(0, A, 30)
    assert again is not None and again.list_id > first.list_id
    assert manager.sample(0, B, 40) is None


def test_unacknowledged_messages_are_forgotten_after_the_time_out() -> None:
    manager = make(ack_timeout_ns=1000)
    assert manager.sample(0, A, 0) is not None
    assert manager.sample(0, A, 999) is None
    assert manager.sample(0, A, 1000) is not None


def test_without_ack_time_out_nothing_is_remembered() -> None:
    manager = make()
    assert manager.sample(0, A, 0) is not None
    assert manager.sample(0, A, 1) is not None


def test_configuration_errors() -> None:
    manager = make()
    for kind, digest_id, code in (
        (p4r.Update.INSERT, 7, Code.ALREADY_EXISTS),
        (p4r.Update.MODIFY, 8, Code.NOT_FOUND),
    ):
        message = entry(0, 0, 0)
        message.digest_id = digest_id
        with pytest.raises(EntityError) as refused:
            manager.write(kind, message)
        assert refused.value.code is code
    with pytest.raises(EntityError) as refused:
        manager.write(p4r.Update.MODIFY, entry(-1, 0, 0))
    assert refused.value.code is Code.INVALID_ARGUMENT
    manager.write(p4r.Update.DELETE, entry(0, 0, 0))
    assert list(manager.read(0)) == []
    with pytest.raises(EntityError) as refused:
        manager.write(p4r.Update.DELETE, entry(0, 0, 0))
    assert refused.value.code is Code.NOT_FOUND
    with pytest.raises(EntityError) as refused:
        manager.acknowledge(p4r.DigestListAck(digest_id=9))
    assert refused.value.code is Code.INVALID_ARGUMENT
