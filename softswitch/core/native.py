"""The core as an extension module, and a switch of it: created, given a program, freed.

What a switch's program has is in `softswitch.core.objects`, packets, time and ports in
`softswitch.core.binding`.
"""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from softswitch.core.descriptor import PipelineDescriptor, read_descriptor
from softswitch.core.records import CoreConfig, CoreError, Keep

LogCallback = Callable[[int, str], None]
_loaded: dict[bool, Any] = {}


def native(*, sanitize: bool = False) -> Any:
    """Return the extension module (`.ffi`, `.lib`), compiled first when its sources changed.

    Raises softswitch.core.build.CoreBuildError.
    """
    if sanitize not in _loaded:
        from softswitch.core import build  # not above: as a command it is to be loaded as one

        build.ensure(sanitize=sanitize)
        module = importlib.import_module(f"softswitch.core.{build.module_name(sanitize)}")
        attach_log(module)
        _loaded[sanitize] = module
    return _loaded[sanitize]


def attach_log(module: Any) -> None:
    """Let the core in an extension module reach the callbacks of `SwitchCore.set_log`."""

    @module.ffi.def_extern(name="weft_log")  # type: ignore[untyped-decorator]
    def weft_log(opaque: Any, level: int, line: Any) -> None:
        target: _LogTarget = module.ffi.from_handle(opaque)
        if target.callback is not None:
            target.callback(level, module.ffi.string(line).decode(errors="replace"))


class _LogTarget:
    def __init__(self) -> None:
        self.callback: LogCallback | None = None


class NativeSwitch:
    """A switch of the C core, and the program that it runs."""

    def __init__(
        self, config: CoreConfig | None = None, *, sanitize: bool = False, module: Any = None
    ) -> None:
        """Create a switch without a program.

        `module`: an extension module that has a copy of the core (attach_log was called for it);
        None: the core's own.

        Raises CoreError (WS_EINVAL) for an invalid configuration, build.CoreBuildError.
        """
        if module is None:
            module = native(sanitize=sanitize)
        self.module: Any = module
        self.ffi: Any = module.ffi
        self.lib: Any = module.lib
        self.config = config or CoreConfig()
        wanted = self.ffi.new("struct ws_config *", self.config.as_dict())
        pointer = self.lib.ws_create(wanted)
        if pointer == self.ffi.NULL:
            raise CoreError(
                self.lib.WS_EINVAL,
                "switch configuration: 1 to 8 priorities, tick and recirculation above 0",
            )
        self.pointer: Any = pointer
        self._finalizer = weakref.finalize(self, self.lib.ws_destroy, pointer)
        self._descriptor: PipelineDescriptor | None = None
        self._log_target = _LogTarget()
        self._log_handle = self.ffi.new_handle(self._log_target)

    def close(self) -> None:
        """Free the switch; it must not be used afterwards."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self, status: int, what: str) -> None:
        if status != 0:
            raise CoreError(status, what)

    # --- pipeline ------------------------------------------------------------------------------

    def load(self, so_path: Path | str) -> PipelineDescriptor:
        """Load a compiled pipeline; tables, arrays, groups and sessions start empty.

        Raises CoreError (WS_ELOAD) and then leaves everything as it was.
        """
        status = self.lib.ws_load(self.pointer, str(so_path).encode())
        if status != 0:
            raise CoreError(status, self.last_error())
        self._descriptor = read_descriptor(self.ffi, self.lib.ws_pipeline(self.pointer))
        return self._descriptor

    def adopt(self, donor: NativeSwitch, keep: Sequence[Keep]) -> None:
        """Run `donor`'s program, with its entries and their handles, from now on.

        `donor` (of the same configuration) is left without a program. Ports, queues and time go on;
        `keep` says which state moves over. Raises CoreError and then nothing has changed.
        """
        items = self.ffi.new("struct ws_keep[]", max(1, len(keep)))
        for item, wanted in zip(items, keep, strict=False):
            item.kind = int(wanted.kind)
            item.old_index, item.new_index = wanted.old, wanted.new
            item.old_handle, item.new_handle = wanted.old_handle, wanted.new_handle
        status = self.lib.ws_adopt(self.pointer, donor.pointer, items, len(keep))
        if status != 0:
            raise CoreError(status, self.last_error())
        self._descriptor, donor._descriptor = donor._descriptor, None

    @property
    def program_number(self) -> int:
        """Grows with each pipeline that this switch runs; 0 before the first."""
        return int(self.lib.ws_program_number(self.pointer))

    @property
    def descriptor(self) -> PipelineDescriptor:
        """Of the loaded pipeline; CoreError (WS_ENOENT) when there is none."""
        if self._descriptor is None:
            raise CoreError(self.lib.WS_ENOENT, "no pipeline is loaded")
        return self._descriptor

    @property
    def loaded(self) -> bool:
        """Whether a pipeline is loaded."""
        return self._descriptor is not None

    def last_error(self) -> str:
        """Return the message of the last failure to load or to use a port."""
        return str(self.ffi.string(self.lib.ws_last_error(self.pointer)).decode(errors="replace"))

    def set_log(self, callback: LogCallback | None) -> None:
        """Call `callback(level, line)` with lines of log_msg (0), assert (1), endless passes (3).

        None: no callback.
        """
        self._log_target.callback = callback
        function = self.lib.weft_log if callback is not None else self.ffi.NULL
        self.lib.ws_set_log(self.pointer, function, self._log_handle)
