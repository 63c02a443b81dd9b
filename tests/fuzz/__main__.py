"""`python -m tests.fuzz`: what nobody would send, to whatever takes it, for as long as you like.

    python -m tests.fuzz                          # all kinds, a minute each
    python -m tests.fuzz packets --minutes 60     # under the sanitizers
    python -m tests.fuzz json --first 4711 --cases 1

Case N of a kind is the same everywhere. What is found names its case: an exception, a signal, a
case without an end, memory that grows. The exit code is 1 then.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence

from tests.fuzz import watch
from tests.fuzz.fuzzers import FUZZERS

PART = {"json": 4000, "p4info": 4000, "packets": 1500, "requests": 400}
"""Cases of one process: some minutes' worth, so that memory shows its course."""


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0: nothing found, 1: something, 2: wrong arguments, 130: ended by Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(FUZZERS)}; all")
    parser.add_argument("--minutes", type=float, default=1.0, help="of each kind; default 1")
    parser.add_argument("--cases", type=int, help="so many of each kind, instead of minutes")
    parser.add_argument("--first", type=int, default=0, help="number of the first case; default 0")
    arguments = parser.parse_args(argv)
    unknown = [kind for kind in arguments.kinds if kind not in FUZZERS]
    if unknown:
        parser.error(f"there is no kind {unknown[0]!r}; there are {', '.join(FUZZERS)}")
    if arguments.minutes <= 0 or (arguments.cases is not None and arguments.cases < 1):
        parser.error("--minutes and --cases have to be above 0")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no process is left
    try:
        return _search(arguments)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _search(arguments: argparse.Namespace) -> int:
    found = 0
    for kind in arguments.kinds or FUZZERS:
        began, following = time.monotonic(), arguments.first
        last: list[int] = []
        while True:
            count = PART[kind] if arguments.cases is None else arguments.cases
            outcome = watch.run(kind, following, count)
            for finding in outcome.findings:
                print(finding, flush=True)
            found += len(outcome.findings)
            last = outcome.memory_kb or last
            following += count
            if arguments.cases is not None or time.monotonic() - began > 60 * arguments.minutes:
                break
        took, memory = time.monotonic() - began, f", {last[-1] // 1024} MB" if last else ""
        print(f"{kind}: cases {arguments.first} to {following - 1} in {took:.0f} s{memory}")
    print(f"{found} found" if found else "nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
