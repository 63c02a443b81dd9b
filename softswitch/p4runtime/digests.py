"""Digests: buffering, duplicate suppression, acknowledgement (specification, "DigestEntry")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from softswitch.p4runtime.bytestrings import encode
from softswitch.p4runtime.protos import p4d, p4r
from softswitch.p4runtime.schema import Digest
from softswitch.p4runtime.status import Code, EntityError


@dataclass(slots=True)
class _Sent:
    samples: list[bytes]
    at_ns: int


@dataclass(slots=True)
class _State:
    digest: Digest
    config: p4r.DigestEntry | None = None
    buffer: list[bytes] = field(default_factory=list)
    first_at_ns: int = 0
    cache: set[bytes] = field(default_factory=set)
    sent: dict[int, _Sent] = field(default_factory=dict)
    next_list: int = 1


class DigestManager:
    """All digests of a pipeline. Times are in nanoseconds of the switch's clock.

    A message waits in the buffer until `max_list_size` are there or the oldest is `max_timeout_ns`
    old; a message equal to one that waits or was sent and not acknowledged within `ack_timeout_ns`
    is dropped. With `ack_timeout_ns` 0 nothing sent is remembered.
    """

    def __init__(self, digests: dict[int, Digest]) -> None:
        self._states = {number: _State(digest) for number, digest in digests.items()}
        self._by_learn: dict[int, _State] = {}
        for state in self._states.values():
            self._route(state)

    def take_over(self, other: DigestManager, pairs: Mapping[int, int]) -> None:
        """Go on with what waits and what was sent in `other`; `pairs` are ids (its: ours)."""
        for theirs, ours in pairs.items():
            old, new = other._states[theirs], self._states[ours]
            new.next_list = old.next_list
            if old.digest.widths == new.digest.widths:
                new.buffer, new.first_at_ns = list(old.buffer), old.first_at_ns
                new.cache, new.sent = set(old.cache), dict(old.sent)

    def undo(self, digest_id: int) -> Callable[[], None]:
        """Return a function that restores the present state of one digest."""
        state = self._state(digest_id)
        config = state.config

        def restore() -> None:
            state.config = config
            self._states[digest_id] = state
            self._route(state)

        return restore

    def write(self, kind: int, message: p4r.DigestEntry) -> None:
        """Enable, reconfigure or disable one digest."""
        state = self._state(message.digest_id)
        name = state.digest.name
        if kind == p4r.Update.INSERT:
            if state.config is not None:
                raise EntityError(Code.ALREADY_EXISTS, f"digest {name!r} is configured already")
        elif state.config is None:
            raise EntityError(Code.NOT_FOUND, f"digest {name!r} is not configured")
        if kind == p4r.Update.DELETE:
            fresh = _State(state.digest, next_list=state.next_list)
            self._states[message.digest_id] = fresh
            self._route(fresh)
            return
        config = message.config
        if min(config.max_timeout_ns, config.max_list_size, config.ack_timeout_ns) < 0:
            raise EntityError(
                Code.INVALID_ARGUMENT, f"digest {name!r}: timeouts and list size can't be negative"
            )
        state.config = p4r.DigestEntry()
        state.config.CopyFrom(message)

    def read(self, digest_id: int) -> Iterator[p4r.DigestEntry]:
        """Yield one configuration, or all with id 0."""
        states = self._states.values() if digest_id == 0 else [self._state(digest_id)]
        for state in states:
            if state.config is not None:
                yield state.config

    def sample(self, learn: int, data: bytes, now_ns: int) -> p4r.DigestList | None:
        """Take one message of the core's learn list; return a list that is ready to be sent."""
        state = self._by_learn.get(learn)
        if state is None or state.config is None:
            return None
        config = state.config.config
        self._expire(state, now_ns)
        if data in state.cache or data in state.buffer:
            return None
        if not state.buffer:
            state.first_at_ns = now_ns
        state.buffer.append(data)
        full = config.max_list_size and len(state.buffer) >= config.max_list_size
        if full or config.max_timeout_ns == 0:
            return self._flush(state, now_ns)
        return None

    def acknowledge(self, message: p4r.DigestListAck) -> None:
        """Forget the list so that its messages may come again. INVALID_ARGUMENT: no such digest."""
        state = self._states.get(message.digest_id)
        if state is None:
            raise EntityError(
                Code.INVALID_ARGUMENT, f"there is no digest with id {message.digest_id}"
            )
        sent = state.sent.pop(message.list_id, None)
        if sent is not None:
            state.cache.difference_update(sent.samples)

    def due(self, now_ns: int) -> list[p4r.DigestList]:
        """Return the lists whose oldest message has waited `max_timeout_ns` at `now_ns`.

        Their timestamp is when they were due, however late the call comes.
        """
        ready = []
        for state in self._states.values():
            self._expire(state, now_ns)
            deadline = _deadline(state)
            if deadline is not None and deadline <= now_ns:
                ready.append(self._flush(state, deadline))
        return ready

    def next_due(self) -> int | None:
        """Return when (ns) `due` next returns something, None if nothing waits."""
        deadlines = [d for d in map(_deadline, self._states.values()) if d is not None]
        return min(deadlines, default=None)

    def _route(self, state: _State) -> None:
        self._by_learn |= dict.fromkeys(state.digest.learns, state)

    def _state(self, digest_id: int) -> _State:
        state = self._states.get(digest_id)
        if state is None:
            raise EntityError(Code.NOT_FOUND, f"there is no digest with id {digest_id}")
        return state

    def _flush(self, state: _State, now_ns: int) -> p4r.DigestList:
        assert state.config is not None
        message = p4r.DigestList(
            digest_id=state.digest.id, list_id=state.next_list, timestamp=now_ns
        )
        for data in state.buffer:
            _fill(message.data.add(), state.digest, data)
        if state.config.config.ack_timeout_ns:
            state.cache.update(state.buffer)
            state.sent[state.next_list] = _Sent(state.buffer, now_ns)
        state.buffer = []
        state.next_list += 1
        return message

    def _expire(self, state: _State, now_ns: int) -> None:
        if state.config is None:
            return
        oldest = now_ns - state.config.config.ack_timeout_ns
        for number in [n for n, sent in state.sent.items() if sent.at_ns <= oldest]:
            state.cache.difference_update(state.sent.pop(number).samples)


def _deadline(state: _State) -> int | None:
    if not state.buffer or state.config is None:
        return None
    return state.first_at_ns + state.config.config.max_timeout_ns


def _fill(target: p4d.P4Data, digest: Digest, data: bytes) -> None:
    """Cut the core's bytes into the digest's members: (bits + 7) / 8 bytes each, big endian."""
    values = []
    offset = 0
    for width in digest.widths:
        size = (width + 7) // 8
        values.append(encode(int.from_bytes(data[offset : offset + size], "big")))
        offset += size
    match digest.shape:
        case "struct":
            for value in values:
                target.struct.members.add(bitstring=value)
        case "tuple":
            for value in values:
                target.tuple.members.add(bitstring=value)
        case _:
            target.bitstring = values[0]
