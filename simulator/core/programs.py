"""Programs on an engine's hosts: added, started, and what they said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hostagent.programs.adapter import NativeHost
from hostagent.programs.loader import check_native
from hostagent.programs.program import Addresses, Program, ProgramError


class Programs:
    """The programs of one engine, by number in the order in which they were added."""

    def __init__(self, module: Any, simulation: Any) -> None:
        """Run programs in `simulation`, the engine's struct sim in `module`."""
        self._module, self._ffi, self._lib = module, module.ffi, module.lib
        self._sim = simulation
        self._titles: list[tuple[str, str]] = []
        self._hosts: dict[int, tuple[NativeHost, Any]] = {}  # and the handle that C has

    def add(
        self,
        node: int,
        program: Program | str,
        *,
        title: str = "",
        host: str = "",
        settings: Mapping[str, Any] | None = None,
        addresses: Mapping[str, int] | None = None,
    ) -> int:
        """Add a program in Python, or by name one in C with its settings; return its number.

        `title`, `host`: what they are called in messages. Raises ProgramError.
        """
        ffi = self._ffi
        host = host or f"node {node}"
        if isinstance(program, str):
            title = title or program
            ops, opaque = self._lib.program_named(program.encode()), ffi.NULL
            if ops == ffi.NULL:
                raise ProgramError(f"no program {program!r} in C")
            given = check_native(title, settings or {})
        else:
            title = title or type(program).__name__
            native = NativeHost(self._module, program, title, host, Addresses(addresses or {}))
            ops, opaque, given = native.ops, ffi.new_handle(native), {}
            self._hosts[len(self._titles)] = native, opaque
        names = [ffi.new("char[]", name.encode()) for name in given]
        rows = ffi.new(
            "struct program_setting[]",
            [{"name": n, "value": v} for n, v in zip(names, given.values(), strict=True)] or 1,
        )
        number = self._lib.sim_add_program(self._sim, node, ops, opaque, rows, len(given))
        if number < 0:
            self._hosts.pop(len(self._titles), None)
            raise ProgramError(f"{title} on {host}: {self._why()}")
        self._titles.append((title, host))
        return int(number)

    def order(self, message: int, program: int, what: int = 0) -> None:
        """Let a program carry a message, when the run would send it.

        `what`: what the order asks for, a number of the program's own. Raises ProgramError.
        """
        if self._lib.sim_order(self._sim, message, program, what) < 0:
            raise ProgramError(self._why())

    def start(self, *, time_scale: int = 1, queue_of_dscp: Sequence[int] = (0,) * 64) -> None:
        """Start them all. Raises ProgramError."""
        queues = self._ffi.new("uint8_t[64]", list(queue_of_dscp))
        self._told(self._lib.sim_start_programs(self._sim, time_scale, queues))

    def stop(self) -> None:
        """Say to all that the run ends. Raises ProgramError."""
        self._told(self._lib.sim_stop_programs(self._sim))

    def _why(self) -> str:
        return str(self._ffi.string(self._lib.sim_error(self._sim)).decode(errors="replace"))

    def _told(self, status: int) -> None:
        if status < 0:
            self.raise_failure()
            raise ProgramError(self._why())

    def raise_failure(self) -> None:
        """Raise ProgramError if a program has failed, naming it, its host and the time."""
        failure = self._ffi.new("struct sim_program_failure *")
        if self._lib.sim_program_failure_get(self._sim, failure) < 0:
            return
        title, host = self._titles[failure.program]
        native = self._hosts.get(failure.program)
        cause = None if native is None else native[0].failure
        if isinstance(cause, KeyboardInterrupt):
            raise cause
        why = self._ffi.string(failure.why).decode(errors="replace")
        raise ProgramError(f"{title} on {host} at {failure.at_ns} ns: {why}") from cause

    def counters(self, number: int) -> dict[str, int]:
        """Return what a program has counted."""
        found: dict[str, int] = {}
        row = self._ffi.new("struct sim_program_counter *")
        while self._lib.sim_program_counter_get(self._sim, number, len(found), row) >= 0:
            found[self._ffi.string(row.name).decode()] = int(row.value)
        return found
