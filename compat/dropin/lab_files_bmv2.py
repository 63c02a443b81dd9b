"""BMv2 and its own simple_switch_CLI beside ours, for `weft lab-files --beside`."""

from __future__ import annotations

import difflib
import shlex
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from emulation.tcp_ports import TcpPorts

BMV2 = "simple_switch_grpc"
START_S = 20.0
DONE_S = 120.0
_LINES = 6
_FIRST_THRIFT_PORT = 20_000


class Bmv2Error(Exception):
    """BMv2 did not run; the message says why."""


def bmv2_text(cli: str, program: str, commands: str, folder: Path) -> str:
    """Return what `cli` (its command line) prints for `commands` on a BMv2 of its own.

    The BMv2 runs `program`. Raises Bmv2Error.
    """
    with tempfile.TemporaryDirectory(prefix="weft-bmv2-") as scratch:
        config = Path(scratch, "program.json")
        config.write_text(program)
        ports = TcpPorts()
        (port,) = ports.take(1, _FIRST_THRIFT_PORT)
        switch = [BMV2, "--thrift-port", str(port), str(config), "--"]
        switch += ["--grpc-server-addr", f"unix:{scratch}/p4runtime"]
        try:
            process = subprocess.Popen(
                switch, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise Bmv2Error(f"can't start {BMV2}: {error.strerror}") from None
        try:
            _wait(port, process)
            done = subprocess.run(
                [*shlex.split(cli), "--thrift-port", str(port)],
                input=commands, cwd=folder, capture_output=True, text=True, check=False,
                timeout=DONE_S,
            )  # fmt: skip
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            raise Bmv2Error(f"{cli}: {error}") from None
        finally:
            process.kill()
            process.wait()
            ports.release()
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise Bmv2Error(f"BMv2's own CLI ended with {done.returncode}: {last}")
    return done.stdout


def same_lines(bmv2: str, ours: str) -> list[str]:
    """Return the first lines that differ: with "-" BMv2's, with "+" ours."""
    return [
        line
        for line in difflib.unified_diff(_plain(bmv2), _plain(ours), lineterm="", n=0)
        if not line.startswith(("---", "+++", "@@"))
    ][:_LINES]


def _plain(text: str) -> list[str]:
    """Return the lines without what precedes the first prompt, the prompts, and our own help."""
    body = text.partition("RuntimeCmd: ")[2].replace("RuntimeCmd: ", "")
    lines = [line for line in body.splitlines() if line]
    return [line for line in lines if not line.startswith("List ") or "help" not in line]


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while True:
        if process.poll() is not None:
            raise Bmv2Error(f"{BMV2} ended with {process.returncode}: it does not take the program")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise Bmv2Error(f"{BMV2} does not listen after {START_S:g} s") from None
            time.sleep(0.02)
