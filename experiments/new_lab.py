"""A new lab's folder: files that run at once, for a teacher to change.

`weft lab new NAME` writes lab.yaml, checks.py and README.md; with a P4 program also a copy of it
and a file in which its tables' entries go. Nothing that exists is ever overwritten.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
from google.protobuf import text_format

from experiments.errors import LabError
from experiments.schema import check_name
from softswitch import program_cache
from softswitch.p4runtime.protos import p4i

TEMPLATES = Path(__file__).with_name("lab_template")
ENTRIES = "s1-commands.txt"
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_KEYS = {
    p4i.MatchField.LPM: "<{0}>/<bits>",
    p4i.MatchField.TERNARY: "<{0}>&&&<mask>",
    p4i.MatchField.RANGE: "<{0}, from>-><to>",
}
_RANKED = frozenset({p4i.MatchField.TERNARY, p4i.MatchField.RANGE, p4i.MatchField.OPTIONAL})
"""Kinds of keys whose entries need a priority."""


def make(name: str, directory: Path, program: Path | None = None) -> tuple[Path, ...]:
    """Write the folder of a lab into `directory`; returns its files.

    `program`: a P4 program that a variant of the lab runs. Raises LabError for a name that is none
    or is taken, CompileError for a program that does not compile, OSError.
    """
    try:
        check_name(name)
    except ValueError as error:
        raise LabError(str(error)) from None
    folder = directory / name
    if folder.exists():
        raise LabError(f"{folder}: exists already", "give the lab another name")
    given = {"name": name, "title": re.sub(r"[-_.]+", " ", name).capitalize(), "program": ""}
    texts = {}
    if program is not None:
        given["program"] = program.name
        texts[ENTRIES] = _entries(program)
    for template in sorted(TEMPLATES.glob("*.j2")):
        text = _TEMPLATES.get_template(template.name).render(**given)
        texts[template.stem] = text
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=directory) as scratch:
        made = Path(scratch, name)
        made.mkdir()
        made.chmod(0o755)
        for file, text in texts.items():
            (made / file).write_text(text, encoding="utf-8")
        if program is not None:
            _copy(program, made)
        made.rename(folder)
    return tuple(sorted(folder.iterdir()))


def _copy(program: Path, folder: Path) -> None:
    """Copy a program and the files beside it that it includes. Raises LabError."""
    waiting, done = [program.name], set[str]()
    while waiting:
        name = waiting.pop()
        source = program.parent / name
        if name in done or not source.is_file():
            continue  # of a folder of includes
        target = (folder / name).resolve()
        if not target.is_relative_to(folder.resolve()):
            raise LabError(
                f"{program}: includes {name}, which is not beside it",
                "give a program that needs no files outside of its folder",
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        done.add(name)
        waiting += _INCLUDE.findall(source.read_text(encoding="utf-8"))


def _entries(program: Path) -> str:
    """Return a file of entries in which each line is commented out: one a table and action."""
    made = program_cache.compile_program(program_cache.Job(program))
    lines = [
        f"# The entries of {program.name} in s1, as simple_switch_CLI takes them "
        "(docs/switch-cli.md).",
        "# Remove the '#' of a line and put in values. Hosts h1 to h4 have 10.0.1.1 to 10.0.1.4,",
        "# MACs 02:00:0a:00:01:01 to 02:00:0a:00:01:04, and ports 1 to 4 of s1.",
        *_commands(text_format.Parse(made.p4info_text, p4i.P4Info())),
    ]
    return "\n".join(lines) + "\n"


def _commands(info: Any) -> Iterator[str]:
    names = {action.preamble.id: action for action in info.actions}
    for table in info.tables:
        kinds = [each.match_type for each in table.match_fields]
        keys = " ".join(
            _KEYS.get(each.match_type, "<{0}>").format(each.name) for each in table.match_fields
        )
        priority = " <priority>" if _RANKED & set(kinds) else ""
        for reference in table.action_refs:
            action = names.get(reference.id)
            if action is None:
                continue
            values = " ".join(f"<{each.name}>" for each in action.params)
            if keys:
                line = f"table_add {table.preamble.name} {action.preamble.name} {keys} => {values}"
                line = line.rstrip() + priority
            else:
                line = f"table_set_default {table.preamble.name} {action.preamble.name} {values}"
            yield f"# {line.rstrip()}"


_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES),
    trim_blocks=True,
    keep_trailing_newline=True,
    undefined=jinja2.StrictUndefined,
)
