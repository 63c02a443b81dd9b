"""BMv2's recorded answers (tests/golden/*.vectors.json) on the in-process switch.

    python tests/softswitch/vectors.py [--json] [--only NAME] [--verbose]

prints for each program and compiler how many cases pass and why the others do not. How the
recording is to be read stands in tests/golden/README.md. Cases are independent, so they share one
switch, but for `timing` cases (first, on the fresh switch) and `sequence` steps (in order).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compiler import CompileError
from softswitch.core import CoreConfig
from softswitch.p4runtime.named_updates import NamedUpdates
from softswitch.p4runtime.protos import p4r
from softswitch.switch import DigestList, Output, PacketIn, Switch

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
PROGRAMS = ("l3", "features")
COMPILERS = ("p4c", "weft")

CASE_GAP_NS = 5_000_000
"""Time between cases; the recording wants more than 1 ms."""

SETTLE_NS = 2_000_000
"""Time that a case's packets get to pass the switch (no link is slow here)."""

IDLE_NS = 3_000_000_000
"""Time for a case that waits for an idle time-out; BMv2 looks once a second."""

Json = Mapping[str, Any]


@dataclass
class Result:
    """One case: `problems` is empty when it passed."""

    program: str
    compiler: str
    case: str
    problems: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether everything was as recorded."""
        return not self.problems

    @property
    def key(self) -> str:
        """The line that open.txt has for this case."""
        return f"{self.program} {self.compiler} {self.case}"


def recording(program: str) -> Json:
    """Return the recorded vectors of a program."""
    data: Json = json.loads((GOLDEN / f"{program}.vectors.json").read_text(encoding="utf-8"))
    return data


def make_switch(program: str, compiler: str, cpu_port: int, cache_dir: Path | None) -> Switch:
    """Return a fresh switch with the program as `compiler` made it. Raises CompileError."""
    config = CoreConfig(cpu_port=cpu_port)
    if compiler == "p4c":
        return Switch.from_json(
            GOLDEN / f"{program}.json",
            GOLDEN / f"{program}.p4info.txtpb",
            config=config,
            cache_dir=cache_dir,
        )
    return Switch.from_p4(GOLDEN / f"{program}.p4", config=config, cache_dir=cache_dir)


def run(program: str, compiler: str, cache_dir: Path | None = None) -> list[Result]:
    """Run all cases of a program in the recorded order. Raises CompileError."""
    return Runner(program, compiler, cache_dir).run()


class Runner:
    """One program's cases on one switch."""

    def __init__(self, program: str, compiler: str, cache_dir: Path | None = None) -> None:
        self.program = program
        self.compiler = compiler
        self.data = recording(program)
        self.switch = make_switch(program, compiler, self.data["cpu_port"], cache_dir)
        self.entities = NamedUpdates(self.switch.names)
        self.unacknowledged: list[DigestList] = []

    def run(self) -> list[Result]:
        """All cases, and at the end the counters' sums as one more result."""
        for update in self.data["setup"]:
            self.switch.write([self.entities.update(update)])
        results = []
        cases = self.data["cases"]
        for case in [c for c in cases if "timing" in c] + [c for c in cases if "timing" not in c]:
            result = Result(self.program, self.compiler, case["name"])
            try:
                result.problems = list(self._case(case))
            except Exception as error:  # a crash is a failed case with a reason
                result.problems = [f"{type(error).__name__}: {error}"]
            results.append(result)
        if self.data["counters"]:
            results.append(self._sums())
        order = {case["name"]: position for position, case in enumerate(cases)}
        return sorted(results, key=lambda r: order.get(r.case, len(order)))

    def _case(self, case: Json) -> Iterator[str]:
        switch = self.switch
        step = case.get("sequence", "")
        if "acknowledge" in step:
            self._acknowledge()
        switch.run_until(switch.now_ns + CASE_GAP_NS)
        switch.packet_ins.clear()
        switch.digests.clear()
        switch.idle_timeouts.clear()
        for update in case.get("before", ()):
            switch.write([self.entities.update(update)])
        for written in case.get("registers", ()):
            self._reset_register(written["name"])
        counters = self._counters(case)
        packets = case.get("in", ())
        for packet in [packets] if isinstance(packets, Mapping) else packets:
            self._send(packet)
        wait = IDLE_NS if "idle_timeout" in case else SETTLE_NS
        outputs = switch.run_until(switch.now_ns + wait)
        yield from self._compare(case, outputs)
        yield from self._compare_counters(case, counters)
        self.unacknowledged += switch.digests
        if not step:
            self._acknowledge()
        for update in case.get("after", ()):
            switch.write([self.entities.update(update)])

    def _send(self, packet: Json) -> None:
        if "packet_out" in packet:
            out = packet["packet_out"]
            self.switch.packet_out(bytes.fromhex(out["hex"]), out["metadata"])
        else:
            self.switch.inject(packet["port"], bytes.fromhex(packet["hex"]))

    def _acknowledge(self) -> None:
        for digest in self.unacknowledged:
            self.switch.acknowledge(digest)
        self.unacknowledged.clear()

    # --- comparisons --------------------------------------------------------------------------

    def _compare(self, case: Json, outputs: Sequence[Output]) -> Iterator[str]:
        # Ports without an interface swallow what is sent to them.
        for port in self.data["ports"]:
            frames = [o.packet for o in outputs if o.port == port]
            wanted = [w for w in case.get("out", ()) if w["port"] == port]
            yield from _frames(f"port {port}", frames, wanted)
        yield from self._compare_packet_ins(case.get("packet_in", ()))
        yield from self._compare_digests(case.get("digest", ()))
        labels = sorted(self._idle_labels())
        if labels != sorted(case.get("idle_timeout", ())):
            yield f"idle time-outs {labels}, recorded {case.get('idle_timeout', [])}"
        yield from self._compare_registers(case.get("registers", ()))

    def _compare_packet_ins(self, wanted: Sequence[Json]) -> Iterator[str]:
        got: list[PacketIn] = self.switch.packet_ins
        yield from _frames("packet-in", [p.payload for p in got], wanted)
        for index, (packet, want) in enumerate(zip(got, wanted, strict=False)):
            metadata = {name: int(value, 16) for name, value in want["metadata"].items()}
            if dict(packet.metadata) != metadata:
                yield f"packet-in {index}: metadata {dict(packet.metadata)}, recorded {metadata}"

    def _compare_digests(self, wanted: Sequence[Json]) -> Iterator[str]:
        got = [(d.name, [list(row) for row in d.rows]) for d in self.switch.digests]
        want = [(w["name"], [[int(v, 16) for v in row] for row in w["data"]]) for w in wanted]
        if got != want:
            yield f"digests {got}, recorded {want}"

    def _idle_labels(self) -> set[str]:
        found = set()
        for notice in self.switch.idle_timeouts:
            for entry in notice.table_entry:
                found.add(self.entities.label_of(entry))
        return found

    def _compare_registers(self, wanted: Sequence[Json]) -> Iterator[str]:
        for name in {w["name"] for w in wanted}:
            register = self.switch.names.schema.registers[self.switch.names.register_id(name)]
            written = {w["index"] for w in wanted if w["name"] == name}
            got = {
                index
                for index in range(register.size)
                if self.switch.register_read(name, index) != 0
            }
            if got != written:
                yield f"register {name}: cells {sorted(got)} written, recorded {sorted(written)}"

    def _reset_register(self, name: str) -> None:
        register = self.switch.names.schema.registers[self.switch.names.register_id(name)]
        for index in range(register.size):
            self.switch.register_write(name, index, 0)

    # --- counters -----------------------------------------------------------------------------

    def _counters(self, case: Json) -> Counter[tuple[str, object, str]]:
        """All counter cells that are not 0: indirect ones, and direct ones by entry label."""
        values: Counter[tuple[str, object, str]] = Counter()
        if not self.data["counters"]:
            return values
        for entity in self.switch.read(
            p4r.Entity(counter_entry=p4r.CounterEntry()),
            p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry()),
        ):
            if entity.WhichOneof("entity") == "counter_entry":
                counter = entity.counter_entry
                name = self.switch.names.schema.counters[counter.counter_id].name
                cell: object = counter.index.index
                data = counter.data
            else:
                direct = entity.direct_counter_entry
                table = self.switch.names.schema.tables[direct.table_entry.table_id]
                assert table.counter is not None
                name = table.counter.name
                cell = self.entities.label_of(direct.table_entry)
                data = direct.data
            if data.packet_count:
                values[name, cell, "packets"] = data.packet_count
            if data.byte_count:
                values[name, cell, "bytes"] = data.byte_count
        return values

    def _compare_counters(
        self, case: Json, before: Counter[tuple[str, object, str]]
    ) -> Iterator[str]:
        if not self.data["counters"]:
            return
        delta = self._counters(case)
        delta.subtract(before)
        got = {key: value for key, value in delta.items() if value}
        want = _cells(case.get("counter_delta", ()))
        if got != want:
            yield f"counters changed by {_show(got)}, recorded {_show(want)}"

    def _sums(self) -> Result:
        result = Result(self.program, self.compiler, "counters")
        labels = {u["table_entry"].get("label") for u in self.data["setup"] if "table_entry" in u}
        got = {
            key: value
            for key, value in self._counters({}).items()
            if isinstance(key[1], int) or key[1] in labels
        }
        want = _cells(self.data["counters"])
        if got != want:
            result.problems.append(f"sums {_show(got)}, recorded {_show(want)}")
        return result


