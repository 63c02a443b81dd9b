"""Runs the README's commands that print numbers, and says which number of the README is another.

    make readme                    checks; exit code 1 where one differs
    make readme ARGS=--write       writes them, and the figures, into the README
    make readme ARGS=--full        the run over 1 024 hosts as well: some minutes more

Virtual time gives the same numbers everywhere, so they have to be equal. Numbers of real time may
differ by what each claim says; where they differ by more, the machine may have been busy, so that
they are written only with --real beside --write. Needs root, as run-topo does.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "README.md"
_SHOWN = 12

Finder = Callable[[str], Sequence[str]]


class ReadmeError(Exception):
    """A claim that can't be compared: a command fails, or a pattern is in neither text."""


@dataclass(frozen=True)
class Claim:
    """Numbers of the README: where they stand, what prints them, how far they may be apart.

    `in_readme` has a group a number and is found once; `find` gets from the source's text as many.
    """

    what: str
    in_readme: str
    source: Callable[[], str]
    find: Finder
    within: float = 0.0
    full: bool = False


@dataclass(frozen=True)
class Difference:
    """A claim whose numbers are others: where the group begins and ends in the README."""

    what: str
    begin: int
    end: int
    said: str
    is_now: str
    real_time: bool


def printed(pattern: str) -> Finder:
    """Find the groups of a pattern."""

    def find(text: str) -> Sequence[str]:
        found = re.search(pattern, text)
        if found is None:
            raise ReadmeError(f"it prints nothing like {pattern!r}")
        return found.groups()

    return find


def same(what: str, pattern: str, source: Callable[[], str], within: float = 0.0) -> Claim:
    """Return a claim that stands in the README as it is printed."""
    return Claim(what, pattern, source, printed(pattern), within)


def number(text: str) -> float:
    """Return the number that a text is: 63042, 1 007, 98.0."""
    return float(re.sub(r"[\s,]", "", text))


def differences(claim: Claim, page: str) -> list[Difference]:
    """Return the numbers of a claim that differ from what its source says. Raises ReadmeError."""
    places = list(re.finditer(claim.in_readme, page))
    if len(places) != 1:
        raise ReadmeError(f"the README has {len(places)} places like {claim.in_readme!r}, not one")
    (place,) = places
    values = claim.find(claim.source())
    if len(values) != place.re.groups:
        raise ReadmeError(f"{place.re.groups} numbers in the README, {len(values)} printed")
    found = []
    for group, value in enumerate(values, 1):
        said = place[group]
        apart = abs(number(said) - number(value)) > claim.within * abs(number(said))
        if apart or (claim.within == 0 and said != value):
            found.append(Difference(claim.what, *place.span(group), said, value, claim.within > 0))
    return found


def written(page: str, found: Sequence[Difference]) -> str:
    """Return the page with the numbers as they are."""
    for each in sorted(found, key=lambda each: each.begin, reverse=True):
        page = page[: each.begin] + each.is_now + page[each.end :]
    return page


# --- the commands -------------------------------------------------------------------------------


def output(*command: str) -> str:
    """Run `weft` of this tree and return what it prints. Raises ReadmeError."""
    done = subprocess.run(
        [str(ROOT / ".venv/bin/weft"), *command],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-_SHOWN:])
        raise ReadmeError(f"weft {' '.join(command)}: exit code {done.returncode}\n{said}")
    return done.stdout


@cache
def scratch() -> Path:
    """Return a folder for results, gone at the end."""
    folder = tempfile.TemporaryDirectory(prefix="weft-readme-")
    _KEPT.append(folder)
    return Path(folder.name)


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


@cache
def run_topo() -> str:
    """Bring the default fabric up, apart from any run that is."""
    places = {"WEFT_RUN_DIR": "run", "WEFT_LOG_DIR": "log"}
    os.environ.update({name: str(scratch() / place) for name, place in places.items()})
    try:
        return output("run-topo")
    finally:
        for name in places:
            del os.environ[name]


@cache
def incast() -> str:
    """Print the incast of 32."""
    return output("sim", "incast-32", "--out", str(scratch() / "incast-32"))


@cache
def allreduce() -> str:
    """Print the summary of the AllReduce over 1 024 hosts."""
    return output("sim", "allreduce-1024", "--json", "--out", str(scratch() / "allreduce-1024"))


_LONG = "100km-near-4"
_CONTROLS = ("hpcc-dcqcn", "hpcc-dcqcn-paper", "ns3-rdma", "best", "fast-cnp")
"""Those that the figure shows."""

