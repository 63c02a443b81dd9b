"""A topology's events in a run in real time: links go down and up, and lose what they carry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from emulation.link_events import EventPlayer, FabricCalls, playable
from emulation.session import Session
from experiments.live_flows import LiveError
from workloads.model import RunFile


@contextmanager
def event_player(session: Session) -> Iterator[EventPlayer]:
    """Yield the player to start at time 0; it ends with the block."""
    fabric = FabricCalls(session)
    player = EventPlayer(playable(session)[0], fabric.perform, lambda text: None)
    try:
        yield player
    finally:
        player.cancel()
        fabric.close()


def check_played(run: RunFile, events: EventPlayer) -> None:
    """Raise LiveError for an event that went wrong: the run was not what its file says."""
    for each in events.played:
        if each.error:
            raise LiveError(f"{run.name}: {each.call.says}: {each.error}")
