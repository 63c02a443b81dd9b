"""The word `dpfr` at the prompt: which links are dead or avoided, and what was done about it."""

from __future__ import annotations

from collections.abc import Iterator

from mechanisms.contract import Control, Rows, Running, Word
from mechanisms.dpfr.counters import DPFR as COUNTER
from mechanisms.dpfr.entries import MODE_TABLE, NAME, STAND_STILL
from mechanisms.dpfr.settings import KEY
from mechanisms.on_off import ON_OFF, SwitchState, is_used, knowing, modes, read_state
from topologies.model import Topology

SUBJECT = "fast reroute is"


def _dpfr(running: Running, rest: str) -> Iterator[str | Rows]:
    topology, controller = running.topology, running.controller
    used = topology.setting(KEY) is not None
    without = f"{topology.name} has no dpfr: no switch looks for dead links"
    if not is_used("dpfr", rest, used, without, "in the topology: dpfr: true"):
        yield without
        return
    knowing(running, MODE_TABLE, COUNTER, "fast reroute")
    found = _read(topology, controller)
    if rest:
        written = controller.switch_mechanism(NAME, rest == "on")
        state = modes(_read(topology, controller), SUBJECT)
        yield f"{state}; the controller wrote {written} updates"
        return
    yield modes(found, SUBJECT)
    rows = [
        [
            f"{switch}:{port}",
            str(topology.peer(switch, port)),
            COUNTER.state(counts) or "good",
            COUNTER.text(counts),
        ]
        for switch, state in found.items()
        for port, counts in sorted(state.counts.items())
    ]
    if rows:
        yield Rows(["port", "to", "now", "since the switch started"], rows, "fast reroute by port")
    else:
        yield "all links were alive all the time"


def _read(topology: Topology, controller: Control) -> dict[str, SwitchState]:
    return read_state(topology, controller, MODE_TABLE, STAND_STILL, COUNTER)


WORDS = (
    Word(
        "dpfr",
        "[on|off]",
        "dead and avoided links, and what switches did about them; off and on at run time",
        _dpfr,
        """\
dpfr       each port that is or was dead or avoided, and what was rerouted because of it
dpfr off   switches send and accept no heartbeats, and take the next hop of their routes
dpfr on    again
Off stays off, whatever links and switches do, until dpfr on or the end of the run. Counts are
since a switch started; help: docs/dpfr.md.""",
        ON_OFF,
    ),
)
