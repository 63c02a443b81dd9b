"""`weft lint`: programs, topologies and run files, checked against each other.

PROG.p4, PROG.json   registers whose read-modify-write is not atomic on BMv2
a topology           what `weft topo check` finds, and the class map against the P4 program
a run file           the same of its topology, and buffer, ECN, headroom, deadlocks and transport
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from controller.lint_queues import queue_faults, queues_of_dscps
from controller.program import CompiledProgram
from mechanisms import registry
from mechanisms.program import job
from observe.errors import UsageError
from softswitch import program_cache
from softswitch.codegen import Bmv2Program
from softswitch.lint_registers import register_findings
from softswitch.program_cache import Compiled
from topologies import TopologyError, available
from topologies.document import parse_document
from topologies.lint.classes import class_faults
from topologies.lint.findings import Finding, Remark, Severity, merged
from topologies.lint.topology import lint
from topologies.loader import Source, load_source
from topologies.model import Topology
from weft import console
from weft.command_line import argument, as_json, command, flag, option, preprocessor
from workloads.lint_buffer import buffer_faults
from workloads.lint_pauses import pause_faults
from workloads.lint_transport import transport_faults
from workloads.loader import available_runs, load_run_file
from workloads.model import RunFile

PROGRAM = Path(__file__).resolve().parent.parent / "p4src" / "fabric.p4"
_YAML = (".yaml", ".yml")


@command("""
    examples:
      weft lint p4src/fabric.p4           registers that threads would tear
      weft lint my/net.yaml               class map against what the program really does
      weft lint incast-32 --strict        a run: buffer, ECN, headroom; warnings fail too
      weft lint my/net.yaml --p4 my/fabric.p4
    """)
@argument("files", nargs=-1, required=True, metavar="FILE...",
          help="a .p4, BMv2 .json, topology or run file, or name")  # fmt: skip
@option("--p4", type=Path, default=PROGRAM, metavar="PROG.p4",
        help="check class maps against this program (default: p4src/fabric.p4)")  # fmt: skip
@preprocessor
@flag("--strict", help="warnings fail too")
@as_json
def run(
    files: tuple[str, ...], p4: Path, include: tuple[Path, ...], define: tuple[str, ...],
    strict: bool, as_json: bool,
) -> int:  # fmt: skip
    """Check each file; return the exit code: 1 for an error, with --strict for a warning too.

    Raises the compiler's CompileError, JsonError, LintError, UsageError; a topology or run file
    that can't be loaded is findings.
    """
    programs = _Programs(p4, include, define)
    findings: list[Finding] = []
    for file in files:
        findings += _lint(file, programs)
    bad = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    good = not any(finding.severity in bad for finding in findings)
    if as_json:
        print(json.dumps({"good": good, "findings": [_as_json(each) for each in findings]}))
    else:
        _print(files, findings, good)
    return 0 if good else 1


class _Programs:
    """Compiles what is asked for, the program that class maps are checked against once."""

    def __init__(self, program: Path, include: tuple[Path, ...], define: tuple[str, ...]) -> None:
        self._program, self._include, self._define = program, include, define
        self._fabric: CompiledProgram | None = None
        self._own: dict[program_cache.Job, CompiledProgram] = {}

    def compiled(self, source: Path) -> Compiled:
        """Return a program, compiled. Raises CompileError."""
        job = program_cache.Job(source=source, include_dirs=self._include, defines=self._define)
        return program_cache.compile_program(job)

    def has_table(self, topology: Topology) -> Callable[[str], bool]:
        """Return what says whether a switch of a topology has a table.

        Switches run what the topology's file names, or else the program that was chosen.
        """

        def has(name: str) -> bool:
            return any(name in each.p4info.tables for each in self._of(topology))

        return has

    def _of(self, topology: Topology) -> Iterator[CompiledProgram]:
        """Yield each program of a topology's switches, compiled. Raises CompileError."""
        named = {topology.own.program_of(each.name) for each in topology.switches}
        if self._program != PROGRAM:
            named = {None}
        for source in named:
            if source is None:
                yield self.fabric()
                continue
            wanted = job(topology, source)
            if wanted not in self._own:
                compiled = program_cache.compile_program(wanted)
                self._own[wanted] = CompiledProgram.of(compiled)
            yield self._own[wanted]

    def fabric(self) -> CompiledProgram:
        """Return the program that the fabric runs."""
        if self._fabric is None:
            self._fabric = CompiledProgram.of(self.compiled(self._program))
        return self._fabric


