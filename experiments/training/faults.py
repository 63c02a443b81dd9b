"""What goes wrong in a fabric while a job trains on it: `at step 20: kill s3`.

The verbs are those of a topology's events, and happen once rank 0 has done so many steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from emulation.link_state import find_links
from observe.errors import UsageError
from softswitch.impairments import changes
from topologies.model import Topology

_WHEN = re.compile(r"(?:at\s+)?(?:step\s+)?(\d+)\s*:\s*(.+)")
_FORMS = "kill SWITCH, revive SWITCH, down END END, up END END, loss SHARE [END END]"
EXAMPLE = "at step 20: kill s3"


@dataclass(frozen=True)
class Fault:
    """Before which step of rank 0, and what in words."""

    step: int
    words: tuple[str, ...]

    def __str__(self) -> str:
        """As the user may write it."""
        return f"at step {self.step}: {' '.join(self.words)}"


def fault(text: str, topology: Topology) -> Fault:
    """Read a fault and check it against a topology. Raises UsageError, NoSuchLinkError."""
    found = _WHEN.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"fault {text!r}: when does it happen? Write {EXAMPLE!r}")
    words = tuple(found[2].split())
    match words:
        case ("kill" | "revive", switch):
            names = [each.name for each in topology.switches]
            if switch not in names:
                raise UsageError(
                    f"fault {text!r}: no switch {switch!r}: there is {', '.join(names)}"
                )
        case ("down" | "up", a, b):
            find_links(topology, a, b)
        case ("loss", share, *ends) if len(ends) in (0, 2):
            check_share(share)
            if ends:
                find_links(topology, *ends)
        case _:
            raise UsageError(f"fault {text!r}: has to be one of {_FORMS}")
    return Fault(int(found[1]), words)


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


Do = Callable[[Sequence[str]], str]
"""Make a fault happen, by its words; returns what was done, in a line."""
