"""What goes wrong in a fabric while a job trains on it: `at step 20: kill s3`.

The verbs are those of a topology's events, and happen once rank 0 has done so many steps. What is
killed or taken down `for 5s` (of real time) comes back by itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from emulation.link_state import find_links
from observe.errors import UsageError
from softswitch.impairments import changes
from topologies.model import Topology

_WHEN = re.compile(r"(?:at\s+)?(?:step\s+)?(\d+)\s*:\s*(.+)")
_LASTS = re.compile(r"(.+) for (\d+(?:\.\d+)?) ?s")
_FORMS = (
    "kill SWITCH [for SECONDS], revive SWITCH, down END END [for SECONDS], up END END, "
    "loss SHARE [END END]"
)
_UNDONE = {"kill": "revive", "down": "up"}
EXAMPLE = "at step 20: kill s3"


@dataclass(frozen=True)
class Fault:
    """Before which step of rank 0, what in words, and after how long it is over (None: never)."""

    step: int
    words: tuple[str, ...]
    lasts_s: float | None = None

    @property
    def undone(self) -> tuple[str, ...]:
        """The words of what ends it."""
        return (_UNDONE[self.words[0]], *self.words[1:])

    def __str__(self) -> str:
        """Format the fault as the user may write it."""
        lasts = "" if self.lasts_s is None else f" for {self.lasts_s:g} s"
        return f"at step {self.step}: {' '.join(self.words)}{lasts}"


def fault(text: str, topology: Topology) -> Fault:
    """Read a fault and check it against a topology. Raises UsageError, NoSuchLinkError."""
    found = _WHEN.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"fault {text!r}: when does it happen? Write {EXAMPLE!r}")
    lasts = _LASTS.fullmatch(found[2])
    words = tuple((lasts[1] if lasts else found[2]).split())
    if lasts and words[0] not in _UNDONE:
        raise UsageError(f"fault {text!r}: only {' and '.join(_UNDONE)} can last for a time")
    match words:
        case ("kill" | "revive", switch):
            names = [each.name for each in topology.switches]
            if switch not in names:
                raise UsageError(
                    f"fault {text!r}: no switch {switch!r}; available: {', '.join(names)}"
                )
        case ("down" | "up", a, b):
            find_links(topology, a, b)
        case ("loss", share, *ends) if len(ends) in (0, 2):
            check_share(share)
            if ends:
                find_links(topology, *ends)
        case _:
            raise UsageError(f"fault {text!r}: has to be one of {_FORMS}")
    return Fault(int(found[1]), words, float(lasts[2]) if lasts else None)


def check_share(share: str) -> None:
    """Raise UsageError for what is no share of frames, such as 1%."""
    try:
        changes(loss=share)
    except ValueError as error:
        raise UsageError(f"loss {share}: {error}") from None


def in_order(faults: Sequence[Fault], steps: int) -> tuple[Fault, ...]:
    """Return faults by step. Raises UsageError for one behind the last step."""
    for each in faults:
        if each.step >= steps:
            raise UsageError(f"{each}: the last of {steps} steps is {steps - 1}")
    return tuple(sorted(faults, key=lambda each: each.step))
