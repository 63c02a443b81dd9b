"""A compiled P4 program: the two files that p4c or our compiler wrote, as everything takes it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from google.protobuf import text_format

from controller.errors import ProgramError
from controller.p4info import P4Info
from softswitch.p4runtime.protos import p4i


class Texts(Protocol):
    """The result of a compilation by any compiler."""

    @property
    def json_text(self) -> str:
        """BMv2 JSON."""

    @property
    def p4info_text(self) -> str:
        """P4Info as text protobuf."""


@dataclass(frozen=True)
class CompiledProgram:
    """BMv2 JSON and P4Info as text, and what follows from them. It may go to another process.

    `path`: the P4 file that it was made of, None if unknown; `given`: the user chose it, by
    --p4, no file did. `found_cookie`: the cookie with which another client loaded it, if one did.
    """

    json_text: str
    p4info_text: str
    path: Path | None = None
    given: bool = False
    found_cookie: int | None = None

    @classmethod
    def of(cls, made: Texts, path: Path | None = None, *, given: bool = False) -> CompiledProgram:
        """Return what a compilation made. Raises ProgramError."""
        return cls(made.json_text, made.p4info_text, path, given)._checked("P4Info")

    @classmethod
    def load(cls, json_path: Path | str, p4info_path: Path | str) -> CompiledProgram:
        """Read both files. Raises ProgramError with the file that is at fault."""
        texts = _read(Path(json_path)), _read(Path(p4info_path))
        return cls(*texts)._checked(str(p4info_path))

    def _checked(self, source: str) -> CompiledProgram:
        try:
            self.p4info  # noqa: B018 - parsed once, and kept
        except text_format.ParseError as error:
            raise ProgramError(f"{source}: not P4Info as text protobuf: {error}") from None
        return self

    @property
    def name(self) -> str:
        """The P4 file's name."""
        if self.found_cookie is not None:
            return "another client's program"
        return "program" if self.path is None else self.path.name

    @cached_property
    def sha256(self) -> str:
        """The JSON's digest, as results keep it."""
        return hashlib.sha256(self.device_config).hexdigest()

    @cached_property
    def device_config(self) -> bytes:
        """The JSON as P4Runtime carries it."""
        return self.json_text.encode(errors="surrogateescape")

    @cached_property
    def p4info(self) -> P4Info:
        """Names and ids of the program's objects."""
        return P4Info(text_format.Parse(self.p4info_text, p4i.P4Info()))

    @cached_property
    def cookie(self) -> int:
        """What names this very program to P4Runtime.

        Never 0, which is "no cookie was set", but where another client set none.
        """
        if self.found_cookie is not None:
            return self.found_cookie
        digest = hashlib.sha256(len(self.device_config).to_bytes(8, "big"))
        digest.update(self.device_config)
        digest.update(self.p4info_text.encode())
        return int.from_bytes(digest.digest()[:8], "big") or 1

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process gets: the texts, not what follows from them."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="surrogateescape")
    except OSError as error:
        reason = error.strerror or error
        raise ProgramError(f"{path}: can't read the compiled program: {reason}") from None