def _frames(where: str, frames: Sequence[bytes], wanted: Sequence[Json]) -> Iterator[str]:
    if len(frames) != len(wanted):
        yield (
            f"{where}: {len(frames)} frames, recorded {len(wanted)}; got "
            f"{[f.hex()[:60] for f in frames]}"
        )
        return
    for index, (frame, want) in enumerate(zip(frames, wanted, strict=True)):
        expected = bytes.fromhex(want["hex"])
        mask = bytes.fromhex(want["mask"]) if "mask" in want else b"\xff" * len(expected)
        got = bytes(f & m for f, m in zip(frame, mask, strict=False))
        if len(frame) != len(expected) or got != expected:
            yield f"{where}, frame {index}: {got.hex()}, recorded {expected.hex()}"


def _cells(entries: Iterable[Json]) -> dict[tuple[str, object, str], int]:
    cells: dict[tuple[str, object, str], int] = {}
    for entry in entries:
        cell: object = entry["index"] if "index" in entry else entry["entry"]
        for unit in ("packets", "bytes"):
            if entry.get(unit):
                cells[entry["name"], cell, unit] = entry[unit]
    return cells


def _show(cells: Mapping[tuple[str, object, str], int]) -> str:
    return (
        ", ".join(
            f"{name}[{cell}].{unit}={value}"
            for (name, cell, unit), value in sorted(cells.items(), key=str)
        )
        or "nothing"
    )


