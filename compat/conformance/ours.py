"""What our compiler says of a program."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from compat.conformance.findings import UNSUPPORTED, Finding, Said, Verdict
from compat.conformance.testdata import Architecture, Program
from compiler import driver, frontend
from compiler.errors import CompileError, Diagnostic, NotSupported, Severity
from softswitch.jobs import Loss

REASON_LENGTH = 200


def judge(program: Program, *, with_p4info: bool = True) -> Said:
    """Compile a v1model program; check another one, whether it has a `main` or not."""
    started = time.monotonic()
    said = _judge(program, with_p4info)
    return Said(
        said.verdict,
        said.errors,
        said.warnings,
        said.also,
        said.p4info,
        said.reason,
        round(time.monotonic() - started, 3),
    )


def _judge(program: Program, with_p4info: bool) -> Said:
    try:
        if program.architecture is Architecture.V1MODEL:
            result = driver.compile_p4(program.path, with_p4info=with_p4info)
            warned = [each for each in result.warnings if each.severity is Severity.WARNING]
            return Said(Verdict.ACCEPTED, warnings=_findings(warned), p4info=result.p4info_text)
        found = frontend.check_library(program.path)
        return Said(Verdict.ACCEPTED, warnings=_findings(found))
    except CompileError as error:
        unsupported = isinstance(error, NotSupported)
        verdict = Verdict.UNSUPPORTED if unsupported else Verdict.REFUSED
        real = [d for d in error.diagnostics if unsupported or d.code != UNSUPPORTED]
        also = {(Path(pos.file).name, pos.line) for d in real for pos, _ in d.notes}
        return Said(verdict, _findings(real), also=frozenset(also))
    except Exception as error:  # whatever it is, it is this program's result: a bug of ours
        return lost(program, Loss(f"{type(error).__name__}: {error}", 0.0, ended=True))


def lost(program: Program, loss: Loss) -> Said:
    """Return the result of a program whose compilation gave none."""
    reason = loss.why.replace(str(program.path.parent) + "/", "")[:REASON_LENGTH]
    verdict = Verdict.CRASHED if loss.ended else Verdict.NOT_DONE
    return Said(verdict, reason=reason, seconds=loss.seconds)


def _findings(diagnostics: Iterable[Diagnostic]) -> tuple[Finding, ...]:
    return tuple(
        Finding(Path(d.pos.file).name, d.pos.line, d.code, d.message, d.back_end)
        for d in diagnostics
    )
