"""A file of commands: many entries go in one request, and nobody can tell from what is printed."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from compat.bmv2_cli.connection import BATCH, Connection
from compat.bmv2_cli.main import SwitchShell
from compat.dropin.lab_switch import lab_switch
from observe.errors import UsageError
from softswitch.p4runtime.protos import p4r
from tests.compat.switch_cli_bench import Bench, bench_of, compile_into

LAB = Path(__file__).parent / "switch_cli_lab"
PROMPT = SwitchShell.prompt


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_into(tmp_path_factory.mktemp("lab"), LAB / "lab.p4")


def adds(first: int, count: int) -> list[str]:
    return [
        f"table_add lpm drop 10.{number >> 8}.{number & 0xFF}.0/24 =>"
        for number in range(first, first + count)
    ]


MIXED = [
    "show_tables",
    *adds(0, BATCH + 30),
    "table_add lpm drop 10.0.0.0/33 =>",  # no such prefix
    "table_add lpm drop 10.0.0.0/24 =>",  # there already
    "",  # once more
    "# a comment",
    "table_add lpm nosuch 10.0.0.0/24 =>",
    "table_delete lpm 7",
    "not_a_command",
    *adds(7, 1),  # takes the place that is free now
    "table_num_entries lpm",
    "help table_add",
    *adds(0, BATCH + 10),  # each refused: more than 8 KB of reasons
    *adds(BATCH + 30, 3),
    "table_dump lpm",
]
"""What can happen between entries, in the middle of a batch, and at its ends."""


def read_file(bench: Bench, path: Path, lines: Sequence[str]) -> list[str]:
    """Return what the lines print when they come from a file."""
    path.write_text("".join(f"{line}\n" for line in lines))
    bench.shell.stdout = output = io.StringIO()
    with path.open("rb") as file:
        bench.shell.read_commands(file.fileno(), "intro")
    return output.getvalue().removeprefix("intro\n").replace(PROMPT, "").splitlines()


def test_a_file_prints_what_its_lines_print(compiled: Path, tmp_path: Path) -> None:
    with bench_of(compiled) as bench:
        one_by_one = bench.done(*MIXED)
        failures = bench.shell.failures
    with bench_of(compiled) as bench:
        together = read_file(bench, tmp_path / "mixed.txt", MIXED)
        assert together == [*one_by_one, ""]
        assert bench.shell.failures == failures == BATCH + 15


def test_reasons_are_told_beside_their_commands(
    compiled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with bench_of(compiled) as bench:
        read_file(bench, tmp_path / "twice.txt", adds(0, 2) + adds(0, 2))
    reasons = capsys.readouterr().err.splitlines()
    assert len(reasons) == 2
    assert "0x0a000000/24" in reasons[0] and "0x0a000100/24" in reasons[1]


def test_many_entries_are_few_requests(
    compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bench_of(compiled) as bench:
        switch = bench.shell.switch
        sizes: list[int] = []
        write = switch._write_once

        def counted(updates: Sequence[p4r.Update]) -> None:
            sizes.append(len(updates))
            write(updates)

        monkeypatch.setattr(switch, "_write_once", counted)
        read_file(bench, tmp_path / "many.txt", adds(0, 2 * BATCH + 5))
        assert sizes == [BATCH, BATCH, 5]
        sizes.clear()
        bench.done("table_clear lpm")
        assert sizes == [BATCH, BATCH, 5]
        assert bench.done("table_num_entries lpm") == ["0"]


def test_strict_ends_before_the_next_one(compiled: Path, tmp_path: Path) -> None:
    with bench_of(compiled) as bench:
        bench.shell.strict = True
        read_file(bench, tmp_path / "strict.txt", [*adds(0, 1), *adds(0, 1), *adds(1, 1)])
        bench.shell.strict = False
        assert bench.done("table_num_entries lpm") == ["1"]


def test_a_script_that_waits_for_each_answer_gets_it(compiled: Path) -> None:
    commands, to_commands = os.pipe()
    os.set_blocking(commands, False)  # as some event loops leave it
    from_answers, answers = os.pipe()
    with bench_of(compiled) as bench, os.fdopen(answers, "w") as output:
        bench.shell.stdout = output
        reader = threading.Thread(target=bench.shell.read_commands, args=(commands, ""))
        reader.start()
        with os.fdopen(from_answers) as printed:
            for number, line in enumerate(adds(0, 3)):
                os.write(to_commands, line[:20].encode())  # a line may come in parts
                os.write(to_commands, f"{line[20:]}\n".encode())
                handle = f"Entry has been added with handle {number}\n"
                assert next(text for text in printed if "handle" in text) == handle
            os.close(to_commands)
            reader.join(10)
            assert not reader.is_alive()
    os.close(commands)


def test_two_sessions_never_give_out_the_same_handle(compiled: Path, tmp_path: Path) -> None:
    with bench_of(compiled) as bench:
        bench.done("table_num_entries lpm")  # this session knows: no entries
        first, bench.shell = bench.shell, bench.open()
        bench.done(*adds(0, 2))
        bench.shell = first
        assert read_file(bench, tmp_path / "more.txt", adds(2, 2))[-2].endswith("handle 3")
        assert bench.done("table_num_entries lpm") == ["4"]


def test_entries_for_a_switch_that_has_gone_are_told_one_by_one(
    compiled: Path, tmp_path: Path
) -> None:
    json, p4info = (compiled / name for name in ("lab.json", "lab.p4info.txtpb"))
    with ExitStack() as sessions:
        with lab_switch(json.read_text(), p4info.read_text(), {}, priorities=2) as address:
            first, second = Bench(sessions, address), Bench(sessions, address)
        one_by_one = first.done(*adds(0, 3))
        together = read_file(second, tmp_path / "adds.txt", adds(0, 3))
    assert one_by_one.count("Adding entry to lpm match table lpm") == 3
    assert together == [*one_by_one, ""]
    assert first.shell.failures == second.shell.failures == 3


def test_bytes_that_are_no_text_are_a_wrong_command(compiled: Path, tmp_path: Path) -> None:
    path = tmp_path / "latin1.txt"
    path.write_bytes(b"table_add lpm dr\xf6p 10.0.0.0/24 =>\n")
    with bench_of(compiled) as bench, path.open("rb") as file:
        bench.shell.stdout = output = io.StringIO()
        bench.shell.read_commands(file.fileno(), "")
    assert "Table lpm has no action dr\ufffdp" in output.getvalue()


def test_commands_that_can_not_be_read_are_one_line(
    compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bench_of(compiled) as bench:
        folder = os.open(tmp_path, os.O_RDONLY)
        with pytest.raises(UsageError, match="the commands can't be read: Is a directory"):
            bench.shell.read_commands(folder, "")
        os.close(folder)
        monkeypatch.setattr("sys.stdin", None)
        with pytest.raises(UsageError, match="standard input is closed"):
            bench.shell.cmdloop("")


def test_a_reader_that_has_gone_is_no_error_of_the_input(compiled: Path, tmp_path: Path) -> None:
    path = tmp_path / "tables.txt"
    path.write_text("show_tables\n" * 3)
    read, write = os.pipe()
    os.close(read)
    output = os.fdopen(write, "w")
    with bench_of(compiled) as bench, path.open("rb") as file, pytest.raises(BrokenPipeError):
        bench.shell.stdout = output
        bench.shell.read_commands(file.fileno(), "")
    with pytest.raises(BrokenPipeError):
        output.close()


def test_a_session_that_ends_leaves_no_stream(compiled: Path) -> None:
    with bench_of(compiled) as bench:
        connection = Connection(bench.address, 0)
        stream = weakref.ref(connection._stream)
        connection.close()
        assert stream() is None  # what is left until Python ends may hang there


def test_a_shell_that_is_done_goes_at_once(compiled: Path, tmp_path: Path) -> None:
    with bench_of(compiled) as bench:
        read_file(bench, tmp_path / "one.txt", adds(0, 1))
        shell = weakref.ref(bench.shell)
        bench.shell = bench.open()
        assert shell() is None


def test_a_session_does_not_wait_for_what_it_does_not_need() -> None:
    """A file of ten lines is done in less time than these imports took."""
    slow = ["topologies", "pydantic", "softswitch.codegen", "compiler"]
    ask = (
        f"import sys, compat.bmv2_cli.main; print([name for name in {slow} if name in sys.modules])"
    )
    command = [sys.executable, "-c", ask]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"
