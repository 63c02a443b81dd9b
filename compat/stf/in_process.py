"""The in-process switch as a test's target: virtual time, each packet in peace."""

from __future__ import annotations

from compat.stf.statements import StfError
from softswitch.core import Session
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.status import EntityError, ReadError, WriteError
from softswitch.switch import Switch

START_NS = 1_000_000_000
"""When the test begins: no time stamp is 0."""
STEP_NS = 300_000
"""What each packet has to pass the switch, with all its copies and rounds."""
WAIT_NS = 1_000_000_000


class InProcessTarget:
    """Our switch in this process. A context manager: it frees the switch."""

    name = "softswitch"

    def __init__(self, prepared: Pipeline) -> None:
        """Start a fresh switch with that program. Raises PipelineError."""
        self._switch = Switch()
        self._switch.load(prepared)
        self.names = self._switch.names
        self._switch.run_until(START_NS)
        self._came: list[tuple[int, bytes]] = []

    def __enter__(self) -> InProcessTarget:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the switch."""
        self._switch.close()

    def write(self, update: p4r.Update) -> str:
        """Write one update; return why it was refused, "" when it was not."""
        try:
            self._switch.write([update])
        except WriteError as error:
            return str(error)
        return ""

    def read(self, entity: p4r.Entity) -> list[p4r.Entity]:
        """Read all that the entity selects. Raises StfError."""
        try:
            return list(self._switch.read(entity))
        except ReadError as error:
            raise StfError(str(error)) from None

    def packet(self, port: int, data: bytes) -> None:
        """Send a packet, and let happen what it makes happen."""
        self._switch.inject(port, data)
        self._pass(STEP_NS)

    def wait(self) -> None:
        """Let a second pass."""
        self._pass(WAIT_NS)

    def outputs(self) -> list[tuple[int, bytes]]:
        """Return what came out since the last call."""
        came, self._came = self._came, []
        return came

    def end(self) -> list[tuple[int, bytes]]:
        """Return what came out since the last call."""
        return self.outputs()

    def session_zero(self, session: Session | None) -> None:
        """Set mirroring session 0. Raises StfError."""
        forwarding = self._switch.device.forwarding
        assert forwarding is not None  # __init__ loads the program
        try:
            forwarding.replication.set_session_zero(session)
        except EntityError as error:
            raise StfError(str(error)) from None

    def register_read(self, name: str, index: int) -> int:
        """Read a cell of a register."""
        return self._switch.register_read(name, index)

    def register_write(self, name: str, index: int, value: int) -> None:
        """Set a cell of a register."""
        self._switch.register_write(name, index, value)

    def _pass(self, ns: int) -> None:
        outputs = self._switch.run_until(self._switch.now_ns + ns)
        self._came += [(output.port, output.packet) for output in outputs]
