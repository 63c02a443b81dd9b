"""A topology as a picture: tiers in rows, links coloured by rate, what is oversubscribed said."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib import pyplot
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from experiments.drawing import use_no_screen
from topologies.layout import Layout, Place, place, row_title
from topologies.model import PS_PER_METRE
from topologies.oversubscription import tiers
from topologies.units import format_duration, format_length, format_rate

if TYPE_CHECKING:
    from topologies import Link, Topology

ROW_HEIGHT = 1.6  # inches between tiers, at least
SLOT_WIDTH = 0.62  # inches a host, where there is room
MIN_WIDTH, MAX_WIDTH = 7.0, 26.0
WIDEST = 3.2  # width over height
LETTER_WIDTH = 0.085  # inches; nodes closer than their names are drawn without them
LONG_LINK_PS = 10**7  # 10 us, 2 km: such a link is drawn dashed and says how long it is
SWITCH_COLOURS = {
    "leaf": "#2a6f97",
    "spine": "#01497c",
    "core": "#012a4a",
    "border": "#7b2d26",
}
HOST_COLOUR = "#52796f"
# From slow to fast; colour-blind readers tell these apart (Okabe and Ito).
RATE_COLOURS = ("#999999", "#56b4e9", "#009e73", "#e69f00", "#d55e00", "#cc79a7")


def draw(topology: Topology, paths: list[Path]) -> None:
    """Write the picture to each path, in the format that its ending names (.png, .svg, .pdf).

    The same topology gives the same file. Raises OSError where a file can't be written.
    """
    use_no_screen()
    mpl.rcParams["svg.hashsalt"] = "weft"
    mpl.rcParams["svg.fonttype"] = "none"  # text stays text: to search, and a third of the size
    layout = place(topology)
    width = min(MAX_WIDTH, max(MIN_WIDTH, (layout.width + 3) * SLOT_WIDTH))
    row_height = max(ROW_HEIGHT, width / WIDEST / len(layout.rows))
    figure, axes = pyplot.subplots(figsize=(width, 1.7 + row_height * (len(layout.rows) - 0.4)))
    try:
        _Painter(topology, layout, axes, width, row_height).paint()
        for path in paths:
            metadata = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, dpi=150, bbox_inches="tight", metadata=metadata)
    finally:
        pyplot.close(figure)


class _Painter:
    def __init__(
        self, topology: Topology, layout: Layout, axes: Any, width: float, row_height: float
    ) -> None:
        self.topology = topology
        self.layout = layout
        self.axes = axes
        self.row_height = row_height
        self.slot_inches = width / (layout.width + 3)
        self.named_rows = {row for row in layout.rows if self._has_room(layout.in_row(row))}
        self.long_links: dict[tuple[int, frozenset[int]], list[Link]] = {}
        for link in topology.links:
            self.long_links.setdefault(self._kind(link), []).append(link)
        rates = sorted({link.rate_bps for link in topology.links})
        spread = max(1, len(RATE_COLOURS) - len(rates) + 1)
        first = 1 if spread > 1 else 0
        self.colours = {
            rate: RATE_COLOURS[min(first + i, len(RATE_COLOURS) - 1)]
            for i, rate in enumerate(rates)
        }

    def paint(self) -> None:
        self._boxes()
        for link in self.topology.links:
            self._link(link)
        for name, where in self.layout.places.items():
            self._node(name, where)
        self._titles()
        self._legend()
        self.axes.set_xlim(-1.6, self.layout.width + 0.8)
        self.axes.set_ylim(min(self.layout.rows) - 0.45, max(self.layout.rows) + 0.45)
        self.axes.axis("off")

    def _has_room(self, names: list[str]) -> bool:
        xs = [self.layout.places[name].x for name in names]
        apart = min((b - a for a, b in itertools.pairwise(xs)), default=1.0)
        longest = max(len(name) for name in names) + 2
        return apart * self.slot_inches >= longest * LETTER_WIDTH

    def _boxes(self) -> None:
        for box in self.layout.boxes:
            pad = 0.3
            self.axes.add_patch(
                FancyBboxPatch(
                    (box.left + 0.1, box.bottom - pad),
                    box.right - box.left - 0.2,
                    box.top - box.bottom + 2 * pad,
                    boxstyle="round,pad=0,rounding_size=0.12",
                    facecolor="#f1f4f6",
                    edgecolor="#d5dce1",
                    linewidth=0.8,
                    zorder=0,
                )
            )
            # Where no link crosses the name: hosts have none below them, spines none above.
            on_top = box.bottom > 0
            self.axes.text(
                box.left + 0.25,
                box.top + pad - 0.05 if on_top else box.bottom - pad + 0.03,
                box.name,
                ha="left",
                va="top" if on_top else "bottom",
                fontsize=8,
                color="#7a8791",
                style="italic",
                zorder=1,
            )

    def _link(self, link: Link) -> None:
        a, b = self.layout.places[link.a.node], self.layout.places[link.b.node]
        is_long = link.delay_ps >= LONG_LINK_PS
        same_row = a.row == b.row
        bend = -0.25 if same_row and abs(a.x - b.x) > 1.01 else 0.0
        if a.x > b.x:
            bend = -bend
        crowd = len(self.topology.links)
        self.axes.add_patch(
            FancyArrowPatch(
                (a.x, a.row),
                (b.x, b.row),
                arrowstyle="-",
                connectionstyle=f"arc3,rad={bend + self._parallel_bend(link)}",
                color=self.colours[link.rate_bps],
                linewidth=1.6 if crowd < 100 else 0.8 if crowd < 1000 else 0.3,
                linestyle=(0, (5, 2)) if is_long else "solid",
                alpha=0.85 if crowd < 1000 else 0.5,
                shrinkA=0,
                shrinkB=0,
                zorder=2,
            )
        )
        alike = self.long_links[self._kind(link)] if is_long else []
        if alike and alike[0] is link:
            text = format_duration(link.delay_ps)
            if link.delay_ps % PS_PER_METRE == 0:
                text = f"{format_length(link.delay_ps // PS_PER_METRE)} ({text})"
            if len(alike) > 1:
                text = f"{len(alike)} x {text}"
            lift = abs(bend) * abs(a.x - b.x) * 0.5 * self.slot_inches / self.row_height
            self.axes.text(
                sum(self._middle(each) for each in alike) / len(alike),
                (a.row + b.row) / 2 + lift,
                text,
                ha="center",
                va="center",
                fontsize=8,
                zorder=5,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
            )

    def _middle(self, link: Link) -> float:
        places = self.layout.places
        return (places[link.a.node].x + places[link.b.node].x) / 2

    def _kind(self, link: Link) -> tuple[int, frozenset[int]]:
        """Return what long links have in common that one label serves: length and rows."""
        places = self.layout.places
        return link.delay_ps, frozenset((places[link.a.node].row, places[link.b.node].row))

    def _parallel_bend(self, link: Link) -> float:
        """Return how much to bend a link, so that several between two nodes do not hide."""
        nodes = {link.a.node, link.b.node}
        alike = [
            port.link
            for port in self.topology.ports_of(link.a.node)
            if {port.link.a.node, port.link.b.node} == nodes
        ]
        return (alike.index(link) - (len(alike) - 1) / 2) * 0.08

    def _node(self, name: str, place: Place) -> None:
        is_switch = self.topology.is_switch(name)
        role = self.topology.switch(name).role.value if is_switch else ""
        colour = SWITCH_COLOURS[role] if is_switch else HOST_COLOUR
        if place.row not in self.named_rows:
            marker = "s" if is_switch else "o"
            size = 5 if is_switch else 2.5
            self.axes.plot(place.x, place.row, marker, color=colour, ms=size, zorder=4)
            return
        self.axes.text(
            place.x,
            place.row,
            name,
            ha="center",
            va="center",
            fontsize=8.5,
            fontweight="bold" if is_switch else "normal",
            color="white" if is_switch else HOST_COLOUR,
            zorder=4,
            bbox={
                "boxstyle": "round,pad=0.35" if is_switch else "round,pad=0.22,rounding_size=0.6",
                "facecolor": colour if is_switch else "white",
                "edgecolor": colour,
                "linewidth": 1.0,
            },
        )

    def _titles(self) -> None:
        for row in self.layout.rows:
            names = self.layout.in_row(row)
            title = f"{len(names)} {row_title(self.topology, names)}"
            if len(names) == 1:
                title = f"1 {row_title(self.topology, names).replace('leaves', 'leaf').rstrip('s')}"
            self.axes.text(
                -0.75, row, title, ha="right", va="center", fontsize=8.5, color="#5c6770"
            )
        text = self.topology.name
        if self.topology.description:
            text += f": {self.topology.description}"
        self.axes.set_title(text, fontsize=11, loc="left", fontweight="bold", pad=10)

    def _legend(self) -> None:
        handles = []
        for rate, colour in self.colours.items():
            count = sum(link.rate_bps == rate for link in self.topology.links)
            label = f"{format_rate(rate)}  ({count} link{'s' if count != 1 else ''})"
            handles.append(Line2D([], [], color=colour, linewidth=2, label=label))
        ratios = ", ".join(str(tier) for tier in tiers(self.topology))
        text = f"time_scale {self.topology.time_scale}"
        if ratios:
            text = f"oversubscription: {ratios}; {text}"
        self.axes.legend(
            handles=handles,
            title=text,
            title_fontsize=8.5,
            fontsize=8.5,
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            ncols=max(1, min(len(handles), 4)),
            frameon=False,
        )
