"""Look at a case by hand, one instrument at a time, before you write down what is broken.

.venv/bin/python labs/find-the-fault/look.py --seed 7 --case 3 flows
.venv/bin/python labs/find-the-fault/look.py --seed 7 --case 3 ports s9 s17
.venv/bin/python labs/find-the-fault/look.py --seed 7 --case 3 heartbeats
.venv/bin/python labs/find-the-fault/look.py --seed 7 --case 3 queues s9
.venv/bin/python labs/find-the-fault/look.py --seed 7 --case 3 course s9:2
.venv/bin/python labs/find-the-fault/look.py --seed 7 --case 3 path h1 h9 50000

The answers go into a YAML file, `seed: 7` and `answers: {3: silent-drops s9:2}`, and
`weft grade find-the-fault --answer FILE --seed 7` says how many are right.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments import grade_worker
from weft import console
from weft.path import show

HERE = Path(__file__).resolve().parent
MOST_FLOWS = 15
PROBES = 20
EVERY = 2
"""Samples from one row of a port's course to the next."""


def main(argv: Sequence[str]) -> int:
    """Play the case and print what was asked for; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, required=True, help="the grading's seed")
    parser.add_argument("--case", type=int, required=True, metavar="N", help="which case, from 1")
    parser.add_argument("what", choices=[*SHOWS, "path"])
    parser.add_argument("words", nargs="*", help="switches; course: a port; path: FROM TO UDP-PORT")
    asked = parser.parse_args(argv)
    exam = grade_worker.load(HERE).Exam(asked.seed)
    count = len(exam.cases)
    if not 1 <= asked.case <= count:
        parser.error(f"--case {asked.case}: seed {asked.seed} has cases 1 to {count}")
    try:
        exam.shown(asked.case - 1, lambda seen: _show(seen, asked.what, asked.words))
    except (LookupError, ValueError) as error:
        parser.error(str(error))
    return 0


def _show(seen: Any, what: str, words: Sequence[str]) -> None:
    if what == "path":
        if len(words) != 3 or not words[2].isdecimal():
            raise ValueError("path: FROM TO UDP-PORT, as in: path h1 h9 50000")
        show(seen.path(words[0], words[1], int(words[2]), count=PROBES))
    else:
        SHOWS[what](seen, words)
    sys.stdout.flush()  # of a forked process, which ends without


def flows(seen: Any, words: Sequence[str]) -> None:
    """Show what applications see: the flows that lost most."""
    del words
    lost = sorted(seen.flows, key=lambda flow: flow.received - flow.sent)[:MOST_FLOWS]
    _table(
        ["from", "to", "UDP port", "DSCP", "sent", "received", "lost"],
        [
            [f.source, f.target, f.udp_port, f.dscp, f.sent, f.received, f.sent - f.received]
            for f in lost
        ],
        f"the {len(lost)} flows that lost most, of {len(seen.flows)}",
    )


def ports(seen: Any, words: Sequence[str]) -> None:
    """Show port counters at the end, and of links between switches what both ends say."""
    far = dict(seen.links)
    rows = []
    for name in _ports(seen, words):
        port = seen.ports[name]
        other = far.get(name, seen.hosts.get(name, ""))
        missing = port.sent[-1] - seen.ports[other].received[-1] if name in far else ""
        rows.append([name, other, port.received[-1], port.sent[-1], missing, port.dropped[-1],
                     port.marked[-1], port.pauses[-1]])  # fmt: skip
    columns = ["port", "to", "received", "sent", "missing there", "dropped", "marked", "pauses"]
    _table(columns, rows, "packets; missing there: sent, less what the far end received")


def heartbeats(seen: Any, words: Sequence[str]) -> None:
    """Show what heartbeats counted, of ports where they counted anything."""
    names = list(next(iter(seen.heartbeats.values())))
    counts = {p: [seen.heartbeats[p][n][-1] for n in names] for p in _ports(seen, words)}
    used = [n for n in range(len(names)) if any(row[n] for row in counts.values())]
    rows = [[port, *(row[n] for n in used)] for port, row in counts.items() if any(row)]
    _table(["port", *(names[n] for n in used)], rows, "heartbeats")


def queues(seen: Any, words: Sequence[str]) -> None:
    """Show the most bytes that ever waited in each queue."""
    used = sorted({q for each in seen.queues.values() for q, most in each.items() if most})
    rows = [[port, *(seen.queues[port][q] for q in used)] for port in _ports(seen, words)]
    _table(["port", *(f"queue {q}" for q in used)], rows, "the most bytes in a queue")


def course(seen: Any, words: Sequence[str]) -> None:
    """Show a port's counts over time, with what heartbeats counted in between."""
    if len(words) != 1 or words[0] not in seen.ports:
        raise ValueError("course: a port, as in: course s9:2")
    port, beats = seen.ports[words[0]], seen.heartbeats[words[0]]
    used = [name for name, counts in beats.items() if counts[-1]]
    rows = []
    shown = [port.received, port.sent, *(beats[name] for name in used)]
    for n in range(EVERY, len(seen.times_us), EVERY):
        rows.append([seen.times_us[n], *(each[n] - each[n - EVERY] for each in shown)])
    _table(["until (us)", "received", "sent", *used], rows, words[0])


SHOWS: Mapping[str, Callable[[Any, Sequence[str]], None]] = {
    each.__name__: each for each in (flows, ports, heartbeats, queues, course)
}


def _ports(seen: Any, words: Sequence[str]) -> list[str]:
    """Return the ports of the switches that are named, or all. Raises LookupError."""
    switches = {name.partition(":")[0] for name in seen.ports}
    for word in words:
        if word not in switches:
            raise LookupError(f"there is no switch {word!r}")
    return [name for name in seen.ports if not words or name.partition(":")[0] in words]


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str) -> None:
    shown = [[str(cell) for cell in row] for row in rows]
    console.table(columns, shown, title=title, right=columns[2:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
