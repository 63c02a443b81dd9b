"""The command lines of `p4c-bm2-ss` and of the driver `p4c`, read into one form."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from compat.dropin.p4c_messages import Level

TARGETS = ("bmv2", "bmv2-ss-p4org", "simple_switch")
ARCHITECTURES = ("v1model",)
_ARGUMENT_FILES = 16
"""How deep files of arguments may name others; more is a circle."""


class P4cUsage(Exception):
    """The command line is wrong. `code` is p4c's word for the kind of error."""

    def __init__(self, message: str, code: str = "invalid") -> None:
        super().__init__(message)
        self.code = code


class Action(Enum):
    """What the command line asks for."""

    COMPILE = "compile"
    PREPROCESS = "preprocess"
    DEPENDENCIES = "dependencies"
    HELP = "help"
    VERSION = "version"


@dataclass
class P4cOptions:
    """A command line. `p4info` are files; `levels` what each kind of warning is, "" all others."""

    driver: bool
    action: Action = Action.COMPILE
    sources: list[Path] = field(default_factory=list)
    output: Path | None = None
    include_dirs: list[Path] = field(default_factory=list)
    defines: list[str] = field(default_factory=list)
    p4info: list[Path] = field(default_factory=list)
    p4info_deprecated: Path | None = None
    p4info_format: str = "binary"
    levels: dict[str, Level] = field(default_factory=dict)
    make_flags: list[str] = field(default_factory=list)
    max_errors: int = 20
    verbose: bool = False
    dry_run: bool = False


def parse(argv: Sequence[str], *, driver: bool) -> P4cOptions:
    """Read arguments, without the program's name. `driver`: p4c's own. Raises P4cUsage."""
    options = P4cOptions(driver)
    _read(options, list(_expanded(list(argv), _ARGUMENT_FILES)))
    return options


def _read(options: P4cOptions, argv: Sequence[str]) -> None:
    words = iter(argv)
    for word in words:
        if not word.startswith("-") or word == "-":
            options.sources.append(Path(word))
        else:
            _Reader(options, word, words).read()