# What is compared: a lab's variants. One run of a lab serves all of its claims.
_LABS = {
    "long-haul-fast-cnp": tuple(f"{_LONG}-{control}" for control in _CONTROLS),
    "dpfr": ("cuts-8400ns",),
    "load-balancing": tuple(f"{by}-slow-links" for by in ("packet-glb", "packet-dlb", "ecmp")),
    "allreduce": ("switches-3-large", "ring-3-large"),
    "iglb": ("iglb-permutation", "ecmp-permutation"),
    "encc": ("16-to-1-encc", "16-to-1-best"),
    "dual-plane": ("shared-restored",),
}


@cache
def lab(name: str) -> str:
    """Run the variants of a lab of which the README speaks; return its results as JSON."""
    variants = [word for each in _LABS[name] for word in ("--variant", each)]
    return output("lab", "run", name, *variants, "--out", str(scratch() / name), "--json")


@dataclass(frozen=True)
class Wanted:
    """A number of a lab's results: a variant's metric, as it is written, perhaps its interval."""

    variant: str
    metric: str
    form: str
    interval: bool = False


def found_in_lab(*wanted: Wanted) -> Finder:
    """Find medians in a lab's JSON, each followed by the ends of its interval if wanted."""

    def find(text: str) -> Sequence[str]:
        of = {each["name"]: each["metrics"] for each in json.loads(text)["variants"]}
        return [
            format(of[each.variant][each.metric][part], each.form)
            for each in wanted
            for part in (("median", "low", "high") if each.interval else ("median",))
        ]

    return find


def of_lab(what: str, name: str, in_readme: str, *wanted: Wanted) -> Claim:
    """Return a claim whose numbers are those of a lab."""
    return Claim(what, in_readme, partial(lab, name), found_in_lab(*wanted))


def sizes(text: str) -> Sequence[str]:
    """Find hosts and switches of a run that has carried all of its messages."""
    summary = json.loads(text)
    if summary["messages"]["done"] != summary["messages"]["count"]:
        raise ReadmeError("allreduce-1024 has not finished")
    return [f"{summary['topology'][part]:,}" for part in ("hosts", "switches")]


def conformance() -> str:
    """Return the page that the measurement of p4c's tests writes."""
    return (ROOT / "docs/CONFORMANCE.md").read_text()


# --- what the README says -----------------------------------------------------------------------

# Of hosts whose packets share two cores with the switches: what a loaded machine may take away.
_REAL = 0.3

