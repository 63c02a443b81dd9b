"""A switch's entries as simple_switch_CLI's commands, tried on a rehearsal before a run begins.

`controller.entry_files` asks for this module by name. The commands are those of `weft cli`, but an
empty line repeats nothing, a value that does not fit its field is an error rather than cut off, and
what has no place in P4Runtime (queues, ports, the shell) is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any, NoReturn, cast

from compat.bmv2_cli.connection import Connection, RefusedError
from compat.bmv2_cli.program import Action, Table
from compat.bmv2_cli.program_commands import ProgramCommands
from compat.bmv2_cli.values import CommandError, KeyValue, full
from controller.rehearsal import Rehearsal
from softswitch.diagnostics import DiagnosticsClient, DiagnosticsError
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.status import Code, ReadError

_NOT_HERE = "not in a file of entries, which holds what is written to tables, groups and arrays"

_FAMILIES = ("table_", "act_prof_", "mc_", "mirroring_", "counter_", "meter_", "register_", "pvs_")


def play(path: Path, text: str, rehearsal: Rehearsal) -> list[str]:
    """Do all commands; return a line for each mistake, with file and line."""
    problems: list[str] = []
    switch = _RehearsedSwitch(rehearsal)
    player = _Player(cast(Connection, switch), cast(DiagnosticsClient, _NoSideChannel()))
    for number, line in enumerate(text.splitlines(), 1):
        switch.line = number
        player.said.clear()
        if line.strip():
            player.onecmd(line.strip())
        problems += [f"{path}:{number}: {said}" for said in player.said[:1]]
    return problems


class _Player(ProgramCommands):
    """All commands; `said` is what the last one has against it."""

    def __init__(self, connection: Connection, diagnostics: DiagnosticsClient) -> None:
        self.said: list[str] = []
        super().__init__(connection, diagnostics)
        self.stdout = StringIO()

    def fail(self, message: str, why: str = "") -> None:
        """Keep what is wrong; the switch's own words say more than BMv2's code."""
        self.failures += 1
        self.said.append(" ".join((why or message).split()))

    def say(self, *words: object) -> None:
        """Say nothing: it is not read."""

    def note(self, message: str) -> None:
        """Say nothing."""

    def onecmd(self, line: str) -> bool:
        """Do a command of those that write entries and the like."""
        word = line.split()[0]
        if hasattr(self, f"do_{word}") and not word.startswith(_FAMILIES):
            self.fail(f"{word}: {_NOT_HERE}")
            return False
        return super().onecmd(line)

    def default(self, line: str) -> None:
        """Refuse a command that is not there."""
        self.fail(f"no command {line.split()[0]!r}")

    def do_shell(self, line: str) -> None:
        """Run nothing of the machine's."""
        self.fail(f"!{line}: {_NOT_HERE}")

    def match(self, table: Table, name: str, words: list[str]) -> list[KeyValue]:
        """Read a key whose values all fit. Raises CommandError."""
        found = super().match(table, name, words)
        for each in found:
            if each.first > full(each.field.bitwidth):
                raise CommandError(
                    f"{each.field.name} has {each.field.bitwidth} bits, too few for {each.first}"
                )
        return found

    def action_message(self, action: Action, values: list[int]) -> p4r.Action:
        """Make a message whose arguments all fit. Raises CommandError."""
        for (_, name, bits), value in zip(action.params, values, strict=True):
            if value > full(bits):
                raise CommandError(f"{action.name}: {name} has {bits} bits, too few for {value}")
        return super().action_message(action, values)


class _RehearsedSwitch:
    """What a `Connection` does, on a switch in this process."""

    address, device_id = "", 0

    def __init__(self, rehearsal: Rehearsal) -> None:
        self._rehearsal = rehearsal
        self.line = 0

    def config(self) -> p4r.ForwardingPipelineConfig:
        """Return the program."""
        program = self._rehearsal.program
        return p4r.ForwardingPipelineConfig(
            p4info=program.p4info.message, p4_device_config=program.device_config
        )

    def set_config(self, *_given: object) -> NoReturn:
        """Refuse another program. Raises RefusedError."""
        raise RefusedError("UNIMPLEMENTED", f"another program: {_NOT_HERE}")

    def read(self, **entity: Any) -> Iterator[p4r.Entity]:
        """Read one kind of entity. Raises RefusedError."""
        try:
            yield from self._rehearsal.read(p4r.Entity(**entity))
        except ReadError as error:
            raise RefusedError("UNKNOWN", str(error)) from None

    def insert(self, **entity: Any) -> None:
        """Write one new entity. Raises RefusedError."""
        self._one(p4r.Update.INSERT, p4r.Entity(**entity))

    def modify(self, **entity: Any) -> None:
        """Change one entity. Raises RefusedError."""
        self._one(p4r.Update.MODIFY, p4r.Entity(**entity))

    def delete(self, **entity: Any) -> None:
        """Remove one entity. Raises RefusedError."""
        self._one(p4r.Update.DELETE, p4r.Entity(**entity))

    def insert_each(self, entities: Iterable[p4r.Entity]) -> list[RefusedError | None]:
        """Write new entities in order; return why each was refused."""
        return self._each(p4r.Update.INSERT, entities)

    def modify_each(self, entities: Iterable[p4r.Entity]) -> list[RefusedError | None]:
        """Change entities, as `insert_each` does."""
        return self._each(p4r.Update.MODIFY, entities)

    def delete_each(self, entities: Iterable[p4r.Entity]) -> list[RefusedError | None]:
        """Remove entities, as `insert_each` does."""
        return self._each(p4r.Update.DELETE, entities)

    def _one(self, kind: p4r.Update.Type.ValueType, entity: p4r.Entity) -> None:
        (refusal,) = self._each(kind, [entity])
        if refusal is not None:
            raise refusal

    def _each(
        self, kind: p4r.Update.Type.ValueType, entities: Iterable[p4r.Entity]
    ) -> list[RefusedError | None]:
        updates = [p4r.Update(type=kind, entity=entity) for entity in entities]
        return [
            None if status.code is Code.OK else RefusedError(status.code.name, str(status))
            for status in self._rehearsal.write(updates, self.line)
        ]


class _NoSideChannel:
    """In the place of a switch's side channel: nothing that goes over it is an entry."""

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        def refuse(*_given: object, **_named: object) -> NoReturn:
            raise DiagnosticsError(_NOT_HERE)

        return refuse
