"""Whether a header can be an algorithm: what it includes, what it declares, and whether it is pure.

Found without running it: includes that are not ours, floating point, what the interface lacks, the
compiler's warnings, variables outside the state, calls out of the header, divisions of signed
numbers. Loops that do not end are found by running it (`apart`), and by the kernel's verifier.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hostagent.rnic.build import SHARED

LIST = "cc_algorithms.h"
FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-O0", "-fPIC")
SECONDS = 30.0
"""The compiler's, for one header."""

INTERFACE = {
    "init": "void {n}_init(struct {n} *, const struct {n}_params *, weft_u64)",
    "on_event": "void {n}_on_event(struct {n} *, const struct cc_event *, "
    "const struct cc_telemetry *, weft_u64)",
    "elapse": "void {n}_elapse(struct {n} *, weft_u64)",
    "rate_at": "weft_u64 {n}_rate_at(const struct {n} *, weft_u64)",
    "window_at": "weft_u64 {n}_window_at(const struct {n} *, weft_u64)",
    "path_at": "weft_u32 {n}_path_at(const struct {n} *, const struct cc_choice *, weft_u64)",
    "invalid": "const char *{n}_invalid(const struct {n}_params *)",
}
"""The functions of a header called n, as C declares them."""
CONSTANTS = ("HEARS", "WANTS")

_FLOATING = re.compile(
    r"\b(?:float|double|_Complex|__int128)\b|(?<![\w.])(?:\d+\.\d*|\.\d+|\d+[eE][+-]?\d+)"
)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_ENTRY = re.compile(r"^[ \t]*CC_ALGORITHM[ \t]*\(\s*(\w+)\s*\)", re.MULTILINE)
_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_COMPILER = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<what>.*)")
_OURS = "weft_check_"
_OF_C = frozenset({"memcpy", "memset", "memmove", "memcmp"})
"""What a compiler calls by itself where structs are copied."""
_SIGNED = re.compile(r"(?:signed )?(?:char|short|int|long)(?: int| long int)?|s?size_t|u?int\d+_t")
_DECLARED = re.compile(
    r"(?:^ *|[(,] ?)(?P<type>[a-z_0-9 ]+?) (?P<name>[\w.]+)(?=[;,)])", re.MULTILINE
)
_ASSIGNED = re.compile(r"^ *(?:\[[^\]]*\] )?(?P<name>[\w.]+) = (?P<value>.*);$", re.MULTILINE)
_CAST = re.compile(r"\((?P<type>[a-z_0-9 ]+)\) ")
_PLACES = re.compile(r"\[[^\[\]:]+:\d+:\d+(?: discrim \d+)?\] ?")
_DIVIDED = re.compile(
    r"\[(?P<file>[^\[\]:]+):(?P<line>\d+):\d+(?: discrim \d+)?\] (?P<name>[\w.]+) = "
    r"(?P<above>\S+) [/%] (?P<below>\S+);"
)
_NUMBER = re.compile(r"-?\d+[ul]*")
_DEEP = 16
"""Steps by which the type of an intermediate value is looked for."""


class OwnAlgorithmError(ValueError):
    """A header is no algorithm: the message says where, what is wrong and what would be right."""

    def __init__(self, path: Path, line: int, wrong: str, right: str) -> None:
        super().__init__(f"{path}:{line}: {wrong}; {right}")
        self.path = path
        self.line = line
        self.wrong = wrong
        self.right = right


@dataclass(frozen=True)
class OwnAlgorithm:
    """A header that was checked: the name that it declares, where it is and its text."""

    name: str
    path: Path
    text: str

    def line_of(self, what: str) -> int:
        """Return the line in which something stands first, whole words; 1 if nowhere."""
        found = re.search(rf"\b{re.escape(what)}(?!\w)", self.text)
        return _line(self.text, found.start()) if found else 1


