"""Find the fault: say what is broken, and where, or that nothing is.

`diagnose` gets the instruments (observations.py says what each shows) and returns one of

    "healthy"
    "silent-drops s9:2"     a share of what s9 sends by port 2 vanishes
    "one-way s9:2"          all of it vanishes; what comes by port 2 is whole
    "flapping s9:2"         the link at s9's port 2 goes down and up, again and again
    "mis-set-class s9"      s9 puts RoCE's packets into another queue than the others do

Two traps: bursts of traffic fill queues and are dropped, in good health too; and every link loses
one frame of 100,000 or so.
"""

from __future__ import annotations

from typing import Any


def diagnose(seen: Any) -> str:
    """Return what is broken in the fabric that was seen."""
    for sender, receiver in seen.links:
        sent, received = seen.ports[sender].sent, seen.ports[receiver].received
        missing = sent[-1] - received[-1]
        # TODO 1: how many are missing where a link loses a share? And where only stray ones are?
        # TODO 2: a direction that is dead receives nothing from some time on: not even heartbeats.
        # TODO 3: a flapping link is silent and then not, in both directions.
        del missing
    # TODO 4: seen.queues, or seen.path(...).hops, say which queue RoCE's packets wait in.
    return "healthy"
