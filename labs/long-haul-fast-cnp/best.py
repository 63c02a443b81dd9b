"""Picks the best DCQCN of sweep.yaml's sets, and keeps all of them as a table in sweep.csv.

    python labs/long-haul-fast-cnp/best.py results/long-haul-sweep --play    plays the sets first
    python labs/long-haul-fast-cnp/best.py results/long-haul-sweep

The rule, in which no result of fast CNP has a part. A card has one set, whatever it talks to and
however many others do. So:

1. Of the sets whose queue stays within 1.1 times the least peak of all sets in each of four cases
   (two and four senders, over 100 and 300 km), the best is the one whose lowest share of the best
   goodput of its case is highest. Only sets that keep to the peak in all cases count there.
2. The sets of the first round are 1,024 draws from the wide ranges of sweep.yaml, the two published
   sets that one can write in its parameters, and the best of an earlier sweep of 160 draws. Those
   of the second are 128 draws around the best of the first: each number between half of its and
   twice it, ECN likewise. The best of both rounds is the result.
3. Cases are played in the order of `CASES`. A set that has left the queue too long in one is not
   played in the next ones: it can't be the best any more. Nothing else changes by that but the
   least peak of the later cases, which is taken of the sets that are played there. (It is nearly
   the same for all: what comes in the loop before the first CNP.)

`--play` begins where an earlier call was interrupted. With `--scheduler` the sets are played by
Dask's workers on many machines (docs/sweep.md), with `--workers` by so many processes here.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from experiments.sweep_space import Draw, Point, Span, draw
from topologies.units import (
    format_duration,
    format_rate,
    format_size,
    parse_duration,
    parse_rate,
    parse_size,
)

HERE = Path(__file__).resolve().parent
SWEEP, TABLE = HERE / "sweep.yaml", HERE / "sweep.csv"
KEPT = 1.1
NEAR = Draw(points=128, seed=1, stratified=True)
GBPS, MB = 1e9, 1e6
TRAFFIC, LENGTH, ECN = "traffic", "topology.links.0.length", "topology.classes.roce.ecn"
OVERRIDES = "transport.overrides."

CASES = tuple((length, senders) for length in ("100km", "300km") for senders in (2, 4))

Case = tuple[str, int]  # length, senders
Result = tuple[float, float]  # goodput in Gb/s, peak in MB
Results = Mapping[str, Mapping[Case, Result]]

FAILED: Result = (0.0, float("inf"))
"""A run that failed: it keeps to no peak. The next call of `--play` plays it again."""

_SCALED_ECN = {"min": "1600kB", "max": "6400kB", "probability": "20%"}
_PUBLISHED = {"gain": 1 / 256, "rate_ai": "80Mbps", "rate_hai": "800Mbps", "fast_recovery": 1,
              "clamp_target_rate": False}  # fmt: skip
GIVEN: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "hpcc-dcqcn": (
        {**_PUBLISHED, "alpha_timer": "1us", "increase_timer": "300us", "cut_interval": "4us",
         "cnp_interval": "500ns"},
        _SCALED_ECN,
    ),
    "hpcc-dcqcn-paper": (
        {**_PUBLISHED, "alpha_timer": "50us", "increase_timer": "55us", "cut_interval": "50us",
         "cnp_interval": "25us"},
        _SCALED_ECN,
    ),
    "best of 160": (
        {"gain": 0.1956, "alpha_timer": "13630ns", "increase_timer": "157900ns",
         "rate_ai": "856Mbps", "rate_hai": "16200Mbps", "cut_interval": "89150ns",
         "cnp_interval": "25us", "fast_recovery": 1, "clamp_target_rate": False},
        _SCALED_ECN,
    ),
}  # fmt: skip
"""Sets of the first round that are not drawn, as they are at 400 Gb/s."""

_UNITS: Mapping[str, tuple[Callable[[object], int], Callable[[int], str]]] = {
    "alpha_timer": (parse_duration, format_duration),
    "increase_timer": (parse_duration, format_duration),
    "cut_interval": (parse_duration, format_duration),
    "cnp_interval": (parse_duration, format_duration),
    "rate_ai": (parse_rate, format_rate),
    "rate_hai": (parse_rate, format_rate),
}


# ---------------------------------------------------------------- sets


def first_round() -> dict[str, Point]:
    """Return the wide sets by name: drawn ones have numbers."""
    file = yaml.safe_load(SWEEP.read_text())
    vary = {
        path: Span.of(given) if isinstance(given, dict) else given
        for path, given in file["vary"].items()
        if path not in (LENGTH, TRAFFIC)
    }
    how = Draw(file["draw"]["points"], file["draw"]["seed"], stratified=True)
    drawn = {str(number): point for number, point in enumerate(draw(vary, how))}
    given = {name: dict(_as_point(*each)) for name, each in GIVEN.items()}
    return {
        **drawn,
        **{name: {path: point[path] for path in vary} for name, point in given.items()},
    }


def _as_point(overrides: Mapping[str, Any], ecn: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    for name, value in overrides.items():
        yield OVERRIDES + name, value
    yield ECN, dict(ecn)


def second_round(centre: Point) -> dict[str, Point]:
    """Return sets around one: numbers from half of its to twice it, ECN and F from lists."""
    vary: dict[str, Sequence[object] | Span] = {}
    for path, value in centre.items():
        name = path.removeprefix(OVERRIDES)
        if name in _UNITS:
            parse, show = _UNITS[name]
            vary[path] = _around(show(parse(value) // 2), show(parse(value) * 2))
        elif name == "gain":
            vary[path] = _around(value / 2, min(value * 2, 1.0))
        elif name == "fast_recovery":
            vary[path] = [max(value - 1, 1), value, value + 1]
        else:
            vary[path] = list(_ecn_around(value)) if path == ECN else [value]
    return {f"near {number}": point for number, point in enumerate(draw(vary, NEAR))}


def _around(low: object, high: object) -> Span:
    return Span.of({"from": low, "to": high, "scale": "log"})


def _ecn_around(ecn: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Both thresholds and the probability, each times 1/2, 1 and 2."""
    low, high = parse_size(ecn["min"]), parse_size(ecn["max"])
    share = float(ecn["probability"].removesuffix("%"))
    for halves in (1, 2, 4):
        for probability in (share / 2, share, min(2 * share, 100.0)):
            yield {
                "min": format_size(low * halves // 2),
                "max": format_size(high * halves // 2),
                "probability": f"{probability:g}%",
            }


# ---------------------------------------------------------------- playing


@dataclass(frozen=True)
class How:
    """Where the sets are played, and with which options of `weft sweep`."""

    folder: Path
    options: tuple[str, ...] = ()

    def part(self, case: Case, number: int) -> Path:
        """Return the folder of the numberth call of `weft sweep` for a case."""
        length, senders = case
        return self.folder / f"{length}-{senders}" / str(number)


def traffic(senders: int) -> list[dict[str, Any]]:
    """Return what a case's senders do, as lab.yaml has it: half send 1 GB together, half go on."""
    half = senders // 2
    ends, goes_on = ([f"h{i}" for i in range(first, first + half)] for first in (1, 1 + half))
    return [
        {"incast": {"to": "r1", "from": ends, "bytes": f"{1000 // senders}MB"}},
        {"incast": {"to": "r1", "from": goes_on, "persistent": True}},
    ]


def play(how: How, sets: Mapping[str, Point]) -> None:
    """Play sets in each case as far as they can still be the best. Raises SystemExit."""
    for case in CASES:
        results = read(how.folder, sets)
        failed = {name for name, points in results.items() if points.get(case) == FAILED}
        names = [*missing(sets, results, case), *sorted(failed)]
        if names:
            _sweep(how, case, [sets[name] for name in names])


def _sweep(how: How, case: Case, points: Sequence[Point]) -> None:
    """Call `weft sweep` for the points in a case."""
    number = 0
    while how.part(case, number).exists():
        number += 1
    out = how.part(case, number)
    out.parent.mkdir(parents=True, exist_ok=True)
    fixed = {LENGTH: case[0], TRAFFIC: traffic(case[1])}
    file = yaml.safe_load(SWEEP.read_text())
    # Points with the same switches one after the other: they are set up once.
    ordered = sorted(points, key=lambda point: json.dumps(point[ECN]))
    content = {"run": file["run"], "metrics": file["metrics"],
               "points": [{**fixed, **point} for point in ordered]}  # fmt: skip
    asked = out.with_suffix(".yaml")
    asked.write_text(json.dumps(content, indent=1))  # which is YAML, too, and read at once
    weft = str(Path(sys.executable).with_name("weft"))
    done = subprocess.run([weft, "sweep", str(asked), *how.options, "--out", str(out)])
    if done.returncode not in (0, 1):  # 1: single runs failed, which is in the results
        raise SystemExit(
            f"weft sweep ended with {done.returncode}: the same call goes on from here"
        )


def read(folder: Path, sets: Mapping[str, Point]) -> dict[str, dict[Case, Result]]:
    """Return what was played, by set and case; a run that failed has an endless queue."""
    names = {json.dumps(point, sort_keys=True): name for name, point in sets.items()}
    found: dict[str, dict[Case, Result]] = {}
    for case in CASES:
        parts = (folder / f"{case[0]}-{case[1]}").glob("*/results.csv")
        for results in sorted(parts, key=lambda path: int(path.parent.name)):
            points = json.loads(results.parent.with_suffix(".yaml").read_text())["points"]
            with results.open(newline="") as file:
                for row in csv.DictReader(file):
                    point = dict(points[int(row["point"])])
                    del point[LENGTH], point[TRAFFIC]
                    name = names.get(json.dumps(point, sort_keys=True))
                    if name is not None:
                        found.setdefault(name, {})[case] = _result(row)
    return found


def _result(row: Mapping[str, str]) -> Result:
    if row["failure"]:
        return FAILED
    return float(row["goodput"]) / GBPS, float(row["peak_queue"]) / MB


# ---------------------------------------------------------------- the rule


def kept(results: Results, case: Case) -> set[str]:
    """Return the sets that keep to the least peak of all that were played in a case."""
    peaks = {name: points[case][1] for name, points in results.items() if case in points}
    return {name for name, peak in peaks.items() if peak <= KEPT * min(peaks.values())}


def asked_for(names: Iterable[str], results: Results, case: Case) -> set[str]:
    """Return the sets that are played in a case: those kept in all cases before it."""
    before = CASES[: CASES.index(case)]
    return set(names).intersection(*(kept(results, each) for each in before))


def missing(sets: Mapping[str, Point], results: Results, case: Case) -> list[str]:
    """Return the sets that are still to be played in a case."""
    asked = asked_for(sets, results, case)
    return [name for name in sets if name in asked and case not in results.get(name, {})]


def best(results: Results) -> str:
    """Return the set that the rule picks. Raises ValueError if none keeps to all peaks."""
    everywhere = set.intersection(*(kept(results, case) for case in CASES))
    if not everywhere:
        raise ValueError("no set was played in all cases with a queue that keeps to the least peak")
    most = {case: max(results[name][case][0] for name in everywhere) for case in CASES}
    return max(
        sorted(everywhere),
        key=lambda name: min(results[name][case][0] / most[case] for case in CASES),
    )


# ---------------------------------------------------------------- the table


def rows(sets: Mapping[str, Point], results: Results, picked: str) -> Iterator[dict[str, Any]]:
    """Return the lines of sweep.csv: a set in a case, and what the set is."""
    for name, point in sets.items():
        own = {path.removeprefix(OVERRIDES): value for path, value in point.items() if path != ECN}
        ecn = {f"ecn_{key}": value for key, value in point[ECN].items()}
        for case in CASES:
            if case in results.get(name, {}):
                goodput, peak = results[name][case]
                yield {
                    "set": name, "length": case[0], "senders": case[1],
                    "goodput": f"{goodput:.2f}", "peak": f"{peak:.3f}",
                    "best": "yes" if name == picked else "", **own, **ecn,
                }  # fmt: skip


def _played(how: How, sets: Mapping[str, Point], *, plays: bool) -> Results:
    """Return all results of sets, played now if asked. Ends the program if some are missing."""
    if plays:
        play(how, sets)
    results = read(how.folder, sets)
    for case in CASES:
        left = len(missing(sets, results, case))
        if left:
            where = f"{case[1]} senders over {case[0]}"
            raise SystemExit(
                f"{how.folder}: {left} sets are still to be played with {where}: --play"
            )
    return results


def main(how: How, out: Path, *, plays: bool) -> None:
    """Play if asked, pick, write and print."""
    sets = first_round()
    centre = best(_played(how, sets, plays=plays))
    sets |= second_round(sets[centre])
    results = _played(how, sets, plays=plays)
    picked = best(results)
    table = list(rows(sets, results, picked))
    with out.open("w", newline="") as file:
        writer = csv.DictWriter(file, table[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    print(f"best of the first round: {centre}; of both: {picked}")
    for path, value in sets[picked].items():
        print(f"{path}: {value}")
    for case in CASES:
        print(case, results[picked][case])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, help="where the sweeps' results are")
    parser.add_argument("--play", action="store_true", help="play the sweeps into it first")
    parser.add_argument("--workers", help="processes, as `weft sweep` takes them")
    parser.add_argument("--scheduler", help="a Dask scheduler's address, likewise")
    asked = parser.parse_args()
    given = {"--workers": asked.workers, "--scheduler": asked.scheduler}
    options = tuple(word for name in given if given[name] for word in (name, given[name]))
    main(How(asked.folder, options), TABLE, plays=asked.play)
