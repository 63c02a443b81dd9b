"""`weft cli`'s commands on the switch as a whole: its program, its state, its hashes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from compat.bmv2_cli.connection import RefusedError
from compat.bmv2_cli.ports import PortCommands
from compat.bmv2_cli.program import CUSTOM_CRCS
from compat.bmv2_cli.shell import command
from compat.bmv2_cli.values import CommandError, OperationError, true_or_false
from softswitch.p4runtime.protos import p4i, p4r
from softswitch.p4runtime.status import PipelineError

_ACTIONS = p4r.SetForwardingPipelineConfigRequest
_P4INFO_ENDINGS = (".p4info.txtpb", ".p4info.txt", "_p4rt.txt", "_p4rt.txtpb", ".p4info.pb")


class ProgramCommands(PortCommands):
    """The program that runs, another one, and what is forgotten with it."""

    @command(0)
    def do_switch_info(self, _words: list[str]) -> None:
        """Show what the switch is: switch_info"""
        rows = {
            "device_id": self.switch.device_id,
            "thrift_port": self.switch.address.rpartition(":")[2],
            "notifications_socket": None,
            "elogger_socket": None,
            "debugger_socket": None,
        }
        width = 5 + max(map(len, rows))
        for name, value in rows.items():
            self.say(f"{name:{width}}: {value}")

    @command(1, kind="swap")
    def do_load_new_config_file(self, words: list[str]) -> None:
        """Build a program that swap_configs begins: load_new_config_file <path to .json file>

        P4Info is taken from the file next to it (FILE.p4info.txtpb), or derived from the JSON.
        """
        path = Path(words[0])
        if not path.is_file():
            raise CommandError("Not a valid filename")
        self.say("Loading new Json config")
        data = path.read_bytes()
        try:
            json.loads(data)
        except ValueError:
            raise CommandError("Not a valid JSON file") from None
        config = p4r.ForwardingPipelineConfig(p4info=_p4info(path, data), p4_device_config=data)
        self.switch.set_config(_ACTIONS.VERIFY_AND_SAVE, config)
        self._begin_anew()

    @command(kind="swap")
    def do_swap_configs(self, _words: list[str]) -> None:
        """Begin the program that load_new_config_file built: swap_configs"""
        self.say("Swapping configs")
        try:
            self.switch.set_config(_ACTIONS.COMMIT)
        except RefusedError as error:
            if error.code != "NOT_FOUND":
                raise
            raise OperationError("swap", "NO_ONGOING_SWAP", str(error)) from None
        self._begin_anew()

    @command(0)
    def do_reset_state(self, _words: list[str]) -> None:
        """Forget all entries, registers and counts, as if just begun: reset_state"""
        self.switch.set_config(_ACTIONS.VERIFY_AND_COMMIT, self.switch.config())
        self._begin_anew()

    @command(1)
    def do_write_config_to_file(self, words: list[str]) -> None:
        """Write the program's JSON: write_config_to_file <file>"""
        _write(Path(words[0]), self.switch.config().p4_device_config)

    @command(1)
    def do_serialize_state(self, words: list[str]) -> None:
        """Write all that P4Runtime knows of the state, as text: serialize_state <file>

        It is P4Runtime's ReadResponse, not BMv2's own format.
        """
        answer = p4r.ReadResponse()
        for query in _EVERYTHING:
            answer.entities.extend(self.switch.read(**query))
        _write(Path(words[0]), text_format.MessageToString(answer).encode())

    # --- hashes -------------------------------------------------------------------------------

    @command(6, kind="crc")
    def do_set_crc16_parameters(self, words: list[str]) -> None:
        """Change a custom CRC:

        set_crc16_parameters <name> <polynomial> <initial remainder> <final xor value>
        <reflect data?> <reflect remainder?>
        """
        self._set_crc(words, "crc16_custom")

    @command(6, kind="crc")
    def do_set_crc32_parameters(self, words: list[str]) -> None:
        """Change a custom CRC:

        set_crc32_parameters <name> <polynomial> <initial remainder> <final xor value>
        <reflect data?> <reflect remainder?>
        """
        self._set_crc(words, "crc32_custom")

    def _set_crc(self, words: list[str], algorithm: str) -> None:
        name, bits = words[0], CUSTOM_CRCS[algorithm]
        if self.program.crcs.get(name) != bits:
            raise CommandError(f"Invalid {algorithm} name ({name})")
        polynomial, initial, final = (_number(word, bits) for word in words[1:4])
        parameters = {
            "polynomial": polynomial,
            "initial": initial,
            "final": final,
            "reflect_data": true_or_false(words[4]),
            "reflect_remainder": true_or_false(words[5]),
        }
        config = self.switch.config()
        program: dict[str, Any] = json.loads(config.p4_device_config)
        for calculation in program["calculations"]:
            if calculation["name"] == name:
                calculation["crc"] = parameters
        config.p4_device_config = json.dumps(program).encode()
        self.switch.set_config(_ACTIONS.RECONCILE_AND_COMMIT, config)
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.read_program()
        self.forget_handles()
        self.forget_nodes()


def _every(kind: str) -> p4r.PacketReplicationEngineEntry:
    entry = p4r.PacketReplicationEngineEntry()
    getattr(entry, kind).SetInParent()
    return entry


_EVERYTHING: tuple[dict[str, Any], ...] = (
    {"table_entry": p4r.TableEntry()},
    {"action_profile_member": p4r.ActionProfileMember()},
    {"action_profile_group": p4r.ActionProfileGroup()},
    {"counter_entry": p4r.CounterEntry()},
    {"direct_counter_entry": p4r.DirectCounterEntry(table_entry=p4r.TableEntry())},
    {"meter_entry": p4r.MeterEntry()},
    {"register_entry": p4r.RegisterEntry()},
    {"value_set_entry": p4r.ValueSetEntry()},
    {"packet_replication_engine_entry": _every("multicast_group_entry")},
    {"packet_replication_engine_entry": _every("clone_session_entry")},
)


def _p4info(path: Path, program: bytes) -> p4i.P4Info:
    """Read P4Info from a file beside `path`, or derive it from the program. Raises CommandError."""
    # What reads a whole program takes longer to import than most sessions last.
    from softswitch.codegen import Bmv2Program, JsonError
    from softswitch.p4runtime.p4info_from_json import derive
    from softswitch.p4runtime.pipeline import read_p4info

    stem = path.name.removesuffix(".json")
    for found in (path.with_name(stem + ending) for ending in _P4INFO_ENDINGS):
        if found.is_file():
            try:
                return read_p4info(found)
            except PipelineError as error:
                raise CommandError(f"{found}: {error}") from None
    try:
        return derive(Bmv2Program.from_json(program))
    except JsonError as error:
        raise CommandError(f"{path}: {error}") from None


def _number(text: str, bits: int) -> int:
    try:
        number = int(text, 0)
    except ValueError:
        raise CommandError(f"{text} is not a number") from None
    if not 0 <= number < 1 << bits:
        raise CommandError(f"Integer cannot fit within {bits} bits")
    return number


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
