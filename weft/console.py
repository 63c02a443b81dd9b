"""What a command says and how: results to stdout, progress and messages to stderr.

Colours only on a terminal (and never with $NO_COLOR). `rich` is imported when a table or
progress is drawn, so that commands which draw none start fast.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

PROGRESS_AFTER_S = 0.5
ESTIMATE_AFTER_S = 1.0
_REDRAW_S = 0.1


def is_coloured(stream: TextIO) -> bool:
    """Say whether a stream is a terminal that wants colours."""
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _styled(text: str, code: str, stream: TextIO) -> str:
    return f"\033[{code}m{text}\033[0m" if is_coloured(stream) else text


def error(message: str, remedy: str = "") -> None:
    """Print what is wrong, and what to do about it, to stderr."""
    print(f"{_styled('error:', '1;31', sys.stderr)} {message}", file=sys.stderr)
    if remedy:
        print(f"{_styled('remedy:', '1;36', sys.stderr)} {remedy}", file=sys.stderr)


def report(problem: Exception) -> None:
    """Print an error of ours to stderr, with its remedy if it has one."""
    message = str(problem) or type(problem).__name__
    if getattr(problem, "diagnostics", None):
        from compiler.quoted_source import with_source  # for an error alone

        print(with_source(message), file=sys.stderr)
    elif getattr(problem, "problems", None):
        print(message, file=sys.stderr)  # each says file, line and column, and what is wrong
    else:
        error(message, str(getattr(problem, "remedy", "")))


def severity(word: str) -> str:
    """Return the word of a finding's severity (error, warning, info) in its colour, for stdout."""
    codes = {"error": "1;31", "warning": "1;33", "info": "36"}
    return _styled(word, codes.get(word, "0"), sys.stdout)


def notice(message: str) -> None:
    """Print something worth knowing that is no error, to stderr."""
    print(_styled(message, "2", sys.stderr), file=sys.stderr)


@contextmanager
def progress(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Say what is going on while the block runs: live on a terminal, one line elsewhere.

    On a terminal, a step that is over at once leaves no trace but its time.
    """
    started = time.monotonic()
    done = threading.Event()
    drawer = threading.Thread(target=_draw, args=(what, done), daemon=True)
    live = not quiet and sys.stderr.isatty()
    if live:
        drawer.start()
    try:
        yield
    finally:
        done.set()
        if live:
            drawer.join()
    if not quiet:
        _took(what, started)


@contextmanager
def progress_bar(what: str, total: int, *, quiet: bool = False) -> Iterator[Callable[[], None]]:
    """Show a `progress` bar of `total` steps; yield the function to call after each step."""
    started = time.monotonic()
    done = 0
    with bar(quiet=quiet) as draw:

        def step() -> None:
            nonlocal done
            done += 1
            draw(done / max(total, 1), f"{done}/{total} {what}")

        yield step
    if not quiet:
        _took(what, started)


@contextmanager
def bar(
    *, quiet: bool = False, after_s: float = 0.0
) -> Iterator[Callable[[float | None, str], None]]:
    """Yield what draws a bar on a terminal's stderr: the share done, None if unknown, and a text.

    Behind the text it says how much time is left, from how fast the share grew of late.
    It draws once `after_s` are over, and leaves no trace; elsewhere, and if quiet, it does nothing.
    No thread draws, so that a caller may fork.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda share, text: None
        return
    from rich.progress import BarColumn, TextColumn  # late: see the top

    texts = TextColumn("{task.description}", markup=False), TextColumn("{task.elapsed:.0f} s")
    drawing = _drawing(BarColumn(), *texts, auto_refresh=False)
    task = drawing.add_task("", total=None)
    started, last = time.monotonic(), -math.inf
    left = TimeLeft()

    def draw(share: float | None, text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - started < after_s or now - last < _REDRAW_S:
            return
        last = now
        if share is None:
            drawing.update(task, description=text)
        else:
            seconds = left.after(now - started, share)
            rest = "" if seconds is None else f", {show_seconds(seconds)} left"
            text = f"{share:4.0%} {text}{rest}"
            drawing.update(task, total=1.0, completed=share, description=text)
        drawing.start()
        drawing.refresh()

    try:
        yield draw
    finally:
        drawing.stop()


class TimeLeft:
    """How long something takes that is not equally fast all the time.

    The latest third of the time so far says how fast it is, so that an estimate follows a phase
    that is slower than those before it and still does not jump with each step.
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque([(0.0, 0.0)])

    def after(self, elapsed_s: float, share: float) -> float | None:
        """Return the seconds left; None where it is too early to say, or nothing moves."""
        self._seen.append((elapsed_s, share))
        while len(self._seen) > 2 and self._seen[1][0] <= elapsed_s * 2 / 3:
            self._seen.popleft()
        then_s, before = self._seen[0]
        if elapsed_s < ESTIMATE_AFTER_S or share <= before:
            return None
        return max(0.0, (1.0 - share) * (elapsed_s - then_s) / (share - before))


def show_seconds(seconds: float) -> str:
    """Say how long something takes, in a unit in which it is easy to read."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


def _drawing(*columns: ProgressColumn, auto_refresh: bool = True) -> Progress:
    """Return progress on stderr that leaves no trace, and what others print as it is."""
    from rich.progress import Progress  # late: see the top

    return Progress(
        *columns,
        console=_rich(sys.stderr),
        auto_refresh=auto_refresh,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )


def _took(what: str, started: float) -> None:
    seconds = f"{time.monotonic() - started:.1f} s"
    print(f"  {what} {_styled(seconds, '2', sys.stderr)}", file=sys.stderr, flush=True)


def _draw(what: str, done: threading.Event) -> None:
    if done.wait(PROGRESS_AFTER_S):
        return
    from rich.progress import SpinnerColumn, TextColumn  # late: see the top

    texts = TextColumn("{task.description}", markup=False), TextColumn("{task.elapsed:.0f} s")
    with _drawing(SpinnerColumn("line", style=""), *texts) as drawing:
        drawing.add_task(what)
        done.wait()


def _rich(stream: TextIO) -> Console:
    from rich.console import Console  # late: see the top

    # A table that is piped keeps its lines whole, however narrow the terminal.
    width = None if stream.isatty() else 160
    colour = None if is_coloured(stream) else True
    return Console(file=stream, no_color=colour, highlight=False, width=width)


def screen() -> Console:
    """Return what draws on stdout, for commands that draw it again and again."""
    return _rich(sys.stdout)


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    caption: str = "",
    right: Sequence[str] = (),
) -> None:
    """Print a table to stdout; `right` names the columns that are aligned to the right.

    A cell that is exactly "ok" or "FAILED" gets its colour.
    """
    from rich import box  # late: see the top
    from rich.table import Table
    from rich.text import Text

    out = Table(
        box=box.SIMPLE_HEAD,
        title=title or None,
        caption=caption or None,
        title_justify="left",
        caption_justify="left",
        title_style="bold",
        caption_style="",
    )
    for column in columns:
        side: Literal["left", "right"] = "right" if column in right else "left"
        out.add_column(Text(column), justify=side, overflow="fold")  # not markup: t_min[usec]
    styles = {"ok": "green", "FAILED": "bold red"}
    for row in rows:
        out.add_row(*(Text(cell, style=styles.get(cell, "")) for cell in row))
    _rich(sys.stdout).print(out)
