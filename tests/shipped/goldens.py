"""What every shipped run and lab gives, as hashes: the net under every change of structure.

    python tests/shipped/goldens.py --check [NAME ...]      compare with goldens.json
    python tests/shipped/goldens.py --record [NAME ...]     write it, if results are meant to change

Without names: all of them. A run is played whole by `weft sim NAME`, a lab by
`weft lab run NAME --quick`; runs of 1 024 hosts are played to a given virtual time unless
`--full` is given. Of a run the bytes of each table are hashed, and each column by itself, so that
a difference is named by its column; of a lab its results without times and versions.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = Path(__file__).with_name("goldens.json")
WEFT = ROOT / ".venv" / "bin" / "weft"

LARGE = {
    "all-paths": "60us",
    "allreduce-1024": "40us",
    "allreduce-1024-dcqcn": "40us",
    "alltoall-1024": "40us",
    "slow-paths": "60us",
}
"""Runs that take minutes, and the virtual time to which they are played without `--full`."""

RUNS = (
    "allreduce-small",
    "dead-uplinks",
    "drop-tail",
    "dual-plane",
    "flapping-uplink",
    "host-paths",
    "host-paths-slow",
    "hpn-rail",
    "incast-32",
    "incast-32-dcqcn",
    "moe",
    "pipeline",
    "simai-small",
    "three-centres",
    "two-centres",
    "two-flows",
    "two-interfaces",
    "unequal-paths",
    "websearch",
    *LARGE,
)
LABS = (
    "allreduce",
    "allreduce-by-hand",
    "cnp-by-hand",
    "congestion-control-fairness",
    "data-centres-train",
    "dpfr",
    "dual-plane",
    "ecmp-by-hand",
    "ecn-by-hand",
    "ecn-thresholds",
    "encc",
    "failover-by-hand",
    "find-the-fault",
    "flowlets-by-hand",
    "iglb",
    "load-balancing",
    "long-haul-fast-cnp",
    "pfc-deadlock",
    "rails-and-placement",
    "rate-by-hand",
    "write-your-own-congestion-control",
    "your-own-controller",
)
"""Labs that run in virtual time; others have nothing that is the same each time."""

OF_THE_MACHINE = frozenset(
    {"versions", "started", "wall_s", "cpu_s", "setup_s", "program", "files"}
)
"""Keys of summaries and results that say where and when, or with which program, they were made."""

Golden = dict[str, Any]


def names(*, full: bool = False) -> list[str]:
    """Return what there is a golden for: runs, labs as `lab NAME`, and large runs whole."""
    whole = [f"{name} --full" for name in LARGE] if full else []
    return [*RUNS, *(f"lab {name}" for name in LABS), *whole]


def play(name: str, scratch: Path) -> Golden:
    """Play one of `names()` and return its golden. Raises CalledProcessError."""
    if name.startswith("lab "):
        return _lab(name.removeprefix("lab "), scratch)
    run, _, full = name.partition(" ")
    until = [] if full or run not in LARGE else ["--until", LARGE[run]]
    _weft("sim", run, *until, "--out", str(scratch / "out"))
    return folder(scratch / "out", "summary.json")


def _lab(name: str, scratch: Path) -> Golden:
    _weft("lab", "run", name, "--quick", "--out", str(scratch / "out"))
    golden = folder(scratch / "out", "results.json")
    stories = sorted((scratch / "out" / "runs").rglob("*.json"))
    golden["stories"] = {
        str(path.relative_to(scratch / "out")): _sha(path.read_bytes()) for path in stories
    }
    return golden


def _weft(*arguments: str) -> None:
    subprocess.run([str(WEFT), *arguments], cwd=ROOT, check=True, capture_output=True)


def folder(out: Path, summary: str) -> Golden:
    """Return the hashes of a folder of results; `summary`: the file that sums them up."""
    said = _without(json.loads((out / summary).read_text()))
    return {
        "summary": {key: _sha(_canonical(value)) for key, value in sorted(said.items())},
        "tables": {path.name: _table(path) for path in sorted(out.glob("*.parquet"))},
    }


def _without(value: Any) -> Any:
    """Leave out what differs from machine to machine, at any depth."""
    if isinstance(value, dict):
        return {key: _without(each) for key, each in value.items() if key not in OF_THE_MACHINE}
    if isinstance(value, list):
        return [_without(each) for each in value]
    return value


def _table(path: Path) -> Golden:
    table = pq.read_table(path)
    columns = {
        name: _column(table.column(name).combine_chunks(), name) for name in table.column_names
    }
    return {"sha256": _sha(path.read_bytes()), "rows": table.num_rows, "columns": columns}


def _column(values: Any, name: str) -> str:
    """Hash a column's values and type, whatever metadata its table has."""
    table = pa.table({name: values})
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return _sha(stream.getvalue())


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def differences(golden: Golden, found: Golden) -> Iterator[str]:
    """Yield a line for each part that is not as recorded: key, table or column."""
    for part in sorted({*golden, *found} - {"tables"}):
        yield from _keys(part, golden.get(part, {}), found.get(part, {}))
    before, after = golden["tables"], found["tables"]
    yield from _keys("table", dict.fromkeys(before), dict.fromkeys(after))
    for name in sorted(before.keys() & after.keys()):
        if before[name]["sha256"] == after[name]["sha256"]:
            continue
        lines = list(_keys(f"{name}: column", before[name]["columns"], after[name]["columns"]))
        yield from lines or [f"{name}: other bytes, the same values"]


def _keys(what: str, golden: Golden, found: Golden) -> Iterator[str]:
    for key in sorted({*golden, *found}):
        if key not in found:
            yield f"{what} {key} is missing"
        elif key not in golden:
            yield f"{what} {key} is new"
        elif golden[key] != found[key]:
            yield f"{what} {key} differs"


def recorded() -> dict[str, Golden]:
    """Return all goldens by name."""
    loaded: dict[str, Golden] = json.loads(GOLDENS.read_text())
    return loaded


def main(arguments: Sequence[str] | None = None) -> int:
    """Check or record; the exit code is 1 if something differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true")
    what.add_argument("--record", action="store_true")
    parser.add_argument("--full", action="store_true", help="large runs whole, too (10 minutes)")
    parser.add_argument("names", nargs="*", metavar="NAME")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.names if name not in names(full=True)]
    if unknown:
        parser.error(f"no golden {unknown[0]!r}; there are {', '.join(names(full=True))}")
    goldens = recorded() if GOLDENS.exists() else {}
    wrong = 0
    for name in asked.names or names(full=asked.full):
        with tempfile.TemporaryDirectory() as scratch:
            found = play(name, Path(scratch))
        if asked.record:
            goldens[name] = found
            print(f"{name}: recorded", flush=True)
            continue
        lines = list(differences(goldens[name], found))
        wrong += bool(lines)
        print("\n".join([f"{name}: {'differs' if lines else 'equal'}", *lines]), flush=True)
    if asked.record:
        GOLDENS.write_text(json.dumps(goldens, indent=1, sort_keys=True) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