def read(path: Path, shared: Path = SHARED) -> OwnAlgorithm:
    """Read and check a header; `shared`: the headers that it may include.

    Raises OwnAlgorithmError, and OSError where it can't be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise OwnAlgorithmError(path, 1, "is no text", "a C header in UTF-8 is wanted") from None
    bare = _COMMENT.sub(lambda found: re.sub(r"[^\n\"]", " ", found[0]), text)
    own = OwnAlgorithm(_name(path, text, bare), path, text)
    _check_includes(path, text, shared)
    _check_words(path, bare)
    _check_interface(own, bare)
    with tempfile.TemporaryDirectory(prefix="weft-own-") as scratch:
        _check_compiled(own, shared, Path(scratch))
    return own


def _line(text: str, at: int) -> int:
    return text[:at].count("\n") + 1


def _name(path: Path, text: str, bare: str) -> str:
    found = list(_ENTRY.finditer(bare))
    right = "behind its guard stands, between #ifdef CC_ALGORITHM and #endif, CC_ALGORITHM(name)"
    if not found:
        raise OwnAlgorithmError(path, text.count("\n") or 1, "the header names no algorithm", right)
    if len(found) > 1:
        line = _line(bare, found[1].start())
        raise OwnAlgorithmError(path, line, "the header names a second algorithm", "one a header")
    return found[0][1]


def _check_includes(path: Path, text: str, shared: Path) -> None:
    for found in _INCLUDE.finditer(text):
        name = found[1].partition("/*")[0].partition("//")[0].strip().strip('"')
        if not (shared / name).is_file() or name in (LIST, "cc_slot.h"):
            right = 'include "cc_event.h" alone, which has all types and events'
            wrong = f"includes {found[1] or 'nothing'}"
            raise OwnAlgorithmError(path, _line(text, found.start()), wrong, right)


def _check_words(path: Path, bare: str) -> None:
    found = _FLOATING.search(bare)
    if found:
        right = "an algorithm counts in whole numbers (weft_u64): the kernel has no others"
        raise OwnAlgorithmError(path, _line(bare, found.start()), f"uses {found[0]}", right)


def _check_interface(own: OwnAlgorithm, bare: str) -> None:
    wanted = {f"struct {own.name}": f"struct {own.name} {{ struct {own.name}_params params; ... }}"}
    wanted[f"struct {own.name}_params"] = (
        f"struct {own.name}_params {{ weft_u64 line_rate, min_rate; ... }}"
    )
    wanted |= {
        f"{own.name}_{which}": f"static inline {shape.format(n=own.name)}"
        for which, shape in INTERFACE.items()
    }
    wanted |= {f"{own.name}_{which}": f"enum {{ {own.name}_{which} = ... }}" for which in CONSTANTS}
    for name, shape in wanted.items():
        if not re.search(rf"\b{name}\b", bare):
            line = own.line_of(f"CC_ALGORITHM({own.name})")
            raise OwnAlgorithmError(own.path, line, f"there is no {name}", f"declare {shape}")


# ---------------------------------------------------------------- what the compiler sees


def _check_compiled(own: OwnAlgorithm, shared: Path, scratch: Path) -> None:
    source = scratch / "check.c"
    lines = [f'#include "{own.path.resolve()}"']
    for which, shape in INTERFACE.items():
        declared = shape.format(n=own.name)
        pointer = declared.replace(f"{own.name}_{which}(", f"(*const {_OURS}{which})(", 1)
        lines.append(f"{pointer} = {own.name}_{which};")
    lines.append(
        f"weft_u64 *{_OURS}line_rate(struct {own.name} *s) {{ return &s->params.line_rate; }}"
    )
    lines.append(
        f"weft_u64 *{_OURS}min_rate(struct {own.name} *s) {{ return &s->params.min_rate; }}"
    )
    lines.append(f"weft_u64 *{_OURS}rate(struct {own.name} *s) {{ return &s->rate; }}")
    source.write_text("".join(f"{line}\n" for line in lines))
    made = scratch / "check.o"
    dump = scratch / "check.gimple"
    done = _run(
        own,
        [os.environ.get("CC", "gcc"), *FLAGS, f"-fdump-tree-gimple-lineno={dump}", f"-I{shared}",
         "-c", str(source), "-o", str(made)],
    )  # fmt: skip
    if done.returncode:
        raise _of_compiler(own, done.stderr)
    if dump.is_file():
        for line in _signed_divisions(dump.read_text(), own):
            right = "divide unsigned numbers (weft_u64): the kernel divides no others"
            raise OwnAlgorithmError(own.path, line, "divides signed numbers", right)
    _check_symbols(own, made)


def _run(own: OwnAlgorithm, command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    except FileNotFoundError:
        right = "install gcc and binutils, or run make setup"
        raise OwnAlgorithmError(own.path, 1, f"there is no {command[0]}", right) from None
    except subprocess.TimeoutExpired:
        right = "is a macro endless?"
        wrong = f"the compiler did not get through within {SECONDS:g} s"
        raise OwnAlgorithmError(own.path, 1, wrong, right) from None


def _of_compiler(own: OwnAlgorithm, said: str) -> OwnAlgorithmError:
    """Return the compiler's first error in the header; else its first."""
    found = [match for match in map(_COMPILER.match, said.splitlines()) if match]
    ours = [match for match in found if Path(match["file"]).resolve() == own.path.resolve()]
    if ours:
        right = "headers compile without warnings (-Wall -Wextra -Werror)"
        return OwnAlgorithmError(own.path, int(ours[0]["line"]), ours[0]["what"], right)
    what = found[0]["what"] if found else said.strip().partition("\n")[0]
    for which, shape in INTERFACE.items():
        if f"{own.name}_{which}" in said:
            right = f"it is static inline {shape.format(n=own.name)}"
            line = own.line_of(f"{own.name}_{which}(")
            wrong = f"{own.name}_{which} takes or returns something else"
            return OwnAlgorithmError(own.path, line, wrong, right)
    right = f"struct {own.name} has params (line_rate, min_rate: weft_u64) and rate"
    return OwnAlgorithmError(own.path, own.line_of(f"struct {own.name} {{"), what, right)


