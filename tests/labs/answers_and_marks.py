"""What the tests of graded labs have in common: answers with a mistake, and what they earn."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.grade import Graded


def rewritten(reference: str, *changes: tuple[str, str]) -> str:
    """Return the reference with other code in some places; each place is there exactly once."""
    text = reference
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def earned(items: Mapping[str, Graded]) -> dict[str, int]:
    """Return the marks of each item."""
    return {name: item.earned for name, item in items.items()}


def lost(items: Mapping[str, Graded]) -> set[str]:
    """Return the items that did not get all their marks."""
    return {name for name, item in items.items() if item.earned < item.marks}


def assert_loses(items: Mapping[str, Graded], loses: set[str], item: str, words: str) -> None:
    """Check that these items and no others lose marks, with hints.

    `item` gives `words` as reason.
    """
    assert lost(items) == loses
    assert all(items[each].finding.hint for each in loses)
    finding = items[item].finding
    rows = " ".join(f"{row.what}: {row.came}" for row in finding.details if not row.right)
    assert words in f"{finding.reason} {rows}"
