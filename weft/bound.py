"""`weft bound`: the least time in which any split over paths could finish a run file's messages."""

from __future__ import annotations

import json
import time
from dataclasses import asdict

from topologies.concurrent_flow import GAP
from topologies.units import format_rate
from weft import console
from weft.command_line import argument, as_json, command, option
from workloads.bound import Bound, bound
from workloads.loader import load_run_file
from workloads.plan import plan

_SHOWN = 8


@command("""
    examples:
      weft bound all-paths                      1,024 hosts, a permutation of 2 MB
      weft bound slow-paths --seed 3            with eight slow links, another permutation
      weft bound my/run.yaml --json

    exit codes: 0 done, 1 the run has no such bound or it is not certified, 2 wrong arguments
    """)
@argument("file", help="a run file, or the name of a shipped one")
@option("--seed", type=int, metavar="N", help="seed of all random choices (default: the file's)")
@as_json
def run(file: str, seed: int | None, as_json: bool) -> int:
    """Print the bound. Returns the exit code; raises BoundError, TopologyError."""
    loaded = load_run_file(file)
    started = time.monotonic()
    with console.progress(f"bound {loaded.name}", quiet=as_json):
        found = bound(loaded, plan(loaded, seed))
    if as_json:
        print(json.dumps({**_plain(found), "gap": None if found.cut else found.gap}, indent=2))
        return _exit_code(found)
    used = loaded.seed if seed is None else seed
    caption = (
        f"fabric time, seed {used}, {time.monotonic() - started:.1f} s; any split over the "
        "shortest paths, bytes as links count them"
    )
    console.table(("what", "result"), _rows(found), title=f"{loaded.name}: bound", caption=caption)
    return _exit_code(found)


def _exit_code(found: Bound) -> int:
    return 0 if found.cut or found.gap <= GAP else 1


def _plain(found: Bound) -> dict[str, object]:
    plain = asdict(found)
    if found.cut:
        plain["upper_s"] = plain["rate_bps"] = None
    return plain


def _rows(found: Bound) -> list[tuple[str, str]]:
    rows = [("no message set ends before", f"{found.lower_ps / 1e6:.3f} us")]
    busy = f"{found.lower_s * 1e6:.3f} us"
    if found.cut:
        rows.append(("links busy", f"{busy}: the leaves' cut, since the program is too large"))
    else:
        state = "certified" if found.gap <= GAP else f"NOT certified to {GAP:g}"
        rows.append(
            ("links busy", f"{busy} to {found.upper_s * 1e6:.3f} us, gap {found.gap:.1e}: {state}")
        )
        which = "slowest flow at best" if found.equal else "smallest flow, if all last equally long"
        rows.append((which, f"{format_rate(round(found.rate_bps))} of payload"))
    rows.append(("latency around it", f"{found.latency_ps / 1e6:.3f} us"))
    names = [f"{name} {weight:.3f}" for name, weight in found.binding[:_SHOWN]]
    more = f", and {len(found.binding) - _SHOWN} more" if len(found.binding) > _SHOWN else ""
    rows.append(("binding links", ", ".join(names) + more))
    if found.waits:
        rows.append(("note", "messages that wait for others count as sent at once: still a bound"))
    return rows
