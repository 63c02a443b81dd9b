"""What p4c says of a program: from its own expected outputs, or by running p4c-bm2-ss."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from compat.conformance.findings import Finding, Said, Verdict
from compat.conformance.testdata import Program, Testdata

PROGRAM = "p4c-bm2-ss"
LIMIT_S = 60.0
_MESSAGE = re.compile(
    r"^(?:(?P<file>[^\s(:]+)\((?P<line>\d+)\):\s*)?"
    r"(?:\[--W(?:error|warn|info)=(?P<kind>[^\]]+)\]\s*)?"
    r"(?:(?P<level>error|warning|info): )?(?P<text>.*)$"
)
_PLACE = re.compile(r"^(?P<file>[^\s(:]+)\((?P<line>\d+)\)")
_TOO_MANY = "number of errors exceeded"


def expected(testdata: Testdata, program: Program) -> Said | None:
    """Return what p4c's own tests expect of a program; None where they expect nothing."""
    outputs = testdata.outputs(program.suite)
    stderr = outputs / f"{program.name}-stderr"
    if not stderr.is_file():
        return None
    p4info = outputs / f"{program.name}.p4info.txtpb"
    return parse(
        stderr.read_text(encoding="utf-8", errors="replace"),
        p4info.read_text(encoding="utf-8") if p4info.is_file() else "",
    )


def executable() -> Path | None:
    """Return the compiler on PATH, or None."""
    found = shutil.which(PROGRAM)
    return Path(found) if found else None


def version(compiler: Path) -> str:
    """Return the version that the compiler reports, such as "1.2.5.16"."""
    ran = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"Version (\S+)", ran.stdout + ran.stderr)
    return found[1] if found else "unknown"


def run(compiler: Path, program: Program, *, with_p4info: bool = True) -> Said:
    """Compile a program with `compiler`; its exit code is the verdict."""
    return compile_file(compiler, program.path, with_p4info=with_p4info)


def compile_file(
    compiler: Path,
    path: Path,
    options: Sequence[str] = (),
    *,
    with_p4info: bool = True,
    limit_s: float = LIMIT_S,
) -> Said:
    """Compile a file with `compiler`, with `options` (-I, -D), with P4Info or without.

    More than `limit_s` seconds is "not done".
    """
    include = compiler.resolve().parent / "p4include"
    beside = compiler.parent / "p4include"
    with tempfile.TemporaryDirectory(prefix="weft-p4c-") as directory:
        p4info = Path(directory) / "p4info.txtpb"
        command = [str(compiler), "--std", "p4-16", "-o", f"{directory}/out.json", *options]
        command += [f"-I{each}" for each in (include, beside) if each.is_dir()]
        if with_p4info:
            command += ["--p4runtime-files", str(p4info)]
        command.append(path.name)
        try:
            ran = subprocess.run(
                command,
                capture_output=True,
                cwd=path.parent,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Said(Verdict.NOT_DONE, reason=f"not done after {limit_s:g} s")
        text = ran.stderr.decode("utf-8", "replace")
        wrote = with_p4info and ran.returncode == 0
        info = p4info.read_text(encoding="utf-8") if wrote else ""
    said = parse(text, info)
    if ran.returncode < 0 or "Compiler Bug" in text:
        return Said(Verdict.CRASHED, reason=text[:200])
    verdict = Verdict.REFUSED if ran.returncode else Verdict.ACCEPTED
    return Said(verdict, said.errors, said.warnings, said.also, info)


def parse(text: str, p4info: str = "") -> Said:
    """Read p4c's messages. A line without a level that names a place is an error of its grammar."""
    errors: list[Finding] = []
    warnings: list[Finding] = []
    also: set[tuple[str, int]] = set()
    level = ""
    for line in text.splitlines():
        found = _MESSAGE.match(line)
        assert found is not None  # its last part matches anything
        said = found["level"] or ("error" if found["file"] else "")
        if not said:
            place = _PLACE.match(line)
            if place and level == "error":
                also.add((Path(place["file"]).name, int(place["line"])))
            continue
        level = said
        if _TOO_MANY in found["text"]:
            continue
        file, number = Path(found["file"] or "").name, int(found["line"] or 0)
        finding = Finding(file, number, found["kind"] or "", found["text"])
        if level == "error":
            errors.append(finding)
        elif level == "warning":
            warnings.append(finding)
    verdict = Verdict.REFUSED if errors else Verdict.ACCEPTED
    return Said(verdict, tuple(errors), tuple(warnings), frozenset(also), p4info)
