"""One P4Runtime session: arbitration, program, writes, reads and packets of one switch.

The gRPC client is finsy's. Its own run loop isn't used: it retries silently for ever, and here each
step has a deadline and ends in one clear error.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

import grpc
from finsy import pbutil
from finsy.p4client import P4Client, P4ClientError
from finsy.p4schema import P4Schema
from finsy.proto import U128, p4r, p4r_grpc, rpc_code
from google.protobuf import text_format

from controller.diff import Change, batches, changes
from controller.digests import DigestMessage, digest_messages
from controller.entries import Entry, decode, describe, to_bytes
from controller.entry_files import OwnEntries
from controller.errors import (
    ControllerError,
    FailedUpdate,
    NotPrimary,
    PipelineRefused,
    ReadFailed,
    SwitchUnreachable,
    WriteFailed,
)
from controller.p4info import P4Info
from controller.program import CompiledProgram
from softswitch.client_tls import MAX_METADATA_BYTES, USER_AGENT, ClientTls, ClientTlsError
from softswitch.p4runtime.device_config import bmv2_json

# P4Runtime messages are at most 4 MB by gRPC's default; an update of ours is under 200 bytes.
UPDATES_PER_WRITE = 2000
DEFAULT_TIMEOUT = 10.0
_RECONNECT_POLL_S = 0.02
_CLAIMS = 3  # times that a vacant place may be taken from under our nose
# A switch that compiles a program to machine code needs seconds, several at once on few cores more.
LOAD_TIMEOUT = 60.0
# Above what interactive shells use by default, so that a second look doesn't take the fabric away.
DEFAULT_ELECTION_ID = 100

_CHANNEL_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # What became of each update of a batch comes as metadata: 64 KB would be some 400 updates.
    ("grpc.max_metadata_size", MAX_METADATA_BYTES),
    ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
    ("grpc.primary_user_agent", USER_AGENT),
)

T = TypeVar("T")

logging.getLogger("finsy").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class PacketIn:
    """A packet that a switch sent to the controller, with its controller header's fields."""

    switch: str
    payload: bytes
    metadata: dict[str, int]


PacketHandler = Callable[[PacketIn], None]
DigestHandler = Callable[[list[DigestMessage]], None]


class Standing(enum.Enum):
    """Whether a session may write, as its switch told it last."""

    PRIMARY = "this session may write"
    BACKUP = "another controller may"
    VACANT = "nobody may: who was the primary has left"


StandingHandler = Callable[["SwitchSession"], None]


class Reloaded(enum.Enum):
    """What became of a switch's entries when a changed program was loaded."""

    UNCHANGED = "the switch runs this very program already"
    KEPT = "kept by the switch"
    WRITTEN_AGAIN = "lost by the switch, and written again"


class _Client(P4Client):
    """finsy's client; loading a program may take longer than its ten seconds for any request."""

    def __init__(self, address: str, tls: ClientTls | None) -> None:
        super().__init__(address)
        self._tls = tls

    async def open(
        self,
        *,
        schema: P4Schema | None = None,
        complete_request: Callable[[pbutil.PBMessage], None] | None = None,
    ) -> None:
        """Open the channel, with connections of its own.

        gRPC else shares them between channels of a process, with the pause that it makes after a
        connection that failed: a switch that was started again would have to wait for that.
        Raises ClientTlsError.
        """
        if self._tls is None:
            self._channel = grpc.aio.insecure_channel(self._address, options=_CHANNEL_OPTIONS)
        else:
            credentials = self._tls.credentials()
            self._channel = grpc.aio.secure_channel(self._address, credentials, _CHANNEL_OPTIONS)
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)
        self._schema = schema
        self._complete_request = complete_request

    async def load(self, request: p4r.SetForwardingPipelineConfigRequest) -> None:
        """Send SetForwardingPipelineConfig. Raises P4ClientError."""
        assert self._stub is not None
        if self._complete_request:
            self._complete_request(request)
        try:
            await self._stub.SetForwardingPipelineConfig(request, timeout=LOAD_TIMEOUT)
        except grpc.RpcError as error:
            raise P4ClientError(error, "SetForwardingPipelineConfig") from None


