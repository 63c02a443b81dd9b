"""One P4Runtime session: program, writes, reads and packets of one switch.

How it becomes the switch's primary, and stays it, is `primacy`.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from finsy.p4client import P4ClientError
from finsy.proto import p4r
from google.protobuf import text_format

from controller.diff import Change, batches, changes
from controller.digests import DigestMessage, digest_messages
from controller.entries import Entry, decode, describe, to_bytes
from controller.entry_files import OwnEntries
from controller.errors import (
    ControllerError,
    FailedUpdate,
    PipelineRefused,
    ReadFailed,
    WriteFailed,
)
from controller.p4info import P4Info
from controller.primacy import DEFAULT_ELECTION_ID, DEFAULT_TIMEOUT, PrimarySession
from controller.program import CompiledProgram
from softswitch.client_tls import ClientTls
from softswitch.p4runtime.device_config import bmv2_json

# P4Runtime messages are at most 4 MB by gRPC's default; an update of ours is under 200 bytes.
UPDATES_PER_WRITE = 2000
T = TypeVar("T")


@dataclass(frozen=True)
class PacketIn:
    """A packet that a switch sent to the controller, with its controller header's fields."""

    switch: str
    payload: bytes
    metadata: dict[str, int]


PacketHandler = Callable[[PacketIn], None]
DigestHandler = Callable[[list[DigestMessage]], None]


class Reloaded(enum.Enum):
    """What became of a switch's entries when a changed program was loaded."""

    UNCHANGED = "the switch runs this very program already"
    KEPT = "kept by the switch"
    WRITTEN_AGAIN = "lost by the switch, and written again"


