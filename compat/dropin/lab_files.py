"""`weft lab-files DIR`: do old labs' files of commands do what they did?

Every file of simple_switch_CLI's commands under DIR is run, with the program (P4, else BMv2 JSON)
beside it or in a folder above, on a switch of its own. With `--beside CLI` BMv2 runs it too, and
what both print, the dumps of all tables and of multicast included, is compared. Lines for the
system's shell are left out, since they have not been reviewed.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stderr
from dataclasses import asdict, dataclass, field
from pathlib import Path

from google.protobuf import text_format

from compat.bmv2_cli.connection import Connection
from compat.bmv2_cli.main import SwitchShell
from compat.dropin.lab_files_bmv2 import Bmv2Error, bmv2_text, same_lines
from compat.dropin.lab_switch import lab_switch
from compiler import CompileError, compile_p4
from observe.errors import UsageError
from softswitch.codegen import Bmv2Program, JsonError
from softswitch.diagnostics import DiagnosticsClient
from softswitch.p4runtime.p4info_from_json import derive
from softswitch.p4runtime.status import PipelineError
from weft import console
from weft.command_line import argument, as_json, command, option

_COMMANDS = frozenset(
    name.removeprefix("do_")
    for name in dir(SwitchShell)
    if name.startswith("do_") and "_" in name.removeprefix("do_")
)
_SUFFIXES = frozenset({"", ".txt", ".cmd", ".cmds", ".in"})
_FOLDERS_UP = 3
_LARGEST_BYTES = 1 << 20
_NO_COMMAND = re.compile(r"\s*(?:#|//|!|shell\b)")
"""Comments, and what would run a program of this machine."""
_INCLUDE = re.compile(r"^\s*#\s*include", re.MULTILINE)
_MAIN = re.compile(r"\)\s*main\s*;")


@dataclass(slots=True)
class LabFile:
    """One file: how many commands, which were refused and why; `differs`: first lines that do."""

    file: str
    program: str = ""
    commands: int = 0
    refused: list[str] = field(default_factory=list)
    differs: list[str] | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Built:
    """A program as a switch takes it: BMv2 JSON and P4Info's text."""

    name: str
    json: str
    p4info: str


@command("""
    examples:
      weft lab-files p4-learning                 what our switch refuses, and why
      weft lab-files p4-learning --beside simple_switch_CLI
                                                 and whether BMv2 prints the same

    exit codes: 0 nothing is refused or differs, 1 something is or does, 2 wrong arguments
    """)
@argument("folder", type=Path, metavar="DIR")
@option("--beside", metavar="CLI",
        help="compare with this command, BMv2's own CLI; needs simple_switch_grpc")  # fmt: skip
@as_json
def run(folder: Path, beside: str | None, as_json: bool) -> int:
    """Run every file; return the exit code."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder")
    found = list(find(folder))
    if not found:
        raise UsageError(f"{folder} has no files of simple_switch_CLI's commands")
    compiled: dict[Path, Built | str] = {}
    rows = []
    with console.progress_bar("lab files", len(found), quiet=as_json) as step:
        for path in found:
            rows.append(_best(path, folder, beside, compiled))
            step()
    _tell(rows, in_json=as_json, compared=beside is not None)
    return 1 if any(row.refused or row.differs for row in rows) else 0


def find(folder: Path) -> Iterator[Path]:
    """Yield the files in which most lines are such commands."""
    for path in sorted(folder.rglob("*")):
        if path.suffix not in _SUFFIXES or not path.is_file():
            continue
        if path.stat().st_size > _LARGEST_BYTES or ".git" in path.parts:
            continue
        try:
            lines = commands_of(path.read_text())
        except (UnicodeDecodeError, OSError):
            continue
        words = [line.split()[0] for line in lines]
        if words and sum(word in _COMMANDS for word in words) * 2 > len(words):
            yield path


def commands_of(text: str) -> list[str]:
    """Return the lines that are neither empty, comments, nor commands of the shell."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not _NO_COMMAND.match(line)]


def programs_for(path: Path, root: Path) -> list[Path]:
    """Return the programs of the nearest folder that has some, from that of `path` up to `root`.

    P4 programs; where there are none that we could compile, BMv2 JSON.
    """
    folder = path.parent
    for _ in range(_FOLDERS_UP + 1):
        for place in (folder, folder / "p4src", folder / "p4"):
            found = [each for each in sorted(place.glob("*.p4")) if _is_program(each)]
            found = found or [each for each in sorted(place.glob("*.json")) if _is_bmv2(each)]
            if found:
                return found
        if folder == root:
            break
        folder = folder.parent
    return []


def _is_program(path: Path) -> bool:
    if not path.is_file():  # a folder, or a link to nothing
        return False
    text = path.read_text(errors="replace")
    return bool(_MAIN.search(text) and _INCLUDE.search(text))


