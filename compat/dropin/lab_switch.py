"""A switch behind gRPC in this process, without ports: for commands that only want its answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from softswitch.core import CoreConfig, DaemonLoop, SwitchCore
from softswitch.device import Device
from softswitch.diagnostics_service import DiagnosticsService
from softswitch.p4runtime.pipeline import parse_p4info
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.server import P4RuntimeServer
from softswitch.p4runtime.service import P4RuntimeService


@contextmanager
def lab_switch(
    json: str, p4info: str, ports: Mapping[int, str] = {}, *, priorities: int = 1
) -> Iterator[str]:
    """Run a switch with a compiled program; yield its address, HOST:PORT, on the loopback.

    `ports` are names that it reports, with no interface behind them; `priorities`: queues of each.
    Raises PipelineError.
    """
    with ExitStack() as stack:
        core = SwitchCore(CoreConfig(priorities=priorities))
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
        config = p4r.ForwardingPipelineConfig(p4info=parse_p4info(p4info.encode(), "P4Info"))
        config.p4_device_config = json.encode()
        service.set_local_config(config)
        diagnostics = DiagnosticsService(device, loop, service.lock, ports)
        server = P4RuntimeServer(service, "127.0.0.1:0", [diagnostics.handler()])
        server.start()
        stack.callback(server.stop, 0.0)
        loop.start()
        yield f"127.0.0.1:{server.port}"
