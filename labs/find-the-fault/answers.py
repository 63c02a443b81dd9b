"""What there is to find, and how an answer is written: "silent-drops s9:2", "healthy"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from topologies.model import Topology

HEALTHY, SILENT_DROPS, ONE_WAY = "healthy", "silent-drops", "one-way"
FLAPPING, MIS_SET_CLASS = "flapping", "mis-set-class"
PLACES: Mapping[str, str] = {
    HEALTHY: "",
    SILENT_DROPS: "the port that sends what vanishes: silent-drops s9:2",
    ONE_WAY: "the port that sends what vanishes: one-way s9:2",
    FLAPPING: "the port at either end of the link: flapping s9:2",
    MIS_SET_CLASS: "the switch: mis-set-class s9",
}
"""By kind what its place is; empty for none."""

KINDS = tuple(PLACES)
_PORT = re.compile(r"(\w+):(\d+)")


class AnswerError(ValueError):
    """An answer that can't be read; the message says what would be right."""


@dataclass(frozen=True)
class Answer:
    """A kind of fault and where. `place`: "s9:2", "s9", or empty where nothing is broken."""

    kind: str
    place: str = ""

    def __str__(self) -> str:
        """As it is written."""
        return f"{self.kind} {self.place}".strip()


def read(text: object, topology: Topology) -> Answer:
    """Read an answer. Raises AnswerError."""
    if not isinstance(text, str):
        raise AnswerError(f"{text!r} is not an answer: write text such as 'silent-drops s9:2'")
    kind, _, place = text.strip().partition(" ")
    place = place.strip()
    if kind not in PLACES:
        raise AnswerError(f"{text!r}: the kind is one of {', '.join(KINDS)}")
    right = PLACES[kind]
    if not right and place:
        raise AnswerError(f"{text!r}: {kind} has no place")
    names = {switch.name for switch in topology.switches}
    if kind == MIS_SET_CLASS and place not in names:
        raise AnswerError(f"{text!r}: say {right}")
    if right and kind != MIS_SET_CLASS:
        found = _PORT.fullmatch(place)
        if found is None or found[1] not in names:
            raise AnswerError(f"{text!r}: say {right}")
        ports = {port.number for port in topology.ports_of(found[1])}
        if int(found[2]) not in ports:
            raise AnswerError(f"{text!r}: {found[1]} has ports {min(ports)} to {max(ports)}")
    return Answer(kind, place)


def is_right(answer: Answer, truth: Answer, topology: Topology) -> bool:
    """Say whether an answer names what is broken: a flapping link by either of its ends."""
    if answer.kind != truth.kind:
        return False
    if answer.place == truth.place:
        return True
    if truth.kind != FLAPPING:
        return False
    switch, _, port = truth.place.partition(":")
    return answer.place == str(topology.peer(switch, int(port)))
