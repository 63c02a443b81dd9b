"""Our compiler behind p4c's command line: what `p4c-bm2-ss` and `p4c` of `weft drop-in` run.

Exit codes are p4c's: 0, or 1 with messages on standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from compat.dropin import p4c_options
from compat.dropin.p4c_messages import Level, Messages, mark
from compat.dropin.p4c_options import Action, P4cOptions, P4cUsage
from compiler.errors import CompileError
from compiler.syntax.cpp import dependencies, preprocess

if TYPE_CHECKING:
    from compiler.driver import CompileResult

P4C_VERSION = "1.2.5"
"""The version of p4c whose language and output this compiler follows; scripts compare it."""


class _OutputError(Exception):
    """A file can't be written; the message is p4c's."""


def main(argv: Sequence[str] | None = None, *, driver: bool = False) -> int:
    """Run `p4c-bm2-ss` (or the driver `p4c`) with `argv`; return the exit code."""
    name = "p4c" if driver else "p4c-bm2-ss"
    try:
        options = p4c_options.parse(sys.argv[1:] if argv is None else argv, driver=driver)
        return _run(name, options)
    except P4cUsage as error:
        return _fail(error.code, f"{error}\nUse '--help' to see all available options.")
    except CompileError as error:
        messages = Messages(options.levels, options.max_errors)
        print(messages.text(error.diagnostics), end="", file=sys.stderr)
        if messages.errors > options.max_errors:
            _fail("overlimit", f"{options.max_errors} errors encountered, aborting compilation")
        return 1
    except _OutputError as error:
        return _fail("I/O error", str(error))
    except BrokenPipeError:
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # a bug of ours: the user gets a line, a file the trace
        from weft import cli  # for a bug alone

        cli.report(error)
        return 1


def driver_main() -> int:
    """Run the driver `p4c` with the process's arguments; return the exit code."""
    return main(driver=True)


def _fail(code: str, text: str) -> int:
    print(f"{mark(Level.ERROR, code)}{text}", file=sys.stderr)
    return 1


def _run(name: str, options: P4cOptions) -> int:
    if options.action is Action.HELP:
        print(p4c_options.help_text(name, driver=options.driver), end="")
        return 0
    if options.action is Action.VERSION:
        print(f"{name}\nVersion {P4C_VERSION} (Weft {version('weft')})")
        return 0
    if not options.sources:
        raise P4cUsage("No input files specified", "expected")
    if len(options.sources) > 1:
        names = ",".join(str(source) for source in options.sources)
        raise P4cUsage(f"Only one input file must be specified: {names}", "overlimit")
    source = options.sources[0]
    if options.dry_run:
        print(f"{name}: would compile {source}")
        return 0
    if options.action is not Action.COMPILE:
        return _preprocess_only(source, options)
    return _compile(source, options)


def _preprocess_only(source: Path, options: P4cOptions) -> int:
    if options.action is Action.PREPROCESS:
        print(preprocess(source, options.include_dirs, options.defines), end="")
    else:
        rule = dependencies(source, options.include_dirs, options.defines, options.make_flags)
        print(rule, end="")
    return 0


def _compile(source: Path, options: P4cOptions) -> int:
    from compiler import compile_p4  # the whole compiler, which preprocessing does without

    for path in options.p4info:
        _form(path)
    if options.verbose:
        print(f"compiling {source}", file=sys.stderr)
    result = compile_p4(
        source,
        include_dirs=options.include_dirs,
        defines=options.defines,
        with_p4info=bool(options.p4info) or options.p4info_deprecated is not None,
    )
    messages = Messages(options.levels, options.max_errors)
    print(messages.text(result.warnings), end="", file=sys.stderr)
    if messages.errors:
        return 1
    _write_outputs(source, options, result)
    return 0


def _write_outputs(source: Path, options: P4cOptions, result: CompileResult) -> None:
    output = options.output
    if options.driver:
        directory = Path() if output is None else output
        _make_directory(directory)
        output = directory / f"{source.stem}.json"
        text = preprocess(source, options.include_dirs, options.defines)
        _write(directory / f"{source.stem}.p4i", text.encode())
    if output is not None:
        _write(output, result.json_text.encode())
    if options.make_flags:
        flags = options.make_flags
        if "-MF" not in flags:
            flags = [*flags, "-MF", str((output or source).with_suffix(".d"))]
        dependencies(source, options.include_dirs, options.defines, flags)
    for path in options.p4info:
        _write(path, _p4info(result, _form(path)))
    if options.p4info_deprecated is not None:
        _write(options.p4info_deprecated, _p4info(result, options.p4info_format))


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _OutputError(f'Error making directory "{directory}": {error.strerror}') from error


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise _OutputError(f'Error writing output to file "{path}": {error.strerror}') from error


_FORMS = {".txtpb": "text", ".txt": "text", ".json": "json", ".bin": "binary"}


def _form(path: Path) -> str:
    form = _FORMS.get(path.suffix)
    if form is None:
        raise P4cUsage(
            f"{path}: unknown file kind; known suffixes are .bin, .txt, .json, and .txtpb",
            "unknown",
        )
    return form


def _p4info(result: CompileResult, form: str) -> bytes:
    from google.protobuf import json_format  # slow to load, and for p4info alone

    if form == "text":
        return result.p4info_text.encode()
    if form == "json":
        return f"{json_format.MessageToJson(result.p4info)}\n".encode()
    return bytes(result.p4info.SerializeToString())


if __name__ == "__main__":
    sys.exit(main())
