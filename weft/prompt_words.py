"""Words that mechanisms bring to the prompt, as its commands."""

from __future__ import annotations

from mechanisms.contract import Rows, Running, Word, WordError
from mechanisms.registry import mechanisms
from weft import console
from weft.prompt_command import Command, CommandError, Shell


def words(shell: Shell) -> list[Command]:
    """Return the commands of all mechanisms, in the order of the registry."""
    return [_command(shell, word) for each in mechanisms() for word in each.words]


def _command(shell: Shell, word: Word) -> Command:
    return Command(
        word.name,
        word.arguments,
        word.text,
        lambda rest: _run(shell, word, rest),
        word.more,
        lambda before: () if before else word.complete,
    )


def _run(shell: Shell, word: Word, rest: str) -> None:
    session = shell.session
    running = Running(session.topology, session.controller, session.endpoints)
    try:
        for said in word.run(running, rest):
            if isinstance(said, Rows):
                console.table(said.columns, said.rows, title=said.title)
            else:
                print(said)
    except WordError as error:
        raise CommandError(str(error), error.remedy) from None
