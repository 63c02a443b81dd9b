"""One seed from its program to what is wrong with it, made small and kept as files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.random_programs import printer, reference, stf
from tests.random_programs.draw_packets import Case, draw_case
from tests.random_programs.draw_program import SMALL, ProgramDraw, Size
from tests.random_programs.ours import Finding, Target, check, compile_text, prepare
from tests.random_programs.shrink import shrink


@dataclass(frozen=True)
class Settings:
    """How to search; `against`: None, "p4c" or "bmv2"."""

    size: Size = SMALL
    packets: int = 12
    against: str | None = None
    shrink_seconds: float = 60
    target: Target = field(default_factory=Target)


@dataclass(frozen=True)
class Result:
    """A seed that shows something."""

    seed: int
    case: Case
    finding: Finding


def case_of(seed: int, size: Size = SMALL, packets: int = 12) -> Case:
    """Program, entries and packets of a seed: always the same."""
    draw = ProgramDraw(seed, size)
    return draw_case(draw.program(), draw, packets)


def one(seed: int, settings: Settings) -> Result | None:
    """Return what a seed shows, None when all is as it must be."""
    case = case_of(seed, settings.size, settings.packets)
    finding = examine(case, settings)
    return None if finding is None else Result(seed, case, finding)


def examine(case: Case, settings: Settings) -> Finding | None:
    """Ours beside the oracle, then the others."""
    finding = check(case, settings.target)
    if finding is not None or settings.against is None:
        return finding
    text = printer.program(case.program)
    prepared = prepare(compile_text(text), settings.target)
    live = settings.against == "bmv2"
    return reference.check_reference(case, text, prepared, settings.target, live)


def smallest(result: Result, settings: Settings) -> Result:
    """Return the same kind of finding in the smallest case that is found in the time."""

    def shows(case: Case) -> bool:
        finding = examine(case, settings)
        return finding is not None and finding.kind == result.finding.kind

    case = shrink(result.case, shows, settings.shrink_seconds)
    finding = examine(case, settings)
    assert finding is not None
    return Result(result.seed, case, finding)


def keep(result: Result, settings: Settings, folder: Path) -> Path:
    """Make it small and write NAME.p4, NAME.stf (what the oracle expects) and NAME.txt."""
    small = smallest(result, settings)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed{result.seed}.p4"
    path.write_text(printer.program(small.case.program))
    path.with_suffix(".stf").write_text(stf.script(small.case))
    path.with_suffix(".txt").write_text(f"{small.finding.kind}\n{small.finding.text}\n")
    return path
