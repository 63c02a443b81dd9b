"""What a learner gets of a lab: its text, its starter, its pictures. Never its answer.

`weft lab handout` writes it. Grading stays in Weft: on a machine that has it, `weft grade` judges
what comes back.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from experiments import grade, grade_worker
from experiments.errors import LabError
from experiments.lab_text import for_learners, relinked
from experiments.loader import ROOT, Lab

TEXT = "README.md"
PICTURES = "pictures"
_TEACHERS = frozenset({grade.GRADING, grade.REFERENCE, "checks.py", "lab.yaml", TEXT})
_PICTURES = frozenset({".png", ".jpg", ".jpeg", ".svg", ".gif"})


@dataclass(frozen=True)
class Handout:
    """Where it is, and the names of its files. `has_starter`: learners have something to write."""

    place: Path
    files: tuple[str, ...]
    has_starter: bool


def pack(lab: Lab, out: Path, *, as_zip: bool = False) -> Handout:
    """Write a lab's handout into `out`, a new or empty folder, or into the new file `out`.zip.

    Raises LabError for a place that is taken or a lab without a text, OSError.
    """
    place = out.with_name(out.name + ".zip") if as_zip else out
    if as_zip and place.exists():
        raise LabError(f"{place}: exists already", "give a new name")
    if not as_zip and place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise LabError(f"{place}: is not an empty folder", "give a new folder, or an empty one")
    if not lab.readme.strip():
        raise LabError(f"{lab.folder / TEXT}: no text to hand out", "a lab has a README.md")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=place.parent) as scratch:
        folder = Path(scratch, out.name)
        folder.mkdir()
        folder.chmod(0o755)
        starter = _starter(lab)
        _fill(lab, starter, folder)
        files = tuple(
            sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        )
        if as_zip:
            made = shutil.make_archive(str(Path(scratch, "packed")), "zip", scratch, out.name)
            Path(made).rename(place)
        else:
            with suppress(FileNotFoundError):
                place.rmdir()
            folder.rename(place)
    return Handout(place, files, starter is not None)


def _starter(lab: Lab) -> Path | None:
    """Return what learners begin with; None in a lab in which they write nothing."""
    if not (lab.folder / grade.GRADING).is_file():
        return None
    return grade.starter_of(lab.folder)


def _fill(lab: Lab, starter: Path | None, folder: Path) -> None:
    packed: dict[Path, str] = {}
    if starter is not None:
        shutil.copyfile(starter, folder / starter.name)
        packed[starter.resolve()] = starter.name

    def place(path: Path, shown: bool) -> str | None:
        if path in packed:
            return packed[path]
        if not path.is_file():
            return None
        if shown and path.suffix.lower() in _PICTURES:
            name = f"{PICTURES}/{path.name}"
            if name in packed.values():
                name = f"{PICTURES}/{path.parent.name}-{path.name}"
            (folder / PICTURES).mkdir(exist_ok=True)
        elif path.parent == lab.folder.resolve() and path.name not in _TEACHERS:
            name = path.name  # what learners read, such as the interface that they program against
        else:
            return None
        shutil.copyfile(path, folder / name)
        packed[path] = name
        return name

    text = relinked(for_learners(lab.readme), lab.folder, ROOT, place)
    (folder / TEXT).write_text(_introduced(text, lab, starter), encoding="utf-8")


def _introduced(text: str, lab: Lab, starter: Path | None) -> str:
    """Return the text with a line under its title that says how to work with this folder."""
    title, end, rest = text.partition("\n")
    if starter is None:
        note = f"Run it where Weft is installed: `weft lab run {lab.name}`."
    else:
        is_p4 = grade_worker.takes_p4(grade_worker.load(lab.folder))
        option = "--p4" if is_p4 else "--answer"
        note = (
            f"Begin with a copy of `{starter.name}`, which is in this folder. Where Weft is "
            f"installed, `weft grade {lab.name} {option} FILE` says what it is worth."
        )
    return f"{title}{end}\n*{note} Paths that begin with `labs/` or `docs/` are Weft's.*\n{rest}"
