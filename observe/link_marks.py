"""Who uses which links, as mechanisms of the run say it: asked by pictures of the fabric.

    the run: mechanisms' marks --> JSON, one line --> weft web

A list of {title, flows}: `flows` has by name (a job's, say) how many of its flows the end of a link
sends over it, by the end's name ("s1:3"). Runs without a prompt do not answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from emulation import control
from emulation.control import RefusedError
from emulation.fabric_record import NoRunError
from mechanisms.registry import link_marks
from topologies import Topology

COMMAND = "marks"

Json = dict[str, Any]


def marks_json(topology: Topology, ask: Callable[[str, Callable[[Any], Any]], Any]) -> str:
    """Return what a run answers; `ask` is its controller's, to its mechanisms' learners."""
    return json.dumps(
        [
            {
                "title": marks.title,
                "flows": {
                    name: {str(end): count for end, count in ends.items()}
                    for name, ends in marks.flows.items()
                },
            }
            for marks in link_marks(topology, ask)
        ]
    )


def read_marks() -> list[Json]:
    """Ask the run that is up; nothing where none is, or where it does not answer."""
    try:
        found: list[Json] = json.loads("".join(control.ask(COMMAND, [])))
    except (NoRunError, RefusedError):
        return []
    return found
