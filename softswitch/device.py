"""One switch as P4Runtime sees it: a core, a pipeline, and the entities in it.

Used by the in-process `Switch` and by the gRPC server alike. It owns neither a clock nor a thread:
`clock` returns the switch's time in picoseconds, and `guard` is entered around every use of the
core (the daemon's loop runs in another thread; in process it is a no-op).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path

from softswitch.codegen import Bmv2Program
from softswitch.core import CoreError, Output, OutputKind, PortState, SwitchCore
from softswitch.p4runtime import initial, packetio, pipeline, reconcile
from softswitch.p4runtime.forwarding import Forwarding
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.protos import p4i, p4r
from softswitch.p4runtime.rollback import Orders, Undo, undo_of
from softswitch.p4runtime.schema import Digest, Schema
from softswitch.p4runtime.status import (
    OK,
    Code,
    EntityError,
    PipelineError,
    ReadError,
    UpdateStatus,
)

CONTINUE_ON_ERROR = p4r.WriteRequest.CONTINUE_ON_ERROR

UPDATES_PER_HOLD = 16
"""Updates of one write that are applied before packets get their turn again."""

ENTITIES_PER_HOLD = 64
"""Entities that are read before packets get their turn again."""

PS_PER_NS = 1000

SCHEMAS_KEPT = 4
"""Pipelines, the current one included, whose late packet-ins and digests are still understood."""


class Device:
    """P4Runtime semantics on top of a core. Not thread-safe: callers serialise calls."""

    def __init__(
        self,
        core: SwitchCore,
        *,
        clock: Callable[[], int],
        guard: Callable[[], AbstractContextManager[object]] = nullcontext,
        cache_dir: Path | None = None,
        epoch_ns: int = 0,
        earlier: Callable[[], None] | None = None,
    ) -> None:
        """`epoch_ns` is when the clock was 0, for timestamps of notifications. `earlier` is called
        when a write makes `next_timer` earlier than it was."""
        self.core = core
        self.pipeline: Pipeline | None = None
        self.forwarding: Forwarding | None = None
        self.program: Bmv2Program | None = None
        self._schemas: dict[int, Schema] = {}
        self._clock = clock
        self._guard = guard
        self._cache_dir = cache_dir
        self._epoch_ns = epoch_ns
        self._earlier = earlier

    def guarded_by(self, guard: Callable[[], AbstractContextManager[object]]) -> None:
        """Enter `guard` around every use of the core from now on."""
        self._guard = guard

    # --- pipeline -----------------------------------------------------------------------------

    def prepare(self, p4info: p4i.P4Info, device_config: bytes) -> Pipeline:
        """Check and build a pipeline without touching what runs. Raises PipelineError."""
        return pipeline.prepare(p4info, device_config, cache_dir=self._cache_dir)

    def load(self, prepared: Pipeline) -> None:
        """Run `prepared` from now on, with its initial entries; all other state is forgotten.

        Raises PipelineError; the switch then has the old pipeline or, if even its initial entries
        were refused, none of the old entries.
        """
        with self._guard():
            try:
                self.core.load(prepared.library)
                forwarding = Forwarding(self.core, prepared.program, prepared.schema)
            except CoreError as error:
                raise PipelineError(f"the pipeline can't be loaded: {error}") from error
            except EntityError as error:
                raise PipelineError(f"the program's own entries: {error}") from error
            self.core.report_down_ports()
        self._schemas = {}
        self._runs(prepared, forwarding)

    def reconcile(self, prepared: Pipeline) -> None:
        """Run `prepared` from now on with everything that was written to the pipeline before.

        Entries, groups, sessions, digests' and meters' settings stay, under the new ids, and so do
        the contents of registers and counters that both pipelines have. Packets pass meanwhile.
        Raises PipelineError, or ReconcileError with what can't stay; nothing has changed then.
        """
        aside = SwitchCore(self.core.config, module=self.core.module)
        try:
            try:
                aside.load(prepared.library)
                aside.advance(self._clock())
                forwarding = Forwarding(aside, prepared.program, prepared.schema)
            except CoreError as error:
                raise PipelineError(f"the pipeline can't be loaded: {error}") from error
            except EntityError as error:
                raise PipelineError(f"the program's own entries: {error}") from error
            keeps = []
            if self.forwarding is not None:
                keeps = reconcile.carry_over(self.forwarding, forwarding, self.core, self._clock())
            with self._guard():
                self.core.adopt(aside, keeps)
            forwarding.move_to(self.core)
        finally:
            aside.close()
        self._runs(prepared, forwarding)

    def _runs(self, prepared: Pipeline, forwarding: Forwarding) -> None:
        self.pipeline = prepared
        self.forwarding = forwarding
        self.program = prepared.program
        self._schemas[self.core.program_number] = prepared.schema
        for number in sorted(self._schemas)[:-SCHEMAS_KEPT]:
            del self._schemas[number]

    def set_pipeline(self, p4info: p4i.P4Info, device_config: bytes) -> None:
        """Run `prepare` and `load`."""
        self.load(self.prepare(p4info, device_config))

    def derive_p4info(self, device_config: bytes) -> p4i.P4Info:
        """Derive P4Info from BMv2 JSON, for a program that comes without one.

        Raises PipelineError.
        """
        # of the compiler, which a program with P4Info does without
        from softswitch.p4runtime.p4info_from_json import derive

        return derive(pipeline.prepare_program(device_config, cache_dir=self._cache_dir)[0])

    def load_without_p4info(self, device_config: bytes) -> None:
        """Run BMv2 JSON with its own entries; P4Runtime has no config. Raises PipelineError."""
        program, library = pipeline.prepare_program(device_config, cache_dir=self._cache_dir)
        with self._guard():
            try:
                self.core.load(library)
                initial.install(self.core, program, {})
            except CoreError as error:
                raise PipelineError(f"the pipeline can't be loaded: {error}") from error
            except EntityError as error:
                raise PipelineError(f"the program's own entries: {error}") from error
            self.core.report_down_ports()
        self.pipeline = None
        self.forwarding = None
        self.program = program
        self._schemas = {}

    # --- entities -----------------------------------------------------------------------------

    def write(
        self, updates: Sequence[p4r.Update], atomicity: int = CONTINUE_ON_ERROR
    ) -> list[UpdateStatus]:
        """Apply updates in order; one status per update.

        CONTINUE_ON_ERROR: each on its own. ROLLBACK_ON_ERROR: all or, after an error, none.
        DATAPLANE_ATOMIC: likewise, and no packet meets only a part of them.
        """
        forwarding = self._loaded()
        before = self.next_timer()
        if atomicity == CONTINUE_ON_ERROR:
            statuses = self._write_each(forwarding, updates)
        else:
            statuses = self._write_all(forwarding, updates, atomicity)
        after = self.next_timer()
        if self._earlier is not None and after is not None and (before is None or after < before):
            self._earlier()
        return statuses

    def _write_each(
        self, forwarding: Forwarding, updates: Sequence[p4r.Update]
    ) -> list[UpdateStatus]:
        statuses: list[UpdateStatus] = []
        for start in range(0, len(updates), UPDATES_PER_HOLD):
            with self._guard():
                now = self._clock()
                for update in updates[start : start + UPDATES_PER_HOLD]:
                    try:
                        forwarding.write(update, now)
                    except EntityError as error:
                        statuses.append(error.status)
                    else:
                        statuses.append(OK)
        return statuses

    def _write_all(
        self, forwarding: Forwarding, updates: Sequence[p4r.Update], atomicity: int
    ) -> list[UpdateStatus]:
        hold = len(updates) if atomicity == p4r.WriteRequest.DATAPLANE_ATOMIC else UPDATES_PER_HOLD
        orders = Orders.of(forwarding, updates)
        strings = forwarding.schema.strings.mark()
        undo: list[Undo] = []
        for start in range(0, len(updates), max(1, hold)):
            with self._guard():
                now = self._clock()
                for update in updates[start : start + hold]:
                    try:
                        step = undo_of(forwarding, update, now)
                        forwarding.write(update, now)
                    except EntityError as error:
                        for back in reversed(undo):
                            back()
                        orders.restore()
                        forwarding.schema.strings.back_to(strings)
                        return _rolled_back(len(updates), len(undo), error.status)
                    undo.append(step)
        return [OK] * len(updates)

    def read(self, entities: Iterable[p4r.Entity]) -> Iterator[p4r.Entity]:
        """Yield everything that `entities` select.

        Raises ReadError after the good ones were given.
        """
        forwarding = self._loaded()
        statuses: list[UpdateStatus] = []
        for entity in entities:
            try:
                found = self._read_one(forwarding, entity)
            except EntityError as error:
                statuses.append(error.status)
            else:
                statuses.append(OK)
                yield from found
        if any(status.code is not Code.OK for status in statuses):
            raise ReadError(statuses)

    def _read_one(self, forwarding: Forwarding, entity: p4r.Entity) -> list[p4r.Entity]:
        found: list[p4r.Entity] = []
        more = forwarding.read(entity, self._clock())
        while True:
            with self._guard():
                part = list(islice(more, ENTITIES_PER_HOLD))
            found += part
            if len(part) < ENTITIES_PER_HOLD:
                return found

    def _loaded(self) -> Forwarding:
        if self.forwarding is None:
            raise EntityError(Code.FAILED_PRECONDITION, "no forwarding pipeline config is set")
        return self.forwarding

    # --- packets and notifications ------------------------------------------------------------

    def packet_out(self, message: p4r.PacketOut) -> bytes:
        """Return the bytes to inject at the CPU port. Raises EntityError."""
        schema = self._loaded().schema
        with schema.strings.unless_refused():
            return packetio.packet_out(schema.packet_out, message)

    def notification(self, output: Output) -> p4r.StreamMessageResponse | None:
        """Return the stream message for a CPU packet or digest of the core, if it is due at
        once.
        """
        forwarding = self.forwarding
        schema = self._schemas.get(output.program)
        if forwarding is None or schema is None:
            return None
        if output.kind is OutputKind.CPU:
            packet = packetio.packet_in(schema.packet_in, output.data)
            return None if packet is None else p4r.StreamMessageResponse(packet=packet)
        if output.kind is OutputKind.DIGEST:
            learn = _learn_now(schema, forwarding.schema, output.port)
            if learn is None:
                return None
            digest = forwarding.digests.sample(learn, output.data, output.at_ps // PS_PER_NS)
            return None if digest is None else self._digest(digest)
        return None

    def next_timer(self) -> int | None:
        """Return when (ps) `timers` next has something to do, None if nothing waits."""
        if self.forwarding is None:
            return None
        digest = self.forwarding.digests.next_due()
        times = [
            t
            for t in (None if digest is None else digest * PS_PER_NS, self.forwarding.next_idle())
            if t is not None
        ]
        return min(times, default=None)

    def timers(self, now_ps: int) -> list[p4r.StreamMessageResponse]:
        """Return the digest lists that waited long enough, and entries that were idle for too
        long.
        """
        if self.forwarding is None:
            return []
        now_ns = now_ps // PS_PER_NS
        messages = [self._digest(digest) for digest in self.forwarding.digests.due(now_ns)]
        with self._guard():
            idle = self.forwarding.idle_entries(now_ps)
        if idle:
            notice = p4r.IdleTimeoutNotification(
                table_entry=idle, timestamp=self._epoch_ns + now_ns
            )
            messages.append(p4r.StreamMessageResponse(idle_timeout_notification=notice))
        return messages

    def _digest(self, digest: p4r.DigestList) -> p4r.StreamMessageResponse:
        digest.timestamp += self._epoch_ns
        return p4r.StreamMessageResponse(digest=digest)

    def acknowledge(self, message: p4r.DigestListAck) -> None:
        """Take a digest acknowledgement. Raises EntityError."""
        self._loaded().digests.acknowledge(message)

    # --- ports --------------------------------------------------------------------------------

    def set_port(self, port: int, state: PortState, pause_mask: int = 0) -> None:
        """Change a port's state; groups whose members watch it follow at once."""
        with self._guard():
            self.core.set_port(port, state, pause_mask=pause_mask, now_ps=self._clock())


def _rolled_back(n: int, failed: int, status: UpdateStatus) -> list[UpdateStatus]:
    others = UpdateStatus(Code.ABORTED, f"not applied, because update {failed} of the batch failed")
    return [status if index == failed else others for index in range(n)]


def _learn_now(made_by: Schema, now: Schema, learn: int) -> int | None:
    """Return the learn list of `now` that matches list `learn` of `made_by`.

    None if its form differs.
    """
    if made_by is now:
        return learn
    old = _digest_of(made_by, learn)
    new = next((d for d in now.digests.values() if old is not None and d.name == old.name), None)
    same = old is not None and new is not None and new.widths == old.widths
    return new.learns[0] if same and new is not None else None


def _digest_of(schema: Schema, learn: int) -> Digest | None:
    return next((d for d in schema.digests.values() if learn in d.learns), None)
