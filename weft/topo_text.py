"""A topology in a terminal: tiers in rows with every link drawn, or a summary where it is large.

Links are drawn in dots of Braille characters (2 x 4 a character), so that crossing ones can be told
apart. A terminal without UTF-8, and a fabric wider than the terminal, get the summary.
"""

from __future__ import annotations

import itertools
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from topologies.layout import Layout, place, row_title
from topologies.oversubscription import tiers
from topologies.planes import planes_of
from topologies.units import format_duration, format_rate, format_size
from weft import console

if TYPE_CHECKING:
    from topologies import Link, Topology

PIPED_COLUMNS = 100
COMFORTABLE_COLUMNS = 60  # for a drawing that could be narrower
GAP_LINES = 4  # between two tiers
ARC_LINES = 2  # above a tier whose switches have links among themselves
MAX_DRAWN_LINKS = 160
_BRAILLE = 0x2800
_DOT_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_SWITCH_STYLE, _HOST_STYLE, _LINK_STYLE = "1;36", "32", "2"


def print_drawing(topology: Topology) -> None:
    """Print what a topology looks like, what its links are and how oversubscribed it is."""
    print(f"{topology.name}: {topology.description or 'no description'}")
    print(f"rates and times are the fabric's; time_scale {topology.time_scale}")
    print()
    for line in lines(topology, _columns(), _has_utf8(), coloured=console.is_coloured(sys.stdout)):
        print(line)
    print()
    for line in summary_of_links(topology):
        print(line)


def _columns() -> int:
    return (
        shutil.get_terminal_size((PIPED_COLUMNS, 24)).columns if _is_terminal() else PIPED_COLUMNS
    )


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _has_utf8() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def lines(
    topology: Topology, columns: int, utf8: bool = True, *, coloured: bool = False
) -> Iterator[str]:
    """Yield the lines of the drawing, no longer than `columns`, or of the summary of tiers."""
    layout = place(topology)
    scale = _scale(layout)
    margin = 2 + max(len(_title(topology, layout.in_row(row))) for row in layout.rows)
    fits = margin + layout.width * scale + 2 <= columns
    if utf8 and fits and len(topology.links) <= MAX_DRAWN_LINKS:
        room = (columns - margin - 2) / max(1.0, layout.width)
        wanted = max(scale * 1.6, COMFORTABLE_COLUMNS / max(1.0, layout.width))
        yield from _Canvas(topology, layout, min(room, wanted), margin, coloured).lines()
    else:
        yield from _tier_lines(topology, layout)


def _scale(layout: Layout) -> float:
    """Return how many columns a slot needs, so that no two labels of a row touch."""
    needed = 3.0
    for row in layout.rows:
        names = layout.in_row(row)
        for left, right in itertools.pairwise(names):
            apart = layout.places[right].x - layout.places[left].x
            needed = max(needed, ((len(left) + len(right)) / 2 + 1.5) / apart)
    return needed


def _title(topology: Topology, names: Sequence[str]) -> str:
    return row_title(topology, names)


