"""A short run of each fuzzer, and that the watch over them sees what it is there for.

`python -m tests.fuzz --minutes 60` is the long one. Cases are the same in every run; what is found
names its case and the command that runs it once more.
"""

from __future__ import annotations

import random

import pytest

from tests.fuzz import documents, watch
from tests.fuzz.__main__ import main
from tests.fuzz.messages import mutate_bytes
from tests.softswitch import tiny_program as tiny

CASES = {"json": 1000, "p4info": 1500, "packets": 1200, "requests": 300}


@pytest.mark.parametrize("kind", CASES)
def test_nothing_is_found(kind: str) -> None:
    outcome = watch.run(kind, 0, CASES[kind])
    assert not outcome.findings, "\n\n".join(str(finding) for finding in outcome.findings)
    assert outcome.cases == CASES[kind]
    assert outcome.memory_kb


STAND_IN = """
import os, sys, time
sys.path.insert(0, os.getcwd())
from tests.fuzz import fuzzers, worker
class StandIn(fuzzers.Fuzzer):
    def run(self, chance):
        at = next(numbers)
        if at == 2: raise ValueError("case two")
        if at == 4: os.abort()
        if at == 6: time.sleep(60)
numbers = iter(range(int(sys.argv[2]), 1000))
fuzzers.FUZZERS["json"] = StandIn
sys.exit(worker.main())
"""


def test_watch_sees_exceptions_signals_and_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "WORKER", ("-c", STAND_IN))
    outcome = watch.run("json", 0, 9, hang_s=5)
    assert outcome.cases == 9
    seen = [(finding.number, finding.what) for finding in outcome.findings]
    assert [number for number, _ in seen] == [2, 4, 6]
    assert "ValueError: case two" in seen[0][1]
    assert "ended (-6)" in seen[1][1]
    assert "no end after 5 s" in seen[2][1]
    assert "python -m tests.fuzz json --first 6 --cases 1" in str(outcome.findings[2])


def test_cases_are_the_same_every_time() -> None:
    document = tiny.Tiny().json()
    for number in range(50):
        once, again = (documents.mutate(document, random.Random(number)) for _ in range(2))
        assert once == again
        assert mutate_bytes(b"abc" * 9, random.Random(number)) == mutate_bytes(
            b"abc" * 9, random.Random(number)
        )
    assert document == tiny.Tiny().json()


def test_command_refuses_what_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["jsonn"])
    assert ended.value.code == 2
    assert "there is no kind 'jsonn'; there are json, p4info, packets, requests" in (
        capsys.readouterr().err
    )
