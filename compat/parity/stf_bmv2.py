"""BMv2 as the target of a test in p4c's simple test format: packets by pcap files, no root needed.

    this process --FIFO PREFIX0_in.pcap--> port 0 of simple_switch_grpc --> PREFIX0_out.pcap

Entries go through P4Runtime, which BMv2 has no registers in. What came out is known at the end:
BMv2 says nowhere that it has finished with a packet.

BMv2 takes packets of all files in the order of their time stamps, so it waits for the next packet
of every file that has not ended. A file ends here with the last packet that is sent into it.
"""

from __future__ import annotations

import os
import struct
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from compat.parity.client import Client
from compat.parity.live import BMV2, LOG_LINES, START_S, STOP_S
from compat.parity.targets import TargetError
from compat.parity.wires import die_with_parent
from compat.stf.runner import NotOnTarget
from compat.stf.statements import Expect, Packet, Statement
from emulation.tcp_ports import TcpPorts
from softswitch.core import Session
from softswitch.p4runtime.names import Names
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.protos import p4r

QUIET_S = 0.3
"""Nothing has come out for so long: BMv2 has finished."""
PACKET_S = 0.01
"""Between packets: ports are read by select, so order between them would be chance."""
_FIRST_THRIFT_PORT = 20_000
_PCAP_HEADER = struct.Struct("=IHHiIII")
_PCAP_MAGIC = 0xA1B2C3D4
_SNAP_LENGTH = 65535
_ETHERNET = 1
_RECORD = struct.Struct("=IIII")

__all__ = ["BMV2", "Bmv2Target"]


