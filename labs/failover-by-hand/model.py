"""What a plane choice does by the lab's text, in Python: for the item of random sequences."""

from __future__ import annotations

from dataclasses import dataclass, field

from .plane import OPEN_WORD, SHUT_WORD, WRAP, Fields

STEPS = (4, 2)


@dataclass
class Model:
    """A plane; times in ns, rates in bits/s."""

    fields: Fields
    up_at: int
    lost_at: int = 0
    holds: list[int] = field(default_factory=list)
    row: list[int] = field(default_factory=list)
    down: bool = False

    def answer(self, now: int, number: int, lost_at: int) -> None:
        """Handle the answer to a probe."""
        if lost_at > self.lost_at:
            soon = self.down or lost_at - self.up_at < self.fields["stable_ns"]
            first, most = self.fields["hold_ns"], self.fields["hold_most_ns"]
            self.holds.append(min(2 * self.holds[-1], most) if self.holds and soon else first)
            self.lost_at, self.down, self.row = lost_at, True, []
        if not self.down:
            return
        if self.row and number != (self.row[-1] + 1) % WRAP:
            self.row = []
        self.row.append(number)
        enough = len(self.row) >= self.fields["answers"]
        if enough and now >= self.lost_at + self.holds[-1]:
            self.down, self.up_at = False, now

    @property
    def word(self) -> str:
        """Whether it may be used."""
        return SHUT_WORD if self.down else OPEN_WORD

    def rate(self, now: int) -> int | None:
        """Return what it may carry; None: nothing is asked of a plane that is shut."""
        if self.down:
            return None
        line = self.fields["line_rate"]
        ramp = self.fields["ramp_ns"]
        for number, shift in enumerate(STEPS, 1):
            if self.holds and now < self.up_at + number * ramp:
                return max(line >> shift, self.fields["min_rate"])
        return line
