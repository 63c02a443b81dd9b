"""Indirect counters, meters and registers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from softswitch.core import Counter, MeterConfig
from softswitch.p4runtime.bytestrings import decode, encode
from softswitch.p4runtime.core_errors import core_errors
from softswitch.p4runtime.protos import p4d, p4r
from softswitch.p4runtime.schema import Array, Register
from softswitch.p4runtime.status import Code, EntityError

if TYPE_CHECKING:
    from softswitch.core import SwitchCore


def check_counter(data: p4r.CounterData, what: str) -> None:
    """Refuse counts below 0, which P4Runtime's signed numbers can have."""
    for name in ("packet_count", "byte_count"):
        if getattr(data, name) < 0:
            raise EntityError(
                Code.INVALID_ARGUMENT, f"{what}: {name} {getattr(data, name)} is negative"
            )


def check_meter(config: p4r.MeterConfig, what: str) -> None:
    """Refuse rates or bursts that no two-rate three-colour meter has (RFC 2698)."""
    for name in ("cir", "cburst", "pir", "pburst"):
        if getattr(config, name) < 0:
            raise EntityError(
                Code.INVALID_ARGUMENT, f"{what}: meter {name} {getattr(config, name)} is negative"
            )
    if config.eburst:
        raise EntityError(
            Code.INVALID_ARGUMENT, f"{what}: eburst is for single-rate meters; leave it 0"
        )
    if config.pir < config.cir:
        raise EntityError(
            Code.INVALID_ARGUMENT,
            f"{what}: meter pir {config.pir} is below cir {config.cir}",
        )


def meter_config(config: p4r.MeterConfig) -> MeterConfig:
    """Convert to the core's form.

    Rates per second, bursts in the meter's unit (bytes or packets).
    """
    return MeterConfig(cir=config.cir, cburst=config.cburst, pir=config.pir, pburst=config.pburst)


class CounterStore:
    """Reads and writes of indirect counters (specification, "CounterEntry")."""

    def __init__(self, core: SwitchCore) -> None:
        self._core = core

    def move_to(self, core: SwitchCore) -> None:
        """Use `core` from now on, which holds the same cells."""
        self._core = core

    def write(self, array: Array, kind: int, message: p4r.CounterEntry) -> None:
        """Modify one cell, or all without an index; without `data` nothing changes."""
        _only_modify(kind, f"counter {array.name!r}")
        indices = _indices(array, message)
        if not message.HasField("data"):
            return
        check_counter(message.data, f"counter {array.name!r}")
        for index in indices:
            with core_errors(f"counter {array.name!r}[{index}]"):
                value = Counter(message.data.packet_count, message.data.byte_count)
                self._core.counter_set(array.index, index, value)

    def read(self, array: Array, message: p4r.CounterEntry) -> Iterator[p4r.CounterEntry]:
        """Yield one cell, or all without an index."""
        for index in _indices(array, message):
            with core_errors(f"counter {array.name!r}[{index}]"):
                value = self._core.counter_get(array.index, index)
            answer = p4r.CounterEntry(counter_id=array.id, index=p4r.Index(index=index))
            answer.data.SetInParent()
            if array.packets:
                answer.data.packet_count = value.packets
            if array.bytes:
                answer.data.byte_count = value.bytes
            yield answer


class MeterStore:
    """Reads and writes of indirect meters (specification, "MeterEntry")."""

    def __init__(self, core: SwitchCore) -> None:
        self._core = core

    def move_to(self, core: SwitchCore) -> None:
        """Use `core` from now on, which holds the same cells."""
        self._core = core

    def write(self, array: Array, kind: int, message: p4r.MeterEntry) -> None:
        """Modify one cell, or all without an index; without `config` the meter is green again."""
        what = f"meter {array.name!r}"
        _only_modify(kind, what)
        if message.HasField("counter_data"):
            raise EntityError(
                Code.UNIMPLEMENTED, f"{what}: counters per meter colour are not supported"
            )
        config = None
        if message.HasField("config"):
            check_meter(message.config, what)
            config = meter_config(message.config)
        for index in _indices(array, message):
            with core_errors(f"{what}[{index}]"):
                self._core.meter_set(array.index, index, config)

    def read(self, array: Array, message: p4r.MeterEntry) -> Iterator[p4r.MeterEntry]:
        """Yield one cell, or all without an index; `config` is unset where none was written."""
        if message.HasField("counter_data"):
            raise EntityError(
                Code.UNIMPLEMENTED,
                f"meter {array.name!r}: counters per meter colour are not supported",
            )
        for index in _indices(array, message):
            with core_errors(f"meter {array.name!r}[{index}]"):
                config = self._core.meter_get(array.index, index)
            answer = p4r.MeterEntry(meter_id=array.id, index=p4r.Index(index=index))
            if config is not None:
                answer.config.cir = config.cir
                answer.config.cburst = config.cburst
                answer.config.pir = config.pir
                answer.config.pburst = config.pburst
            yield answer


class RegisterStore:
    """Reads and writes of registers, which BMv2 does not offer (specification, "RegisterEntry")."""

    def __init__(self, core: SwitchCore) -> None:
        self._core = core

    def move_to(self, core: SwitchCore) -> None:
        """Use `core` from now on, which holds the same cells."""
        self._core = core

    def write(self, register: Register, kind: int, message: p4r.RegisterEntry) -> None:
        """Modify one cell, or all without an index."""
        what = f"register {register.name!r}"
        _only_modify(kind, what)
        if message.data.WhichOneof("data") != "bitstring":
            raise EntityError(
                Code.INVALID_ARGUMENT,
                f"{what}: data must be a bitstring of {register.bitwidth} bits",
            )
        value = decode(message.data.bitstring, register.bitwidth, what)
        for index in _indices(register, message):
            with core_errors(f"{what}[{index}]"):
                self._core.register_set(register.index, index, value)

    def read(self, register: Register, message: p4r.RegisterEntry) -> Iterator[p4r.RegisterEntry]:
        """Yield one cell, or all without an index."""
        for index in _indices(register, message):
            with core_errors(f"register {register.name!r}[{index}]"):
                value = self._core.register_get(register.index, index)
            yield p4r.RegisterEntry(
                register_id=register.id,
                index=p4r.Index(index=index),
                data=p4d.P4Data(bitstring=encode(value)),
            )


def _indices(
    array: Array | Register, message: p4r.CounterEntry | p4r.MeterEntry | p4r.RegisterEntry
) -> range:
    if not message.HasField("index"):
        return range(array.size)
    index = message.index.index
    if index < 0:
        raise EntityError(Code.INVALID_ARGUMENT, f"{array.name!r}: index {index} is negative")
    if index >= array.size:
        raise EntityError(
            Code.OUT_OF_RANGE, f"{array.name!r}: index {index} is not below its size {array.size}"
        )
    return range(index, index + 1)


def _only_modify(kind: int, what: str) -> None:
    if kind != p4r.Update.MODIFY:
        raise EntityError(Code.INVALID_ARGUMENT, f"{what}: only MODIFY is possible")
