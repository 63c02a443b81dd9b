"""Loading a changed P4 program into running switches with their entries kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controller import CompiledProgram
    from emulation.session import Session


DROP = "--drop-entries"


class ReloadRefusedError(Exception):
    """A switch can't keep its entries under the new program, and stays as it is."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


class EntriesLostError(Exception):
    """After a reload a switch holds other entries than before."""


class Programs:
    """Which P4 file each switch of a run has its program from."""

    def __init__(self, session: Session) -> None:
        from mechanisms.switch_programs import sources  # late: see below

        self._session = session
        self._sources = sources(session.topology)
        self._one_at_a_time = threading.Lock()

    def reload(
        self, switches: Sequence[str], path: Path | None = None, *, drop: bool = False
    ) -> Iterator[str]:
        """Compile and load, switch by switch; yield what was done to each.

        `path`: another file than the one that the switch runs. `drop`: the switch starts empty,
        with the entries of its file or those that the fabric plans. Raises CompileError and others
        of the compiler, ControllerError when a switch refuses, ReloadRefusedError,
        EntriesLostError.
        """
        with self._one_at_a_time:
            if len(switches) > 1:  # all of them or none
                self._session.controller.check_writable(switches)
            for switch in switches:
                source = (path or self._sources[switch]).absolute()
                yield self._replace(switch, source) if drop else self._reload(switch, source)

    def _compiled(self, source: Path) -> CompiledProgram:
        # Late: a command from another terminal imports this module, and need not wait for these.
        from controller import CompiledProgram
        from mechanisms.program import job
        from softswitch import program_cache

        compiled = program_cache.compile_program(job(self._session.topology, source))
        return CompiledProgram.of(compiled, source)

    def _replace(self, switch: str, source: Path) -> str:
        from mechanisms.switch_programs import anew  # late: as above

        program = self._compiled(source)
        own = anew(self._session.topology, switch, program, self._session.target_facts())
        written = self._session.controller.replace(switch, program, own)
        self._sources[switch] = source
        whose = "of the fabric's plan" if own is None else "of its file"
        entries = f"{written} entries {whose}" if written or own is None else "no entries"
        return f"{switch}: begins anew with {source.name}, and {entries}"

    def _reload(self, switch: str, source: Path) -> str:
        from controller import Reloaded  # late: as above
        from controller.errors import PipelineRefused
        from mechanisms.switch_programs import again

        started = time.monotonic()
        program = self._compiled(source)
        compile_s = time.monotonic() - started
        controller = self._session.controller
        own = None
        if switch in controller.own:
            own = again(self._session.topology, switch, program)
        before = set(controller.read_entries(switch))
        started = time.monotonic()
        try:
            done = controller.reload(switch, program, own)
        except PipelineRefused as error:
            remedy = f"reload {switch} {source.name} {DROP} lets it begin anew"
            raise ReloadRefusedError(str(error), remedy) from None
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
