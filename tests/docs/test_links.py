"""The documentation's index is complete, and its links lead somewhere."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from observe import errors

ROOT = Path(errors.__file__).resolve().parent.parent
INDEX = ROOT / "docs" / "README.md"
PAGES = sorted(
    [
        ROOT / "README.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "labs").glob("*.md"),
        *(ROOT / "labs").glob("*/README.md"),
    ]
)

_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"^ {4}.*$", re.MULTILINE)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


def links(text: str) -> list[str]:
    """Return the targets of a page's links that lead to files or headings of this repository."""
    # Code holds things that look like links: `x[0](y)`.
    for code in (_FENCED, _INDENTED):
        text = code.sub("", text)
    text = _CODE.sub("code", text)
    return [each for each in _LINK.findall(text) if not re.match(r"[a-z]+:", each)]


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    found: dict[str, int] = {}
    made = set()
    for heading in _HEADING.findall(_FENCED.sub("", page.read_text())):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        count = found.get(anchor, 0)
        found[anchor] = count + 1
        made.add(f"{anchor}-{count}" if count else anchor)
    return frozenset(made)


def broken(page: Path, text: str) -> list[str]:
    """Return the links of a page's text that lead nowhere."""
    found = []
    for link in links(text):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (
            anchor and target.suffix == ".md" and anchor not in anchors(target)
        ):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    wrong = broken(page, page.read_text())
    assert not wrong, f"{page.relative_to(ROOT)} links to {', '.join(wrong)}"


def test_broken_links_are_found() -> None:
    text = "[a](nowhere.md) [b](install.md#nothing) [c](install.md) [d](https://example.org)\n"
    text += "`x[0](y)`\n\n    z[0](y)\n"
    assert broken(INDEX, text) == ["nowhere.md", "install.md#nothing"]


def test_every_page_is_in_the_index() -> None:
    linked = {
        (INDEX.parent / link.partition("#")[0]).resolve() for link in links(INDEX.read_text())
    }
    wanted = {*(ROOT / "docs").glob("*.md"), *(ROOT / "labs").glob("*.md")} - {INDEX}
    missing = sorted(str(page.relative_to(ROOT)) for page in wanted - linked)
    assert not missing, f"docs/README.md, the index by reader, has no line for {', '.join(missing)}"