def _expanded(argv: Sequence[str], depth: int) -> Iterator[str]:
    """Yield the arguments, with `@FILE` replaced by those in FILE."""
    for word in argv:
        if not word.startswith("@") or len(word) == 1:
            yield word
            continue
        if depth == 0:
            raise P4cUsage(f"{word}: files of arguments name each other in a circle")
        try:
            text = Path(word[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a text"
            raise P4cUsage(f"{word}: can't read the file of arguments: {reason}") from error
        try:
            yield from _expanded(shlex.split(text, comments=True), depth - 1)
        except ValueError as error:
            raise P4cUsage(f"{word}: {error}") from error


class _Reader:
    """One option, with the words that belong to it."""

    def __init__(self, options: P4cOptions, word: str, words: Iterator[str]) -> None:
        self._options = options
        self._words = words
        self._name, self._equals, self._given = word, False, ""
        if word.startswith("--") and "=" in word:
            self._name, _, self._given = word.partition("=")
            self._equals = True
        elif word[:2] in _ATTACHED and len(word) > 2 and word not in _MAKE_FLAGS:
            # -Idir, -DNAME, -ofile: the value may follow at once.
            self._name, self._given, self._equals = word[:2], word[2:], True

    def read(self) -> None:
        options, name = self._options, self._name
        if name in _MAKE_FLAGS:
            options.make_flags.append(name)
            if _MAKE_FLAGS[name]:
                options.make_flags.append(self._value())
            if name == "-M":
                options.action = Action.DEPENDENCIES
        elif name in _LEVELS:
            for kind in self._given.split(",") if self._equals else [""]:
                options.levels[kind] = _LEVELS[name]
        elif name in _SETTERS:
            _SETTERS[name](options, self._value())
        elif name in _SWITCHES:
            self._no_value()
            _SWITCHES[name](options)
        elif options.driver and name in _DRIVER_SETTERS:
            _DRIVER_SETTERS[name](options, self._value())
        elif options.driver and name in _DRIVER_SWITCHES:
            self._no_value()
            _DRIVER_SWITCHES[name](options)
        elif name in _REFUSED:
            raise P4cUsage(
                f"{name} is p4c's, and this compiler has no such thing: {_REFUSED[name]}"
            )
        else:
            raise P4cUsage(f"Unknown option {name}", "unknown")

    def _value(self) -> str:
        if self._equals:
            return self._given
        value = next(self._words, None)
        if value is None:
            raise P4cUsage(f"Option {self._name} is missing required argument", "expected")
        return value

    def _no_value(self) -> None:
        if self._equals:
            raise P4cUsage(f"Option {self._name} takes no argument")


# ----------------------------------------------------------------------- what options do


def _language(options: P4cOptions, value: str) -> None:
    if value.lower().replace("_", "-") in ("16", "p4-16", "p4₁₆"):
        return
    if value.lower().replace("_", "-") in ("14", "p4-14", "p4₁₄"):
        raise P4cUsage(
            f"{value}: this compiler reads P4_16 only; p4c itself can rewrite a P4_14 program "
            "(p4test --std p4-14 --pp NEW.p4 OLD.p4)",
            "unsupported",
        )
    raise P4cUsage(f"Illegal language version {value}")


def _target(options: P4cOptions, value: str) -> None:
    if value not in TARGETS:
        raise P4cUsage(f"target {value} is not there: this compiler is for bmv2", "unsupported")


def _arch(options: P4cOptions, value: str) -> None:
    if value not in ARCHITECTURES:
        raise P4cUsage(
            f"architecture {value} is not there: this compiler is for v1model", "unsupported"
        )


def _p4info_format(options: P4cOptions, value: str) -> None:
    if value not in ("binary", "json", "text"):
        raise P4cUsage(f"Illegal P4Runtime format {value}: use binary, json or text")
    options.p4info_format = value


def _max_errors(options: P4cOptions, value: str) -> None:
    if not value.isdecimal() or int(value) == 0:
        raise P4cUsage(f"--maxErrorCount {value}: give a number above 0")
    options.max_errors = int(value)


def _undefine(options: P4cOptions, name: str) -> None:
    options.defines = [d for d in options.defines if d.partition("=")[0] != name]


def _passed_on(options: P4cOptions, value: str) -> None:
    """Handle -Xp4c ARG: an argument of the compiler proper."""
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise P4cUsage(f"-Xp4c {value}: {error}") from error
    inner = replace(options, driver=False, sources=[], output=None)
    _read(inner, words)
    if inner.sources or inner.output is not None:
        raise P4cUsage(f"-Xp4c {value}: is no option of the compiler")
    outer = {"driver": True, "sources": options.sources, "output": options.output}
    vars(options).update(vars(inner) | outer)


def _to_preprocessor(options: P4cOptions, value: str) -> None:
    """Handle -Xpreprocessor ARG."""
    if value[:2] == "-D" and len(value) > 2:
        options.defines.append(value[2:])
    elif value[:2] == "-I" and len(value) > 2:
        options.include_dirs.append(Path(value[2:]))
    elif value[:2] == "-U" and len(value) > 2:
        _undefine(options, value[2:])
    else:
        raise P4cUsage(f"-Xpreprocessor {value}: only -D, -U and -I are passed on")


def _set_output(options: P4cOptions, value: str) -> None:
    options.output = Path(value)


def _set_p4info(options: P4cOptions, value: str) -> None:
    options.p4info += [Path(name) for name in value.split(",") if name]


def _set_p4info_deprecated(options: P4cOptions, value: str) -> None:
    options.p4info_deprecated = Path(value)


def _set_action(action: Action) -> Callable[[P4cOptions], None]:
    def apply(options: P4cOptions) -> None:
        options.action = action

    return apply


def _set_verbose(options: P4cOptions) -> None:
    options.verbose = True


def _set_dry_run(options: P4cOptions) -> None:
    options.dry_run = True


def _nothing(options: P4cOptions, value: str = "") -> None:
    """Ignore an option that changes how p4c works, and not what a program does."""


_ATTACHED = ("-I", "-D", "-U", "-o", "-T", "-O", "-W")
_MAKE_FLAGS = {
    "-M": False,
    "-MD": False,
    "-MG": False,
    "-MP": False,
    "-MF": True,
    "-MT": True,
    "-MQ": True,
}
"""Options about `make` rules, and whether a value follows."""

_LEVELS = {
    "--Wdisable": Level.SILENT,
    "--Winfo": Level.INFO,
    "--Wwarn": Level.WARNING,
    "--Werror": Level.ERROR,
}

_SETTERS: dict[str, Callable[[P4cOptions, str], None]] = {
    "-I": lambda options, value: options.include_dirs.append(Path(value)),
    "-D": lambda options, value: options.defines.append(value),
    "-U": _undefine,
    "-W": _nothing,
    "-T": _nothing,
    "-O": _nothing,
    "-o": _set_output,
    "--std": _language,
    "--p4v": _language,
    "--target": _target,
    "--arch": _arch,
    "--p4runtime-file": _set_p4info_deprecated,
    "--p4runtime-files": _set_p4info,
    "--p4runtime-format": _p4info_format,
    "--maxErrorCount": _max_errors,
    "--top4": _nothing,
    "--dump": _nothing,
    "--excludeFrontendPasses": _nothing,
    "--excludeMidendPasses": _nothing,
}

_SWITCHES: dict[str, Callable[[P4cOptions], None]] = {
    "-h": _set_action(Action.HELP),
    "--help": _set_action(Action.HELP),
    "--version": _set_action(Action.VERSION),
    "-E": _set_action(Action.PREPROCESS),
    "-v": _set_verbose,
    "--nocpp": _nothing,
    "--ndebug": _nothing,
    "--parser-inline-opt": _nothing,
    "--doNotEmitIncludes": _nothing,
    "--loopsUnroll": _nothing,
    "--emit-externs": _nothing,
    "--testJson": _nothing,
}

_DRIVER_SETTERS: dict[str, Callable[[P4cOptions, str], None]] = {
    "-b": _target,
    "-a": _arch,
    "-x": _language,
    "--output": _set_output,
    "-Xp4c": _passed_on,
    "-Xpreprocessor": _to_preprocessor,
    "-Xassembler": _nothing,
    "-Xlinker": _nothing,
}

_DRIVER_SWITCHES: dict[str, Callable[[P4cOptions], None]] = {
    "-V": _set_action(Action.VERSION),
    "--debug": _set_verbose,
    "-###": _set_dry_run,
    "--test-only": _set_dry_run,
    "-c": _nothing,
    "--compile": _nothing,
    "-S": _nothing,
    "-e": _nothing,
    "-g": _nothing,
}

_REFUSED = {
    "--p4runtime-entries-files": "the program's entries are in its JSON",
    "--p4runtime-entries-file": "the program's entries are in its JSON",
    "--fromJSON": "it keeps no intermediate form in files",
    "--toJSON": "it keeps no intermediate form in files",
    "--toJson": "it keeps no intermediate form in files",
    "--pp": "it does not print programs",
    "--metrics": "it collects no metrics of code",
    "--disable-annotations": "annotations can't be switched off",
    "--listFrontendPasses": "its passes can't be chosen",
    "--listMidendPasses": "its passes can't be chosen",
    "--gdb": "it is no program of C++",
    "--cgdb": "it is no program of C++",
    "--lldb": "it is no program of C++",
}

HELP = """\
usage: {name} [options] PROG.p4

Weft's compiler with the command line of p4c: P4_16 for v1model to BMv2 JSON and P4Info.

  -o {output:<25} {output_text}
  --p4runtime-files FILE[,FILE]  write P4Info; the form by the suffix: .txtpb, .txt, .json, .bin
  -I DIR                       look for included files in DIR too
  -D NAME[=VALUE], -U NAME     define a macro, or no longer
  -E                           only run the preprocessor, to standard output
  -M, -MD, -MF FILE, -MT T ... write a rule for `make`, as the C preprocessor does
  --std p4-16, --p4v 16        the language; P4_16 is the only one
  --target bmv2, --arch v1model  the only ones
  --Wdisable[=KIND], --Winfo[=KIND], --Wwarn[=KIND], --Werror[=KIND]
                               what a kind of warning is, or all that are not named
  --maxErrorCount N            end after N errors (default 20)
  --version, --help
  @FILE                        more arguments from FILE

Options that only change how p4c works (--ndebug, --nocpp, -T, -O, --top4, --dump ...) are taken
and do nothing.
"""


def help_text(name: str, *, driver: bool) -> str:
    """Return the text that --help prints."""
    if driver:
        return HELP.format(name=name, output="DIR", output_text="where PROG.json and PROG.p4i go")
    return HELP.format(name=name, output="FILE", output_text="write the JSON to FILE")
