"""A compiled P4 program: the two files that p4c or our compiler wrote."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import text_format

from controller.errors import ProgramError
from controller.p4info import P4Info
from softswitch.p4runtime.protos import p4i


@dataclass(frozen=True)
class CompiledProgram:
    """BMv2 JSON and P4Info. `cookie` names this very program to P4Runtime."""

    device_config: bytes
    p4info: P4Info
    cookie: int

    @classmethod
    def load(cls, json_path: Path | str, p4info_path: Path | str) -> CompiledProgram:
        """Read both files. Raises ProgramError with the file that is at fault."""
        return cls.of(_read(Path(json_path)), _read(Path(p4info_path)), str(p4info_path))

    @classmethod
    def of(
        cls, device_config: bytes, p4info_text: bytes, source: str = "P4Info"
    ) -> CompiledProgram:
        """Make a program of the files' contents. Raises ProgramError."""
        message = p4i.P4Info()
        try:
            text_format.Parse(p4info_text.decode("utf-8", errors="replace"), message)
        except text_format.ParseError as error:
            raise ProgramError(f"{source}: not P4Info as text protobuf: {error}") from None
        digest = hashlib.sha256(len(device_config).to_bytes(8, "big"))
        digest.update(device_config)
        digest.update(p4info_text)
        # Never 0, which P4Runtime's servers give for "no cookie was set".
        cookie = int.from_bytes(digest.digest()[:8], "big") or 1
        return cls(device_config, P4Info(message), cookie)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise ProgramError(f"{path}: can't read the compiled program: {reason}") from None
