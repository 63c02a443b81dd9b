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

from softswitch.compiler import ast
from softswitch.compiler.errors import Diagnostic


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
) -> CheckedProgram:
    """Read, parse and check the program in `path`.

    `include_dirs` are searched before our own core.p4 and v1model.p4; `defines` are `NAME` or
    `NAME=VALUE`; `std` must be "p4-16". Raises `CompileError` with all errors found (at most 20),
    `NotSupported` if all of them are things that this compiler can't do yet.
    """
    raise NotImplementedError
