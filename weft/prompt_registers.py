"""Commands at the prompt that read and write registers, over P4Runtime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.errors import ReadFailed, WriteFailed
from emulation.switch_node import Target
from weft import console
from weft.prompt_command import Command, CommandError, Shell, one_of, split

_ALL = "registers SWITCH"
_ONE = "register SWITCH NAME [INDEX [VALUE]]"
_SHOWN = 64


class RegisterCommands:
    """`registers` and `register`."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._session = shell.session

    def commands(self) -> list[Command]:
        """Return the commands, in the order of `help`."""
        return [
            Command(
                "registers",
                "SWITCH",
                "the register arrays of a switch's program",
                self._registers,
                complete=lambda before: () if before else self._shell.switches(),
            ),
            Command(
                "register",
                "SWITCH NAME [INDEX [VALUE]]",
                "read a register, or write one of its cells, over P4Runtime",
                self._register,
                "register s1 seen          the cells that are not zero\n"
                "register s1 seen 7        one cell\n"
                "register s1 seen 7 0x2a   write it: a packet meets the old value or the new one\n"
                "BMv2 has no registers over P4Runtime.",
                self._words,
            ),
        ]

    def _words(self, before: Sequence[str]) -> Iterable[str]:
        if not before:
            return self._shell.switches()
        if len(before) == 1 and before[0] in self._shell.switches():
            return [each.alias for each in self._session.controller.p4info(before[0]).registers.all]
        return ()

    def _registers(self, rest: str) -> None:
        words = split(rest)
        switch = one_of("switch", words[0] if words else "", self._shell.switches(), _ALL)
        if len(words) != 1:
            raise CommandError(_ALL)
        known = self._session.controller.p4info(switch).registers.all
        if not known:
            print(f"the program of {switch} has no register")
            return
        numbers = ["cells", "bits"]
        rows = [[each.alias, str(each.size), str(each.bits)] for each in known]
        console.table(["register", *numbers], rows, title=f"registers of {switch}", right=numbers)

    def _register(self, rest: str) -> None:
        words = split(rest)
        switch = one_of("switch", words[0] if words else "", self._shell.switches(), _ONE)
        if not 2 <= len(words) <= 4:
            raise CommandError(_ONE)
        controller = self._session.controller
        known = controller.p4info(switch).registers[words[1]]
        index = _number("INDEX", words[2]) if len(words) > 2 else None
        if index is not None and index >= known.size:
            there = f"its cells are 0 to {known.size - 1}"
            raise CommandError(f"{known.alias} of {switch} has no cell {index}: {there}")
        try:
            if len(words) == 4:
                assert index is not None
                controller.write_register(switch, words[1], index, _number("VALUE", words[3]))
            cells = controller.read_register(switch, words[1], index)
        except (ReadFailed, WriteFailed) as error:
            if self._session.target is Target.BMV2 and "UNIMPLEMENTED" in str(error):
                port = self._session.network.switches[switch].settings.thrift_port
                remedy = f"simple_switch_CLI --thrift-port {port}, or a run on the embedded switch"
                raise CommandError("BMv2 has no registers over P4Runtime", remedy) from None
            raise
        if index is not None:
            print(f"{known.alias}[{index}] = {cells[index]} ({cells[index]:#x})")
        else:
            self._print_cells(switch, known.alias, known.size, cells)

    def _print_cells(self, switch: str, name: str, size: int, cells: dict[int, int]) -> None:
        filled = [(index, value) for index, value in sorted(cells.items()) if value]
        if not filled:
            print(f"{name} of {switch}: all {size} cells are 0")
            return
        print(f"{name} of {switch}: {len(filled)} of {size} cells are not 0", flush=True)
        more = len(filled) - _SHOWN
        console.table(
            ["index", "value", "hex"],
            [[str(index), str(value), f"{value:#x}"] for index, value in filled[:_SHOWN]],
            caption=f"... and {more} more" if more > 0 else "",
            right=["index", "value", "hex"],
        )


def _number(what: str, text: str) -> int:
    """Read a number as P4 and C write it. Raises CommandError."""
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if value < 0:
        raise CommandError(f"{what} is a number from 0 such as 7 or 0x2a, not {text!r}: {_ONE}")
    return value
