"""Being the primary of a switch: the P4Runtime stream, arbitration, and other controllers.

The gRPC client is finsy's. Its own run loop isn't used: it retries silently forever, and here each
step has a deadline and ends in one clear error.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Self

import grpc
from finsy import pbutil
from finsy.p4client import P4Client, P4ClientError
from finsy.p4schema import P4Schema
from finsy.proto import U128, p4r, p4r_grpc, rpc_code

from controller.errors import ControllerError, NotPrimary, SwitchUnreachable
from softswitch.client_tls import MAX_METADATA_BYTES, USER_AGENT, ClientTls, ClientTlsError

DEFAULT_TIMEOUT = 10.0
_RECONNECT_POLL_S = 0.02
_LEAVING_S = 2.0  # a switch may take a moment to see that a session with the same id has ended
_CLAIMS = 3  # times that a vacant place may be taken from under our nose
# A switch that compiles a program to machine code needs seconds, several at once on few cores more.
LOAD_TIMEOUT = 60.0
# Above what interactive shells use by default, so that a second look doesn't take the fabric away.
DEFAULT_ELECTION_ID = 100
# No id at all: such a session learns who is primary and never becomes it. BMv2 takes it for id 0.
AT_REST = 0
# What most controllers use. A switch never forgets the highest id that it saw: with another one we
# would keep them all from ever being primary.
_LOWEST_ELECTION_ID = 1

_CHANNEL_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # What became of each update of a batch comes as metadata: 64 KB would be some 400 updates.
    ("grpc.max_metadata_size", MAX_METADATA_BYTES),
    ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
    ("grpc.primary_user_agent", USER_AGENT),
)

logging.getLogger("finsy").setLevel(logging.CRITICAL)


class Standing(enum.Enum):
    """Whether a session may write, as its switch reported last."""

    PRIMARY = "this session may write"
    BACKUP = "another controller may"
    VACANT = "nobody may: who was the primary has left, or rests"


class SwitchClient(P4Client):
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


class PrimarySession(ABC):
    """The stream with one switch, by which this session is its primary, or waits to be it.

    Another controller may take its place at any time, and leave: `standing` says so, and the
    callbacks of `on_standing` are called. What only a primary may do begins with `claim`, which
    takes a vacant place.

    A session that `yields` gives the place back at the end of the outermost block of `holding`, and
    leaves it to any controller that comes in between: it rests, on the stream but without an
    election id.
    """

    def __init__(
        self,
        name: str,
        address: str,
        device_id: int,
        *,
        election_id: int = DEFAULT_ELECTION_ID,
        yields: bool = False,
        timeout: float = DEFAULT_TIMEOUT,
        tls: ClientTls | None = None,
    ) -> None:
        """`address` is 'host:port'; `timeout` (seconds) bounds connecting and arbitration.

        `election_id` is what to connect with, or AT_REST; `tls`: for a switch that was started with
        `--grpc-server-ssl`.
        """
        self.name = name
        self.address = address
        self.device_id = device_id
        self.standing = Standing.VACANT
        self.yields = yields
        self._holders = 0
        self._told_of: int | None = None
        self._first_election_id = election_id
        self._election_id = election_id
        self._highest = 0
        self._timeout = timeout
        self._tls = tls
        self._client = SwitchClient(address, tls)
        self._receiver: asyncio.Task[None] | None = None
        self._arbitrated: asyncio.Future[p4r.MasterArbitrationUpdate] | None = None
        self._arbitrating = asyncio.Lock()
        self._id_was_taken = False
        self._standing_handlers: list[Callable[[Any], None]] = []
        self._stream_error: str | None = None

    @abstractmethod
    def _hear(self, message: p4r.StreamMessageResponse) -> None:
        """Take what the stream brings beside arbitration."""

    @property
    def is_primary(self) -> bool:
        """Whether this session may write."""
        return self.standing is Standing.PRIMARY

    @property
    def election_id(self) -> int:
        """What this session last asked to be primary with; AT_REST: it did not."""
        return self._election_id

    @property
    def highest_election_id(self) -> int:
        """The highest election id that the switch has reported: its primary's, if it has one."""
        return max(self._highest, self._election_id)

    @property
    def claimable_election_id(self) -> int:
        """The lowest id that suffices without a primary, and lets others take over afterwards."""
        return max(self.highest_election_id, _LOWEST_ELECTION_ID)

    def on_standing(self, handler: Callable[[Self], None]) -> None:
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
        """Wait until the switch answers and make this session its primary, or rest.

        Raises SwitchUnreachable when the deadline passes, NotPrimary when another one is primary.
        """
        now = time.monotonic()
        deadline, patience = now + self._timeout, now + min(_LEAVING_S, self._timeout)
        while True:
            await self._open_channel()
            try:
                await self._arbitrate(deadline)
                if self.yields:  # an id was for this once: it rests when it starts again
                    self._first_election_id = AT_REST
                return
            except BaseException as error:
                await self.close()
                who_leaves = isinstance(error, NotPrimary) and self._id_was_taken
                if not who_leaves or time.monotonic() > patience:
                    raise
            self._start_anew()
            await asyncio.sleep(_RECONNECT_POLL_S)

    def _start_anew(self) -> None:
        """Forget a closed session: its stream's end, its connection, the id that it rose to."""
        self._election_id = self._first_election_id
        self._stream_error = None
        self._client = SwitchClient(self.address, self._tls)

    async def _open_channel(self) -> None:
        try:
            await self._client.open(complete_request=self._complete)
        except ClientTlsError as error:
            raise ControllerError(f"{self.name}: TLS: {error}") from None

    async def _arbitrate(self, deadline: float) -> None:
        await self._open(deadline)
        if self._first_election_id == AT_REST:
            return
        if self.standing is Standing.VACANT:  # another client was here before, with a higher id
            await self._ask(self.claimable_election_id, deadline)
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
            if self._tls is not None:  # gRPC can't distinguish a refused certificate from silence
                message += ", or not with TLS and a certificate that both sides accept"
            raise SwitchUnreachable(message) from None
        self._id_was_taken = False
        await self._ask(self._election_id, deadline)

    async def _ask(self, election_id: int, deadline: float) -> None:
        """Ask to be primary with an id (AT_REST: no longer), and wait for the answer."""
        self._election_id = election_id
        self._arbitrated = asyncio.get_running_loop().create_future()
        request = p4r.MasterArbitrationUpdate(device_id=self.device_id)
        if election_id != AT_REST:
            request.election_id.CopyFrom(U128.encode(election_id))
        try:
            await self._send(p4r.StreamMessageRequest(arbitration=request))
            if self._receiver is None:
                self._receiver = asyncio.create_task(self._receive(), name=f"receive {self.name}")
            await asyncio.wait_for(self._arbitrated, self._left(deadline))
        except TimeoutError:
            message = f"{self.name}: {self.address} answers, but not to P4Runtime arbitration"
            raise SwitchUnreachable(message) from None
        except P4ClientError as error:
            raise self._unreachable(error) from None

    async def _send(self, message: p4r.StreamMessageRequest) -> None:
        """Send on the stream. Raises P4ClientError.

        gRPC cancels the whole stream where a write to it is cancelled, and reading from it then
        ends as if the reader had been cancelled. So whoever is interrupted here waits for the end
        of what was begun.
        """
        sending = asyncio.ensure_future(self._client.send(message))
        try:
            await asyncio.shield(sending)
        except asyncio.CancelledError:
            await asyncio.wait({sending}, timeout=self._timeout)
            if sending.done() and not sending.cancelled():
                sending.exception()  # the interruption is what the caller has to hear of
            raise

    async def claim(self) -> None:
        """Be the primary: take the place where it is vacant, with the id of who has left it.

        One that yields does so within `holding`. Raises NotPrimary while another controller has the
        place, SwitchUnreachable.
        """
        async with self._arbitrating:
            now = time.monotonic()
            deadline, patience = now + self._timeout, now + min(_LEAVING_S, self._timeout)
            waits = self.yields and self.standing is Standing.VACANT and not self._id_was_taken
            await self._claim(deadline)
            # One that came and went is a backup's primary until the news of both are here.
            while waits and not self.is_primary and time.monotonic() < patience:
                await asyncio.sleep(_RECONNECT_POLL_S)
                await self._claim(deadline)
            if not self.is_primary:
                raise self.not_primary()

    async def _claim(self, deadline: float) -> None:
        for _ in range(_CLAIMS):
            if self._id_was_taken:  # who left is back already: we are a backup again
                await self._begin_again(deadline)
            if self._stream_error is not None:
                raise SwitchUnreachable(self._stream_error)
            if self.standing is not Standing.VACANT:
                break
            with contextlib.suppress(NotPrimary):
                await self._ask(self.claimable_election_id, deadline)

    @contextlib.asynccontextmanager
    async def holding(self) -> AsyncIterator[None]:
        """Keep the place, once it is claimed, to the end of the block; blocks may be nested."""
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            await self._rest()

    async def _rest(self) -> None:
        """Leave the place to others, where this session yields and nothing holds it."""
        async with self._arbitrating:
            if self._holders or not self.yields or self._election_id == AT_REST:
                return  # to be asked for what it has already, BMv2 answers nothing
            if self._stream_error is not None and not self._id_was_taken:
                return
            deadline = time.monotonic() + self._timeout
            # A switch that is gone has no place to leave: the next call to it reports that.
            with contextlib.suppress(NotPrimary, SwitchUnreachable):
                await self._ask(AT_REST, deadline)
            if self._id_was_taken:  # a client came with the id with which we claimed the place
                with contextlib.suppress(NotPrimary, SwitchUnreachable):
                    await self._begin_again(deadline)

    async def yield_place(self) -> None:
        """Leave the place to others from now on, but while something is written."""
        if not self.yields:
            self.yields = True
            self._first_election_id = AT_REST
            self._told_of = self._other
        await self._rest()

    async def keep_place(self) -> None:
        """Stay primary from now on. Raises NotPrimary, SwitchUnreachable."""
        if self.yields:
            self.yields = False
            self._first_election_id = DEFAULT_ELECTION_ID
        await self.claim()
        async with self._arbitrating:
            if self._election_id < DEFAULT_ELECTION_ID:
                await self._ask(DEFAULT_ELECTION_ID, time.monotonic() + self._timeout)

    @property
    def _other(self) -> int | None:
        """The election id of another controller that is primary."""
        return self._highest if self.standing is Standing.BACKUP else None

    async def stand_by(self) -> None:
        """Open a new stream, as a backup of the primary. Raises SwitchUnreachable."""
        async with self._arbitrating:
            await self._begin_again(time.monotonic() + self._timeout)

    async def _begin_again(self, deadline: float) -> None:
        """Open a new stream with the first id, as a backup or where the place is vacant.

        The switch may take a moment to see that our last stream, with the same id, has ended.
        """
        while True:
            await self.close()
            self._start_anew()
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
        is_told = self._id_was_taken or (self.yields and self.standing is Standing.BACKUP)
        if self._highest <= self._election_id and not is_told:
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
        """Restart the session, for example with a switch whose process was started again.

        Handlers stay. `election_id` is used from now on, if given. Raises what `connect` does.
        """
        if election_id is not None:
            self._first_election_id = election_id
        # A switch that was started again knows of nobody; another one will say who was there.
        ours = max(self._election_id, self._first_election_id)
        self._highest = 0
        self._told_of = None
        deadline = time.monotonic() + self._timeout
        while True:
            await self.close()
            self._start_anew()
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
        except (RuntimeError, asyncio.CancelledError):  # finsy's and gRPC's words for its end
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            failure = SwitchUnreachable(f"{self.name}: {self.address} closed the session")
        self.standing = Standing.BACKUP if self._id_was_taken else Standing.VACANT
        self._stream_error = str(failure)
        if self._arbitrated is not None and not self._arbitrated.done():
            self._arbitrated.set_exception(failure)

    def _dispatch(self, message: p4r.StreamMessageResponse) -> None:
        if message.WhichOneof("update") == "arbitration":
            self._take_standing(message.arbitration)
        else:
            self._hear(message)

    def _take_standing(self, told: p4r.MasterArbitrationUpdate) -> None:
        before, highest = self.standing, self._highest
        self._highest = U128.decode(told.election_id)
        if told.status.code == rpc_code.OK and self._highest > self._election_id:
            return  # about an id that we have given up since: what we are without it comes next
        if told.status.code == rpc_code.OK:
            self.standing = Standing.PRIMARY
            if self._highest < self._election_id:  # BMv2 lets the next one have it, unasked
                self._highest = self._election_id
        elif told.status.code == rpc_code.NOT_FOUND:
            self.standing = Standing.VACANT
        else:
            self.standing = Standing.BACKUP
        answers = self._arbitrated is not None and not self._arbitrated.done()
        if answers:
            assert self._arbitrated is not None
            self._arbitrated.set_result(told)
        if self.yields:
            # Its own coming and going is no news; that of others is, also in answers to its own.
            is_news, self._told_of = self._other != self._told_of, self._other
        else:
            is_news = not answers and (before, highest) != (self.standing, self._highest)
        for handler in list(self._standing_handlers) if is_news else ():
            handler(self)

    def _raise_if_gone(self, error: P4ClientError) -> None:
        if error.code.name in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"):
            raise self._unreachable(error) from None
        if error.code.name == "PERMISSION_DENIED" and not error.details:
            raise self.not_primary() from None  # its word on the stream is still on its way

    def _unreachable(self, error: P4ClientError) -> SwitchUnreachable:
        reason = f"{error.code.name}: {error.message}" if error.message else error.code.name
        return SwitchUnreachable(f"{self.name}: lost {self.address}: {reason}")
