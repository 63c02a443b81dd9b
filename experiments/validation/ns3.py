"""HPCC's ns-3: its configuration for a case, and what it gave as facts.

    python -m experiments.validation.ns3 config websearch-30 CONTROL > config.txt
    python -m experiments.validation.ns3 record websearch-30 CONTROL --fct fct.txt \
        --pfc pfc.txt --cpu-s 350

The program is alibaba-edu/High-Precision-Congestion-Control at `COMMIT`, which this project has no
copy of. `CHANGES` is what was changed there; docs/validation.md says how it was built.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from experiments.validation.cases import CASES, PAYLOAD, Case
from experiments.validation.slowdown import Decile, deciles, of_rows, one_way_ps
from observe.errors import UsageError
from workloads.hpcc import BACKGROUND

HERE = Path(__file__).parent
FACTS = HERE / "facts"
REPOSITORY = "alibaba-edu/High-Precision-Congestion-Control"
COMMIT = "9f4be2a9ead8a90e8bf732c66bd758c00e58e5be"
BUILT = "ns-3.17, waf configure -d optimized, g++ 12.2 -O3 -std=gnu++11 -fpermissive"
CHANGES = (
    "scratch/third.cc: global routing, which nothing uses, is not computed; it ends with the last "
    "flow; a ninth column of the FCT file is when the last byte came in order",
)
HEADERS = 48
"""Of a packet with data, telemetry left out: CustomHeader::GetStaticWholeHeaderSize."""

COMMON: Mapping[str, object] = {
    "ENABLE_QCN": 1,
    "USE_DYNAMIC_PFC_THRESHOLD": 1,
    "PACKET_PAYLOAD_SIZE": PAYLOAD,
    "SIMULATOR_STOP_TIME": "1.00",
    "DCTCP_RATE_AI": "1000Mb/s",
    "ERROR_RATE_PER_LINK": "0.0000",
    "L2_CHUNK_SIZE": 4000,
    "L2_ACK_INTERVAL": 1,
    "L2_BACK_TO_ZERO": 0,
    "GLOBAL_T": 1,
    "U_TARGET": 0.95,
    "MI_THRESH": 0,
    "MULTI_RATE": 0,
    "SAMPLE_FEEDBACK": 0,
    "PINT_LOG_BASE": 1.01,
    "PINT_PROB": "1.0",
    "RATE_BOUND": 1,
    "LINK_DOWN": "0 0 0",
    "ENABLE_TRACE": 0,
    "BUFFER_SIZE": 32,
    "QLEN_MON_START": 2_000_000_000,
    "QLEN_MON_END": 2_000_000_001,
}
"""As in its run.py, but for the payload, the time and the queues' log, which begins too late."""

_FIELDS = 9
_START_NS = 1
"""Seconds are floating point there and are cut, so that a flow may begin a nanosecond sooner."""


class FactsError(ValueError):
    """A file of another simulator's that is none, or belongs to other flows."""


@dataclass(frozen=True)
class Control:
    """A sender's algorithm in both: ours (`roce`, `transport`), and the settings of theirs.

    `roce`: what the class of the data has; `without`: classes that the fabric is not to have;
    `buffer`: of switches, where it is not the comparison's own.
    `variants`: ours with one named difference of models taken away, by name.
    """

    name: str
    roce: Mapping[str, object]
    transport: Mapping[str, object]
    settings: Mapping[str, object]
    without: Sequence[str] = ()
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    buffer: Mapping[str, object] = field(default_factory=dict)

    def variant(self, name: str) -> Control:
        """Return it with that difference taken away. Raises FactsError."""
        if name not in self.variants:
            there = ", ".join(self.variants) or "none"
            raise FactsError(f"{self.name} has no variant {name!r}; available: {there}")
        found = self.variants[name]
        return replace(
            self,
            roce={**self.roce, **found.get("roce", {})},
            transport={**self.transport, **found.get("transport", {})},
            without=found.get("without", ()),
            buffer=found.get("buffer", {}),
        )


@dataclass(frozen=True)
class Facts:
    """What a run of theirs gave. `port`: the flows' destination port, by which paths differ."""

    case: str
    control: str
    port: int
    flow_file_sha256: str
    settings: Mapping[str, object]
    cpu_s: float
    pauses: int
    last_ms: float
    to_last_byte: list[Decile]
    to_last_ack: list[Decile]


def controls() -> dict[str, Control]:
    """Return all of them by name."""
    found = {}
    for path in sorted(HERE.glob("controls/*/*.yaml")):
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        ours, variants = data["weft"], data.get("variants", {})
        found[path.stem] = Control(
            path.stem, ours["roce"], ours["transport"], data["ns3"], variants=variants
        )
    return found


