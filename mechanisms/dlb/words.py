"""The word `dlb` at the prompt: which policies are in force, and what went by which port."""

from __future__ import annotations

from collections.abc import Iterator

from mechanisms.contract import Rows, Running, Word
from mechanisms.dlb.counters import DLB as COUNTER
from mechanisms.dlb.entries import CLASS_TABLE, NAME
from mechanisms.dlb.settings import KEY
from mechanisms.on_off import ON_OFF, counts_of, is_used, knowing


def _dlb(running: Running, rest: str) -> Iterator[str | Rows]:
    topology, controller = running.topology, running.controller
    settings = {each.name: each.setting(KEY) for each in topology.classes}
    policies = {name: each.policy.word for name, each in settings.items() if each is not None}
    without = f"{topology.name} has no {KEY}: all classes are spread by the ECMP hash"
    remedy = f"in a class of the topology: {KEY}: packet-dlb"
    if not is_used("dlb", rest, bool(policies), without, remedy):
        yield without
        return
    able = knowing(running, CLASS_TABLE, COUNTER, "load balancing")
    if rest:
        written = controller.switch_mechanism(NAME, rest == "on")
        yield f"load balancing is {rest}; the controller wrote {written} updates"
        return
    on = NAME not in controller.policy.off
    said = ", ".join(f"{name} by {policy}" for name, policy in policies.items())
    yield f"{said}; others by the ECMP hash" if on else "off: all by the ECMP hash"
    rows = []
    for switch in able:
        for number, counts in counts_of(topology, controller, COUNTER, switch).items():
            if any(counts.values()):
                peer = str(topology.peer(switch, number))
                rows.append([f"{switch}:{number}", peer, COUNTER.text(counts)])
    if rows:
        yield Rows(["port", "to", "since the switch started"], rows, "load balancing by port")


WORDS = (
    Word(
        "dlb",
        "[on|off]",
        "which paths packets take: policies of classes, what each port got; off and on at run time",
        _dlb,
        """\
dlb       the policy of each class, and how often each port was chosen
dlb off   all classes are spread by the ECMP hash
dlb on    again by their policies
Off stays off, whatever links and switches do, until dlb on or the end of the run. Counts are since
a switch started; help: docs/load-balancing.md.""",
        ON_OFF,
    ),
)
