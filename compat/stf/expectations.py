"""Compares what came out with what a test expects: by port, in order, digit by digit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compat.stf.statements import Expect

OUTPUT_LIMIT = 8
"""Unexpected packets of a port that are shown."""


@dataclass(frozen=True, slots=True)
class Came:
    """A packet that came out; `line` is that of the packet that made it come, 0 if not known."""

    port: int
    data: bytes
    line: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result. `why` is empty when it is right."""

    line: int
    expected: str
    got: str
    why: str = ""
    marks: str = ""

    @property
    def ok(self) -> bool:
        """Whether it is as the test wants it."""
        return not self.why


def compare(expects: Sequence[Expect], came: Iterable[Came], ports: frozenset[int]) -> list[Row]:
    """Return a row for each expectation, and one for each further packet.

    `ports` are those looked at.
    """
    rows: list[Row] = []
    waiting: dict[int, list[Came]] = {port: [] for port in ports}
    for packet in came:
        if packet.port in waiting:
            waiting[packet.port].append(packet)
    for expect in expects:
        expected = f"port {expect.port}: {_shown(expect)}"
        if not waiting[expect.port]:
            rows.append(Row(expect.line, expected, "nothing", "no packet came out"))
            continue
        got = waiting[expect.port].pop(0).data.hex().upper()
        why, marks = difference(expect, got)
        rows.append(Row(expect.line, expected, f"port {expect.port}: {got}", why, marks))
    for port, left in sorted(waiting.items()):
        for packet in left[:OUTPUT_LIMIT]:
            got = f"port {port}: {packet.data.hex().upper()}"
            rows.append(Row(packet.line, f"port {port}: nothing more", got, "not expected"))
    return rows


def difference(expect: Expect, got: str) -> tuple[str, str]:
    """Return why a packet is not what is expected ("" when it is), with a ^ under each wrong
    digit.
    """
    if expect.digits is None:
        return "", ""
    wanted = expect.digits
    pairs = zip(wanted, got, strict=False)
    wrong = [at for at, (want, have) in enumerate(pairs) if want not in ("*", have)]
    why = []
    if wrong:
        first = wrong[0]
        why.append(
            f"byte {first // 2}: {len(wrong)} digit{' differs' if len(wrong) == 1 else 's differ'}"
        )
    if len(got) < len(wanted):
        why.append(f"{_bytes(len(got))}, expected {_bytes(len(wanted))}")
    elif expect.exact and len(got) > len(wanted):
        why.append(f"{_bytes(len(got))}, expected exactly {_bytes(len(wanted))}")
    last = wrong[-1] + 1 if wrong else 0
    marks = "".join("^" if at in set(wrong) else " " for at in range(last))
    return "; ".join(why), marks


def _bytes(digits: int) -> str:
    return f"{digits / 2:g} B"


def _shown(expect: Expect) -> str:
    if expect.digits is None:
        return "any packet"
    return expect.digits + ("$" if expect.exact else "")
