"""How results are put into words: on the terminal and in the report alike."""

from __future__ import annotations

from experiments.api import Verdict
from experiments.results import CheckResult, LabResult, MetricResult
from experiments.statistics import NONE

NEVER = "never"


def number(value: float) -> str:
    """Return a number with four digits that count, and no exponent where it can be read without."""
    if value == 0:
        return "0"
    if 1e4 <= abs(value) < 1e9:
        return f"{value:.0f}"
    return f"{value:.4g}"


def value(given: float | None, unit: str = "") -> str:
    """Return a value with its unit; "never" for what did not happen."""
    return NEVER if given is None else f"{number(given)} {unit}".strip()


def metric(given: MetricResult) -> str:
    """Return a median with its interval, without the unit: 12.4 [11.9, 12.8]."""
    text = NEVER if given.median is None else number(given.median)
    if given.low is not None and given.low == given.high:
        text += " ±0"
    elif given.low is not None and given.high is not None:
        text += f" [{number(given.low)}, {number(given.high)}]"
    if given.missing and given.median is not None:
        text += f" ({given.missing} of {len(given.values)} never)"
    return text


def heading(name: str, unit: str) -> str:
    """Return the heading of a metric's column."""
    words = name.replace("_", " ")
    return f"{words} [{unit}]" if unit else words


def statistics(result: LabResult) -> str:
    """Say in a sentence what the numbers in the tables are."""
    methods = {
        (each.method, each.n)
        for variant in result.variants
        for each in variant.metrics.values()
        if each.n
    }
    names = sorted({method for method, _ in methods})
    runs = sorted({n for _, n in methods})
    if not names:
        return "Nothing was measured."
    if names == [NONE]:
        return "One run of each variant: its value, without an interval."
    count = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    how = " or ".join(name for name in names if name != NONE)
    return f"Medians of {count} runs with different seeds, with 95 % intervals ({how})."


def where(result: LabResult) -> str:
    """Say runtime, time scale and seeds, as every result has to."""
    seeds = ", ".join(str(seed) for seed in result.seeds)
    word = "seed" if len(result.seeds) == 1 else "seeds"
    return f"{result.runtime}, time scale {result.time_scale}, {word} {seeds}"


def judged(result: LabResult) -> str:
    """Say how many checks passed of those that could be judged, and how many could not."""
    verdicts = [check.verdict for check in result.checks]
    passed, failed = verdicts.count(Verdict.PASS), verdicts.count(Verdict.FAIL)
    text = f"{passed} of {passed + failed} checks passed"
    idle = verdicts.count(Verdict.NOT_RUN)
    return f"{text}, {idle} not run" if idle else text


def verdict(result: LabResult, left_out: int = 0) -> str:
    """Return a line: whether the lab passed, what that was judged by, and what was left out.

    `left_out`: how many variants of this runtime did not run.
    """
    failures = sum(bool(run.failure) for variant in result.variants for run in variant.runs)
    count = len(result.variants)
    how = _counted(count, "variant")
    if left_out:
        why = "--quick" if result.quick else "not all were asked for"
        how = f"{count} of {count + left_out} variants ran ({why})"
    text = f"{result.verdict.value}: {judged(result)}; {how}"
    return f"{text}; {_counted(failures, 'run')} failed" if failures else text


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def columns(result: LabResult) -> list[tuple[str, str]]:
    """Return the metrics that any variant has, with their units, in order."""
    found: dict[str, str] = {}
    for variant in result.variants:
        for part in (variant.metrics, variant.beside or {}):
            for name, each in part.items():
                found.setdefault(name, each.unit)
    return list(found.items())


def rows(result: LabResult) -> list[tuple[str, list[str]]]:
    """Return a row a variant (and one for what the simulator shows beside it): name and cells."""
    names = [name for name, _ in columns(result)]
    found = []
    for variant in result.variants:
        for title, part in (
            (variant.title, variant.metrics),
            (f"{variant.title} (simulator)", variant.beside),
        ):
            if part is not None:
                cells = [metric(part[name]) if name in part else "" for name in names]
                found.append((title, cells))
    return found


def check_value(check: CheckResult) -> str:
    """Return what a check found: 1.23 [1.18, 1.29]; nothing for a condition or one not judged."""
    if check.value is None:
        return ""
    text = number(check.value)
    if check.low is not None and check.low == check.high:
        text += " ±0"
    elif check.low is not None and check.high is not None:
        text += f" [{number(check.low)}, {number(check.high)}]"
    return f"{text} {check.unit}".strip()
