"""A switch behind gRPC and a session of `weft cli` with it, in one process."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from compat.bmv2_cli.connection import Connection
from compat.bmv2_cli.main import SwitchShell
from compat.dropin.lab_switch import lab_switch
from compiler import compile_p4
from softswitch.diagnostics import DiagnosticsClient


class Bench:
    """A switch, and commands on it; `done` returns what they print."""

    def __init__(self, stack: ExitStack, address: str) -> None:
        self.address = address
        self._stack = stack
        self.shell = self.open()

    def open(self) -> SwitchShell:
        """Another session with the same switch."""
        connection = self._stack.enter_context(Connection(self.address, 0))
        diagnostics = self._stack.enter_context(DiagnosticsClient(self.address))
        return SwitchShell(connection, diagnostics)

    def done(self, *lines: str) -> list[str]:
        """Return what the lines print."""
        self.shell.stdout = output = io.StringIO()
        for line in lines:
            self.shell.onecmd(line)
        return output.getvalue().splitlines()


def compile_into(folder: Path, program: Path) -> Path:
    """`program` compiled: the folder, which has lab.json and lab.p4info.txtpb then."""
    result = compile_p4(program)
    (folder / "lab.json").write_text(result.json_text)
    (folder / "lab.p4info.txtpb").write_text(result.p4info_text)
    return folder


@contextmanager
def bench_of(compiled: Path) -> Iterator[Bench]:
    """Run a switch with what `compile_into` made."""
    json, p4info = (compiled / name for name in ("lab.json", "lab.p4info.txtpb"))
    ports = {1: "s1-eth1", 2: "s1-eth2"}
    with ExitStack() as stack:
        switch = lab_switch(json.read_text(), p4info.read_text(), ports, priorities=2)
        address = stack.enter_context(switch)
        yield Bench(stack, address)