def _signed_divisions(gimple: str, own: OwnAlgorithm) -> Iterator[int]:
    """Return the header's lines that divide signed numbers, by gcc's own intermediate form."""
    for function in re.split(r"^(?=\S.*\)$)", gimple, flags=re.MULTILINE):
        types = {found["name"]: found["type"].strip() for found in _DECLARED.finditer(function)}
        values = {
            found["name"]: _PLACES.sub("", found["value"]) for found in _ASSIGNED.finditer(function)
        }
        for found in _DIVIDED.finditer(function):
            operands = [each for each in found.group("above", "below") if not _NUMBER.match(each)]
            signed = (_is_signed(_type(each, types, values, own)) for each in operands)
            if Path(found["file"]).resolve() == own.path.resolve() and any(signed):
                yield int(found["line"])


def _type(
    name: str, types: Mapping[str, str], values: Mapping[str, str], own: OwnAlgorithm, deep: int = 0
) -> str:
    """Return the type of a value of a function; empty: not found."""
    value = values.get(name, "")
    if name in types or deep > _DEEP:
        return types.get(name, "")
    if cast := _CAST.match(value):
        return cast["type"]
    if member := re.fullmatch(r".*(?:->|\.)(\w+)", value):
        declared = re.search(rf"^\s*([a-z]\w*(?: [a-z]\w*)*?)\s+[^;()]*\b{member[1]}\b[^;()]*;",
                             own.text, re.MULTILINE)  # fmt: skip
        return declared[1] if declared else ""
    parts = [part for part in value.split() if re.fullmatch(r"[\w.]+", part)]
    found = (_type(part, types, values, own, deep + 1) for part in parts if part != name)
    return next((each for each in found if each), "")


def _is_signed(name: str) -> bool:
    return bool(_SIGNED.fullmatch(name)) and not name.startswith(("u", "size_t"))


def _check_symbols(own: OwnAlgorithm, made: Path) -> None:
    done = _run(own, ["nm", str(made)])
    for row in done.stdout.splitlines():
        kind, name = row.split()[-2:]
        if kind in "dDbBC" and not name.startswith(_OURS):
            base = name.partition(".")[0]
            right = f"what is remembered stands in struct {own.name}, one of each slot"
            wrong = f"{base} is a variable outside the state"
            raise OwnAlgorithmError(own.path, own.line_of(base), wrong, right)
        if kind == "U" and name not in _OF_C and not name.startswith("_GLOBAL_OFFSET"):
            right = "all that is called stands in the header: the kernel has nothing else"
            raise OwnAlgorithmError(own.path, own.line_of(f"{name}("), f"calls {name}", right)
