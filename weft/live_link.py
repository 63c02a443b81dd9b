"""Links of the running fabric in words: taking them down and up, and showing their state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulation.link_state import find_links
from topologies.units import format_rate
from weft.prompt_command import CommandError

if TYPE_CHECKING:
    from emulation.session import Session

USAGE = "link END END down|up"


def switch_link(session: Session, words: list[str]) -> str:
    """Do `link` with its arguments; return what was done. Raises CommandError and others."""
    if len(words) != 3 or words[2] not in ("down", "up"):
        raise CommandError(
            f"{USAGE}, e.g. link s1 s3 down, or link s1:3 s3:1 up for one of several"
        )
    a, b, state = words
    links = find_links(session.topology, a, b)
    done = session.links.switch(links, up=state == "up")
    names = ", ".join(f"{link.a} - {link.b}" for link in done.links)
    how = f"the controller wrote {done.updates} updates" if done.updates else "no route changes"
    return f"{names}: {state}; {how}"


def link_rows(session: Session) -> list[list[str]]:
    """Return a row for each link: its ends, interfaces, rate and state."""
    topology, network = session.topology, session.network
    rows = []
    is_up = session.links.up()
    for link in topology.links:
        interfaces = [network.interface_name(end.node, end.port) for end in (link.a, link.b)]
        rows.append(
            [
                f"{link.a} - {link.b}",
                " - ".join(interfaces),
                format_rate(link.rate_bps),
                "up" if is_up[link] else "DOWN",
            ]
        )
    return rows
