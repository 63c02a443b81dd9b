"""`weft parity`: one program on every pairing of compiler and switch that this machine has."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compat.parity import cases
from compat.parity.compare import parts, show, show_update
from compat.parity.report import Compiler, Example, Report, Row
from compat.parity.session import ParitySession, Plan, Program
from compiler.errors import CompileError
from observe.errors import UsageError
from softswitch import program_cache
from softswitch.program_cache import Job
from weft import console
from weft.command_line import argument, as_json, command, flag, option, preprocessor

SHOWN_UPDATES = 12


@command("""
    examples:
      weft parity p4src/fabric.p4
      weft parity prog.p4 --packets 10000 --seed 7
      weft parity prog.p4 --entries tables.json         with entries of your own
      weft parity prog.p4 --replay build/parity/prog.x.vectors.json
    """)
@argument("program", type=Path, metavar="PROG.p4", help="the program")
@preprocessor
@option("--packets", default=1000, metavar="N", help="number of packets (default)")
@option("--live-packets", default=300, metavar="N",
        help="how many of them also run on running switches, which are slow (default)")  # fmt: skip
@option("--seed", default=1, metavar="N",
        help="the same seed makes the same packets and entries (default)")  # fmt: skip
@option("--entries", type=Path, metavar="FILE", help="take the entries from a JSON file")
@option("--replay", type=Path, metavar="FILE", help="run a vector file's entries and packets")
@flag("--daemon", help="also run our switch as a daemon, on real links")
@option("-o", "out", type=Path, default=Path("build/parity"), metavar="DIR",
        help="where vector files of differences go (default)")  # fmt: skip
@as_json
def run(
    program: Path, include: tuple[Path, ...], define: tuple[str, ...], packets: int,
    live_packets: int, seed: int, entries: Path | None, replay: Path | None, daemon: bool,
    out: Path, as_json: bool,
) -> int:  # fmt: skip
    """Do the whole command. Returns 0 when nothing differs, 1 when something does.

    Raises UsageError for files and numbers that can't be used, CompileError when no compiler
    takes the program.
    """
    if packets < 1 or live_packets < 0:
        raise UsageError("--packets: at least 1; --live-packets: at least 0")
    try:
        plan = Plan(
            program=str(program),
            packets=packets,
            live_packets=live_packets,
            seed=seed,
            entries=cases.read_entries(entries) if entries else None,
            live=live_packets > 0,
            daemon=daemon,
            replay=cases.read_vectors(replay)[0] if replay else None,
        )
    except (cases.VectorFileError, OSError) as error:
        raise UsageError(str(error)) from error
    programs = compile_both(program, include, define, quiet=as_json)
    session = ParitySession(plan, programs)
    try:
        with console.progress(f"run {program}", quiet=as_json):
            report = session.run()
    finally:
        session.close()
    files = _write_examples(report, program.stem, out)
    if as_json:
        print(json.dumps(_as_json(report, files)))
    else:
        built = [f"-I {each}" for each in include] + [f"-D {each}" for each in define]
        _print(report, files, " ".join([report.program, *built]))
    return 0 if report.agrees else 1


def compile_both(
    source: Path,
    include_dirs: tuple[Path, ...],
    defines: tuple[str, ...],
    *,
    quiet: bool,
    made: Mapping[Compiler, Program] | None = None,
) -> dict[Compiler, Program]:
    """Compile the program with each compiler, except for those it is `made` with already.

    Raises the error of ours if neither accepts the program.
    """
    if not source.is_file():
        raise UsageError(f"{source}: no such file")
    programs: dict[Compiler, Program] = dict(made or {})
    refusal: Exception | None = None
    for compiler in [each for each in Compiler if each not in programs]:
        job = program_cache.Job(
            source=source,
            include_dirs=include_dirs,
            defines=defines,
            compiler=compiler.value,
        )
        with console.progress(f"compile with {compiler.value}", quiet=quiet):
            try:
                programs[compiler] = _compiled(job)
            except (CompileError, program_cache.P4cError) as error:
                programs[compiler] = _refused(compiler, error)
                refusal = error
    if refusal is not None and all(program.missing for program in programs.values()):
        raise refusal
    return programs


def _compiled(job: Job) -> Program:
    try:
        compiled = program_cache.compile_program(job)
    except program_cache.CompilerMissingError:
        return Program(missing="no p4c on PATH")
    return Program(compiled.json_text, compiled.p4info_text)


def _refused(compiler: Compiler, error: Exception) -> Program:
    first = next((line for line in str(error).splitlines() if "error" in line), str(error))
    return Program(
        missing=f"{compiler.value} does not take it: {first.strip()[:200]}", refused=True
    )


# --- results ------------------------------------------------------------------------------------


def _write_examples(report: Report, program: str, out: Path) -> dict[int, Path]:
    """Write each difference as a vector file; the paths by the examples' identity."""
    files: dict[int, Path] = {}
    for row in report.rows:
        pairing = row.name.replace(" ", "")
        for number, example in enumerate(row.examples, 1):
            path = out / f"{program}.{pairing}.{number}.vectors.json"
            note = f"{row.name} differs: {example.what}. Seed {report.seed}."
            cases.write_vectors(
                path, program, row.against, example.round_, example.reference.seen, note
            )
            files[id(example)] = path
    return files