def config(control: Control, files: Mapping[str, str]) -> str:
    """Return their configuration; `files` by key."""
    rows = {**COMMON, **control.settings, **files}
    return "".join(f"{key} {value}\n" for key, value in rows.items())


def facts_of(
    case: Case, control: Control, fct: str, pauses: int, cpu_s: float, port: int = BACKGROUND
) -> Facts:
    """Return what an FCT file says. Raises FactsError where it is not of these flows."""
    expected = case.connections()
    left: dict[tuple[int, int, int], list[tuple[int, int, int, int]]] = {}
    for number, line in enumerate(fct.splitlines(), start=1):
        words = line.split()
        if len(words) != _FIELDS:
            raise FactsError(f"line {number}: {len(words)} fields, {_FIELDS} are expected")
        source, target = (int(word, 16) >> 8 & 0xFFFF for word in words[:2])
        size, start, took_ns, ideal_ns, arrived_ns = (int(word) for word in words[4:])
        left.setdefault((source, target, size), []).append((start, took_ns, ideal_ns, arrived_ns))
    for alike in left.values():
        alike.sort(reverse=True)
    rows = []
    for source, target, size, start_ps in expected:
        alike = left.get((source, target, size), [])
        if not alike or abs(alike[-1][0] - start_ps // 1000) > _START_NS:
            flow = f"{source}->{target}, {size} B at {start_ps // 1000} ns"
            raise FactsError(f"{case.name}: {flow} is missing: did the run end?")
        rows.append(alike.pop()[1:])
    if any(left.values()):
        raise FactsError(f"{case.name}: there are flows that this case does not have")
    took, ideal, arrived = np.array(rows, dtype=np.int64).T * 1000
    sizes = np.array([size for _, _, size, _ in expected], dtype=np.int64)
    starts = np.array([start for *_, start in expected], dtype=np.int64)
    wire = sizes + -(-sizes // PAYLOAD) * HEADERS
    return Facts(
        case.name,
        control.name,
        port,
        digest(case, port),
        {**COMMON, **control.settings},
        cpu_s,
        pauses,
        round(float((starts + arrived).max()) / 1e9, 3),
        deciles(sizes, arrived, one_way_ps(case.fabric, expected, wire)),
        deciles(sizes, took, ideal),
    )


def digest(case: Case, port: int = BACKGROUND) -> str:
    """Return the flow file's SHA-256."""
    return hashlib.sha256(case.flow_file(port).encode()).hexdigest()


def write(facts: Facts, folder: Path = FACTS) -> Path:
    """Write facts into a file, which is returned."""
    path = folder / f"{facts.case}+{facts.control}+{facts.port}.json"
    origin = {"repository": REPOSITORY, "commit": COMMIT, "built": BUILT, "changes": CHANGES}
    rounded = _rounded(asdict(facts))
    path.write_text(json.dumps({"simulator": origin, **rounded}, indent=1) + "\n", encoding="utf-8")
    return path


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def recorded(folder: Path = FACTS) -> list[Facts]:
    """Return all facts. Raises FactsError where one is none, or of other flows."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            data.pop("simulator")
            for key in ("to_last_byte", "to_last_ack"):
                data[key] = of_rows(data[key])
            found.append(Facts(**data))
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise FactsError(f"{path.name}: not what ns3.py writes: {error!r}") from None
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a configuration, or record what a run gave; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("config", "record"))
    parser.add_argument("case", choices=CASES)
    parser.add_argument("control", choices=controls())
    parser.add_argument("--port", type=int, default=BACKGROUND)
    parser.add_argument("--folder", default="mix", help="of their files, in the configuration")
    parser.add_argument("--fct", type=Path)
    parser.add_argument("--pfc", type=Path)
    parser.add_argument("--cpu-s", type=float, default=0.0)
    asked = parser.parse_args(arguments)
    case, control = CASES[asked.case], controls()[asked.control]
    if asked.what == "config":
        name = f"{asked.folder}/{asked.case}-{asked.port}"
        out = f"{name}-{asked.control}"
        files = {
            "TOPOLOGY_FILE": f"{asked.folder}/fat.txt",
            "FLOW_FILE": f"{name}.txt",
            "TRACE_FILE": f"{asked.folder}/trace.txt",
            "TRACE_OUTPUT_FILE": f"{out}.tr",
            "FCT_OUTPUT_FILE": f"{out}.fct",
            "PFC_OUTPUT_FILE": f"{out}.pfc",
            "QLEN_MON_FILE": f"{out}.qlen",
        }
        sys.stdout.write(config(control, files))
        return 0
    if asked.fct is None or asked.pfc is None:
        raise UsageError("record: give --fct and --pfc, the files that the run wrote")
    pauses = sum(line.split()[-1:] == ["1"] for line in asked.pfc.read_text().splitlines())
    found = facts_of(case, control, asked.fct.read_text(), pauses, asked.cpu_s, asked.port)
    print(write(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
