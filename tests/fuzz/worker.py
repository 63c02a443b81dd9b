"""One process of a fuzzer: runs cases, and says on its output which it is at.

    python -m tests.fuzz.worker KIND FIRST COUNT

`at N` stands before case N; `fault N` and a JSON string after one that found something; `memory N`
(kB) now and then. `watch` reads them.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import traceback
from pathlib import Path

from tests.fuzz.fuzzers import FUZZERS, SANITIZED

MEMORY_EVERY = 50
FAULTS_MOST = 20
"""A worker that found so much ends: it is all the same."""


def resident_kb() -> int:
    """Memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


def main() -> int:
    kind, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    fuzzer = FUZZERS[kind](sanitize=kind in SANITIZED)
    found = 0
    try:
        for number in range(first, first + count):
            print(f"at {number}", flush=True)
            try:
                fuzzer.run(random.Random(f"{kind} {number}"))
            except Exception:
                print(f"fault {number} {json.dumps(traceback.format_exc())}", flush=True)
                found += 1
                if found == FAULTS_MOST:
                    break
            if (number - first) % MEMORY_EVERY == 0:
                print(f"memory {resident_kb()}", flush=True)
        print(f"memory {resident_kb()}", flush=True)
    finally:
        fuzzer.close()
    print("done", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
