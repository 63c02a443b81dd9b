"""The result of a parity run."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from compat.parity.cases import Answer, Round
from compat.parity.coverage import Coverage


class Compiler(Enum):
    """Who compiled the program."""

    P4C = "p4c"
    WEFT = "weft"

    @property
    def other(self) -> Compiler:
        """The other one."""
        return Compiler.WEFT if self is Compiler.P4C else Compiler.P4C


@dataclass(frozen=True)
class Example:
    """A difference made small: the round, what the reference answers, and what the other does."""

    what: str
    round_: Round
    reference: Answer
    other: Answer


@dataclass
class Row:
    """One pairing: `missing` says why it did not run.

    `refused`: because the program was not taken; `failed`: and it is where it was the other
    compiler's, which is a difference too.

    `cases` counts packets. Of some the pairing was itself the `reference`; the others were
    compared with the pairing `against`. `undefined` are those whose answer the program does not
    define. `other` are differences that no packet showed: updates that only one of two accepts,
    counters, registers.
    """

    compiler: Compiler
    target: str
    missing: str = ""
    refused: bool = False
    failed: bool = False
    against: str = ""
    cases: int = 0
    reference: int = 0
    equal: int = 0
    different: int = 0
    undefined: int = 0
    other: list[str] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Both halves of the pairing."""
        return f"{self.compiler.value} x {self.target}"

    @property
    def agrees(self) -> bool:
        """Whether nothing differs."""
        return not self.different and not self.other and not self.failed


@dataclass
class Report:
    """All pairings of one program. `p4info` says how P4Infos differ, "" when they don't."""

    program: str
    seed: int
    rounds: int
    rows: list[Row]
    p4info: str = ""
    partly_compared: int = 0
    answered: int = 0
    coverage: Coverage = field(default_factory=Coverage)

    @property
    def agrees(self) -> bool:
        """Whether nothing differs anywhere."""
        return not self.p4info and all(row.agrees for row in self.rows)

    @property
    def compares(self) -> bool:
        """Whether there were two pairings at least."""
        return sum(not row.missing for row in self.rows) > 1
