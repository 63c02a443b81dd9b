"""Rounds on running switches: BMv2's simple_switch_grpc, and our daemon by the same command line.

Packets go in step: each is sent when nothing more is expected of the last one. BMv2 leaves frames
that come close together lying in its input until the next one comes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from compat.parity.cases import CPU_PORT, PORTS, Answer, Packet, Round, Seen
from compat.parity.client import Client
from compat.parity.targets import TargetError, counter_cells, counter_queries
from compat.parity.wires import Wires
from softswitch.p4runtime.named_updates import MalformedUpdate, NamedUpdates
from softswitch.p4runtime.names import Names, UnknownName, metadata_names
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.protos import p4r

BMV2 = "simple_switch_grpc"
START_S = 20.0
STOP_S = 5.0
END_S = 0.5
EXPECTED_S = 0.3
"""How long what is expected may take, before it counts as missing (times the patience)."""
QUIET_S = 0.001
"""How long nothing may come after that (times the patience)."""
SILENT_S = 0.004
"""The same, where nothing was expected."""
LOG_LINES = 4


def absent(name: str) -> str:
    """Return why a live target can't run here, "" when it can."""
    if name == BMV2 and shutil.which(BMV2) is None:
        return f"no {BMV2} on PATH"
    if os.geteuid() != 0:
        return "needs root (network namespaces)"
    return ""