class SwitchSession(PrimarySession):
    """A session as primary with one switch. Use as `async with SwitchSession(...) as session:`."""

    def __init__(
        self,
        name: str,
        address: str,
        device_id: int,
        program: CompiledProgram,
        *,
        election_id: int = DEFAULT_ELECTION_ID,
        yields: bool = False,
        timeout: float = DEFAULT_TIMEOUT,
        tls: ClientTls | None = None,
    ) -> None:
        """As `PrimarySession`; `program` is what the switch is to run."""
        super().__init__(
            *(name, address, device_id),
            election_id=election_id,
            yields=yields,
            timeout=timeout,
            tls=tls,
        )
        self.program = program
        self._handlers: list[PacketHandler] = []
        self._digest_handlers: list[DigestHandler] = []

    @property
    def p4info(self) -> P4Info:
        """The program's names and ids."""
        return self.program.p4info

    # ---------------------------------------------------------------- the stream

    def _hear(self, message: p4r.StreamMessageResponse) -> None:
        match message.WhichOneof("update"):
            case "packet":
                packet = self._packet_in(message.packet)
                for handler in list(self._handlers):
                    handler(packet)
            case "digest" if message.digest.digest_id in self.p4info.digests:
                messages = digest_messages(self.name, message.digest, self.p4info)
                for digest_handler in list(self._digest_handlers):
                    digest_handler(messages)
            case _:
                pass  # idle time-outs, which no program of ours sends, and a former program's

    def _packet_in(self, packet: p4r.PacketIn) -> PacketIn:
        header = self.p4info.packet_headers["packet_in"]
        names = {field.id: field.name for field in header.fields}
        metadata = {
            names[item.metadata_id]: int.from_bytes(item.value, "big") for item in packet.metadata
        }
        return PacketIn(self.name, packet.payload, metadata)

    def on_packet(self, handler: PacketHandler) -> Callable[[], None]:
        """Call `handler` for each packet-in, in the event loop. Returns what takes it off again."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    def on_digest(self, handler: DigestHandler) -> Callable[[], None]:
        """Call `handler` for each list of digest messages, in the event loop. Returns its undoing.

        Which digests are sent is a matter of entries (DigestSetting).
        """
        self._digest_handlers.append(handler)
        return lambda: self._digest_handlers.remove(handler)

    async def packet_out(self, payload: bytes, **metadata: int) -> None:
        """Send a packet by the switch: packet_out(frame, egress_port=1). Raises UnknownName."""
        header = self.p4info.packet_headers["packet_out"]
        items = [
            p4r.PacketMetadata(
                metadata_id=field.id,
                value=to_bytes(metadata.get(field.name, 0), field.bits, f"packet_out.{field.name}"),
            )
            for field in header.fields
        ]
        unknown = set(metadata) - {field.name for field in header.fields}
        if unknown:
            there = ", ".join(field.name for field in header.fields)
            raise ControllerError(f"packet_out has no {', '.join(sorted(unknown))}: it has {there}")
        message = p4r.PacketOut(payload=payload, metadata=items)
        async with self.holding():
            await self.claim()
            await self._guard(self._send(p4r.StreamMessageRequest(packet=message)))

    # ---------------------------------------------------------------- program and state

    async def set_pipeline(self) -> bool:
        """Load the program unless the switch already runs this very one; say whether it was loaded.

        Loading forgets all entries. Raises PipelineRefused with the switch's reason.
        """
        cookie = await self._cookie()
        if cookie == self.program.cookie and (cookie or not await self._other_program()):
            return False
        if self.yields and _is_part(await self._other_program()):
            return False  # BMv2 has another client's, which is not ours to replace
        await self._load(self.program, p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT)
        return True

    async def reload(self, program: CompiledProgram, *, reconcile: bool) -> Reloaded:
        """Load a changed program and keep the entries.

        With `reconcile` the switch does that itself, between two packets. Without, the program is
        loaded and the entries are written again by name: traffic is interrupted meanwhile, and only
        what `read_entries` knows is kept. Raises PipelineRefused, with nothing changed, or
        WriteFailed when entries don't fit the program.
        """
        if await self._cookie() == program.cookie:
            self.program = program
            return Reloaded.UNCHANGED
        entries = await self.read_entries()
        kinds = p4r.SetForwardingPipelineConfigRequest
        if reconcile:
            await self._load(program, kinds.RECONCILE_AND_COMMIT)
            self.program = program
            return Reloaded.KEPT
        async with self.holding():
            await self._load(program, kinds.VERIFY_AND_COMMIT)
            self.program = program
            await self.write(changes(entries, await self.read_entries(), self.p4info))
        return Reloaded.WRITTEN_AGAIN

    async def replace(self, program: CompiledProgram) -> None:
        """Load a program, forgetting all entries. Raises PipelineRefused, with nothing changed."""
        await self._load(program, p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT)
        self.program = program

    async def _load(
        self,
        program: CompiledProgram,
        action: p4r.SetForwardingPipelineConfigRequest.Action.ValueType,
    ) -> None:
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self.device_id,
            action=action,
            config=p4r.ForwardingPipelineConfig(
                p4info=program.p4info.message,
                p4_device_config=program.device_config,
                cookie=p4r.ForwardingPipelineConfig.Cookie(cookie=program.cookie),
            ),
        )
        async with self.holding():
            await self.claim()
            try:
                await self._client.load(request)
            except P4ClientError as error:
                self._raise_if_gone(error)
                message = f"{self.name}: refused the program: {error.code.name}: {error.message}"
                raise PipelineRefused(message) from None

    async def _cookie(self) -> int | None:
        """Return the cookie of the running program, None if there is none."""
        request = p4r.GetForwardingPipelineConfigRequest(
            device_id=self.device_id,
            response_type=p4r.GetForwardingPipelineConfigRequest.COOKIE_ONLY,
        )
        try:
            reply = await self._client.request(request)
        except P4ClientError as error:
            self._raise_if_gone(error)
            return None  # FAILED_PRECONDITION: no program yet
        cookie: int = reply.config.cookie.cookie
        return cookie

    async def has_program(self) -> bool:
        """Return whether the switch runs any program."""
        other = await self._other_program()
        return other is None or bool(other.p4_device_config) or _is_part(other)

    async def follow(self) -> bool:
        """Take over the program that another client has loaded; say whether one had.

        A switch that does not return the whole program (BMv2), or has none, is left as it is.
        """
        cookie = await self._cookie()
        if cookie is None or (cookie and cookie == self.program.cookie):
            return False
        found = await self._other_program()
        if found is None or not found.p4_device_config:
            return False
        self.program = CompiledProgram(
            found.p4_device_config.decode(errors="surrogateescape"),
            text_format.MessageToString(found.p4info),
            found_cookie=cookie,
        )
        return True

    async def _other_program(self) -> p4r.ForwardingPipelineConfig | None:
        """Return what the switch runs if that is not our program; empty where it runs none."""
        kinds = p4r.GetForwardingPipelineConfigRequest
        request = kinds(device_id=self.device_id, response_type=kinds.ALL)
        try:
            config = (await self._client.request(request)).config
        except P4ClientError as error:
            self._raise_if_gone(error)
            return p4r.ForwardingPipelineConfig()  # FAILED_PRECONDITION
        config.p4_device_config = bmv2_json(config.p4_device_config)
        ours = config.p4info == self.program.p4info.message
        same = ours and config.p4_device_config == self.program.device_config
        return None if same else config

    async def write(self, updates: Sequence[Change]) -> None:
        """Apply changes in order. Raises WriteFailed with a line for each refused update."""
        if self.yields and not updates:
            return  # one that yields does not take the place for nothing
        async with self.holding():
            await self.claim()
            for batch in batches(updates, UPDATES_PER_WRITE):
                request = p4r.WriteRequest(
                    device_id=self.device_id,
                    updates=[change.encode(self.p4info) for change in batch],
                )
                try:
                    await self._client.request(request)
                except P4ClientError as error:
                    self._raise_if_gone(error)
                    raise WriteFailed(self.name, _failures(error, batch)) from None

    async def write_own(self, entries: OwnEntries) -> int:
        """Write a file's entries in order; return how many updates these were.

        Raises WriteFailed with a line for each refused update, and its place in the file.
        """
        places = [entries.place(index) for index in range(len(entries.updates))]
        await self.write_updates(entries.updates, places)
        return len(entries.updates)

    async def write_updates(self, updates: Sequence[p4r.Update], places: Sequence[str]) -> None:
        """Write updates in order; `places` name each in errors. Raises WriteFailed."""
        if self.yields and not updates:
            return
        async with self.holding():
            await self.claim()
            for start in range(0, len(updates), UPDATES_PER_WRITE):
                batch = slice(start, start + UPDATES_PER_WRITE)
                request = p4r.WriteRequest(device_id=self.device_id, updates=updates[batch])
                try:
                    await self._client.request(request)
                except P4ClientError as error:
                    self._raise_if_gone(error)
                    raise WriteFailed(self.name, _failed_at(error, places[batch])) from None

    async def read(self, entities: Iterable[p4r.Entity]) -> list[p4r.Entity]:
        """Return what the switch has of these (P4Runtime's wildcards apply). Raises ReadFailed."""
        request = p4r.ReadRequest(device_id=self.device_id, entities=list(entities))
        try:
            replies = [reply async for reply in self._client.request_iter(request)]
        except P4ClientError as error:
            self._raise_if_gone(error)
            raise ReadFailed(self.name, *_why(error)) from None
        return [entity for reply in replies for entity in reply.entities]

    async def read_entries(self, table: str | None = None) -> tuple[Entry, ...]:
        """Return the entries of a table, or everything that the diff knows about.

        Constant tables are left out: nothing in them can be changed. Raises UnknownName.
        """
        p4info = self.p4info
        tables = [p4info.tables[table]] if table else list(p4info.tables.all)
        wanted = [
            p4r.Entity(table_entry=p4r.TableEntry(table_id=item.id))
            for item in tables
            if table or not item.is_const
        ]
        wanted += [
            p4r.Entity(table_entry=p4r.TableEntry(table_id=item.id, is_default_action=True))
            for item in tables
            if not item.profile_id and not item.const_default
        ]
        profiles = {item.profile_id for item in tables if item.profile_id}
        for number in sorted(profiles):
            member = p4r.ActionProfileMember(action_profile_id=number)
            group = p4r.ActionProfileGroup(action_profile_id=number)
            wanted.append(p4r.Entity(action_profile_member=member))
            wanted.append(p4r.Entity(action_profile_group=group))
        if table is None:
            sessions = p4r.CloneSessionEntry(session_id=0)
            groups = p4r.MulticastGroupEntry(multicast_group_id=0)
            wanted += [
                p4r.Entity(packet_replication_engine_entry=engine)
                for engine in (
                    p4r.PacketReplicationEngineEntry(clone_session_entry=sessions),
                    p4r.PacketReplicationEngineEntry(multicast_group_entry=groups),
                )
            ]
        entities = await self.read(wanted)
        for digest in () if table else p4info.digests.all:
            entities += await self._read_digest(digest.id)
        found = (decode(entity, p4info) for entity in entities)
        return tuple(entry for entry in found if entry is not None)

    async def _read_digest(self, number: int) -> list[p4r.Entity]:
        """Return a digest's setting. To BMv2 one without is an error, which no other read is to be.

        Raises ReadFailed.
        """
        try:
            return await self.read([p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=number))])
        except ReadFailed as failure:
            if failure.code == "NOT_FOUND":
                return []
            raise

    # ---------------------------------------------------------------- errors

    async def _guard(self, awaitable: Awaitable[T]) -> T:
        try:
            return await awaitable
        except P4ClientError as error:
            raise self._unreachable(error) from None


