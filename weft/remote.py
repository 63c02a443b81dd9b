"""Commands from another terminal on the run that is up: `weft exec`, `weft link`, `weft reload`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from emulation import control, fabric_record
from emulation.control import Handler
from emulation.network import namespace_name
from emulation.session import Session, require_root
from observe.errors import UsageError
from weft.command_line import argument, command, flag
from weft.prompt_nodes import environment
from weft.reload import DROP, Programs


def handlers(session: Session, programs: Programs) -> Mapping[str, Handler]:
    """Return what a run at its prompt does for other terminals."""
    # The run needs these; a command from another terminal need not wait for them.
    from experiments.perf_live import endpoint_places
    from observe.link_marks import COMMAND, marks_json
    from weft.live_link import switch_link

    def link(words: list[str]) -> Iterator[str]:
        session.settle()
        yield switch_link(session, words)

    def reload(words: list[str]) -> Iterator[str]:
        session.settle()
        switch, *paths = [word for word in words if word != DROP]
        names = [each.name for each in session.topology.switches]
        if switch not in (*names, "all"):
            raise UsageError(f"no switch {switch!r}; available: {', '.join(names)}, and all")
        path = Path(paths[0]) if paths else None
        wanted = names if switch == "all" else [switch]
        yield from programs.reload(wanted, path, drop=DROP in words)

    def kill(words: list[str]) -> Iterator[str]:
        session.settle()
        session.kill_switch(_switch(session, words))
        yield f"{words[0]}: killed"

    def revive(words: list[str]) -> Iterator[str]:
        session.revive_switch(_switch(session, words))
        yield f"{words[0]}: revived"

    def endpoint(words: list[str]) -> Iterator[str]:
        session.settle()
        for name, place in endpoint_places(session, words).items():
            said = {"name": name, "socket": str(place.socket), "interface": place.interface}
            yield json.dumps(said)

    def job(words: list[str]) -> Iterator[str]:
        from emulation.scheduler import requests  # late: most runs have no jobs

        session.settle()
        yield from requests.answer(session.scheduler, words)

    def marks(words: list[str]) -> Iterator[str]:
        yield marks_json(session.topology, session.controller.ask)

    switches: Mapping[str, Handler] = {"kill": kill, "revive": revive, "reload": reload}
    return {"link": link, "endpoint": endpoint, "job": job, COMMAND: marks, **switches}


def _switch(session: Session, words: list[str]) -> str:
    names = [each.name for each in session.topology.switches]
    if len(words) != 1 or words[0] not in names:
        raise UsageError(f"no switch {' '.join(words)!r}; available: {', '.join(names)}")
    return words[0]


@command("""
    examples:
      sudo weft link s1 s3 down
      sudo weft link s1:3 s3:1 up
    """)
@argument("ends", nargs=2, metavar="END END", help="a node, or a port: s1, s1:3, h1")
@argument("state", type=click.Choice(["down", "up"]), help="unplug the cable, or plug it in")
def link(ends: tuple[str, str], state: str) -> int:
    """Run `weft link END END down|up`; return the exit code."""
    return _ask("link", [*ends, state])


@command("""
    examples:
      sudo weft reload s1
      sudo weft reload all my/fabric.p4
      sudo weft reload s1 lb.p4 --drop-entries
    """)
@argument("switch", help="a switch, or all")
@argument("program", required=False, type=Path, metavar="[FILE.p4]",
          help="a different program (default: the one that it runs)")  # fmt: skip
@flag(DROP, help="drop what the switch holds: it begins anew, with the entries of its file if it "
      "has one")  # fmt: skip
def reload(switch: str, program: Path | None, drop_entries: bool) -> int:
    """Run `weft reload SWITCH|all [FILE.p4]`; return the exit code."""
    words = [switch, *([DROP] if drop_entries else [])]
    if program is not None:
        words.append(str(program.absolute()))  # the runner may be in another folder
    return _ask("reload", words)


def _ask(command: str, words: list[str]) -> int:
    require_root(f"weft {command}")
    for line in control.ask(command, words):
        print(line, flush=True)
    return 0


@command(
    """
    examples:
      sudo weft exec h1 ping 10.0.2.1
      sudo weft exec h1 sh -c 'ip route; ip neigh'
    """,
    context_settings={"allow_interspersed_args": False},  # options after HOST are COMMAND's
)
@argument("host", help="the host")
@argument("command", nargs=-1, metavar="[COMMAND]...", help="the program and its arguments")
def execute(host: str, command: tuple[str, ...]) -> int:
    """Run `weft exec HOST COMMAND...`: become that command, in the host's network namespace."""
    require_root("weft exec")
    fabric = fabric_record.running()
    hosts = [each.name for each in fabric.topology.hosts]
    if host not in hosts:
        raise UsageError(f"no host {host!r}; available: {', '.join(hosts)}")
    enter = ["ip", "netns", "exec", namespace_name(fabric.run, host)]
    sys.stdout.flush()
    words = command[1:] if command[:1] == ("--",) else command
    os.execvpe(enter[0], [*enter, *words], {**os.environ, **environment(host)})