CLAIMS = (
    same("all-pairs ping", r"all-pairs ping +(\d+) pairs, (\d+) % lost", run_topo),
    same("RoCEv2", r"RoCEv2 h1 -> h3 +(\d+) of (\d+) packets \((\d+) flows\)", run_topo),
    same("RDMA WRITE", r"RDMA WRITE h1 -> h3 +([\d.]+) Mb/s of 40 .*?fabric ([\d.]+) Gb/s",
         run_topo, _REAL),
    same("TCP", r"TCP h1 -> h3 +([\d.]+) Mb/s for ([\d.]+) s, .*?fabric ([\d.]+) Gb/s", run_topo,
         _REAL),
    same("port counters", r"port counters \(P4Runtime\) +(\d+) ports", run_topo),
    same("incast-32, packets", r"packets +(\d+) sent, (\d+) received", incast),
    same("incast-32, goodput", r"goodput +(\d+) flows, ([\d.]+) MB, ([\d.]+) Gb/s; (\d+) packets",
         incast),
    same("incast-32, lost", r"lost +(\d+) packets", incast),
    same("incast-32, pauses", r"(\d+) XOFF, (\d+) XON; queues paused ([\d.]+) ms", incast),
    of_lab("fast CNP", "long-haul-fast-cnp",
           r"peaks at ([\d.]+) MB \[([\d.]+), ([\d.]+)\], with DCQCN at (\d+)",
           Wanted(f"{_LONG}-fast-cnp", "peak", ".2f", True),
           Wanted(f"{_LONG}-hpcc-dcqcn", "peak", ".0f")),
    of_lab("DPFR", "dpfr",
           r"at most ([\d.]+) us \[([\d.]+), ([\d.]+)\], the worst of (\d+) cuts",
           Wanted("cuts-8400ns", "blackout", ".1f", True), Wanted("cuts-8400ns", "cuts", ".0f")),
    of_lab("DLB and GLB", "load-balancing",
           r"takes (\d+) us \[(\d+), (\d+)\] with GLB, (\d+) with DLB, (\d+) with ECMP",
           Wanted("packet-glb-slow-links", "slowest flow", ".0f", True),
           Wanted("packet-dlb-slow-links", "slowest flow", ".0f"),
           Wanted("ecmp-slow-links", "slowest flow", ".0f")),
    of_lab("AllReduce", "allreduce",
           r"2 MB: ([\d.]+) us \[([\d.]+), ([\d.]+)\], ([\d.]+) % of .* a ring takes (\d+)",
           Wanted("switches-3-large", "AllReduce", ".1f", True),
           Wanted("switches-3-large", "of the bound", ".1f"),
           Wanted("ring-3-large", "AllReduce", ".0f")),
    of_lab("iGLB", "iglb",
           r": ([\d.]+) us \[([\d.]+), ([\d.]+)\] where ECMP takes (\d+) and .* beat (\d+)",
           Wanted("iglb-permutation", "slowest flow", ".1f", True),
           Wanted("ecmp-permutation", "slowest flow", ".0f"),
           Wanted("iglb-permutation", "bound", ".0f")),
    of_lab("ENCC", "encc",
           r"percentile is ([\d.]+) us \[([\d.]+), ([\d.]+)\], ([\d,]+) with the best DCQCN",
           Wanted("16-to-1-encc", "queue, 99th percentile", ".2f", True),
           Wanted("16-to-1-best", "queue, 99th percentile", ",.0f")),
    of_lab("dual-plane failover", "dual-plane",
           r"(\d+) % \[(\d+), (\d+)\] of the .* back ([\d.]+) ms \[([\d.]+), ([\d.]+)\]",
           Wanted("shared-restored", "after the cut", ".0f", True),
           Wanted("shared-restored", "back after", ".1f", True)),
    Claim("p4c's packet tests", r"(\d+) of (\d+) of p4c's packet tests", conformance,
          printed(r"\*\*(\d+) of (\d+) pass")),
    Claim("allreduce-1024", r"AllReduce over ([\d,]+) hosts and (\d+) switches", allreduce, sizes,
          full=True),
)  # fmt: skip


def two_flows_figure() -> bytes:
    """Return the figure of the two flows' rates."""
    folder, figure = scratch() / "two-flows", scratch() / "rates.svg"
    output("sim", "two-flows", "--out", str(folder))
    output("plot", str(folder), "--what", "rates", "-o", str(figure))
    return figure.read_bytes()


def long_haul_figure() -> bytes:
    """Return the figure of the long haul's queue."""
    lab("long-haul-fast-cnp")
    return (scratch() / "long-haul-fast-cnp" / "queue.png").read_bytes()


FIGURES = {
    ROOT / "docs/figures/two-flows-rates.svg": two_flows_figure,
    ROOT / "docs/figures/long-haul-queue.png": long_haul_figure,
}


# --- doing it -----------------------------------------------------------------------------------


def check(claims: Sequence[Claim], page: str) -> list[Difference]:
    """Compare claim after claim, and say so. Raises ReadmeError."""
    found = []
    for claim in claims:
        try:
            differing = differences(claim, page)
        except ReadmeError as error:
            raise ReadmeError(f"{claim.what}: {error}") from None
        for each in differing:
            busy = ", in real time: is this machine busy?" if each.real_time else ""
            print(f"  {claim.what}: the README says {each.said}, it is {each.is_now}{busy}")
        if not differing:
            within = f", within {claim.within:.0%}" if claim.within else ""
            print(f"  {claim.what}: as it says{within}")
        sys.stdout.flush()
        found += differing
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Check the README's numbers.")
    parser.add_argument("--write", action="store_true", help="write what differs")
    parser.add_argument("--full", action="store_true", help="also what takes minutes")
    parser.add_argument("--real", action="store_true", help="write numbers of real time, too")
    words = parser.parse_args()
    page = PAGE.read_text()
    claims = [claim for claim in CLAIMS if words.full or not claim.full]
    try:
        found = check(claims, page)
        figures = {path: make() for path, make in FIGURES.items()}
    except ReadmeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    stale = [path for path, content in figures.items() if path.read_bytes() != content]
    for path in stale:
        print(f"  {path.relative_to(ROOT)}: drawn anew it is another")
    if not words.write:
        return 1 if found or stale else 0
    wanted = [each for each in found if words.real or not each.real_time]
    PAGE.write_text(written(page, wanted))
    for path in stale:
        path.write_bytes(figures[path])
    print(f"{len(wanted)} numbers and {len(stale)} figures written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