class Bmv2Target:
    """A simple_switch_grpc of this test's own. A context manager: it ends the switch."""

    name = "bmv2"

    def __init__(self, prepared: Pipeline, script: Sequence[Statement]) -> None:
        """Start it, with the ports that the test names, and load the program.

        Raises TargetError when it does not start or refuses the program.
        """
        self.names = Names(prepared.schema)
        self._scratch = tempfile.TemporaryDirectory(prefix="weft-stf-")
        self._tcp_ports = TcpPorts()
        self._ports = sorted({s.port for s in script if isinstance(s, Packet | Expect)})
        self._left = Counter(s.port for s in script if isinstance(s, Packet))
        self._fifos: dict[int, int] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Client | None = None
        self._sent = False
        try:
            self._open_ports()
            self._client = self._start()
            self._client.set_pipeline(prepared.p4info, prepared.device_config)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Bmv2Target:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the switch; nothing of it is left."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_S)
            self._process = None
        for fd in self._fifos.values():
            os.close(fd)
        self._fifos.clear()
        self._scratch.cleanup()
        self._tcp_ports.release()

    # --- what a test does -----------------------------------------------------------------------

    def write(self, update: p4r.Update) -> str:
        """Write one update, after the packets before it; return why it was refused, "" if not."""
        return self._idle_client().write(update)

    def read(self, entity: p4r.Entity) -> list[p4r.Entity]:
        """Read all that the entity selects, after the packets before. Raises TargetError."""
        return self._idle_client().read([entity])

    def told(self) -> list[p4r.StreamMessageResponse]:
        """Return the messages to the controller since the last call: digests, packet-ins."""
        return list(self._idle_client().incoming())

    def packet(self, port: int, data: bytes) -> None:
        """Send a packet into a port."""
        now = time.time_ns()
        seconds, micros = now // 10**9, now % 10**9 // 1000
        record = _RECORD.pack(seconds, micros, len(data), len(data))
        os.write(self._fifos[port], record + data)
        self._left[port] -= 1
        if not self._left[port]:
            os.close(self._fifos.pop(port))
        self._sent = True
        time.sleep(PACKET_S)

    def wait(self) -> None:
        """Wait until nothing comes out any more."""
        self._settle()

    def outputs(self) -> None:
        """Return None: outputs are not known before the end."""

    def end(self) -> list[tuple[int, bytes]]:
        """Return all that came out. Raises TargetError when the switch has ended by itself."""
        self._settle()
        return [(port, data) for port in self._ports for data in _packets(self._path(port, "out"))]

    def session_zero(self, session: Session | None) -> None:
        """Raise NotOnTarget: P4Runtime has no session 0."""
        raise NotOnTarget("mirroring session 0: P4Runtime has none of that number")

    def register_read(self, name: str, index: int) -> int:
        """Raise NotOnTarget: BMv2's P4Runtime reads no registers."""
        raise NotOnTarget(f"register {name}[{index}]: BMv2's P4Runtime reads no registers")

    def register_write(self, name: str, index: int, value: int) -> None:
        """Raise NotOnTarget: BMv2's P4Runtime writes no registers."""
        raise NotOnTarget(f"register {name}[{index}] = {value}: BMv2's P4Runtime writes none")

    # --- the process ----------------------------------------------------------------------------

    def _path(self, port: int, way: str) -> Path:
        return Path(self._scratch.name, f"port{port}_{way}.pcap")

    def _open_ports(self) -> None:
        header = _PCAP_HEADER.pack(_PCAP_MAGIC, 2, 4, 0, 0, _SNAP_LENGTH, _ETHERNET)
        for port in self._ports:
            path = self._path(port, "in")
            if not self._left[port]:
                path.write_bytes(header)
                continue
            os.mkfifo(path)
            # For reading too: then neither we nor BMv2 wait for the other to open it.
            self._fifos[port] = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            os.write(self._fifos[port], header)

    def _start(self) -> Client:
        address = Path(self._scratch.name, "p4runtime")
        prefix = Path(self._scratch.name, "port")
        ports = [word for port in self._ports for word in ("-i", f"{port}@{prefix}{port}")]
        command = [BMV2, "--log-console", "--log-level", "warn", "--use-files", "0"]
        command += ["--no-p4", "--device-id", "1", *ports]
        (port,) = self._tcp_ports.take(1, _FIRST_THRIFT_PORT)
        # It is not used, but a second switch with the usual one hangs at its start.
        command += ["--thrift-port", str(port)]
        command += ["--", "--grpc-server-addr", f"unix:{address}"]
        with self._log.open("wb") as out:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    cwd=self._scratch.name,
                    start_new_session=True,
                    preexec_fn=die_with_parent,
                )
            except OSError as error:
                raise TargetError(f"can't start {BMV2}: {error.strerror}") from error
        deadline = time.monotonic() + START_S
        while not address.exists():
            self._check_alive()
            if time.monotonic() > deadline:
                raise TargetError(f"{BMV2} does not listen after {START_S:g} s")
            time.sleep(0.005)
        return Client(f"unix:{address}")

    @property
    def _log(self) -> Path:
        return Path(self._scratch.name, "switch.log")

    def _check_alive(self) -> None:
        if self._process is None or self._process.poll() is not None:
            lines = self._log.read_text(errors="replace").splitlines()
            raise TargetError(
                f"{BMV2} has ended: {' | '.join(lines[-LOG_LINES:]) or 'its log is empty'}"
            )

    def _idle_client(self) -> Client:
        assert self._client is not None
        if self._sent:
            if len(self._fifos) > 1:
                several = ", ".join(map(str, self._fifos))
                raise NotOnTarget(
                    f"entries between packets, while more follow on ports {several}: BMv2 holds "
                    f"packets back until each port has its next one"
                )
            self._settle()
        return self._client

    def _settle(self) -> None:
        """Wait until nothing has come out for a while."""
        self._sent = False
        before, since = -1, time.monotonic()
        while time.monotonic() - since < QUIET_S:
            self._check_alive()
            paths = [self._path(port, "out") for port in self._ports]
            size = sum(path.stat().st_size for path in paths if path.exists())
            if size != before:
                before, since = size, time.monotonic()
            time.sleep(PACKET_S)


def _packets(path: Path) -> list[bytes]:
    """Read the packets of a pcap file that BMv2 wrote, in this machine's byte order."""
    data = path.read_bytes() if path.exists() else b""
    found, at = [], _PCAP_HEADER.size
    while at + _RECORD.size <= len(data):
        _, _, length, _ = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        found.append(data[at : at + length])
        at += length
    return found
