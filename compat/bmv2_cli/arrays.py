"""`weft cli`'s commands on counters, meters, registers and parser value sets."""

from __future__ import annotations

from compat.bmv2_cli.ledger import is_same_entry
from compat.bmv2_cli.program import Array, ValueSet, find
from compat.bmv2_cli.shell import command
from compat.bmv2_cli.tables import TableCommands
from compat.bmv2_cli.values import CommandError, OperationError, cut, digits, full, whole
from softswitch.p4runtime.bytestrings import encode
from softswitch.p4runtime.protos import p4d, p4r

_PER_MICROSECOND = 1_000_000
"""BMv2's CLI says meter rates a microsecond, P4Runtime a second."""


class ArrayCommands(TableCommands):
    """Counter, meter and register arrays; direct ones by their table's entry handles."""

    # --- counters -----------------------------------------------------------------------------

    @command(2, kind="counter")
    def do_counter_read(self, words: list[str]) -> None:
        """Read a counter: counter_read <name> <index>"""
        counter, index = self._counter(words[0]), whole(words[1], "index")
        data: list[p4r.CounterData]
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
            cell = p4r.CounterEntry(counter_id=counter.id, index=_index("counter", counter, index))
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
            at = _index("counter", counter, index)
            self.switch.modify(
                counter_entry=p4r.CounterEntry(counter_id=counter.id, index=at, data=data)
            )
        self.say(f"{words[0]}[{index}] has been updated")

    @command(1, kind="counter")
    def do_counter_reset(self, words: list[str]) -> None:
        """Set a whole counter to 0: counter_reset <name>"""
        counter, zero = self._counter(words[0]), p4r.CounterData()
        if counter.table is None:
            cells = (
                p4r.CounterEntry(counter_id=counter.id, index=p4r.Index(index=at), data=zero)
                for at in range(counter.size)
            )
            self.all_done(self.switch.modify_each(p4r.Entity(counter_entry=c) for c in cells))
            return
        self.say("this is the direct counter for table", counter.table.name)
        directs = (
            p4r.DirectCounterEntry(table_entry=place.key, data=zero)
            for _, place in self.handles(counter.table, renew=True)
        )
        self.all_done(self.switch.modify_each(p4r.Entity(direct_counter_entry=d) for d in directs))

    def _counter(self, name: str) -> Array:
        return find(self.program.counters, name, "counter")

    # --- meters -------------------------------------------------------------------------------

    @command(least=2, kind="meter")
    def do_meter_set_rates(self, words: list[str]) -> None:
        """Set a meter's rates: meter_set_rates <name> <index> <rate_1>:<burst_1> <rate_2>:<burst_2>

        Rates are in packets or bytes a microsecond, bursts in packets or bytes.
        """
        meter, index = self._meter(words[0]), whole(words[1], "index")
        self._set_rates(meter, index, _meter_config(words[2:]))

    @command(least=1, kind="meter")
    def do_meter_array_set_rates(self, words: list[str]) -> None:
        """Set rates of a whole array:

        meter_array_set_rates <name> <rate_1>:<burst_1> <rate_2>:<burst_2>
        """
        meter = self._meter(words[0])
        config = _meter_config(words[1:])
        if meter.table is None:
            for index in range(meter.size):
                self._set_rates(meter, index, config)
            return
        for handle, _ in self.handles(meter.table, renew=True):
            self._set_rates(meter, handle, config)

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
            cell = p4r.MeterEntry(meter_id=meter.id, index=_index("meter", meter, index))
            configs = [
                each.meter_entry.config
                for each in self.switch.read(meter_entry=cell)
                if each.meter_entry.HasField("config")
            ]
        if not configs:
            self.say("WARNING: expected 2 rates but only received 0")
        for config in configs:
            rates = ((config.cir, config.cburst), (config.pir, config.pburst))
            for number, (rate, burst) in enumerate(rates):
                shown = rate / _PER_MICROSECOND
                self.say(f"{number}: info rate = {shown}, burst size = {burst}")

    def _meter(self, name: str) -> Array:
        return find(self.program.meters, name, "meter")

    def _set_rates(self, meter: Array, index: int, config: p4r.MeterConfig) -> None:
        if meter.table is not None:
            key = self.entry(meter.table, index)
            direct = p4r.DirectMeterEntry(table_entry=key, config=config)
            self.switch.modify(direct_meter_entry=direct)
        else:
            cell = p4r.MeterEntry(
                meter_id=meter.id, index=_index("meter", meter, index), config=config
            )
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
            cell.index.CopyFrom(_index("register", register, whole(words[1], "index")))
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
        if not 0 <= value <= full(register.bits):
            fits = cut(value, register.bits)
            self.note(f"  {register.name} has {register.bits} bits: {value} becomes {fits}")
            value = fits
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
            cell.index.CopyFrom(_index("register", register, index))
        self.switch.modify(register_entry=cell)

    # --- parser value sets --------------------------------------------------------------------

    @command(0)
    def do_show_pvs(self, _words: list[str]) -> None:
        """List parser value sets defined in the P4 program: show_pvs"""
        for name in sorted(self.program.value_sets):
            self.say(self.program.value_sets[name].text())

    @command(2, kind="parser value set")
    def do_pvs_add(self, words: list[str]) -> None:
        """Add a value: pvs_add <parser value set name> <value>

        Members of several fields are one number, the first field's bits on the left.
        """
        value_set = self._value_set(words[0])
        values = self._values(value_set)
        value = _member(value_set, words[1])
        if value not in values:
            self._put_values(value_set, [*values, value])

    @command(2, kind="parser value set")
    def do_pvs_remove(self, words: list[str]) -> None:
        """Remove a value: pvs_remove <parser value set name> <value>"""
        value_set = self._value_set(words[0])
        value = _member(value_set, words[1])
        values = self._values(value_set)
        if value in values:
            self._put_values(value_set, [each for each in values if each != value])

    @command(1, kind="parser value set")
    def do_pvs_get(self, words: list[str]) -> None:
        """Show the values, one a line: pvs_get <parser value set name>"""
        value_set = self._value_set(words[0])
        for value in self._values(value_set):
            self.say(digits(value, value_set.bits + 7, ""))  # with BMv2's CLI's byte too many

    @command(1, kind="parser value set")
    def do_pvs_clear(self, words: list[str]) -> None:
        """Remove all values: pvs_clear <parser value set name>"""
        self._put_values(self._value_set(words[0]), [])

    def _value_set(self, name: str) -> ValueSet:
        return find(self.program.value_sets, name, "parser value set")

    def _values(self, value_set: ValueSet) -> list[int]:
        query = p4r.ValueSetEntry(value_set_id=value_set.id)
        values = []
        for found in self.switch.read(value_set_entry=query):
            for member in found.value_set_entry.members:
                of_field = {match.field_id: _match_value(match) for match in member.match}
                number = 0
                for field in value_set.fields:
                    number = number << field.bitwidth | of_field.get(field.id, 0)
                values.append(number)
        return values

    def _put_values(self, value_set: ValueSet, values: list[int]) -> None:
        entry = p4r.ValueSetEntry(value_set_id=value_set.id)
        for value in values:
            member, left = entry.members.add(), value_set.bits
            for field in value_set.fields:
                left -= field.bitwidth
                part = encode(cut(value >> left, field.bitwidth))
                match = member.match.add(field_id=field.id)
                match field.kind:
                    case "lpm":
                        match.lpm.value, match.lpm.prefix_len = part, field.bitwidth
                    case "ternary":
                        match.ternary.value = part
                        match.ternary.mask = encode(full(field.bitwidth))
                    case "range":
                        match.range.low = match.range.high = part
                    case "optional":
                        match.optional.value = part
                    case _:
                        match.exact.value = part
        self.switch.modify(value_set_entry=entry)


