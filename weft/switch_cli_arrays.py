"""`weft cli`'s commands on counters, meters and registers."""

from __future__ import annotations

from softswitch.p4runtime.bytestrings import encode
from softswitch.p4runtime.protos import p4d, p4r
from weft.switch_cli_program import Array, find
from weft.switch_cli_shell import command
from weft.switch_cli_tables import TableCommands, is_same_entry
from weft.switch_cli_values import CommandError, whole

_PER_MICROSECOND = 1_000_000
"""BMv2's CLI says meter rates a microsecond, P4Runtime a second."""


class ArrayCommands(TableCommands):
    """Counter, meter and register arrays; direct ones by their table's entry handles."""

    # --- counters -----------------------------------------------------------------------------

    @command(2, kind="counter")
    def do_counter_read(self, words: list[str]) -> None:
        """Read a counter: counter_read <name> <index>"""
        counter, index = self._counter(words[0]), whole(words[1], "index")
        if counter.table is not None:
            self.say("this is the direct counter for table", counter.table.name)
            key = self.entry(counter.table, index)
            direct = p4r.DirectCounterEntry(table_entry=key)
            data = [
                each.direct_counter_entry.data
                for each in self.switch.read(direct_counter_entry=direct)
                if is_same_entry(each.direct_counter_entry.table_entry, key)
            ]
        else:
            cell = p4r.CounterEntry(counter_id=counter.id, index=_index(counter, index))
            data = [each.counter_entry.data for each in self.switch.read(counter_entry=cell)]
        for value in data:
            count = f"({value.byte_count} bytes, {value.packet_count} packets)"
            self.say(f"{words[0]}[{index}]= {count}")

    @command(4, kind="counter")
    def do_counter_write(self, words: list[str]) -> None:
        """Write a counter: counter_write <name> <index> <packets> <bytes>"""
        counter, index = self._counter(words[0]), whole(words[1], "index")
        data = p4r.CounterData(
            packet_count=whole(words[2], "packets"), byte_count=whole(words[3], "bytes")
        )
        if counter.table is not None:
            self.say("writing to direct counter for table", counter.table.name)
            key = self.entry(counter.table, index)
            self.switch.modify(
                direct_counter_entry=p4r.DirectCounterEntry(table_entry=key, data=data)
            )
        else:
            at = _index(counter, index)
            self.switch.modify(
                counter_entry=p4r.CounterEntry(counter_id=counter.id, index=at, data=data)
            )
        self.say(f"{words[0]}[{index}] has been updated")

    @command(1, kind="counter")
    def do_counter_reset(self, words: list[str]) -> None:
        """Set a whole counter to 0: counter_reset <name>"""
        counter, zero = self._counter(words[0]), p4r.CounterData()
        if counter.table is None:
            for at in range(counter.size):
                cell = p4r.CounterEntry(counter_id=counter.id, index=p4r.Index(index=at), data=zero)
                self.switch.modify(counter_entry=cell)
            return
        self.say("this is the direct counter for table", counter.table.name)
        for handle in list(self._renew(counter.table)):
            key = self.entry(counter.table, handle)
            self.switch.modify(
                direct_counter_entry=p4r.DirectCounterEntry(table_entry=key, data=zero)
            )

    def _counter(self, name: str) -> Array:
        return find(self.program.counters, name, "counter")

    # --- meters -------------------------------------------------------------------------------

    @command(least=2, kind="meter")
    def do_meter_set_rates(self, words: list[str]) -> None:
        """Set a meter's rates: meter_set_rates <name> <index> <rate_1>:<burst_1> <rate_2>:<burst_2>

        Rates are in packets or bytes a microsecond, bursts in packets or bytes.
        """
        self._set_rates(words[0], whole(words[1], "index"), words[2:])

    @command(least=1, kind="meter")
    def do_meter_array_set_rates(self, words: list[str]) -> None:
        """Set rates of a whole array:

        meter_array_set_rates <name> <rate_1>:<burst_1> <rate_2>:<burst_2>
        """
        meter = self._meter(words[0])
        if meter.table is not None:
            raise CommandError(f"{words[0]} is a direct meter: set its entries' rates one by one")
        for index in range(meter.size):
            self._set_rates(words[0], index, words[1:])

    @command(2, kind="meter")
    def do_meter_get_rates(self, words: list[str]) -> None:
        """Show a meter's rates: meter_get_rates <name> <index>"""
        meter, index = self._meter(words[0]), whole(words[1], "index")
        if meter.table is not None:
            key = self.entry(meter.table, index)
            direct = p4r.DirectMeterEntry(table_entry=key)
            entities = self.switch.read(direct_meter_entry=direct)
            configs = [
                each.direct_meter_entry.config
                for each in entities
                if each.direct_meter_entry.HasField("config")
                and is_same_entry(each.direct_meter_entry.table_entry, key)
            ]
        else:
            cell = p4r.MeterEntry(meter_id=meter.id, index=_index(meter, index))
            configs = [
                each.meter_entry.config
                for each in self.switch.read(meter_entry=cell)
                if each.meter_entry.HasField("config")
            ]
        for config in configs:
            rates = ((config.cir, config.cburst), (config.pir, config.pburst))
            for number, (rate, burst) in enumerate(rates):
                shown = rate / _PER_MICROSECOND
                self.say(f"{number}: info rate = {shown}, burst size = {burst}")

    def _meter(self, name: str) -> Array:
        return find(self.program.meters, name, "meter")

    def _set_rates(self, name: str, index: int, words: list[str]) -> None:
        meter = self._meter(name)
        config = _meter_config(words)
        if meter.table is not None:
            key = self.entry(meter.table, index)
            direct = p4r.DirectMeterEntry(table_entry=key, config=config)
            self.switch.modify(direct_meter_entry=direct)
        else:
            cell = p4r.MeterEntry(meter_id=meter.id, index=_index(meter, index), config=config)
            self.switch.modify(meter_entry=cell)

    # --- registers ----------------------------------------------------------------------------

    @command(least=1, kind="register")
    def do_register_read(self, words: list[str]) -> None:
        """Read a register, or all of an array: register_read <name> [index]"""
        register = self._register(words[0])
        if len(words) > 2:
            raise CommandError(f"Wrong number of args, expected 2 but got {len(words)}")
        cell = p4r.RegisterEntry(register_id=register.id)
        if len(words) == 2:
            cell.index.CopyFrom(_index(register, whole(words[1], "index")))
        else:
            self.note("register index omitted, reading entire array")
        values = [
            int.from_bytes(each.register_entry.data.bitstring, "big")
            for each in self.switch.read(register_entry=cell)
        ]
        name = f"{words[0]}[{int(words[1])}]" if len(words) == 2 else words[0]
        self.say(f"{name}=", ", ".join(str(value) for value in values))

    @command(3, kind="register")
    def do_register_write(self, words: list[str]) -> None:
        """Write a register: register_write <name> <index> <value>"""
        register, index = self._register(words[0]), whole(words[1], "index")
        try:
            value = int(words[2], 0)
        except ValueError:
            raise CommandError("Bad format for value, must be an integer") from None
        if not 0 <= value < 1 << register.bits:
            raise CommandError(f"Value {value} does not fit in {register.bits} bits")
        self._write(register, index, value)

    @command(1, kind="register")
    def do_register_reset(self, words: list[str]) -> None:
        """Set a whole array to 0: register_reset <name>"""
        self._write(self._register(words[0]), None, 0)

    def _register(self, name: str) -> Array:
        return find(self.program.registers, name, "register")

    def _write(self, register: Array, index: int | None, value: int) -> None:
        cell = p4r.RegisterEntry(register_id=register.id, data=p4d.P4Data(bitstring=encode(value)))
        if index is not None:
            cell.index.CopyFrom(_index(register, index))
        self.switch.modify(register_entry=cell)


def _index(array: Array, index: int) -> p4r.Index:
    if not 0 <= index < array.size:
        raise CommandError(
            f"Invalid index {index}: {array.name} has indices from 0 to {array.size - 1}"
        )
    return p4r.Index(index=index)


def _meter_config(words: list[str]) -> p4r.MeterConfig:
    """Two rates, the lower one first. Raises CommandError."""
    if len(words) != 2:
        raise CommandError(f"Invalid number of rates, expected 2 but got {len(words)}")
    values = []
    for word in words:
        rate, _, burst = word.partition(":")
        try:
            values += [round(float(rate) * _PER_MICROSECOND), int(burst)]
        except (ValueError, OverflowError):
            raise CommandError("Error while parsing rates") from None
    return p4r.MeterConfig(cir=values[0], cburst=values[1], pir=values[2], pburst=values[3])
