"""The endpoint's command line: what it says of numbers that no card has."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostagent.rnic import service


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--max-qps", "-1", "-1 queue pairs: from 1 to 1048576 are possible"),
        ("--max-qps", "4294967295", "4294967295 queue pairs: from 1 to 1048576 are possible"),
        ("--line-rate", "-5", "a line rate of -5 bit/s: from 0 to "),
    ],
)
def test_numbers_out_of_range_are_told(
    option: str, value: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "endpoint"
    command = ["--interface", "lo", "--ip", "127.0.0.1", "--socket", str(path), "--af-packet"]
    assert service.main([*command, option, value]) == 1
    assert capsys.readouterr().err.startswith(f"error: {said}")
    assert not path.exists()