def open_cases() -> set[str]:
    """Return the cases that are known not to pass: lines `PROGRAM COMPILER CASE` of open.txt."""
    path = GOLDEN / "open.txt"
    if not path.exists():
        return set()
    lines = path.read_text(encoding="utf-8").splitlines()
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


def main(argv: Sequence[str] | None = None) -> int:
    """Print how many cases pass and why the others do not; 0 if all pass."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--verbose", action="store_true", help="print whole reasons")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    options = parser.parse_args(argv)
    report: list[dict[str, Any]] = []
    for program in PROGRAMS:
        for compiler in COMPILERS:
            report.append(_report(program, compiler, options.only))
    if options.json:
        json.dump(report, sys.stdout, indent=1)
        print()
    else:
        for part in report:
            _print(part, options.verbose)
    return (
        0 if all(part["passed"] == part["cases"] and not part["missing"] for part in report) else 1
    )


def _report(program: str, compiler: str, only: str) -> dict[str, Any]:
    total = len(recording(program)["cases"])
    part: dict[str, Any] = {"program": program, "compiler": compiler, "missing": "", "open": []}
    try:
        results = [r for r in run(program, compiler) if only in r.case]
    except CompileError as error:
        return part | {"cases": total, "passed": 0, "missing": str(error)}
    part["cases"] = len(results)
    part["passed"] = sum(r.passed for r in results)
    part["open"] = [{"case": r.case, "why": r.problems} for r in results if not r.passed]
    return part


def _print(part: Json, verbose: bool) -> None:
    print(f"{part['program']} by {part['compiler']}: {part['passed']} of {part['cases']} pass")
    if part["missing"]:
        print(f"  {part['missing'].splitlines()[0]}")
    for item in part["open"]:
        reason = "; ".join(item["why"])
        print(f"  {item['case']}: {reason if verbose else reason[:160]}")


if __name__ == "__main__":
    sys.exit(main())