class SwitchSession:
    """A session as primary with one switch. Use as `async with SwitchSession(...) as session:`.

    Another controller may take its place at any time, and leave: `standing` says so, and whoever
    asked by `on_standing` is told. What only a primary may do takes a vacant place first.
    """

    def __init__(
        self,
        name: str,
        address: str,
        device_id: int,
        program: CompiledProgram,
        *,
        election_id: int = DEFAULT_ELECTION_ID,
        timeout: float = DEFAULT_TIMEOUT,
        tls: ClientTls | None = None,
    ) -> None:
        """`address` is 'host:port'; `timeout` (seconds) bounds connecting and arbitration.

        `tls`: for a switch that was started with `--grpc-server-ssl`.
        """
        self.name = name
        self.address = address
        self.device_id = device_id
        self.program = program
        self.standing = Standing.VACANT
        self._first_election_id = election_id
        self._election_id = election_id
        self._highest = 0
        self._timeout = timeout
        self._tls = tls
        self._client = _Client(address, tls)
        self._receiver: asyncio.Task[None] | None = None
        self._arbitrated: asyncio.Future[p4r.MasterArbitrationUpdate] | None = None
        self._arbitrating = asyncio.Lock()
        self._id_was_taken = False
        self._standing_handlers: list[StandingHandler] = []
        self._handlers: list[PacketHandler] = []
        self._digest_handlers: list[DigestHandler] = []
        self._stream_error: str | None = None

    @property
    def p4info(self) -> P4Info:
        """The program's names and ids."""
        return self.program.p4info

    @property
    def is_primary(self) -> bool:
        """Whether this session may write."""
        return self.standing is Standing.PRIMARY

    @property
    def election_id(self) -> int:
        """What this session last asked to be primary with."""
        return self._election_id

    @property
    def highest_election_id(self) -> int:
        """The highest election id that the switch has told of: its primary's, if it has one."""
        return max(self._highest, self._election_id)

    def on_standing(self, handler: StandingHandler) -> None:
        """Call `handler`, in the event loop, whenever another controller came or left."""
        self._standing_handlers.append(handler)

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def connect(self) -> None:
        """Wait until the switch answers and make this session its primary.

        Raises SwitchUnreachable when the deadline passes, NotPrimary when another one is.
        """
        deadline = time.monotonic() + self._timeout
        await self._open_channel()
        try:
            await self._arbitrate(deadline)
        except BaseException:
            await self.close()
            raise

    async def _open_channel(self) -> None:
        try:
            await self._client.open(complete_request=self._complete)
        except ClientTlsError as error:
            raise ControllerError(f"{self.name}: TLS: {error}") from None

    async def _arbitrate(self, deadline: float) -> None:
        await self._open(deadline)
        if self.standing is Standing.VACANT:  # somebody was here before, with a higher id
            await self._ask(self.highest_election_id, deadline)
        if not self.is_primary:
            raise self.not_primary()

    async def _open(self, deadline: float) -> None:
        """Wait until the switch answers, and begin the stream. Raises SwitchUnreachable."""
        channel = self._client.channel
        assert channel is not None
        try:
            await asyncio.wait_for(channel.channel_ready(), self._left(deadline))
        except TimeoutError:
            message = f"{self.name}: nothing answers at {self.address} after {self._timeout:g} s"
            if self._tls is not None:  # gRPC does not tell a refused certificate from silence
                message += ", or not with TLS and a certificate that both sides accept"
            raise SwitchUnreachable(message) from None
        self._id_was_taken = False
        await self._ask(self._election_id, deadline)

    async def _ask(self, election_id: int, deadline: float) -> None:
        """Ask to be primary with an id, and wait for the answer."""
        self._election_id = election_id
        self._arbitrated = asyncio.get_running_loop().create_future()
        request = p4r.MasterArbitrationUpdate(
            device_id=self.device_id, election_id=U128.encode(election_id)
        )
        try:
            await self._client.send(p4r.StreamMessageRequest(arbitration=request))
            if self._receiver is None:
                self._receiver = asyncio.create_task(self._receive(), name=f"receive {self.name}")
            await asyncio.wait_for(self._arbitrated, self._left(deadline))
        except TimeoutError:
            message = f"{self.name}: {self.address} answers, but not to P4Runtime arbitration"
            raise SwitchUnreachable(message) from None
        except P4ClientError as error:
            raise self._unreachable(error) from None

    async def claim(self) -> None:
        """Be the primary: take the place where it is vacant, with the id of who has left it.

        Raises NotPrimary while another controller has it, SwitchUnreachable.
        """
        async with self._arbitrating:
            deadline = time.monotonic() + self._timeout
            for _ in range(_CLAIMS):
                if self._id_was_taken:  # who left is back already: we are a backup again
                    await self._begin_again(deadline)
                if self._stream_error is not None:
                    raise SwitchUnreachable(self._stream_error)
                if self.standing is not Standing.VACANT:
                    break
                with contextlib.suppress(NotPrimary):
                    await self._ask(self.highest_election_id, deadline)
            if not self.is_primary:
                raise self.not_primary()

    async def stand_by(self) -> None:
        """Open the stream as a backup of who is primary. Raises SwitchUnreachable."""
        async with self._arbitrating:
            await self._begin_again(time.monotonic() + self._timeout)

    async def _begin_again(self, deadline: float) -> None:
        """Open the stream anew with the first id, as a backup or where the place is vacant.

        The switch may take a moment to see that our last stream, with the same id, has ended.
        """
        while True:
            self._election_id = self._first_election_id
            await self.close()
            self._stream_error = None
            self._client = _Client(self.address, self._tls)
            await self._open_channel()
            try:
                return await self._open(deadline)
            except NotPrimary:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(_RECONNECT_POLL_S)

    def not_primary(self) -> NotPrimary:
        """Return the error that says who is primary instead."""
        other = self.highest_election_id
        if self._highest <= self._election_id and not self._id_was_taken:
            return NotPrimary(f"{self.name}: another controller has become primary", other)
        message = f"{self.name}: another controller is primary, with election id {other}"
        return NotPrimary(message, other)

    @staticmethod
    def _left(deadline: float) -> float:
        return max(0.01, deadline - time.monotonic())

    def _complete(self, message: object) -> None:
        """Put our election id into the requests that need one."""
        if isinstance(message, p4r.WriteRequest | p4r.SetForwardingPipelineConfigRequest):
            message.election_id.CopyFrom(U128.encode(self._election_id))

    async def close(self) -> None:
        """End the session. The switch keeps its program and entries."""
        self.standing = Standing.VACANT
        if self._receiver is not None:
            self._receiver.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._receiver
            self._receiver = None
        if self._arbitrated is not None and not self._arbitrated.done():
            self._arbitrated.cancel()
        await self._client.close()

    async def reconnect(self, *, election_id: int | None = None) -> None:
        """Begin the session anew, for example with a switch whose process was started again.

        Handlers stay. `election_id` is used from now on, if given. Raises what `connect` does.
        """
        if election_id is not None:
            self._first_election_id = election_id
        # A switch that was started again knows of nobody; another one will say who was there.
        ours = max(self._election_id, self._first_election_id)
        self._election_id, self._highest = self._first_election_id, 0
        deadline = time.monotonic() + self._timeout
        while True:
            await self.close()
            self._stream_error = None
            self._client = _Client(self.address, self._tls)
            try:
                return await self.connect()
            except NotPrimary as other:
                # A switch may take a moment to see that our last session has ended.
                if other.election_id > ours or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(_RECONNECT_POLL_S)

    # ---------------------------------------------------------------- the stream

    async def _receive(self) -> None:
        try:
            while True:
                self._dispatch(await self._client.receive())
        except P4ClientError as error:
            failure: ControllerError = self._unreachable(error)
            if error.is_election_id_used:
                self._highest = self._election_id
                self._id_was_taken = True
                failure = self.not_primary()
        except RuntimeError:  # finsy's word for the end of the stream
            failure = SwitchUnreachable(f"{self.name}: {self.address} closed the session")
        self.standing = Standing.BACKUP if self._id_was_taken else Standing.VACANT
        self._stream_error = str(failure)
        if self._arbitrated is not None and not self._arbitrated.done():
            self._arbitrated.set_exception(failure)

    def _dispatch(self, message: p4r.StreamMessageResponse) -> None:
        match message.WhichOneof("update"):
            case "arbitration":
                self._take_standing(message.arbitration)
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

    def _take_standing(self, told: p4r.MasterArbitrationUpdate) -> None:
        before, highest = self.standing, self._highest
        self._highest = U128.decode(told.election_id)
        if told.status.code == rpc_code.OK:
            self.standing = Standing.PRIMARY
            if self._highest < self._election_id:  # BMv2 lets the next one have it, unasked
                self._highest = self._election_id
        elif told.status.code == rpc_code.NOT_FOUND:
            self.standing = Standing.VACANT
        else:
            self.standing = Standing.BACKUP
        if self._arbitrated is not None and not self._arbitrated.done():
            self._arbitrated.set_result(told)
        elif (before, highest) != (self.standing, self._highest):
            for handler in list(self._standing_handlers):
                handler(self)

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
        await self.claim()
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
        await self._guard(self._client.send(p4r.StreamMessageRequest(packet=message)))

    # ---------------------------------------------------------------- program and state

    async def set_pipeline(self) -> bool:
        """Load the program unless the switch already runs this very one; say whether it was loaded.

        Loading forgets all entries. Raises PipelineRefused with the switch's reason.
        """
        cookie = await self._cookie()
        if cookie == self.program.cookie and (cookie or not await self._other_program()):
            return False
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
        await self.claim()
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self.device_id,
            action=action,
            config=p4r.ForwardingPipelineConfig(
                p4info=program.p4info.message,
                p4_device_config=program.device_config,
                cookie=p4r.ForwardingPipelineConfig.Cookie(cookie=program.cookie),
            ),
        )
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

    async def follow(self) -> bool:
        """Take over the program that another client has loaded; say whether one had.

        A switch that does not tell the whole program (BMv2), or has none, is left as it is.
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

    def _raise_if_gone(self, error: P4ClientError) -> None:
        if error.code.name in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"):
            raise self._unreachable(error) from None
        if error.code.name == "PERMISSION_DENIED" and not error.details:
            raise self.not_primary() from None  # its word on the stream is still on its way

    def _unreachable(self, error: P4ClientError) -> SwitchUnreachable:
        reason = f"{error.code.name}: {error.message}" if error.message else error.code.name
        return SwitchUnreachable(f"{self.name}: lost {self.address}: {reason}")


def _why(error: P4ClientError) -> tuple[str, str]:
    """Return code and message of a refused read: those of its first entity, if it tells them."""
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
