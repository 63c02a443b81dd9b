"""The passive parameter server as typed Python: one method a function of server.h, for tests.

server = PassiveServer(ServerConfig(job=1, ranks=4, slots=4, lanes=2), send)
server.receive(payload, now_ns)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from hostagent.collective.native import native

_prepared: set[int] = set()


class ServerError(Exception):
    """The server refuses a configuration; the message says why."""


@dataclass(frozen=True)
class ServerConfig:
    """struct server_config; `wire_lanes` 0: as many as lanes."""

    job: int
    ranks: int
    slots: int
    lanes: int
    wire_lanes: int = 0
    quiet_ns: int = 0


def _prepare(module: Any) -> None:
    """Define what C calls; once a module."""
    if id(module) in _prepared:
        return
    ffi = module.ffi

    @ffi.def_extern(name="collective_server_send")  # type: ignore[untyped-decorator]
    def send(owner: Any, payload: Any, length: int, tail: int) -> None:
        ffi.from_handle(owner).send(bytes(ffi.buffer(payload, length)), tail)

    _prepared.add(id(module))


class PassiveServer:
    """A server; see server.h for what each call does. `send`: takes a payload and its tail."""

    def __init__(
        self, config: ServerConfig, send: Callable[[bytes, int], None], *, sanitize: bool = False
    ) -> None:
        """Create a server. Raises ServerError."""
        module = native(sanitize=sanitize)
        _prepare(module)
        self.send = send
        self.ffi, self.lib = module.ffi, module.lib
        values = {**asdict(config), "wire_lanes": config.wire_lanes or config.lanes}
        native_config = self.ffi.new("struct server_config *", values)
        wrong = self.lib.server_wrong(native_config)
        if wrong != self.ffi.NULL:
            raise ServerError(self.ffi.string(wrong).decode())
        self._memory = self.ffi.new("uint64_t[]", self.lib.server_bytes(native_config) // 8 + 1)
        calls = {"send": self.lib.collective_server_send}
        self._calls = self.ffi.new("struct server_calls *", calls)
        self._self = self.ffi.new_handle(self)
        self._server = self.lib.server_make(self._memory, native_config, self._calls, self._self)

    def receive(self, payload: bytes, now_ns: int, *, marked: bool = False) -> None:
        """Hand over a datagram; `marked`: its packet had ECN CE."""
        self.lib.server_receive(self._server, payload, len(payload), marked, now_ns)

    def stats(self) -> dict[str, int]:
        """Return its counters."""
        row = self.lib.server_stats_of(self._server)
        fields = self.ffi.typeof("struct server_stats").fields
        return {name: int(getattr(row, name)) for name, _ in fields}
