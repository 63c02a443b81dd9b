"""`weft agent`: what the kernel keeps of every queue pair of the running fabric, again and again.

It reads the maps that the host agent pinned, in the kernel's memory; where hosts have several
interfaces their endpoints are asked, too. So looking costs traffic nothing. `weft agent --restart`
compiles and loads the hosts' XDP program again: state is pinned, and the program changes between
two packets.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from emulation import fabric_record, run_state
from emulation.errors import EmulationError
from emulation.fabric_record import FabricRecord, NoRunError
from emulation.host_agent import LOG, host_interfaces
from hostagent import agent, pins
from hostagent.pinned_maps import MapsError, PinnedMaps
from observe import agent_rows, notification_rows
from observe.agent_look import Look, cards_of, look_json, title
from observe.errors import UsageError
from observe.interval import interval_seconds
from weft import console
from weft.command_line import argument, command, flag, option

_FOOT = "Ctrl-C ends"


class AgentCommandError(EmulationError):
    """The host agent's part of the run is not as it should be."""


@command("""
    examples:
      sudo weft agent                  all queue pairs, until Ctrl-C
      sudo weft agent h1 --once --json
      sudo weft agent --notifications  the notifications that hosts received from switches
      sudo weft agent --restart        reload the program; state and traffic survive
    """)
@argument("only", nargs=-1, metavar="[HOST]...", help="hosts; default: all")
@option("--interval", default="1s", metavar="T", help="time between updates (default)")
@flag("--once", help="print one reading and exit")
@flag("--json", "as_json", help="print each reading as one line of JSON")
@flag("--notifications", help="show the switches' notifications that hosts hold, instead")
@flag("--restart", help="compile and load the program again, then exit")
def run(
    only: tuple[str, ...],
    interval: str,
    once: bool,
    as_json: bool,
    notifications: bool,
    restart: bool,
) -> int:
    """Show queue pairs until Ctrl-C or the end of the run; return the exit code.

    Raises NoRunError, AgentCommandError, UsageError for hosts that the topology does not have.
    """
    seconds = interval_seconds(interval)
    record = fabric_record.running()
    if os.geteuid() != 0:
        raise AgentCommandError("eBPF maps are root's", "run as root: sudo weft agent")
    if restart:
        return _restart(record)
    names = agent_rows.names_of(record.topology)
    for name in only:
        if name not in names.hosts:
            there = ", ".join(names.hosts)
            raise UsageError(f"{record.topology.name} has no host {name!r}; available: {there}")
    try:
        maps = PinnedMaps.open(pins.pins_of(record.run))
    except MapsError as error:
        raise AgentCommandError(f"run {record.run} has no host agent: {error}") from None
    view = _View(record, maps, only, seconds, notifications)
    try:
        if as_json:
            ended = view.repeat(once, view.print_json)
        elif once or not sys.stdout.isatty():
            ended = view.repeat(once, view.print_plain)
        else:
            ended = _live(view)
    except KeyboardInterrupt:
        return 0
    finally:
        maps.close()
    if ended:
        console.notice(ended)
    return 0


def _restart(record: FabricRecord) -> int:
    """Load and attach again. What is attached goes on until it is replaced."""
    started = time.monotonic()
    where = pins.pins_of(record.run)
    log = run_state.log_root() / record.run / LOG
    report = agent.run(where, host_interfaces(record), log if log.parent.is_dir() else None)
    if report.error is not None:
        whole = f"the whole log: {report.log}" if report.log else ""
        kept = "; what was loaded before goes on" if where.is_dir() else ""
        raise AgentCommandError(f"{report.error}{kept}", whole)
    with_pairs = PinnedMaps.open(where)
    pairs = agent_rows.pairs(with_pairs.slots())
    with_pairs.close()
    native = sum(each.native for each in report.attached)
    print(
        f"compiled, loaded and put in place on {len(report.attached)} interfaces ({native} native) "
        f"in {time.monotonic() - started:.1f} s; {pairs} queue pairs kept"
    )
    return 0


