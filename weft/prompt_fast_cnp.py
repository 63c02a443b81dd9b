"""The command `fast-cnp` at the prompt: what switches tell sources of long queues, off and on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from weft import console
from weft.fast_cnp_text import counts_text
from weft.prompt_command import Command, CommandError, Shell

if TYPE_CHECKING:
    from controller import FastCnpState

_USAGE = "fast-cnp [on|off]"
_WORDS = ("on", "off")
_MORE = """\
fast-cnp       which switches send fast CNPs, and what became of packets that met a long queue
fast-cnp off   no switch sends any; ECN marks as if there were none
fast-cnp on    again
Off stays off, whatever links and switches do, until fast-cnp on or the end of the run. Switches
keep all they hold for it. Counts are since a switch started; help: docs/fast-cnp.md."""
_REMEDY = "in the topology: classes: {roce: {dscp: 26, queue: 3, fast_cnp: true}}"


class FastCnpCommand:
    """Shows and switches fast CNPs, through the run's controller."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def command(self) -> Command:
        """Return the command."""
        return Command(
            "fast-cnp",
            "[on|off]",
            "what switches tell sources of long queues themselves; off and on at run time",
            self._run,
            _MORE,
            lambda before: () if before else _WORDS,
        )

    def _run(self, rest: str) -> None:
        if rest not in ("", *_WORDS):
            raise CommandError(f"{_USAGE}, not {rest!r}")
        session = self._shell.session
        name = session.topology.name
        if not session.controller.policy.fast_cnp:
            text = f"no class of {name} has fast CNPs: no switch sends any"
            if rest:
                raise CommandError(text, _REMEDY)
            print(text)
            return
        found = session.controller.read_fast_cnp()
        if all(state.runs is None for state in found.values()):
            raise CommandError("no switch runs a program that knows fast CNPs")
        if rest:
            written = session.controller.switch_fast_cnp(rest == "on")
            found = session.controller.read_fast_cnp()
            print(f"{modes(found)}; the controller wrote {written} updates")
            return
        print(modes(found))
        self._print(found)

    def _print(self, found: Mapping[str, FastCnpState]) -> None:
        topology = self._shell.session.topology
        rows = [
            [f"{switch}:{port}", str(topology.peer(switch, port)), counts_text(counts)]
            for switch, state in found.items()
            for port, counts in sorted(state.counts.items())
        ]
        if not rows:
            print("no packet has met a long queue")
            return
        title = "packets that met a long queue"
        console.table(["port", "to", "fast CNPs"], rows, title=title)


def modes(found: Mapping[str, FastCnpState]) -> str:
    """Return which switches send fast CNPs: 'fast CNPs are on', or each case's switches."""
    names = {
        text: [name for name, state in found.items() if state.runs is runs]
        for runs, text in ((True, "on"), (False, "off"), (None, "unknown to the program"))
    }
    there = [(text, switches) for text, switches in names.items() if switches]
    if len(there) == 1:
        return f"fast CNPs are {there[0][0]}"
    return "fast CNPs are " + "; ".join(f"{text} at {', '.join(at)}" for text, at in there)
