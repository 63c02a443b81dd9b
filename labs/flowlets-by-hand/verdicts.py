"""What an item says: what was sent, what came, what would be right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from labs.grade import Detail, Finding

from .bed import Route


@dataclass(frozen=True)
class Claim:
    """One thing that was tried, in words."""

    sent: str
    expected: str
    came: str
    right: bool


@dataclass(frozen=True)
class Ways:
    """By which ways the packets of several flows went: a row a flow."""

    rows: Sequence[Sequence[Route]]

    @property
    def whole(self) -> bool:
        """Say whether each packet left, by an uplink."""
        return all(isinstance(route, int) for row in self.rows for route in row)

    @property
    def moved(self) -> int:
        """How many flows did not keep one way."""
        return sum(len(set(row)) > 1 for row in self.rows)

    @property
    def kept(self) -> bool:
        """Say whether each packet left by its flow's one way."""
        return self.whole and not self.moved

    @property
    def words(self) -> str:
        """What came of them."""
        lost = [route for row in self.rows for route in row if not isinstance(route, int)]
        more = f", and {counted(lost)}" if lost else ""
        verb = "changes its way" if self.moved == 1 else "change their way"
        return f"{self.moved or 'none'} of {len(self.rows)} {verb}{more}"


def counted(routes: Sequence[Route]) -> str:
    """Say how many packets went which way."""
    counts = Counter(f"way {each}" if isinstance(each, int) else each for each in routes)
    return ", ".join(f"{many} x {name}" for name, many in sorted(counts.items())) or "none"


def plural(count: int, noun: str) -> str:
    """Count things."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def found(claims: Sequence[Claim], hint: str) -> Finding:
    """Return a finding; its reason is the first claim that failed, in a sentence."""
    details = [Detail(each.sent, each.expected, each.came, each.right) for each in claims]
    wrong = next((each for each in claims if not each.right), None)
    if wrong is None:
        return Finding(1.0, details=tuple(details))
    reason = f"{wrong.sent}: {wrong.came}; right would be: {wrong.expected}"
    return Finding.nothing(reason, hint, details)
