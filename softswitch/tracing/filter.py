"""Filters in pcap's syntax, compiled by libpcap through tcpdump, run by the core (filter.c)."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import lru_cache

from softswitch.core.tracing import FilterInstruction

_TIMEOUT_S = 5.0
_NUMBERS = re.compile(r"\d+ \d+ \d+ \d+")


class FilterError(Exception):
    """The filter can't be compiled; the message says what is wrong with it."""


@lru_cache(maxsize=64)
def compile_filter(expression: str) -> tuple[FilterInstruction, ...]:
    """Compile e.g. `udp dst port 4791` for Ethernet frames; nothing for an empty expression.

    Raises FilterError.
    """
    if not expression.strip():
        return ()
    if "\0" in expression or expression.lstrip().startswith("-"):
        raise FilterError(f"filter {expression!r}: not an expression")
    program = shutil.which("tcpdump") or shutil.which("tcpdump", path="/usr/sbin:/sbin")
    if program is None:
        raise FilterError("filters need tcpdump, which is not here: apt install tcpdump")
    try:
        done = subprocess.run(
            # -n: a misspelt word must not become a question to a name server
            [program, "-n", "-ddd", "-y", "EN10MB", expression],
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise FilterError(f"filter {expression!r}: a name in it can't be resolved") from None
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        raise FilterError(f"filter {expression!r}: {_reason(done.stderr)}")
    count, *rows = lines
    if int(count) != len(rows) or not all(_NUMBERS.fullmatch(row) for row in rows):
        raise FilterError(f"filter {expression!r}: tcpdump said what is no filter")
    return tuple(_instruction(row) for row in rows)


def _instruction(row: str) -> FilterInstruction:
    code, jt, jf, k = (int(word) for word in row.split())
    return code, jt, jf, k


def _reason(errors: str) -> str:
    lines = [line for line in errors.splitlines() if line.startswith("tcpdump: ")]
    text = (lines or errors.splitlines() or ["no reason given"])[-1]
    return text.removeprefix("tcpdump: ").strip()
