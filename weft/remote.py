"""Commands from another terminal on the run that is up: `weft exec`, `weft link`, `weft reload`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from observe.errors import UsageError

if TYPE_CHECKING:
    from emulation.control import Handler
    from emulation.session import Session
    from weft.reload import Programs


def handlers(session: Session, programs: Programs) -> Mapping[str, Handler]:
    """Return what a run at its prompt does for other terminals."""
    from experiments.perf_live import endpoint_sockets
    from weft.live_link import switch_link

    def link(words: list[str]) -> Iterator[str]:
        session.settle()
        yield switch_link(session, words)

    def reload(words: list[str]) -> Iterator[str]:
        session.settle()
        switch, *paths = words
        names = [each.name for each in session.topology.switches]
        if switch not in (*names, "all"):
            raise UsageError(f"no switch {switch!r}: there is {', '.join(names)}, and all")
        path = Path(paths[0]) if paths else None
        yield from programs.reload(names if switch == "all" else [switch], path)

    def endpoint(words: list[str]) -> Iterator[str]:
        session.settle()
        for name, socket in endpoint_sockets(session, words).items():
            yield json.dumps({"name": name, "socket": str(socket)})

    return {"link": link, "reload": reload, "endpoint": endpoint}


def link(arguments: argparse.Namespace) -> int:
    """`weft link END END down|up`; returns the exit code."""
    return _ask("link", [*arguments.ends, arguments.state])


def reload(arguments: argparse.Namespace) -> int:
    """`weft reload SWITCH|all [FILE.p4]`; returns the exit code."""
    words = [arguments.switch]
    if arguments.program is not None:
        words.append(str(arguments.program.absolute()))  # the runner may be in another folder
    return _ask("reload", words)


def _ask(command: str, words: list[str]) -> int:
    from emulation import control
    from emulation.session import require_root

    require_root(f"weft {command}")
    for line in control.ask(command, words):
        print(line, flush=True)
    return 0


def execute(arguments: argparse.Namespace) -> int:
    """`weft exec HOST COMMAND...`: becomes that command, in the host's network namespace."""
    from emulation import fabric_record
    from emulation.network import namespace_name
    from emulation.session import require_root

    require_root("weft exec")
    fabric = fabric_record.running()
    hosts = [host.name for host in fabric.topology.hosts]
    if arguments.host not in hosts:
        raise UsageError(f"no host {arguments.host!r}: there is {', '.join(hosts)}")
    command = ["ip", "netns", "exec", namespace_name(fabric.run, arguments.host)]
    sys.stdout.flush()
    os.execvp(command[0], [*command, *arguments.command])