def _match_value(match: p4r.FieldMatch) -> int:
    kind = match.WhichOneof("field_match_type")
    part = getattr(match, kind) if kind else None
    return int.from_bytes(part.low if kind == "range" else part.value, "big") if part else 0


def _member(value_set: ValueSet, text: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        raise CommandError(
            "Invalid input, could not cast to integer, try in hex with 0x prefix"
        ) from None
    if not 0 <= value <= full(value_set.bits):
        raise CommandError(f"Input is too large, it should fit within {value_set.bits} bits")
    return value


def _index(kind: str, array: Array, index: int) -> p4r.Index:
    if not 0 <= index < array.size:
        why = f"{array.name} has indices from 0 to {array.size - 1}"
        raise OperationError(kind, "INVALID_INDEX", why)
    return p4r.Index(index=index)


def _meter_config(words: list[str]) -> p4r.MeterConfig:
    """Parse two rates, the lower one first. Raises CommandError."""
    if len(words) != 2:
        raise CommandError(f"Invalid number of rates, expected 2 but got {len(words)}")
    values = []
    for word in words:
        rate, _, burst = word.partition(":")
        try:
            values += [round(float(rate) * _PER_MICROSECOND), int(burst)]
        except (ValueError, OverflowError):
            raise CommandError("Error while parsing rates") from None
    if any(value.bit_length() > 63 for value in values):
        raise CommandError("Error while parsing rates", "P4Runtime's numbers have 63 bits")
    return p4r.MeterConfig(cir=values[0], cburst=values[1], pir=values[2], pburst=values[3])