def _is_bmv2(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        found = json.loads(path.read_bytes())
    except ValueError:
        return False
    return isinstance(found, dict) and "pipelines" in found and "parsers" in found


def _built(program: Path) -> Built | str:
    """Build the program for a switch, or return what is wrong with it."""
    try:
        if program.suffix == ".json":
            data = program.read_text()
            info = derive(Bmv2Program.from_json(data.encode()))
            return Built(program.name, data, text_format.MessageToString(info))
        result = compile_p4(program, include_dirs=[program.parent])
    except (CompileError, JsonError) as error:
        return str(error).splitlines()[0].replace(f"{program.parent}/", "")
    return Built(program.name, result.json_text, result.p4info_text)


def _best(path: Path, root: Path, beside: str | None, compiled: dict[Path, Built | str]) -> LabFile:
    """Return the file with that program of its folder that refuses the fewest commands."""
    name = str(path.relative_to(root))
    text = path.read_text()
    best = LabFile(name, problem="there is no program with it")
    done: Built | None = None
    for program in programs_for(path, root):
        if program not in compiled:
            compiled[program] = _built(program)
        result = compiled[program]
        if isinstance(result, str):
            if not done:
                best.problem = result
            continue
        row = LabFile(name, program.name, len(commands_of(text)))
        try:
            row.refused = _refused(result, text)
        except PipelineError as error:
            if not done:
                best.problem = str(error)
            continue
        if done is None or len(row.refused) < len(best.refused):
            best, done = row, result
    if done is not None and beside:
        try:
            best.differs = _differs(beside, done, text, path.parent)
        except (Bmv2Error, PipelineError) as error:
            best.problem = str(error)
    return best


def _refused(program: Built, text: str) -> list[str]:
    """Return the refused commands: the line, what is printed and why."""
    refused = []
    with (
        lab_switch(program.json, program.p4info) as address,
        Connection(address, 0) as connection,
        DiagnosticsClient(address) as diagnostics,
    ):
        shell = SwitchShell(connection, diagnostics)
        shell.repeats = False
        for number, line in enumerate(text.splitlines(), 1):
            if _NO_COMMAND.match(line):
                continue
            output, why = io.StringIO(), io.StringIO()
            shell.stdout = output
            before = shell.failures
            with redirect_stderr(why):
                if shell.onecmd(line):
                    break
            if shell.failures > before:
                told = (output.getvalue().splitlines() or [""])[-1]
                reason = " ".join(why.getvalue().split())
                refused.append(f"line {number}: {line.strip()}: {told} {reason}".rstrip())
    return refused


def _differs(beside: str, program: Built, text: str, folder: Path) -> list[str]:
    """Return the lines that differ from BMv2's, with all tables dumped at the end.

    Raises Bmv2Error.
    """
    tables = [
        table["name"]
        for pipeline in json.loads(program.json)["pipelines"]
        for table in pipeline["tables"]
    ]
    dumps = [*(f"table_dump {name}" for name in tables), "show_tables", "show_actions", "mc_dump"]
    lines = [line for line in text.splitlines() if not _NO_COMMAND.match(line)]
    whole = "\n".join([*lines, "help help", *dumps, ""])
    bmv2 = bmv2_text(beside, program.json, whole, folder)
    with lab_switch(program.json, program.p4info) as address:
        ours = _text(address, whole)
    return same_lines(bmv2, ours)


def _text(address: str, commands: str) -> str:
    """Return what `weft cli` prints for a file."""
    output = io.StringIO()
    with (
        Connection(address, 0) as connection,
        DiagnosticsClient(address) as diagnostics,
        redirect_stderr(io.StringIO()),
    ):
        shell = SwitchShell(connection, diagnostics)
        shell.stdout = output
        for line in commands.splitlines():
            output.write(shell.prompt)
            if shell.onecmd(line):
                break
    return output.getvalue()


def _tell(rows: list[LabFile], *, in_json: bool, compared: bool) -> None:
    ran = [row for row in rows if row.program and not row.problem]
    totals = {
        "files": len(rows),
        "ran": len(ran),
        "commands": sum(row.commands for row in ran),
        "refused": sum(len(row.refused) for row in ran),
        "as BMv2": sum(row.differs == [] for row in ran),
    }
    if in_json:
        print(json.dumps({"totals": totals, "files": [asdict(row) for row in rows]}, indent=1))
        return
    for row in rows:
        if row.problem:
            print(f"{row.file}: not run: {row.problem}")
        for refused in row.refused:
            print(f"{row.file} ({row.program}): {refused}")
        for line in row.differs or []:
            print(f"{row.file} ({row.program}): BMv2 differs: {line}")
    print(
        f"{totals['files']} files, {totals['ran']} run with their programs: {totals['commands']} "
        f"commands, {totals['refused']} refused"
        + (f"; as BMv2, dumps included: {totals['as BMv2']}" if compared else "")
    )