class LiveSwitch:
    """One running switch; it is given a program for each round, which also empties it."""

    live = True

    def __init__(self, name: str, prepared: Pipeline) -> None:
        """Start it: `name` is BMV2 or "softswitch daemon". Raises TargetError."""
        self.name = name
        self.prepared = prepared
        self._names = Names(prepared.schema)
        self._updates = NamedUpdates(self._names)
        self._scratch = tempfile.TemporaryDirectory(prefix="weft-parity-")
        self._wires = Wires()
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Client | None = None

    def run(self, round_: Round, hint: Sequence[Seen] | None = None, patience: int = 1) -> Answer:
        """Run a round. Raises TargetError when the switch can't be started or loaded."""
        client = self._start()
        answer = Answer([], [], {})
        try:
            client.set_pipeline(self.prepared.p4info, self.prepared.device_config)
            answer.refused = [self._write(client, update) for update in round_.setup]
            self._settle(client)
            for number, packet in enumerate(round_.packets):
                expected = hint[number] if hint is not None else None
                answer.seen.append(self._packet(client, packet, expected, patience))
            answer.cells = self._cells(client)
        except TargetError:
            if not self._has_ended():
                raise
            assert self._process is not None
            code, at = self._process.returncode, len(answer.seen)
            answer.died = f"ended with code {code} after {at} packets: {self._log_tail()}"
            self._stop()
        return answer

    def close(self) -> None:
        """End the switch; nothing of it is left."""
        self._stop()
        self._wires.close()
        self._scratch.cleanup()

    # --- the process ----------------------------------------------------------------------------

    @property
    def _log(self) -> Path:
        return Path(self._scratch.name, "switch.log")

    def _command(self, address: str) -> list[str]:
        ports = [word for p in PORTS for word in ("-i", f"{p}@{self._wires.interface(p)}")]
        if self.name == BMV2:
            program = [BMV2, "--log-console", "--log-level", "warn"]
        else:
            program = [sys.executable, "-m", "softswitch"]
        own = ["--grpc-server-addr", address, "--cpu-port", str(CPU_PORT)]
        return [*program, "--no-p4", "--device-id", "1", *ports, "--", *own]

    def _start(self) -> Client:
        """Start a switch without entries: a fresh process, since some state outlives a program."""
        self._stop()
        path = Path(self._scratch.name, "p4runtime")
        path.unlink(missing_ok=True)
        address = f"unix:{path}"
        self._process = self._wires.start(self._command(address), self._log)
        deadline = time.monotonic() + START_S
        while not path.exists():
            if self._process.poll() is not None:
                raise TargetError(f"{self.name} did not start: {self._log_tail()}")
            if time.monotonic() > deadline:
                raise TargetError(f"{self.name} does not listen after {START_S:g} s")
            time.sleep(0.005)
        self._client = Client(address)
        return self._client

    def _stop(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_S)
            self._process = None

    def _log_tail(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return " | ".join(lines[-LOG_LINES:]) or "its log is empty"

    # --- a round --------------------------------------------------------------------------------

    def _write(self, client: Client, update: Mapping[str, object]) -> str:
        try:
            message = self._updates.update(update)
        except (UnknownName, MalformedUpdate) as error:
            return str(error)
        return client.write(message)

    def _settle(self, client: Client) -> None:
        """Throw away what came before the first packet."""
        self._wires.receive(0)
        list(client.incoming())

    def _packet(self, client: Client, packet: Packet, expected: Seen | None, patience: int) -> Seen:
        if packet.metadata is None:
            self._wires.send(packet.port, packet.data)
        else:
            message = self._names.packet_out(packet.data, packet.metadata)
            client.send(p4r.StreamMessageRequest(packet=message))
        frames: dict[int, tuple[bytes, ...]] = {}
        packet_ins: list[tuple[bytes, tuple[tuple[str, int], ...]]] = []
        digests: list[tuple[str, tuple[tuple[int, ...], ...]]] = []
        wanted = expected.count if expected is not None else 0
        missing_until = time.monotonic() + EXPECTED_S * patience
        quiet = (QUIET_S if wanted else SILENT_S) * patience
        while True:
            count = sum(map(len, frames.values())) + len(packet_ins) + len(digests)
            complete = count >= wanted
            wait = quiet if complete else missing_until - time.monotonic()
            received = self._wires.receive(wait, client.ready)
            for port, frame in received:
                frames[port] = (*frames.get(port, ()), frame)
            told = list(client.incoming())
            for message_in in told:
                self._take(client, message_in, packet_ins, digests)
            if not received and not told and (complete or time.monotonic() >= missing_until):
                self._check_alive()
                return Seen(frames, tuple(packet_ins), tuple(digests))

    def _take(
        self,
        client: Client,
        message: p4r.StreamMessageResponse,
        packet_ins: list[tuple[bytes, tuple[tuple[str, int], ...]]],
        digests: list[tuple[str, tuple[tuple[int, ...], ...]]],
    ) -> None:
        schema = self.prepared.schema
        match message.WhichOneof("update"):
            case "packet":
                metadata = metadata_names(schema.packet_in, message.packet)
                packet_ins.append((message.packet.payload, tuple(sorted(metadata.items()))))
            case "digest":
                digest = message.digest
                rows = tuple(_row(data) for data in digest.data)
                digests.append((schema.digests[digest.digest_id].name, rows))
                ack = p4r.DigestListAck(digest_id=digest.digest_id, list_id=digest.list_id)
                client.send(p4r.StreamMessageRequest(digest_ack=ack))

    def _check_alive(self) -> None:
        if self._process is None or self._process.poll() is not None:
            raise TargetError(f"{self.name} has ended")

    def _has_ended(self) -> bool:
        """Return whether that explains an error; it is given a moment to end."""
        assert self._process is not None
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _cells(self, client: Client) -> dict[str, int]:
        """Read the counters; P4Runtime can't read BMv2's registers."""
        queries = counter_queries(self.prepared)
        return counter_cells(client.read(queries) if queries else (), self.prepared)


def _row(data: object) -> tuple[int, ...]:
    """Return the values of one digest message, whatever its shape."""
    shape = data.WhichOneof("data")  # type: ignore[attr-defined]
    if shape == "bitstring":
        return (int.from_bytes(data.bitstring, "big"),)  # type: ignore[attr-defined]
    members = getattr(data, shape).members
    return tuple(int.from_bytes(member.bitstring, "big") for member in members)
