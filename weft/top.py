"""`weft top`: what every port of the running fabric carries, again and again."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from emulation.fabric_record import NoRunError
from mechanisms.registry import all_counters
from observe import top_rows
from observe.errors import UsageError
from observe.follow import Follower, Moment
from observe.interval import interval_seconds
from observe.moment_json import moment_json
from observe.samples import PortRates, SwitchRates
from observe.top_rows import AnyOrder, Order, PortRow, order_name, order_of
from weft import console, top_hops
from weft.command_line import argument, as_json, command, flag, option

PS_PER_S = 1_000_000_000_000
# So that columns stay where they are while figures grow.
LEAST_WIDTHS = {"rx b/s": 7, "tx b/s": 7, "rx p/s": 7, "tx p/s": 7, "load": 5, "queue": 10} | {
    "max": 7, "drops": 11, "marks": 12,
}  # fmt: skip
# What a narrow terminal is not shown, in this order.
LEFT_OUT = ("max", "rx p/s", "tx p/s", "rx b/s", "tx b/s", "marks")  # then counters
_COUNTER_WIDTH = 12
_BUSY = 0.5
_FULL = 0.9


@command("""
    examples:
      weft top                      all ports, each second, until Ctrl-C
      weft top s1 h3 --sort load    the ports of s1 and those to h3, the busiest first
      weft top --once --json        one reading, for a program
      sudo weft top --hops h1       flows of h1 hop by hop: queues and latencies on their paths
    """)
@argument("only", nargs=-1, metavar="[WHERE]...",
          help="switches, hosts or ports (s1:3); default: all")  # fmt: skip
@option("--interval", default="1s", metavar="T", help="time between updates (default)")
@flag("--once", help="print one reading after one interval and exit")
@option("--sort", default="name", metavar="SORT",
        help="column to sort the ports by, highest first (default)")  # fmt: skip
@flag("--hops", help="flows hop by hop, where packets collect what they meet (root)")
@as_json
def run(
    only: tuple[str, ...], interval: str, once: bool, sort: str, hops: bool, as_json: bool
) -> int:
    """Show rates until Ctrl-C or the end of the run; return the exit code.

    Raises NoRunError when nothing runs, UsageError for arguments that don't fit the topology.
    """
    seconds = interval_seconds(interval)
    order = order_of(sort)
    if hops and order is not Order.NAME:
        raise UsageError("top --hops: --sort orders ports; hops stand by flow, in their order")
    with Follower() as follower:
        first = follower.look()
        top_rows.port_rows(first, only)
        try:
            if as_json:
                ended = _repeat(follower, first, seconds, once, _print_json)
            elif once or not sys.stdout.isatty():

                def show(moment: Moment) -> None:
                    if hops:
                        _print_hops(moment, only)
                    else:
                        _print_plain(moment, only, order)

                ended = _repeat(follower, first, seconds, once, show)
            elif hops:
                ended = _live(
                    follower, first, seconds, lambda moment, _, __: _hops_text(moment, only)
                )
            else:

                def draw(moment: Moment, width: int, height: int) -> RenderableType:
                    return picture(moment, only, order, width, height)

                ended = _live(follower, first, seconds, draw)
        except KeyboardInterrupt:
            return 0
    if ended:
        console.notice(ended)
    return 0


def _repeat(
    follower: Follower,
    first: Moment,
    interval: float,
    once: bool,
    show: Callable[[Moment], None],
) -> str:
    """Read every `interval` and show the rows. Returns why it ended, empty for `once`."""
    run = first.record.run
    due = time.monotonic()
    while True:
        due = max(due + interval, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            moment = follower.look()
        except NoRunError:
            return f"run {run} has ended"
        if moment.record.run != run:
            return f"run {run} has ended; another one is up: {moment.record.run}"
        show(moment)
        if once:
            return ""


def _print_json(moment: Moment) -> None:
    print(json.dumps(moment_json(moment), separators=(",", ":")), flush=True)


def _print_plain(moment: Moment, only: Sequence[str], order: AnyOrder) -> None:
    topology = moment.record.topology
    rows = top_rows.port_rows(moment, only, order)
    columns = top_rows.columns(topology)
    print(f"{time.strftime('%H:%M:%S', time.localtime(moment.at))}  {title(moment)}")
    console.table(columns, [top_rows.cells(row, topology) for row in rows], right=columns[2:])
    for line in switch_lines(moment, rows, only):
        print(line)
    sys.stdout.flush()


def title(moment: Moment) -> str:
    """Say which run this is and what its numbers hold for."""
    record = moment.record
    text = f"{record.topology.name}, run {record.run}; runtime {record.runtime}, real time; "
    text += f"time_scale {record.topology.time_scale}"
    if not moment.rates:
        text += "; rates come with the second look"
    return text


def switch_lines(moment: Moment, rows: list[PortRow], only: Sequence[str]) -> list[str]:
    """Return a line for each switch with something to report beyond its ports."""
    lines = []
    for name in top_rows.switches_of(rows, moment, only):
        sample = moment.sample[name]
        if sample.error:
            lines.append(f"{name}: can't be read: {sample.error}")
        elif drops := top_rows.drops_text(sample, moment.rates.get(name, SwitchRates())):
            lines.append(f"{name}: dropped inside: {drops}")
    return lines


def _print_hops(moment: Moment, only: Sequence[str]) -> None:
    rows = top_hops.hop_rows(moment, only)
    print(f"{time.strftime('%H:%M:%S', time.localtime(moment.at))}  {title(moment)}")
    if rows:
        right = top_hops.COLUMNS[top_hops.TEXTS :]
        console.table(top_hops.COLUMNS, [top_hops.cells(row) for row in rows], right=right)
    for line in top_hops.notes(moment, rows):
        print(line)
    sys.stdout.flush()


def _hops_text(moment: Moment, only: Sequence[str]) -> RenderableType:
    """Return what a terminal shows of hops."""
    rows = top_hops.hop_rows(moment, only)
    cells = [top_hops.COLUMNS, *(top_hops.cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    text = Text(no_wrap=True, overflow="crop")
    text.append(f"{title(moment)}\n", "bold")
    for number, line in enumerate(cells if rows else []):
        padded = (
            f" {cell:<{wide}} " if index < top_hops.TEXTS else f" {cell:>{wide}} "
            for index, (cell, wide) in enumerate(zip(line, widths, strict=True))
        )
        text.append("".join(padded) + "\n", None if number else "bold")
    for note in top_hops.notes(moment, rows):
        text.append(f"{note}\n", "red" if moment.hops.problem else None)
    text.append("latencies are the fabric's; Ctrl-C ends", "dim")
    return Group(text)


def _live(
    follower: Follower,
    first: Moment,
    interval: float,
    draw: Callable[[Moment, int, int], RenderableType],
) -> str:
    """Show the table in place on a terminal."""
    screen = console.screen()
    with Live(
        draw(first, screen.width, screen.height),
        console=screen,
        auto_refresh=False,
        screen=True,
        vertical_overflow="crop",
    ) as live:

        def show(moment: Moment) -> None:
            live.update(draw(moment, screen.width, screen.height), refresh=True)

        return _repeat(follower, first, interval, False, show)


def picture(
    moment: Moment, only: Sequence[str], order: AnyOrder, width: int, height: int
) -> RenderableType:
    """Return what a terminal of this size shows; ports that don't fit are counted.

    Columns are put together here: rich's tables take some ten times as long, each second.
    """
    topology = moment.record.topology
    rows = top_rows.port_rows(moment, only, order)
    notes = switch_lines(moment, rows, only)
    room = max(1, height - len(notes) - 5)  # title, headings, a line, what is hidden, the foot
    names = top_rows.columns(topology)
    cells = [top_rows.cells(row, topology) for row in rows[:room]]
    least = LEAST_WIDTHS | {each.title: _COUNTER_WIDTH for each in all_counters()}
    widths = [
        max(least.get(column[0], 0), *map(len, column))
        for column in zip(names, *cells, strict=True)
    ]

    shown = set(names)
    for name in (*LEFT_OUT, *(each.title for each in all_counters())):
        if sum(wide + 2 for of, wide in zip(names, widths, strict=True) if of in shown) > width:
            shown.discard(name)

    def line(of: list[str]) -> list[str]:
        """Pad the first two columns at the right, figures at the left."""
        return [
            f" {cell:<{wide}} " if index < 2 else f" {cell:>{wide}} "
            for index, (cell, wide) in enumerate(zip(of, widths, strict=True))
        ]

    text = Text(no_wrap=True, overflow="crop")
    text.append(f"{title(moment)}\n", "bold")
    headings = "".join(
        padded for name, padded in zip(names, line(names), strict=True) if name in shown
    )
    text.append(f"{headings}\n{'─' * len(headings)}\n", "bold")
    for row, of in zip(rows, cells, strict=False):
        styles = _styles(row)
        for name, cell, padded in zip(names, of, line(of), strict=True):
            if name in shown:
                text.append(padded, styles.get(name, "dim" if cell == "-" else None))
        text.append("\n")
    if len(rows) > room:
        hidden = len(rows) - room
        text.append(f"{hidden} more ports: a larger window, --sort, or weft top SWITCH\n", "dim")
    for note in notes:
        text.append(f"{note}\n", "red")
    text.append(f"sorted by {order_name(order)}; Ctrl-C ends", "dim")
    return Group(text)  # alone it would lose that its lines are not wrapped


def _styles(row: PortRow) -> dict[str, str]:
    styles = {"load": _load_style(row.rates)}
    if row.rates.drops_ps:
        styles["drops"] = "bold red"
    if row.rates.marks_ps:
        styles["marks"] = "yellow"
    for counter in all_counters():
        if row.rates.per_second(counter):
            styles[counter.title] = "yellow"
    if row.sample.up is False:
        styles["to"] = "bold red"
    if row.sample.queue_bytes:
        styles["queue"] = "yellow"
    return styles


def _load_style(rates: PortRates) -> str:
    if rates.load >= _FULL:
        return "bold red"
    if rates.load >= _BUSY:
        return "yellow"
    return "green" if rates.load else "dim"