def _print(report: Report, files: dict[int, Path], program: str) -> None:
    columns = ["pairing", "cases", "compared with", "equal", "different", "undefined", ""]
    console.table(
        columns,
        [_cells(row) for row in report.rows],
        title=f"{report.program}: {report.rounds} rounds, seed {report.seed}",
        right=["cases", "equal", "different", "undefined"],
    )
    print(_conditions(report))
    if report.p4info:
        print(report.p4info)
    for row in report.rows:
        for text in row.other[:SHOWN_UPDATES]:
            print(f"{row.name}: {text}")
        for example in row.examples:
            _print_example(program, row, example, files[id(example)])
    sys.stdout.flush()


def _cells(row: Row) -> list[str]:
    if row.missing:
        return [row.name, "-", "", "", "", "", "FAILED" if row.failed else row.missing]
    verdict = "" if not row.against else "ok" if row.agrees else "FAILED"
    numbers = [str(row.equal), str(row.different)] if row.against else ["", ""]
    against = row.against or "is the reference"
    return [row.name, str(row.cases), against, *numbers, str(row.undefined), verdict]


def _conditions(report: Report) -> str:
    text = f"{report.answered} packets were answered with something; links not emulated"
    if report.partly_compared:
        text += f"; in {report.partly_compared} answers bits that vary by themselves are left out"
    failed = [row for row in report.rows if row.failed]
    covered = report.coverage
    if any(row.cases for row in report.rows):
        text += (
            f"\n{covered.changed} packets left changed, {covered.unchanged} as they came, "
            f"{covered.dropped} were dropped; {covered.tables_text()}"
        )
    return "\n".join([text, *(f"{row.name}: {row.missing}" for row in failed)])


def _print_example(program: str, row: Row, example: Example, path: Path) -> None:
    print(f"\n{row.name} differs from {row.against}: {example.what}")
    updates = [show_update(update) for update in example.round_.setup]
    for line in updates[:SHOWN_UPDATES]:
        print(f"  entry   {line}")
    if len(updates) > SHOWN_UPDATES:
        print(f"  entry   ... and {len(updates) - SHOWN_UPDATES} more")
    for number, packet in enumerate(example.round_.packets):
        print(f"  packet  {show(packet)}")
        for who, answer in ((row.against, example.reference), (row.name, example.other)):
            print(f"    {who}: {_answer(answer, number)}")
    print(f"  again   weft parity {program} --replay {path}")


def _answer(answer: Any, number: int) -> str:
    if number >= len(answer.seen):
        return str(answer.died)
    found = parts(answer.seen[number])
    return "; ".join(f"{what} {data.hex()}" for what, data in found) or "nothing"


def _as_json(report: Report, files: dict[int, Path]) -> dict[str, Any]:
    return {
        "program": report.program,
        "seed": report.seed,
        "rounds": report.rounds,
        "equal": report.agrees,
        "compared": report.compares,
        "answered": report.answered,
        "partly_compared": report.partly_compared,
        "coverage": report.coverage.as_json(),
        "p4info": report.p4info,
        "pairings": [
            {
                "compiler": row.compiler.value,
                "target": row.target,
                "missing": row.missing,
                "failed": row.failed,
                "against": row.against,
                "cases": row.cases,
                "equal": row.equal,
                "different": row.different,
                "undefined": row.undefined,
                "other": row.other,
                "examples": [
                    {"what": example.what, "vectors": str(files[id(example)])}
                    for example in row.examples
                ],
            }
            for row in report.rows
        ],
    }
