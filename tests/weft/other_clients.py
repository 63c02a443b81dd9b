"""The clients of docs/clients.md, started as it says, beside a run with a prompt."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.weft.prompt_lab import PATIENCE_S, REPOSITORY, Lab
from weft import p4rt_shell

PAGE = (REPOSITORY / "docs" / "clients.md").read_text()

KINDS = ["plain", "with_finsy", *(["with_shell"] if p4rt_shell.is_ready() else [])]


@contextmanager
def client(lab: Lab, kind: str, switch: str, word: str = "") -> Iterator[subprocess.Popen[str]]:
    """Run a client started as docs/clients.md says: it becomes primary, and ends with the block.

    `word`: a role or an election id.
    """
    (line,) = re.findall(
        rf"^    (\S+ docs/clients/{kind}\.py) 127\.0\.0\.1:50051 1 ?{word}$", PAGE, re.M
    )
    process = subprocess.Popen(
        [*line.split(), lab.result["p4runtime"][switch], switch[1:], *([word] if word else [])],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        assert [process.stdout.readline() for _ in range(2)] == ["primary\n", "written\n"]
        yield process
        process.stdin.close()
        process.wait(PATIENCE_S)
    finally:
        process.kill()
        process.wait()
