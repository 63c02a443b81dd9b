"""From a source file to a checked program: preprocess, lex, parse, check.

    checked = frontend.check(Path("l3.p4"))
    checked.program.decls        # annotated syntax tree, see `ast`
    checked.main                 # the InstanceDecl of `main`

What the lowering may rely on:

* `checked.main.call.binding`: the package's parameters with their arguments. An argument is a
  Call of kind CONSTRUCTOR (`.decl` the ParserDecl / ControlDecl, `.binding` its constructor
  arguments), or a Name whose `.decl` is a top-level InstanceDecl (use its `.call`).
* Every expression reachable has a `type`; no type is `Unknown`; every sub-expression that is
  converted implicitly is wrapped in a `Cast`.
* Bodies of generic functions (`FunctionDecl.type_params`) keep their type variables: substitute
  `Call.bound_type_args` (map of names) by `types.substitute`. Controls and parsers are never
  generic themselves; externs' type arguments are in their `types.Extern.args`.
* Directions are checked: `out`/`inout` arguments are l-values (or a Wildcard for `out`).
* There is no recursion among functions, actions, controls and parsers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from compiler.depth import deep_recursion
from compiler.errors import CompileError, Diagnostic, Pos, Reporter, TooManyErrors
from compiler.passes.control_names import check_control_plane_names, check_translations
from compiler.passes.diagnostic_actions import DiagnosticActions
from compiler.syntax import ast, cpp, lexer, parser
from compiler.types.checker import Checker
from compiler.warnings.program import warn


@dataclass
class CheckedProgram:
    """The front end's result.

    `errors` are the members of `error` in order (NoError first); `match_kinds` likewise.
    `timings` are seconds of "cpp", "parse" and "check".
    """

    program: ast.Program
    main: ast.InstanceDecl
    errors: list[ast.EnumMember]
    match_kinds: list[ast.EnumMember]
    warnings: list[Diagnostic]
    source: Path
    timings: dict[str, float] = field(default_factory=dict)


def check(
    path: Path,
    include_dirs: Sequence[Path] = (),
    defines: Sequence[str] = (),
    std: str = "p4-16",
    *,
    with_p4info: bool = True,
) -> CheckedProgram:
    """Read, parse and check the program in `path`.

    `include_dirs` are searched before our own core.p4 and v1model.p4; `defines` are `NAME` or
    `NAME=VALUE`; `std` must be "p4-16"; `with_p4info`: what P4Info alone forbids is an
    error too. Raises `CompileError` with all errors found (at most 20), `NotSupported` if all of
    them are things that this compiler can't do yet.
    """
    if std != "p4-16":
        raise CompileError.at(Pos(str(path), 0, 0), f'language "{std}" is not known: use "p4-16"')
    timings: dict[str, float] = {}
    reporter = Reporter()
    with deep_recursion(path):
        try:
            return _check(path, include_dirs, defines, reporter, timings, with_p4info)
        except TooManyErrors:
            raise CompileError(reporter.errors) from None


def check_library(
    path: Path, include_dirs: Sequence[Path] = (), defines: Sequence[str] = ()
) -> list[Diagnostic]:
    """Check a file that need not have a `main`, and return the warnings. Raises as `check`."""
    reporter = Reporter()
    with deep_recursion(path):
        try:
            program, _ = _read_and_check(
                path, include_dirs, defines, reporter, {}, needs_main=False
            )
        except TooManyErrors:
            raise CompileError(reporter.errors) from None
    return DiagnosticActions.of([]).with_annotations(program).apply(reporter.warnings)


def _check(
    path: Path,
    include_dirs: Sequence[Path],
    defines: Sequence[str],
    reporter: Reporter,
    timings: dict[str, float],
    with_p4info: bool,
) -> CheckedProgram:
    program, checker = _read_and_check(
        path, include_dirs, defines, reporter, timings, with_p4info=with_p4info
    )
    if checker.main is None:
        raise AssertionError("a program without main passed the checker")
    return CheckedProgram(
        program,
        checker.main,
        checker.errors,
        checker.match_kinds,
        reporter.warnings,
        path,
        timings,
    )


def _read_and_check(
    path: Path,
    include_dirs: Sequence[Path],
    defines: Sequence[str],
    reporter: Reporter,
    timings: dict[str, float],
    *,
    needs_main: bool = True,
    with_p4info: bool = True,
) -> tuple[ast.Program, Checker]:
    """Return the checked tree and its checker; diagnostics go to `reporter`."""
    start = perf_counter()
    text = cpp.preprocess(path, include_dirs, defines)
    preprocessed = perf_counter()
    timings["cpp"] = preprocessed - start
    program = parser.parse(lexer.tokenize(text, str(path), _read_source), reporter)
    parsed = perf_counter()
    timings["parse"] = parsed - preprocessed
    reporter.raise_if_errors()
    checker = Checker(reporter, str(path), needs_main=needs_main)
    checker.program(program)
    if with_p4info:
        check_translations(program, reporter)
    if not reporter.errors:
        check_control_plane_names(program, reporter, with_p4info=with_p4info)
        warn(program, reporter)
    timings["check"] = perf_counter() - parsed
    reporter.raise_if_errors()
    return program, checker


def _read_source(file: str) -> str | None:
    """Return the text of a source file, to find columns in; None where there is no such file."""
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
