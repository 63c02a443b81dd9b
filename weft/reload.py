"""Loading a changed P4 program into running switches with their entries kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulation.session import Session


class EntriesLostError(Exception):
    """After a reload a switch holds other entries than before."""


class Programs:
    """Which P4 file each switch of a run has its program from."""

    def __init__(self, session: Session, source: Path) -> None:
        self._session = session
        self._sources = {switch.name: source for switch in session.topology.switches}
        self._one_at_a_time = threading.Lock()

    def reload(self, switches: Sequence[str], path: Path | None = None) -> Iterator[str]:
        """Compile and load, switch by switch; yield what was done to each.

        `path`: another file than the one that the switch runs. Raises CompileError and others of
        the compiler, ControllerError when a switch refuses, EntriesLostError.
        """
        with self._one_at_a_time:
            for switch in switches:
                yield self._reload(switch, (path or self._sources[switch]).absolute())

    def _reload(self, switch: str, source: Path) -> str:
        # Late: a command from another terminal imports this module, and need not wait for these.
        from controller import CompiledProgram, Reloaded
        from mechanisms.program import job
        from softswitch import program_cache

        started = time.monotonic()
        compiled = program_cache.compile_program(job(self._session.topology, source))
        program = CompiledProgram.of(compiled)
        compile_s = time.monotonic() - started
        controller = self._session.controller
        before = set(controller.read_entries(switch))
        started = time.monotonic()
        done = controller.reload(switch, program)
        load_s = time.monotonic() - started
        self._sources[switch] = source
        if done is Reloaded.UNCHANGED:
            return f"{switch}: {source.name} is what it runs already"
        after = set(controller.read_entries(switch))
        missing = len(before - after)
        if missing:
            raise EntriesLostError(f"{switch}: {missing} of {len(before)} entries are lost")
        text = f"{switch}: {source.name} compiled in {compile_s:.1f} s, loaded in {load_s:.1f} s; "
        text += f"{len(before)} entries {done.value}"
        if done is Reloaded.WRITTEN_AGAIN:
            text += ": traffic was interrupted"
        return text
