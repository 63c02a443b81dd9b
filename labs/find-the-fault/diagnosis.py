"""What a learner hands in: a Python file with `diagnose`, or a YAML file with the answers."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TextIO

import yaml

from topologies.model import Topology

from .answers import Answer, AnswerError, read
from .observations import Observations

FUNCTION = "diagnose"
Diagnose = Callable[[Observations], object]


@dataclass(frozen=True)
class Sheet:
    """Answers written down, by the number of the case from 1, and the seed of the cases."""

    seed: int
    answers: Mapping[int, str]


def load(path: Path) -> Diagnose | Sheet:
    """Read what was handed in. Raises AnswerError with file and line."""
    if path.suffix in (".yaml", ".yml"):
        return _sheet(path)
    if path.suffix != ".py":
        raise AnswerError(f"{path}: hand in a Python file (.py), or answers in a YAML file (.yaml)")
    return from_text(path.read_text(encoding="utf-8"), path)


def from_text(text: str, path: Path) -> Diagnose:
    """Return `diagnose` of a Python text. Raises AnswerError."""
    module = ModuleType("diagnosis")
    module.__file__ = str(path)
    try:
        code = compile(text, str(path), "exec")
        with _to_stderr():
            exec(code, module.__dict__)
    except Exception as error:
        raise AnswerError(described(error, path)) from None
    found = getattr(module, FUNCTION, None)
    if not callable(found):
        raise AnswerError(f"{path}: there is no function {FUNCTION}(seen)")
    return found  # type: ignore[no-any-return]


def answer_of(diagnose: Diagnose, seen: Observations, topology: Topology, path: Path) -> Answer:
    """Call it, and read what it returns. Raises AnswerError; what it prints goes to stderr."""
    try:
        with _to_stderr():
            said = diagnose(seen)
    except Exception as error:
        raise AnswerError(described(error, path)) from None
    return read(said, topology)


def _to_stderr() -> contextlib.redirect_stdout[TextIO]:
    """Leave stdout to the command that grades."""
    return contextlib.redirect_stdout(sys.stderr)


def described(error: Exception, path: Path) -> str:
    """Return an error in a line, with the last line of the learner's file that it went through."""
    what = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        return f"{path}:{error.lineno}: {error.msg}"
    own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return f"{path}:{own[-1].lineno}: {what}" if own else f"{path}: {what}"


def _sheet(path: Path) -> Sheet:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise AnswerError(f"{path}: {' '.join(str(error).split())}") from None
    right = "write 'seed: 7' and 'answers: {1: healthy, 2: silent-drops s9:2}'"
    if not isinstance(data, dict) or set(data) != {"seed", "answers"}:
        raise AnswerError(f"{path}: {right}")
    seed, answers = data["seed"], data["answers"]
    if not isinstance(seed, int) or not isinstance(answers, dict):
        raise AnswerError(f"{path}: {right}")
    for number, text in answers.items():
        if not isinstance(number, int) or not isinstance(text, str):
            raise AnswerError(f"{path}: answers: {number!r}: {text!r}: {right}")
    return Sheet(seed, answers)
