"""`weft validate`: our simulator on flows of which another one's numbers are recorded."""

from __future__ import annotations

import json
from pathlib import Path

import click

from experiments.validation.cases import CASES
from experiments.validation.compare import WITHIN, Comparison, compare, pairs
from experiments.validation.ns3 import COMMIT, REPOSITORY, controls
from experiments.validation.slowdown import SHARES
from observe.errors import UsageError
from simulator.runner import Progress
from weft import console
from weft.command_line import argument, as_json, command, flag, option

EXIT_WITHIN, EXIT_OUTSIDE = 0, 1
MOST_SEEDS = 100
PERCENTS = 100


@command("""
    examples:
      weft validate --list                        what is recorded
      weft validate hadoop-30                     one case under every control recorded
      weft validate websearch-30 --control NAME --seeds 6   one of --list
      weft validate                               all of them: half an hour
      weft validate --within 30 --json

    exit codes: 0 all agree --within the limit, 1 some do not, 2 wrong arguments
    """)
@argument("case", required=False, type=click.Choice(list(CASES)))
@option("--control", metavar="NAME", help="one sender's algorithm (default: all recorded)")
@option("--seeds", default=1, metavar="N", help="number of our runs, each with other paths "
        "(default)")  # fmt: skip
@option("--within", default=round(WITHIN * PERCENTS), metavar="PERCENT",
        help="by how much a percentile may differ (default)")  # fmt: skip
@option("--variant", metavar="NAME",
        help="with --control: without a named difference of the models, such as cells")  # fmt: skip
@flag("--list", "listing", help="list what is recorded")
@as_json
def run(
    case: str | None,
    control: str | None,
    seeds: int,
    within: int,
    variant: str | None,
    listing: bool,
    as_json: bool,
) -> int:
    """Print the comparisons; return the exit code. Raises UsageError, FactsError."""
    if control is not None and control not in controls():
        raise UsageError(f"--control {control}; available: {', '.join(controls())}")
    if variant is not None and control is None:
        raise UsageError(f"--variant {variant}: of which --control?")
    if not 1 <= seeds <= MOST_SEEDS:
        raise UsageError(f"--seeds {seeds}: a number from 1 to {MOST_SEEDS} is wanted")
    if not 0 <= within <= PERCENTS:
        raise UsageError(f"--within {within}: percent, from 0 to {PERCENTS}")
    there = pairs()
    chosen = [pair for pair in there if case in (None, pair[0]) and control in (None, pair[1])]
    if not chosen:
        names = "; ".join(" ".join(pair) for pair in there)
        asked = " under ".join(word for word in (case, control) if word) or "anything"
        raise UsageError(f"nothing is recorded of {asked}; there is: {names or 'nothing'}")
    if listing:
        _list(chosen, as_json)
        return EXIT_WITHIN
    share = within / PERCENTS
    found = []
    for name, of in chosen:
        found.append(_compared(name, of, seeds, variant, as_json))
        if not as_json:
            _print(found[-1], share)
    if as_json:
        print(json.dumps([each.plain(share) for each in found], indent=2))
    return EXIT_OUTSIDE if any(each.outside(share) for each in found) else EXIT_WITHIN


def _list(chosen: list[tuple[str, str]], as_json: bool) -> None:
    if as_json:
        print(json.dumps([{"case": case, "control": control} for case, control in chosen]))
        return
    rows = [
        (name, control, CASES[name].sizes, CASES[name].load, f"{CASES[name].arrivals_us} us",
         str(len(CASES[name].connections())))
        for name, control in chosen
    ]  # fmt: skip
    console.table(("case", "control", "sizes", "load", "arrivals", "flows"), rows)


def _compared(case: str, control: str, seeds: int, variant: str | None, quiet: bool) -> Comparison:
    with console.bar(quiet=quiet) as draw:

        def tell(seed: int, progress: Progress) -> None:
            share = progress.messages_done / max(progress.messages, 1)
            text = f"{case} {control}, seed {seed}: {progress.messages_done} flows"
            draw((seed - 1 + share) / seeds, text)

        return compare(case, control, range(1, seeds + 1), variant, tell)


def _print(found: Comparison, share: float) -> None:
    columns = ["up to", "flows"]
    columns += [f"{name} {who}" for name, _ in SHARES for who in ("ns-3", "weft", "ratio")]
    rows = []
    for decile, cells in zip(found.ours[0].deciles, found.cells, strict=True):
        row = [f"{decile.most_bytes} B", str(decile.flows)]
        for cell in cells.values():
            mark = "" if cell.is_within(share) else " *"
            row += [f"{cell.theirs:.2f}", f"{cell.ours:.2f}", f"{cell.ratio:.2f}{mark}"]
        rows.append(tuple(row))
    theirs = found.theirs[0]
    typical = ", ".join(f"{name} {found.typical(name):.2f}" for name, _ in SHARES)
    pauses = f"PFC pauses {theirs.pauses} there, {found.ours[0].pauses} here"
    caption = (
        f"slowdowns to the last byte by size decile; {Path(REPOSITORY).name} at {COMMIT[:7]}, "
        f"{len(found.theirs)} run(s); weft {len(found.ours)}, fabric time; {pauses}; "
        f"median of the ten ratios: {typical}; "
        f"* more than {share:.0%} apart: docs/validation.md"
    )
    title = f"{found.case} under {found.control}" + (f", {found.variant}" if found.variant else "")
    console.table(columns, rows, title=title, caption=caption, right=columns)
