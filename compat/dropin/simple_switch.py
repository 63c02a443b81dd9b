"""The daemon under BMv2's names, as `weft drop-in` installs it.

What differs from `softswitch` is only what scripts around those programs lean on: the process's
name, the log file's, and that `simple_switch` has no P4Runtime address but one Thrift port.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from softswitch.daemon import main

DEFAULT_THRIFT_PORT = 9090
_NO_EFFECT = ("--enable-swap",)
"""Options of simple_switch alone; programs can always be swapped here."""


def simple_switch_grpc() -> int:
    """Run as `simple_switch_grpc`; return the exit code."""
    _be_called("simple_switch_grpc")
    return main(with_thrift_port(with_bmv2_log(sys.argv[1:])))


def simple_switch() -> int:
    """Run as `simple_switch`; return the exit code."""
    _be_called("simple_switch")
    argv = without_grpc(with_bmv2_log(sys.argv[1:]))
    port = argv[-1].rpartition(":")[2]
    if _is_port(port) and not _is_free(int(port)):
        # The daemon would name --grpc-server-addr, which this program's users do not give.
        sys.stderr.write(
            f"simple_switch: port {port} is in use; choose another with --thrift-port N\n"
        )
        return 1
    return main(argv)


def with_bmv2_log(argv: Sequence[str]) -> list[str]:
    """Return `argv` with BMv2's name of the log file, which is the given one and `.txt`."""
    found = list(argv)
    end = found.index("--") if "--" in found else len(found)
    for at, word in enumerate(found[:end]):
        if word == "--log-file" and at + 1 < end:
            found[at + 1] += ".txt"
        elif word.startswith("--log-file="):
            found[at] += ".txt"
    return found


def with_thrift_port(argv: Sequence[str]) -> list[str]:
    """Return `argv` with BMv2's default Thrift port, if it names none and the port is free."""
    general = argv[: argv.index("--")] if "--" in argv else argv
    named = any(word.partition("=")[0] == "--thrift-port" for word in general)
    if named or not _is_free(DEFAULT_THRIFT_PORT):
        return list(argv)
    return ["--thrift-port", str(DEFAULT_THRIFT_PORT), *argv]


def _is_port(text: str) -> bool:
    return text.isdecimal() and 0 < int(text) < 1 << 16


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def without_grpc(argv: Sequence[str]) -> list[str]:
    """Return the daemon's `argv` for that of `simple_switch`, which listens on the Thrift port."""
    general, target = list(argv), list[str]()
    if "--" in general:
        at = general.index("--")
        general, target = general[:at], general[at + 1 :]
    port = str(DEFAULT_THRIFT_PORT)
    kept: list[str] = []
    words = iter(general)
    for word in words:
        name, given, value = word.partition("=")
        if name != "--thrift-port":
            kept.append(word)
            continue
        value = value if given else next(words, "")
        if _is_port(value):
            port = value
        else:  # the daemon says what is wrong
            kept.append(f"--thrift-port={value}")
    target = [word for word in target if word not in _NO_EFFECT]
    return [*kept, "--", *target, "--grpc-server-addr", f"127.0.0.1:{port}"]


def _be_called(name: str) -> None:
    """Give the process the name by which scripts find it (`pkill simple_switch`)."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(name, encoding="ascii")
