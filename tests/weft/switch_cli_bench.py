"""A switch behind gRPC and a session of `weft cli` with it, in one process."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from softswitch.compiler import compile_p4
from softswitch.core import CoreConfig, DaemonLoop, SwitchCore
from softswitch.device import Device
from softswitch.diagnostics import DiagnosticsClient
from softswitch.diagnostics_service import DiagnosticsService
from softswitch.p4runtime.pipeline import read_p4info
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.server import P4RuntimeServer
from softswitch.p4runtime.service import P4RuntimeService
from weft.switch_cli import SwitchShell
from weft.switch_cli_connection import Connection


class Bench:
    """A switch, and commands on it; `done` returns what they print."""

    def __init__(self, stack: ExitStack, device: Device, address: str) -> None:
        self.device = device
        self.address = address
        self._stack = stack
        self.shell = self.open()

    def open(self) -> SwitchShell:
        """Another session with the same switch."""
        connection = self._stack.enter_context(Connection(self.address, 0))
        diagnostics = self._stack.enter_context(DiagnosticsClient(self.address))
        return SwitchShell(connection, diagnostics)

    def done(self, *lines: str) -> list[str]:
        """What the lines print."""
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
    """A switch that runs what `compile_into` made."""
    with ExitStack() as stack:
        core = SwitchCore(CoreConfig(priorities=2))
        stack.callback(core.close)
        loop = DaemonLoop(core)
        stack.callback(loop.close)
        device = Device(core, clock=loop.now, guard=loop.locked)
        service = P4RuntimeService(
            device,
            0,
            packet_out=loop.packet_out,
            make_draft=lambda: Device(SwitchCore(core.config), clock=lambda: 0),
        )
        diagnostics = DiagnosticsService(device, loop, service.lock, {1: "s1-eth1", 2: "s1-eth2"})
        server = P4RuntimeServer(service, "127.0.0.1:0", [diagnostics.handler()])
        server.start()
        stack.callback(server.stop, 0.0)
        loop.start()
        config = p4r.ForwardingPipelineConfig(p4info=read_p4info(compiled / "lab.p4info.txtpb"))
        config.p4_device_config = (compiled / "lab.json").read_bytes()
        service.set_local_config(config)
        yield Bench(stack, device, f"127.0.0.1:{server.port}")