def _is_part(config: p4r.ForwardingPipelineConfig | None) -> bool:
    """Return whether a switch reported only a part of its program: BMv2 keeps P4Info alone."""
    return config is not None and bool(config.p4info.ByteSize()) and not config.p4_device_config


def _why(error: P4ClientError) -> tuple[str, str]:
    """Return code and message of a refused read: those of its first entity, if it has them."""
    for _, detail in sorted(error.details.items()):
        return detail.canonical_code.name, detail.message
    return error.code.name, error.message


def _failed_at(error: P4ClientError, places: Sequence[str]) -> list[FailedUpdate]:
    if not error.details:
        return [FailedUpdate(places[0], error.code.name, error.message)]
    return [
        FailedUpdate(places[i], detail.canonical_code.name, detail.message)
        for i, detail in sorted(error.details.items())
    ]


def _failures(error: P4ClientError, batch: Sequence[Change]) -> list[FailedUpdate]:
    if not error.details:
        what = f"{len(batch)} updates, the first {describe(batch[0].entry)}"
        return [FailedUpdate(what, error.code.name, error.message)]
    return [
        FailedUpdate(
            f"{batch[i].operation.name} {describe(batch[i].entry)}",
            detail.canonical_code.name,
            detail.message,
        )
        for i, detail in sorted(error.details.items())
    ]