def _lint(file: str, programs: _Programs) -> list[Finding]:
    path = Path(file)
    if path.suffix in (".p4", ".json"):
        return _lint_program(path, programs)
    named = path.suffix not in _YAML
    try:
        if (named and file in available_runs()) or (not named and _is_run(path)):
            return _lint_run(file, programs)
        if named and file not in available():
            raise UsageError(
                f"lint {file}: give a .p4, .json or .yaml file, or the name of a topology or run"
            )
        return _lint_topology(file, programs)
    except TopologyError as error:
        return [Finding.of(problem) for problem in error.problems]


def _lint_program(path: Path, programs: _Programs) -> list[Finding]:
    text = path.read_text(encoding="utf-8") if path.suffix == ".json" else ""
    program = Bmv2Program.from_json(text or programs.compiled(path).json_text)
    found = []
    for each in register_findings(program):
        file = str(path)
        line = each.source.line if each.source is not None else 1
        if each.source is not None and Path(each.source.file).name != path.name:
            file = each.source.file  # in what it includes
        found.append(Finding(Severity.ERROR, file, line, 1, each.message, each.right))
    return found


def _is_run(path: Path) -> bool:
    """Say whether a file is meant as a run file: it has one of the keys that only those have."""
    try:
        data = parse_document(path.read_text(encoding="utf-8"), str(path)).data
    except (OSError, UnicodeDecodeError):
        return False  # the loader of topologies says what is wrong
    return isinstance(data, dict) and bool({"topology", "traffic", "job", "jobs"} & set(data))


def _lint_topology(file: str, programs: _Programs) -> list[Finding]:
    source = load_source(file)
    lacks = registry.missing(source.topology, programs.has_table(source.topology))
    report = lint(source, [*registry.remarks(source.topology), *lacks])
    return [*report.findings, *merged(_queue_remarks(source, programs), source.document)]


def _queue_remarks(source: Source, programs: _Programs) -> Iterable[Remark]:
    queues = queues_of_dscps(source.topology, programs.fabric())
    return queue_faults(source.topology, queues)


def _lint_run(file: str, programs: _Programs) -> list[Finding]:
    loaded: RunFile = load_run_file(file)
    data = loaded.document.data
    inline = isinstance(data, dict) and isinstance(data.get("topology"), dict)
    source = Source(loaded.topology, loaded.document, ())
    queues = queues_of_dscps(loaded.topology, programs.fabric())
    remarks = [
        *class_faults(source),
        *queue_faults(loaded.topology, queues),
        *registry.remarks(loaded.topology),
        *registry.missing(loaded.topology, programs.has_table(loaded.topology)),
    ]
    if inline:
        placed = [_moved(each, ("topology",)) for each in remarks]
    else:
        placed = [_moved(each, ("topology",), whole=True) for each in remarks]
    placed += buffer_faults(loaded)
    placed += pause_faults(loaded)
    placed += transport_faults(loaded)
    placed += registry.run_remarks(loaded, ("topology",))
    return merged(placed, loaded.document)


def _moved(remark: Remark, prefix: tuple[str, ...], *, whole: bool = False) -> Remark:
    return replace(remark, path=prefix if whole else (*prefix, *remark.path))


def _print(files: Iterable[str], findings: Iterable[Finding], good: bool) -> None:
    count = 0
    for each in findings:
        place = f"{each.file}:{each.line}:{each.column}"
        text = f"{each.message}; {each.right}" if each.right else each.message
        print(f"{place}: {console.severity(each.severity.value)}: {text}")
        count += 1
    if not count:
        print(f"{', '.join(files)}: nothing to complain about")
    elif good:
        print("good")


def _as_json(finding: Finding) -> dict[str, object]:
    return {
        "severity": finding.severity.value,
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "message": finding.message,
        "right": finding.right,
    }
