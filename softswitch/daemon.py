"""The switch as a process: ports on real interfaces, P4Runtime on TCP, the kernel's clock.

Threads: the C loop moves packets (without Python's lock), one thread carries packet-ins, digests
and time-outs to the controller, gRPC's threads serve calls, the main thread waits for a signal.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from softswitch.core import (
    CoreConfig,
    CoreError,
    DaemonLoop,
    Direction,
    PortConfig,
    PortImpair,
    Scheduler,
    SwitchCore,
)
from softswitch.link_options import Link
from softswitch.options import UNIX, Interface, Options, UsageError, parse
from softswitch.ticker_options import TICKER_PORT

# Methods import what takes long to load: by then the log is open and signals are caught, and
# --help and wrong options need none of it.
if TYPE_CHECKING:
    from softswitch.device import Device
    from softswitch.diagnostics_service import DiagnosticsService
    from softswitch.p4runtime.server import P4RuntimeServer
    from softswitch.p4runtime.service import P4RuntimeService

LOG = logging.getLogger("softswitch")

PS_PER_NS = 1_000
PS_PER_MS = 1_000_000_000
JOIN_S = 5.0
"""Longest wait for a thread at the end; a stuck one ends with the process."""

IDLE_WAIT_S = 1.0
"""Longest wait of the event thread when nothing is due."""

WARNING_LEVELS = frozenset({1, 3})
"""The core's levels of failed assertions of the P4 program and of passes that do not end; 0 is
log_msg, 2 says what ports do."""

TICKS_PS = {"us": 1_000_000, "ns": 1_000}
CELL_BYTES = 256

_LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "off": logging.CRITICAL + 1,
}


LOG_FORMAT = "%(asctime)s.%(msecs)03d %(levelname)s %(message)s"


class DaemonError(Exception):
    """The daemon can't start or go on; the message says what, and what to do."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the daemon until SIGTERM or SIGINT. Returns 0, 1 (could not run) or 2 (wrong usage)."""
    try:
        options = parse(sys.argv[1:] if argv is None else argv)
    except UsageError as error:
        print(f"softswitch: {error} (softswitch --help shows examples)", file=sys.stderr)
        return 2
    except SystemExit as done:  # --help
        return int(done.code or 0)
    try:
        _start_log(options)
    except OSError as error:
        print(f"softswitch: --log-file {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    try:
        return _run(options)
    except DaemonError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{error.filename or 'system'}: {error.strerror or error}")
    except Exception as error:  # the last resort: users get a line, the log gets the rest
        LOG.exception("unexpected")
        return _fail(f"internal error: {type(error).__name__}: {error} (the log has more)")
    finally:
        logging.shutdown()


def _fail(message: str) -> int:
    LOG.error("ended: %s", message)
    print(f"softswitch: {message}", file=sys.stderr)
    return 1


def _start_log(options: Options) -> None:
    LOG.setLevel(_LEVELS[options.log_level])
    LOG.propagate = False
    LOG.handlers.clear()
    handler: logging.Handler
    if options.log_file is not None:
        stream = options.log_file.open("a", encoding="utf-8")
        faulthandler.enable(stream)  # so that even a crash in C says where in its last lines
        handler = logging.StreamHandler(stream)
    elif options.log_console:
        handler = logging.StreamHandler(sys.stdout)
    else:
        handler = logging.NullHandler()
    handler.setFormatter(logging.Formatter(LOG_FORMAT, "%F %T"))
    LOG.addHandler(handler)


def _run(options: Options) -> int:
    # gRPC's C library would print its own lines about a bind that fails; ours say it once.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    stop = threading.Event()
    with _signals(stop), ExitStack() as stack:
        LOG.info("starting, pid %d", os.getpid())
        for note in options.notes:
            LOG.warning("%s", note)
        if options.ready_file is not None:
            options.ready_file.unlink(missing_ok=True)  # one of a run that crashed
        daemon = Daemon(options, stack, stop)
        daemon.start()
        if options.ready_file is not None:
            _write_ready(options.ready_file, daemon)
            stack.callback(options.ready_file.unlink, missing_ok=True)
        LOG.info("ready: P4Runtime on %s, device %d", daemon.address, options.device_id)
        print(f"softswitch: P4Runtime on {daemon.address}", flush=True)
        stop.wait()
    if daemon.failure is not None:
        raise daemon.failure
    LOG.info("ended: asked to by a signal")
    return 0


@contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    """Let SIGTERM and SIGINT set `stop` in the block."""
    previous = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class Daemon:
    """Everything that runs; `stack` undoes each step, in reverse, whatever happens."""

    def __init__(self, options: Options, stack: ExitStack, stop: threading.Event) -> None:
        self.options = options
        self.failure: DaemonError | None = None
        self.address = ""
        self._stack = stack
        self._stop = stop
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Open ports, load the program, listen. Raises DaemonError, OSError."""
        options = self.options
        program = _read_program(options)
        core, loop = self._make_core()
        for interface in options.interfaces:
            self._open_port(core, loop, interface)
        for link in options.links:
            _configure_link(core, link, options)
        device = self._make_device(core, loop)
        service = self._make_service(device, loop)
        self._load(device, service, program)
        diagnostics = self._make_diagnostics(device, loop, service)
        server = self._listen(service, diagnostics)
        self._stack.callback(server.stop)
        self._stack.callback(diagnostics.close)
        self._stack.callback(self._end_threads, loop)
        for ticker in options.tickers:  # not earlier: ticks before the loop runs would be late
            loop.add_ticker(TICKER_PORT, ticker.packet, ticker.period_ps, ticker.start_ps)
        self._spawn("loop", lambda: self._packets(loop))
        self._spawn("events", lambda: self._events(loop, device, service))
        server.start()

    def _make_core(self) -> tuple[SwitchCore, DaemonLoop]:
        from softswitch.core.build import CoreBuildError  # late: see the top

        options = self.options
        config = CoreConfig(
            cpu_port=options.cpu_port,
            drop_port=options.drop_port,
            priorities=options.priority_queues,
            tick_ps=TICKS_PS[options.tick],
            depth_cell_bytes=CELL_BYTES if options.depth_unit == "cells" else 0,
            recirculate_ps=options.recirculation_ps,
            seed=1 + options.device_id,  # so that two switches' links don't lose in step
        )
        try:
            core = SwitchCore(config)
        except CoreBuildError as error:
            raise DaemonError(f"the switch core can't be built: {error}") from error
        self._stack.callback(core.close)
        core.set_log(_log_core)
        core.report_ports(TICKER_PORT, options.port_report)
        loop = DaemonLoop(core)
        self._stack.callback(loop.close)
        return core, loop

    def _open_port(self, core: SwitchCore, loop: DaemonLoop, interface: Interface) -> None:
        pcap = None
        if self.options.pcap is not None:
            pcap = self.options.pcap / interface.name
        try:
            loop.add_port(interface.port, interface.name, pcap=pcap)
        except (CoreError, OSError) as error:
            raise _port_error(interface, error) from error
        LOG.info("port %d is %s", interface.port, interface.name)

    def _make_device(self, core: SwitchCore, loop: DaemonLoop) -> Device:
        from softswitch.device import Device  # late: see the top

        return Device(
            core,
            clock=loop.now,
            guard=loop.locked,
            epoch_ns=time.time_ns() - loop.now() // PS_PER_NS,
            earlier=loop.nudge_events,
        )

    def _make_service(self, device: Device, loop: DaemonLoop) -> P4RuntimeService:
        from softswitch.device import Device  # late: see the top
        from softswitch.p4runtime.service import P4RuntimeService
        from softswitch.p4runtime.status import Code, EntityError

        def packet_out(data: bytes) -> None:
            if not self.options.cpu_port:
                raise EntityError(
                    Code.FAILED_PRECONDITION, "the switch has no CPU port: start it with --cpu-port"
                )
            loop.packet_out(data)

        def make_draft() -> Device:
            return Device(SwitchCore(device.core.config), clock=lambda: 0)

        return P4RuntimeService(
            device, self.options.device_id, packet_out=packet_out, make_draft=make_draft
        )

    def _load(
        self, device: Device, service: P4RuntimeService, program: tuple[bytes, bytes] | None
    ) -> None:
        from softswitch.p4runtime.pipeline import parse_p4info  # late: see the top
        from softswitch.p4runtime.protos import p4r
        from softswitch.p4runtime.status import EntityError, PipelineError

        if program is None:
            return
        json, p4info = program
        try:
            config = p4r.ForwardingPipelineConfig(p4_device_config=json)
            if p4info:
                config.p4info.CopyFrom(parse_p4info(p4info, str(self.options.p4info)))
            else:
                config.p4info.CopyFrom(device.derive_p4info(json))
            service.set_local_config(config)
        except (PipelineError, EntityError) as error:
            if p4info:
                raise DaemonError(f"{self.options.json}: {error}") from error
            try:
                device.load_without_p4info(json)
            except PipelineError as other:
                raise DaemonError(f"{self.options.json}: {other}") from other
            LOG.warning("P4Runtime waits for a config, as no P4Info fits the program: %s", error)
        LOG.info("runs %s", self.options.json)

    def _make_diagnostics(
        self, device: Device, loop: DaemonLoop, service: P4RuntimeService
    ) -> DiagnosticsService:
        from softswitch.diagnostics_service import DiagnosticsService  # late: see the top

        ports = {interface.port: interface.name for interface in self.options.interfaces}
        if self.options.cpu_port:
            ports.setdefault(self.options.cpu_port, "")
        if self.options.tickers or self.options.port_report:
            ports[TICKER_PORT] = ""
        return DiagnosticsService(device, loop, service.lock, ports, device_id=service.device_id)

    def _listen(
        self, service: P4RuntimeService, diagnostics: DiagnosticsService
    ) -> P4RuntimeServer:
        # late: see the top
        from softswitch.p4runtime.server import AddressError, P4RuntimeServer, ServerError

        options, also = self.options, None
        if options.thrift_port:
            also = f"127.0.0.1:{options.thrift_port}"
        try:
            server = P4RuntimeServer(
                service, options.grpc_address, [diagnostics.handler()], options.tls, also=also
            )
        except AddressError as error:
            raise DaemonError(
                f"{error}; choose another with `-- --grpc-server-addr HOST:PORT`"
                + (" or --thrift-port PORT" if also else "")
            ) from error
        except ServerError as error:
            raise DaemonError(str(error)) from error
        self.address = self.options.grpc_address
        if not self.address.startswith(UNIX):
            self.address = f"{self.address.rpartition(':')[0]}:{server.port}"
        return server

    # --- threads ------------------------------------------------------------------------------

    def _spawn(self, name: str, work: object) -> None:
        """Run `work` in a thread; if it fails, the daemon ends with that reason."""
        assert callable(work)

        def body() -> None:
            try:
                work()
            except Exception as error:  # whatever it is, it must be reported
                LOG.exception("the %s thread failed", name)
                self.failure = DaemonError(f"the {name} thread failed: {error}")
                self._stop.set()

        thread = threading.Thread(target=body, name=f"softswitch-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _end_threads(self, loop: DaemonLoop) -> None:
        self._stop.set()
        loop.stop()
        for thread in self._threads:
            thread.join(JOIN_S)

    def _packets(self, loop: DaemonLoop) -> None:
        loop.run()
        if not self._stop.is_set():
            raise DaemonError("the packet loop ended by itself")

    def _events(self, loop: DaemonLoop, device: Device, service: P4RuntimeService) -> None:
        while not self._stop.is_set():
            outputs = loop.wait_events(_wait_s(device, loop, service))
            with service.lock:
                messages = [device.notification(output) for output in outputs]
                messages += device.timers(loop.now())
            for message in messages:
                if message is not None:
                    service.notify(message)


def _wait_s(device: Device, loop: DaemonLoop, service: P4RuntimeService) -> float:
    with service.lock:
        due = device.next_timer()
    if due is None:
        return IDLE_WAIT_S
    # Rounded up to the loop's milliseconds: a wait of 0 before the time has come would spin.
    milliseconds = -((loop.now() - due) // PS_PER_MS)
    return max(0.0, min(IDLE_WAIT_S, milliseconds / 1000))


def _log_core(level: int, line: str) -> None:
    LOG.log(logging.WARNING if level in WARNING_LEVELS else logging.INFO, "%s", line)


def _read_program(options: Options) -> tuple[bytes, bytes] | None:
    if options.json is None:
        return None
    json = options.json.read_bytes()
    p4info = options.p4info.read_bytes() if options.p4info is not None else b""
    return json, p4info


def _configure_link(core: SwitchCore, link: Link, options: Options) -> None:
    queue = core.config.queue_packets if link.queue_packets is None else link.queue_packets
    core.configure_port(
        link.port,
        PortConfig(
            rate_bps=link.rate_bps,
            tx_delay_ps=link.delay_ps,
            rx_delay_ps=link.rx_delay_ps,
            queue_packets=queue,
            queue_bytes=link.queue_bytes,
            queue_cells=link.queue_cells,
        ),
    )
    core.schedule_port(link.port, Scheduler.of_weights(link.weights))
    for direction, members in ((Direction.SEND, link.send), (Direction.RECEIVE, link.receive)):
        if members:
            core.impair_port(link.port, direction, PortImpair(**members))


def _port_error(interface: Interface, error: Exception) -> DaemonError:
    name = interface.name
    if not Path("/sys/class/net", name).exists():
        return DaemonError(
            f"-i {interface.port}@{name}: there is no interface {name!r} here; `ip link` shows "
            "those of this network namespace"
        )
    if os.geteuid() != 0:
        return DaemonError(
            f"-i {interface.port}@{name}: opening it needs root (or CAP_NET_RAW): run with sudo"
        )
    return DaemonError(f"-i {interface.port}@{name}: {error}")


def _write_ready(path: Path, daemon: Daemon) -> None:
    """Write the file that says "ready" at once, never half."""
    partial = path.with_name(path.name + ".part")
    partial.write_text(f"{os.getpid()} {daemon.address}\n", encoding="utf-8")
    partial.replace(path)


if __name__ == "__main__":
    sys.exit(main())
