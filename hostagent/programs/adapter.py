"""Programs in Python behind the C interface of host_program.h, for what calls programs from C.

An exception that a program raises goes no further than the call: the program has failed, which ends
the run, and `NativeHost.failure` holds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hostagent.programs.program import (
    Frame,
    Host,
    Interface,
    Program,
    ProgramError,
    said,
    why_refused,
)

_prepared: set[int] = set()


def prepare(module: Any) -> None:
    """Define in a module the functions by which C calls programs in Python; once."""
    if id(module) in _prepared:
        return
    ffi = module.ffi

    @ffi.def_extern(name="weft_program_start")  # type: ignore[untyped-decorator]
    def start(host: Any) -> None:
        ffi.from_handle(host.opaque).start(host)

    @ffi.def_extern(name="weft_program_packet")  # type: ignore[untyped-decorator]
    def packet(host: Any, interface: int, frame: Any, length: int) -> None:
        ffi.from_handle(host.opaque).packet(Frame(bytes(ffi.buffer(frame, length)), interface))

    @ffi.def_extern(name="weft_program_timer")  # type: ignore[untyped-decorator]
    def timer(host: Any, token: int) -> None:
        ffi.from_handle(host.opaque).timer(token)

    @ffi.def_extern(name="weft_program_stop")  # type: ignore[untyped-decorator]
    def stop(host: Any) -> None:
        ffi.from_handle(host.opaque).stop()

    _prepared.add(id(module))


class NativeHost(Host):
    """A host that C offers, and the program on it."""

    def __init__(
        self, module: Any, program: Program, title: str, name: str, addresses: Mapping[str, int]
    ) -> None:
        """`title`: what the run calls the program; `name`: the host's."""
        prepare(module)
        self._ffi, self._lib = module.ffi, module.lib
        self.program, self.title, self.name = program, title, name
        self.addresses = addresses
        self.interfaces = ()
        self.failure: BaseException | None = None
        self._title = self._ffi.new("char[]", title.encode())
        self.ops = self._ffi.new(
            "struct program_ops *",
            {
                "name": self._title,
                "start": self._lib.weft_program_start,
                "packet": self._lib.weft_program_packet,
                "timer": self._lib.weft_program_timer,
                "stop": self._lib.weft_program_stop,
            },
        )
        self._host: Any = None
        self._calls: Any = None
        self._status = self._ffi.typeof("enum program_status").elements

    # --- what C calls ---------------------------------------------------------------------------

    def start(self, host: Any) -> None:
        """Start the program on this struct program_host."""
        self._host, self._calls = host, host.calls
        self.interfaces = tuple(
            Interface(
                int(each.rate_bps),
                int(each.mac),
                int(each.gateway_mac),
                int(each.ip),
                int(each.mtu),
            )
            for each in (host.interfaces[i] for i in range(host.n_interfaces))
        )
        try:
            self.program.started(self)
        except BaseException as error:  # C has nobody to hand it to
            self._fail(error)

    def packet(self, frame: Frame) -> None:
        """Pass an arrived frame to the program."""
        try:
            self.program.packet(self, frame, self._host.now_ns)
        except BaseException as error:  # C has nobody to hand it to
            self._fail(error)

    def timer(self, token: int) -> None:
        """Pass an expired timer to the program."""
        try:
            self.program.timer(self, token, self._host.now_ns)
        except BaseException as error:  # C has nobody to hand it to
            self._fail(error)

    def stop(self) -> None:
        """Stop the program at the end of the run."""
        stopped = getattr(self.program, "stopped", None)
        try:
            if stopped is not None:
                stopped(self)
        except BaseException as error:  # C has nobody to hand it to
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        self._calls.fail(self._host, said(error).encode())

    # --- what the program calls -----------------------------------------------------------------

    @property
    def now_ns(self) -> int:
        """The time of the call that the program is in."""
        return int(self._host.now_ns)

    def _check(self, status: int, what: str) -> None:
        if status < 0:
            raise ProgramError(f"{what}: {why_refused(self._status[status])}")

    def send(self, frame: bytes, interface: int = 0) -> bool:
        """Send a frame; False if it is lost. Raises ProgramError."""
        if not 0 <= interface < len(self.interfaces):
            raise ProgramError(f"interface {interface}: {why_refused('PROGRAM_EINTERFACE')}")
        data = self._ffi.from_buffer("uint8_t[]", frame)
        status = self._calls.send(self._host, interface, data, len(frame))
        self._check(status, f"a frame of {len(frame)} bytes")
        return bool(status != self._lib.PROGRAM_FULL)

    def set_timer(self, token: int, at_ns: int) -> None:
        """Be called at that time. Raises ProgramError."""
        _in_range(token, at_ns)
        status = self._calls.set_timer(self._host, token, at_ns)
        self._check(status, f"timer {token} at {at_ns} ns")

    def cancel_timer(self, token: int) -> None:
        """Be called no more. Raises ProgramError."""
        _in_range(token, 0)
        self._check(self._calls.cancel_timer(self._host, token), f"timer {token}")

    def listen_udp(self, port: int) -> None:
        """Get what arrives for a UDP port. Raises ProgramError."""
        self._listen(self._lib.PROGRAM_UDP, port, f"UDP port {port}")

    def listen_ethertype(self, number: int) -> None:
        """Get frames of an EtherType. Raises ProgramError."""
        self._listen(self._lib.PROGRAM_ETHERTYPE, number, f"EtherType {number:#06x}")

    def _listen(self, kind: int, number: int, what: str) -> None:
        if not 0 < number < 1 << 16:
            raise ProgramError(f"{what}: {why_refused('PROGRAM_ENUMBER')}")
        self._check(self._calls.listen(self._host, kind, number), what)

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter. Raises ProgramError."""
        if by < 0:
            raise ProgramError(f"counter {name}: {by} is below 0")
        self._check(self._calls.count(self._host, name.encode(), by), f"counter {name}")


def _in_range(token: int, at_ns: int) -> None:
    """Raise ProgramError for numbers that C's types can't hold."""
    if not 0 <= token < 1 << 32:
        raise ProgramError(f"timer {token}: {why_refused('PROGRAM_ETOKEN')}")
    if not -(1 << 63) <= at_ns < 1 << 63:
        raise ProgramError(f"timer {token} at {at_ns} ns: {why_refused('PROGRAM_ETIME')}")