class _View:
    """Looks, one after the other, and ways of showing them."""

    def __init__(
        self,
        record: FabricRecord,
        maps: PinnedMaps,
        only: Sequence[str],
        interval: float,
        notifications: bool = False,
    ) -> None:
        self.record = record
        self._maps = maps
        self._only = only
        self._interval = interval
        self._of_notifications = notifications
        self._before: Look | None = None
        self.names = agent_rows.names_of(record.topology)

    def look(self) -> Look:
        """Read all slots and counters now."""
        hosts = {self.names.hosts[name] for name in self._only}
        slots = tuple(
            slot
            for slot in agent_rows.ordered(self._maps.slots())
            if not hosts or self.names.host_of(slot.local_ip) in hosts
        )
        heard = tuple(
            each
            for each in notification_rows.ordered(list(self._maps.notifications()))
            if not hosts or self.names.host_of(each.local_ip) in hosts
        )
        now = time.monotonic_ns()
        look = Look(
            *(self.record, time.time(), now, slots, self._maps.counters(), {}, heard),
            self._maps.notification_counts(),
            cards_of(self.record),
        )
        before, rates = self._before, {}
        if before is not None:
            had = {(slot.local_ip, slot.qpn): slot.packets for slot in before.slots}
            seconds = (now - before.now_ns) / 1e9
            for slot in slots:
                key = (slot.local_ip, slot.qpn)
                if key in had and slot.packets >= had[key]:
                    rates[key] = (slot.packets - had[key]) / seconds
        self._before = replace(look, packets_ps=rates)
        return self._before

    def repeat(self, once: bool, show: Callable[[Look], None]) -> str:
        """Read every interval and show the rows. Returns why it ended, empty for `once`."""
        if once:
            show(self.look())
            return ""
        run = self.record.run
        due = time.monotonic()
        while True:
            try:
                if fabric_record.running_run() != run:
                    return f"run {run} has ended; another one is up"
            except NoRunError:
                return f"run {run} has ended"
            show(self.look())
            due = max(due + self._interval, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))

    def print_json(self, look: Look) -> None:
        """Print one object in a line.

        Rates are per real second; times `time_scale`: the fabric's.
        """
        print(json.dumps(look_json(look, self.names), separators=(",", ":")), flush=True)

    def print_plain(self, look: Look) -> None:
        """Print a table."""
        print(f"{time.strftime('%H:%M:%S', time.localtime(look.at))}  {title(look)}")
        if self._of_notifications:
            held = self._notifications(look)
            if held:
                console.table(notification_rows.COLUMNS, held, right=notification_rows.right())
            print("\n".join(self._foot(look, len(held))))
            sys.stdout.flush()
            return
        rows = self._cells(look)
        if rows:
            columns = agent_rows.columns_for(rows)
            places = [agent_rows.COLUMNS.index(name) for name in columns]
            shown = [[row[place] for place in places] for row in rows]
            console.table(columns, shown, right=columns[4:])
        print("\n".join(self._foot(look, len(rows))))
        sys.stdout.flush()

    def _cells(self, look: Look) -> list[list[str]]:
        scale = self.record.topology.time_scale
        return [
            agent_rows.cells(
                slot,
                self.names,
                scale,
                look.now_ns,
                look.packets_ps.get((slot.local_ip, slot.qpn), 0.0),
                look.card(slot),
            )
            for slot in look.slots
        ]

    def _notifications(self, look: Look) -> list[list[str]]:
        topology = self.record.topology
        return [
            notification_rows.cells(each, self.names, topology, look.now_ns)
            for each in look.notifications
        ]

    def _foot(self, look: Look, shown: int) -> list[str]:
        """Return the lines below the table."""
        counts = notification_rows.counts_text(look.notification_counts)
        if self._of_notifications:
            plural = "" if shown == 1 else "s"
            held = f"{shown or 'no'} notification{plural} held"
            return [held, *filter(None, [counts])]
        if look.notifications:
            counts += "; weft agent --notifications shows them"
        pairs = agent_rows.pairs(look.slots)
        return [agent_rows.counters_text(look.counters, pairs), *filter(None, [counts])]

    def picture(self, look: Look, width: int, height: int) -> RenderableType:
        """Return what a terminal of this size shows; rows that don't fit are counted."""
        if self._of_notifications:
            cells, what = self._notifications(look), "notifications"
        else:
            cells = self._cells(look)
            what = "rows" if any(each.planes for each in look.slots) else "queue pairs"
        foot = self._foot(look, len(cells))
        room = max(1, height - 5 - len(foot))
        text = Text(no_wrap=True, overflow="crop")
        text.append(f"{title(look)}\n", "bold")
        if self._of_notifications:
            headings, lines = notification_rows.lines(cells[:room])
            styles = ["dim" if row[-1] == "expired" else "" for row in cells]
        else:
            headings, lines = agent_rows.aligned(cells[:room], width)
            styles = [agent_rows.style(slot, look.now_ns) for slot in look.slots]
        text.append(f"{headings}\n{'─' * len(headings)}\n", "bold")
        for style, line in zip(styles, lines, strict=False):
            text.append(f"{line}\n", style)
        if len(cells) > room:
            more = len(cells) - room
            text.append(f"{more} more {what}: a larger window, or weft agent HOST\n", "dim")
        text.append("".join(f"{line}\n" for line in foot))
        text.append(_FOOT, "dim")
        return Group(text)


def _live(view: _View) -> str:
    """Show the view in place on a terminal."""
    screen = console.screen()
    with Live(
        view.picture(view.look(), screen.width, screen.height),
        console=screen,
        auto_refresh=False,
        screen=True,
        vertical_overflow="crop",
    ) as live:

        def show(look: Look) -> None:
            live.update(view.picture(look, screen.width, screen.height), refresh=True)

        return view.repeat(False, show)
