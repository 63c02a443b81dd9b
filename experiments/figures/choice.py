"""What of a result is drawn: `weft plot --flows`, `--ports`, `--window`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from observe.errors import UsageError
from simulator.result_reader import ResultFolder
from topologies.errors import did_you_mean
from topologies.model import Endpoint
from topologies.units import parse_duration

_SHOWN = 4  # names in an error


@dataclass(frozen=True)
class Choice:
    """Flows as SRC>DST or numbers, ports as s1:1 or h1, and a window in ps; empty: everything."""

    flows: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    window: tuple[int, int] | None = None

    @classmethod
    def of(cls, flows: str | None, ports: str | None, window: str | None) -> Choice:
        """Read what the options say. Raises UsageError."""
        chosen = _listed("flows", flows), _listed("ports", ports)
        for text in chosen[0]:
            if not text.isdecimal() and not all(text.partition(">")):
                raise UsageError(
                    f"--flows {text}: write SRC>DST or a flow's number, in quotes: --flows 'h1>h3'"
                )
        return cls(*chosen, None if window is None else _window(window))

    @property
    def options(self) -> frozenset[str]:
        """Which of the options are given."""
        given = {"flows": self.flows, "ports": self.ports, "window": self.window}
        return frozenset(name for name, value in given.items() if value)

    def flow_numbers(self, folder: ResultFolder) -> npt.NDArray[np.int64] | None:
        """Return the numbers of the chosen flows, None for all. Raises UsageError for none."""
        if not self.flows:
            return None
        table = folder.table("flows", ["flow", "src", "dst"]).to_pylist()
        found: set[int] = set()
        for text in self.flows:
            src, _, dst = text.partition(">")
            here = {
                row["flow"]
                for row in table
                if (str(row["flow"]) == text if not dst else _is(row, src, dst))
            }
            if not here:
                pairs = list(dict.fromkeys(f"{row['src']}>{row['dst']}" for row in table))
                raise UsageError(f"{folder.path}: no flow {text}{_instead(text, pairs)}")
            found |= here
        return np.array(sorted(found), dtype=np.int64)

    def endpoints(self, folder: ResultFolder) -> frozenset[str]:
        """Return the chosen ports by name. Raises UsageError for one that is not there."""
        if not self.ports:
            return frozenset()
        there = [
            str(Endpoint(row["node"], row["port"]))
            for name in ("ports", "hosts")
            for row in folder.table(name, ["node", "port"]).to_pylist()
        ]
        for text in self.ports:
            if text not in there:
                raise UsageError(f"{folder.path}: no port {text}{_instead(text, there)}")
        return frozenset(self.ports)


EVERYTHING = Choice()


def _listed(option: str, text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    words = tuple(word.strip() for word in text.split(","))
    if not all(words):
        raise UsageError(f"--{option} {text}: names with commas between")
    return tuple(dict.fromkeys(words))


def _window(text: str) -> tuple[int, int]:
    first, dots, last = text.partition("..")
    try:
        start, stop = parse_duration(first), parse_duration(last)
    except ValueError as error:
        if dots:
            raise UsageError(f"--window {text}: {error}") from None
        raise UsageError(f"--window {text}: write two times: 100us..300us") from None
    if not 0 <= start < stop:
        raise UsageError(f"--window {text}: is empty: it has to end after it begins")
    return start, stop


def _is(row: dict[str, str], src: str, dst: str) -> bool:
    return src in ("*", row["src"]) and dst in ("*", row["dst"])


def _instead(text: str, there: list[str]) -> str:
    if hint := did_you_mean(text, there):
        return hint
    more = ", ..." if len(there) > _SHOWN else ""
    return f": there is {', '.join(there[:_SHOWN])}{more}" if there else ": there are none"
