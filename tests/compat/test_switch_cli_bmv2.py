"""`weft cli` on BMv2 itself, through P4Runtime: the text is that of BMv2's own CLI over Thrift."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.bmv2_cli.connection import Connection
from softswitch.p4runtime.pipeline import read_p4info
from softswitch.p4runtime.protos import p4r
from tests.compat.switch_cli_bench import compile_into
from tests.free_port import free_port

pytestmark = pytest.mark.reference("simple_switch_grpc")

LAB = Path(__file__).parent / "switch_cli_lab"
PATIENCE_S = 60.0


@pytest.fixture
def bmv2(tmp_path: Path) -> Iterator[str]:
    """Run a BMv2 with the lab's program and no controller; yield P4Runtime's address."""
    compile_into(tmp_path, LAB / "lab.p4")
    address = f"127.0.0.1:{free_port()}"
    command = ["simple_switch_grpc", "--no-p4", "--thrift-port", str(free_port())]
    process = subprocess.Popen(
        [*command, "--", "--grpc-server-addr", address],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        host, _, port = address.partition(":")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert process.poll() is None and time.monotonic() < deadline, "BMv2 does not listen"
            try:
                socket.create_connection((host, int(port)), 1).close()
                break
            except OSError:
                time.sleep(0.02)
        config = p4r.ForwardingPipelineConfig(p4info=read_p4info(tmp_path / "lab.p4info.txtpb"))
        config.p4_device_config = (tmp_path / "lab.json").read_bytes()
        with Connection(address, 0, election_id=1) as controller:
            action = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
            controller.set_config(action, config)
        yield address
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("commands", ["entries", "replication"])
def test_the_text_is_that_of_its_own_cli(commands: str, bmv2: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "weft.cli", "cli", "--grpc", bmv2],
        input=(LAB / f"{commands}.commands").read_text(),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == (LAB / f"{commands}.expected").read_text().splitlines()
