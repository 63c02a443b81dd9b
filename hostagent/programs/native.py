"""Programs in C for hosts that run programs in Python: one behind the interface of the other."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hostagent.programs import build
from hostagent.programs.loader import check_native
from hostagent.programs.program import Frame, Host, Program, ProgramError, why_refused
from softswitch.core.extension import Extension

CALLS = """
extern "Python" {
    int weft_host_send(struct program_host *host, uint32_t interface, const uint8_t *frame,
                       uint32_t length);
    int weft_host_send_long(struct program_host *host, uint32_t interface, const uint8_t *frame,
                            uint32_t length, uint32_t tail);
    int weft_host_answer(struct program_host *host, uint64_t order);
    int weft_host_set_timer(struct program_host *host, uint32_t token, int64_t at_ns);
    int weft_host_cancel_timer(struct program_host *host, uint32_t token);
    int weft_host_listen(struct program_host *host, enum program_listen kind, uint32_t number);
    int weft_host_count(struct program_host *host, const char *name, uint64_t by);
    int weft_host_fail(struct program_host *host, const char *why);
}
"""

EXTENSION = Extension(
    package="hostagent.programs",
    name="_programs",
    folder=build.HERE,
    headers=("host_program.h",),
    sources=build.sources,
    include=build.INCLUDE,
    declarations=lambda: build.declarations(CALLS),
    builds=(Path(__file__), Path(build.__file__)),
    libraries=(),
)

_loaded: list[Any] = []


def native() -> Any:
    """Return the module with the programs in C, compiled first if need be.

    Raises softswitch.core.build.CoreBuildError.
    """
    if not _loaded:
        EXTENSION.ensure()
        module = importlib.import_module(f"hostagent.programs.{EXTENSION.module_name(False)}")
        _define(module)
        _loaded.append(module)
    return _loaded[0]


def _define(module: Any) -> None:
    """Define what C calls. A refusal is a status, as host_program.h has it; `why` is kept."""
    ffi, lib = module.ffi, module.lib

    def status(host: Any, call: Callable[[NativeProgram], object]) -> int:
        program = ffi.from_handle(host.opaque)
        try:
            return int(lib.PROGRAM_FULL if call(program) is False else lib.PROGRAM_OK)
        except ProgramError as error:
            return int(program.refused(error))
        except BaseException as error:  # C has nobody to hand it to
            program.failure = error
            return int(lib.PROGRAM_ENOMEM)

    @ffi.def_extern(name="weft_host_send")  # type: ignore[untyped-decorator]
    def send(host: Any, interface: int, frame: Any, length: int) -> int:
        data = bytes(ffi.buffer(frame, length))
        return status(host, lambda program: program.host.send(data, interface))

    @ffi.def_extern(name="weft_host_send_long")  # type: ignore[untyped-decorator]
    def send_long(host: Any, interface: int, frame: Any, length: int, tail: int) -> int:
        data = bytes(ffi.buffer(frame, length)) + bytes(tail)
        return status(host, lambda program: program.host.send(data, interface))

    @ffi.def_extern(name="weft_host_answer")  # type: ignore[untyped-decorator]
    def answer(host: Any, order: int) -> int:
        return int(lib.PROGRAM_OK)  # no caller asks for anything here

    @ffi.def_extern(name="weft_host_set_timer")  # type: ignore[untyped-decorator]
    def set_timer(host: Any, token: int, at_ns: int) -> int:
        return status(host, lambda program: program.host.set_timer(token, at_ns))

    @ffi.def_extern(name="weft_host_cancel_timer")  # type: ignore[untyped-decorator]
    def cancel_timer(host: Any, token: int) -> int:
        return status(host, lambda program: program.host.cancel_timer(token))

    @ffi.def_extern(name="weft_host_listen")  # type: ignore[untyped-decorator]
    def listen(host: Any, kind: int, number: int) -> int:
        if kind == lib.PROGRAM_UDP:
            return status(host, lambda program: program.host.listen_udp(number))
        return status(host, lambda program: program.host.listen_ethertype(number))

    @ffi.def_extern(name="weft_host_count")  # type: ignore[untyped-decorator]
    def count(host: Any, name: Any, by: int) -> int:
        text = ffi.string(name).decode()
        return status(host, lambda program: program.host.count(text, by))

    @ffi.def_extern(name="weft_host_fail")  # type: ignore[untyped-decorator]
    def fail(host: Any, why: Any) -> int:
        ffi.from_handle(host.opaque).failure = ProgramError(ffi.string(why).decode())
        return int(lib.PROGRAM_OK)


class NativeProgram(Program):
    """A program in C."""

    host: Host

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        """Create the program `name`. Raises ProgramError for a setting that it does not have."""
        module = native()
        self._ffi, self._lib = module.ffi, module.lib
        self._ops = self._lib.program_named(name.encode())
        if self._ops == self._ffi.NULL:
            raise ProgramError(f"no program {name!r} in C")
        self._settings = self._all_settings(name, check_native(name, settings))
        self._keep: list[Any] = []
        self._c: Any = None
        self.failure: BaseException | None = None

    def _all_settings(self, name: str, given: Mapping[str, int]) -> dict[str, int]:
        found: dict[str, int] = {}
        row = self._ops.settings
        while row != self._ffi.NULL and row.name != self._ffi.NULL:
            found[self._ffi.string(row.name).decode()] = int(row.value)
            row += 1
        for key in given:
            if key not in found:
                raise ProgramError(f"{name} has no setting {key}")
        return {**found, **given}

    def refused(self, error: ProgramError) -> int:
        """Return the status that stands for `error` in C."""
        for value, name in self._ffi.typeof("enum program_status").elements.items():
            if value < 0 and str(error).endswith(why_refused(name)):
                return int(value)
        return int(self._lib.PROGRAM_ETAKEN)

    def _new(self, declaration: str, value: Any = None) -> Any:
        self._keep.append(self._ffi.new(declaration, value))
        return self._keep[-1]

    def _host(self, host: Host) -> Any:
        lib = self._lib
        calls = {
            "send": lib.weft_host_send,
            "send_long": lib.weft_host_send_long,
            "answer": lib.weft_host_answer,
            "set_timer": lib.weft_host_set_timer,
            "cancel_timer": lib.weft_host_cancel_timer,
            "listen": lib.weft_host_listen,
            "count": lib.weft_host_count,
            "fail": lib.weft_host_fail,
        }
        interfaces = [
            {
                "rate_bps": each.rate_bps,
                "mac": each.mac,
                "gateway_mac": each.gateway_mac,
                "ip": each.ip,
                "mtu": each.mtu,
            }
            for each in host.interfaces
        ]
        settings = [
            {"name": self._new("char[]", name.encode()), "value": value}
            for name, value in self._settings.items()
        ]
        rows = self._new("struct program_setting[]", settings)
        self._keep.append(self._ffi.new_handle(self))
        handle = self._keep[-1]
        return self._new(
            "struct program_host *",
            {
                "calls": self._new("struct program_calls *", calls),
                "interfaces": self._new("struct program_interface[]", interfaces),
                "n_interfaces": len(interfaces),
                "n_settings": len(settings),
                "settings": rows,
                "state": self._new("uint64_t[]", self._state_bytes(rows) // 8 + 1),
                "opaque": handle,
            },
        )

    def _state_bytes(self, rows: Any) -> int:
        more = self._ops.room(rows) if self._ops.room != self._ffi.NULL else 0
        return int(self._ops.bytes + more)

    def _call(self, host: Host, call: Any, *arguments: Any) -> None:
        self._c.now_ns = host.now_ns
        if call != self._ffi.NULL:
            call(self._c, *arguments)
        if self.failure is not None:
            raise self.failure

    def started(self, host: Host) -> None:
        """Start the program on `host`."""
        self.host, self._c = host, self._host(host)
        self._call(host, self._ops.start)

    def packet(self, host: Host, frame: Frame, now_ns: int) -> None:
        """Handle a frame that arrived."""
        data = self._ffi.from_buffer("uint8_t[]", frame.data)
        self._call(host, self._ops.packet, frame.interface, data, len(frame.data))

    def timer(self, host: Host, token: int, now_ns: int) -> None:
        """Handle a timer that expired."""
        self._call(host, self._ops.timer, token)

    def stopped(self, host: Host) -> None:
        """End the program with the run."""
        self._call(host, self._ops.stop)
