"""What a source does by the lab's text, in Python and a doubling at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

from .source import Word


@dataclass
class Model:
    """A source that remembers every queue's last word."""

    line: int
    words: dict[int, Word] = field(default_factory=dict)

    def rate(self, now: int) -> int:
        """Return how fast it sends, in bits/s."""
        standing = [word.rate for word in self.words.values() if word.until > now]
        if standing:
            return min(standing)
        if not self.words:
            return self.line
        last = min(self.words.values(), key=lambda word: (-word.until, word.rate))
        rate, at = last.rate, last.until + last.stands
        while at <= now and rate < self.line:
            rate, at = rate * 2, at + last.stands
        return min(rate, self.line)
