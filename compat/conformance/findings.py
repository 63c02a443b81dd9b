"""What a compiler says of a program: verdict, errors, warnings, P4Info."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

UNSUPPORTED = "unsupported"


class Verdict(Enum):
    """What became of a program."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNSUPPORTED = "not supported"
    CRASHED = "crashed"
    NOT_DONE = "not done"


@dataclass(frozen=True, slots=True)
class Finding:
    """One error or warning. `file` has no directory; `line` is 0 where there is no place.

    `kind` is p4c's word for it ("unused", "mismatch", ...), "" if it has none. `back_end`: only
    p4c's back end for BMv2 says it.
    """

    file: str
    line: int
    kind: str
    text: str
    back_end: bool = False

    @property
    def where(self) -> tuple[str, int]:
        """File and line."""
        return self.file, self.line

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.line else ""
        kind = f"[{self.kind}] " if self.kind else ""
        return f"{place}{kind}{self.text}"


@dataclass(frozen=True, slots=True)
class Said:
    """All that a compiler says of a program.

    `also` are further lines that its errors name; `reason` is set where it crashed or was not done.
    `p4info` is the text, "" where none was made.
    """

    verdict: Verdict
    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    also: frozenset[tuple[str, int]] = frozenset()
    p4info: str = ""
    reason: str = ""
    seconds: float = 0.0