class _Canvas:
    """Characters and dots; labels win over dots."""

    def __init__(
        self, topology: Topology, layout: Layout, scale: float, margin: int, coloured: bool
    ) -> None:
        self.topology = topology
        self.layout = layout
        self.scale = scale
        self.margin = margin
        self.coloured = coloured
        self.dots: dict[tuple[int, int], int] = {}
        self.text: dict[tuple[int, int], tuple[str, str]] = {}
        self.line_of_row: dict[int, int] = {}
        line = 0
        for row in layout.rows:
            line += self._arc_lines(row)
            self.line_of_row[row] = line
            line += 1 + GAP_LINES
        self.height = line - GAP_LINES

    def _arc_lines(self, row: int) -> int:
        return ARC_LINES if any(self._is_arc(link, row) for link in self.topology.links) else 0

    def _is_arc(self, link: Link, row: int) -> bool:
        a, b = self.layout.places[link.a.node], self.layout.places[link.b.node]
        return a.row == b.row == row and self._nodes_between(link) > 0

    def _nodes_between(self, link: Link) -> int:
        names = self.layout.in_row(self.layout.places[link.a.node].row)
        return abs(names.index(link.a.node) - names.index(link.b.node)) - 1

    def lines(self) -> Iterator[str]:
        for row in self.layout.rows:
            names = self.layout.in_row(row)
            self._write(self.line_of_row[row], 0, _title(self.topology, names), _LINK_STYLE)
        for link in self.topology.links:
            self._link(link)
        for name, where in self.layout.places.items():
            style = _SWITCH_STYLE if self.topology.is_switch(name) else _HOST_STYLE
            column = round(self._column(where.x) - len(name) / 2)
            self._write(self.line_of_row[where.row], column, name, style)
        for line in range(self.height):
            yield self._line(line)

    def _column(self, x: float) -> float:
        return self.margin + x * self.scale

    def _write(self, line: int, column: int, text: str, style: str) -> None:
        for i, character in enumerate(text):
            self.text[line, column + i] = (character, style)

    def _link(self, link: Link) -> None:
        a, b = self.layout.places[link.a.node], self.layout.places[link.b.node]
        if a.row < b.row:
            a, b = b, a
        left, right = self._column(a.x) * 2, self._column(b.x) * 2
        top, bottom = self.line_of_row[a.row], self.line_of_row[b.row]
        if a.row != b.row:
            self._segment(left, (top + 1) * 4, right, bottom * 4 - 1)
        elif self._nodes_between(link) == 0:
            self._segment(left, top * 4 + 1, right, top * 4 + 1)
        else:
            # Two slopes and a flat middle, above the nodes in between.
            high = top * 4 - ARC_LINES * 4
            left, right = min(left, right), max(left, right)
            edge = min(8.0, (right - left) / 4)
            self._segment(left, top * 4 - 1, left + edge, high)
            self._segment(left + edge, high, right - edge, high)
            self._segment(right - edge, high, right, top * 4 - 1)

    def _segment(self, x0: float, y0: float, x1: float, y1: float) -> None:
        steps = int(max(abs(x1 - x0), abs(y1 - y0), 1))
        for i in range(steps + 1):
            x, y = round(x0 + (x1 - x0) * i / steps), round(y0 + (y1 - y0) * i / steps)
            cell = (y // 4, x // 2)
            self.dots[cell] = self.dots.get(cell, 0) | _DOT_BITS[x % 2][y % 4]

    def _line(self, line: int) -> str:
        cells = {column for at, column in (*self.text, *self.dots) if at == line}
        result: list[str] = []
        style = ""
        for column in range(max(cells, default=-1) + 1):
            if (line, column) in self.text:
                character, wanted = self.text[line, column]
            elif (line, column) in self.dots:
                character, wanted = chr(_BRAILLE + self.dots[line, column]), _LINK_STYLE
            else:
                character, wanted = " ", style
            if self.coloured and wanted != style:
                result.append(f"\033[0;{wanted}m")
                style = wanted
            result.append(character)
        return "".join(result) + ("\033[0m" if style else "")


def _tier_lines(topology: Topology, layout: Layout) -> Iterator[str]:
    """Yield one line a tier, and between two tiers how many links join them."""
    titles = {row: f"{len(layout.in_row(row))} {_title(topology, layout.in_row(row))}"
              for row in layout.rows}  # fmt: skip
    width = max(len(title) for title in titles.values())
    between: dict[tuple[int, int], int] = {}
    for link in topology.links:
        rows = sorted((layout.places[link.a.node].row, layout.places[link.b.node].row))
        between[rows[0], rows[1]] = between.get((rows[0], rows[1]), 0) + 1
    for i, row in enumerate(layout.rows):
        names = layout.in_row(row)
        shown = ", ".join(names) if len(names) <= 8 else f"{names[0]} ... {names[-1]}"
        groups = _groups(topology, names)
        yield f"  {titles[row]:>{width}}  {shown}{groups}"
        among = between.get((row, row), 0)
        if among:
            yield f"  {'':>{width}}  | {among} links among them"
        if i + 1 < len(layout.rows):
            below = layout.rows[i + 1]
            yield f"  {'':>{width}}  | {between.get((below, row), 0)} links"


def _groups(topology: Topology, names: Sequence[str]) -> str:
    nodes = (topology.switch(n) if topology.is_switch(n) else topology.host(n) for n in names)
    groups = list(dict.fromkeys(node.group for node in nodes if node.group))
    if not groups:
        return ""
    return f"  (in {groups[0]})" if len(groups) == 1 else f"  (in {groups[0]} ... {groups[-1]})"


def summary_of_links(topology: Topology) -> Iterator[str]:
    """Yield a line a kind of link, then the oversubscription of each tier."""
    kinds: dict[str, int] = {}
    for link in topology.links:
        text = (
            f"{format_rate(link.rate_bps)}, {format_duration(link.delay_ps)}, "
            f"queue {format_size(link.queue_bytes)}, MTU {link.mtu_bytes} B"
        )
        what = " - ".join(sorted((_what(topology, link.a.node), _what(topology, link.b.node))))
        kinds[f"{what}: {text}"] = kinds.get(f"{what}: {text}", 0) + 1
    width = max((len(str(count)) for count in kinds.values()), default=1)
    for kind, count in kinds.items():
        yield f"  {count:>{width}} x {kind}"
    ratios = ", ".join(str(tier) for tier in tiers(topology))
    if ratios:
        yield f"oversubscription (links down : links up): {ratios}"
    planes = planes_of(topology)
    if planes.planes:
        sizes = ", ".join(f"{plane.name} ({len(plane.switches)})" for plane in planes.planes)
        how = "only hosts are in several" if planes.are_separate else "not separate: see topo check"
        yield f"planes (switches of each alone): {sizes}; {how}"


def _what(topology: Topology, node: str) -> str:
    return topology.switch(node).role.value if topology.is_switch(node) else "host"
