"""Programs that stand in files beside a run file, for runs that are started from elsewhere.

Their files are named in full, and with what is in them: a point of a sweep that runs later,
or on another machine, is refused if the program is another one by then.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from topologies.document import Document


def file_of(program: str) -> str | None:
    """Return the file of `x.py:Class`; None for programs of modules and in C."""
    name = program.partition(":")[0]
    return name if name.endswith(".py") else None


def sha256_of(path: Path) -> str | None:
    """Return the digest of a file; None where it can't be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def with_program_files(document: Document, directory: Path) -> Document:
    """Return a run file's document that names its programs' files in full."""
    data = document.data
    if not isinstance(data, dict) or not isinstance(data.get("programs"), list):
        return document
    programs = [_in_full(each, directory) for each in data["programs"]]
    return Document(document.file, {**data, "programs": programs}, document.positions)


def _in_full(entry: object, directory: Path) -> object:
    if not isinstance(entry, dict) or not isinstance(entry.get("program"), str):
        return entry
    file = file_of(entry["program"])
    if file is None:
        return entry
    path = (directory / file).resolve()
    named = {"program": f"{path}:{entry['program'].partition(':')[2]}"}
    digest = sha256_of(path)
    return {**entry, **named, **({"sha256": digest} if digest is not None else {})}
