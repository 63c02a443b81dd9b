"""The controller's session and the side channel over TLS, with the switch's own process.

A certificate signed by itself stands for an authority, the switch and the client at once.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import topologies
from controller import BlockingController, CompiledProgram, ControllerError, SwitchUnreachable
from controller.session import SwitchSession
from observe.metrics_reader import SwitchReader
from softswitch.client_tls import ClientTls
from softswitch.diagnostics import DiagnosticsClient, DiagnosticsError
from tests.free_port import free_port
from topologies import Topology
from weft.cli import main

pytestmark = pytest.mark.reference("openssl")

DEVICE = 1


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    folder = tmp_path_factory.mktemp("tls")

    def pair(name: str) -> tuple[Path, Path]:
        cert, key = folder / f"{name}.pem", folder / f"{name}.key"
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        names = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
        out = ["-keyout", str(key), "-out", str(cert)]
        command = ["openssl", "req", "-x509", *curve, *names, *out]
        subprocess.run(command, check=True, capture_output=True)
        return cert, key

    return {"switch": pair("switch"), "stranger": pair("stranger")}


@pytest.fixture(scope="module")
def address(files: dict[str, tuple[Path, Path]]) -> Iterator[str]:
    """Run a switch that wants a certificate of its clients; yield its address."""
    cert, key = map(str, files["switch"])
    where = f"127.0.0.1:{free_port()}"
    start = [sys.executable, "-m", "softswitch", "--device-id", str(DEVICE), "--no-p4", "--"]
    start += ["--grpc-server-addr", where, "--cpu-port", "255", "--grpc-server-ssl"]
    start += ["--grpc-server-cert", cert, "--grpc-server-key", key]
    start += ["--grpc-server-cacert", cert, "--grpc-server-with-client-auth"]
    process = subprocess.Popen(
        start,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with DiagnosticsClient(where, tls=tls_of(files)) as client:
        assert client.wait(60)
    yield where
    process.terminate()
    process.wait(60)


@pytest.fixture(scope="module")
def one_switch() -> Topology:
    return topologies.load("single")


def tls_of(files: dict[str, tuple[Path, Path]], own: str = "switch") -> ClientTls:
    return ClientTls(files["switch"][0], *files[own])


def test_a_fabric_is_brought_up_and_read_over_tls(
    address: str,
    files: dict[str, tuple[Path, Path]],
    one_switch: Topology,
    program: CompiledProgram,
) -> None:
    tls = tls_of(files)
    with BlockingController(one_switch, {"s1": address}, program, tls=tls) as controller:
        assert controller.bring_up().written["s1"] > 0
        assert any(row.table == "ipv4_route" for row in controller.read_table("s1"))
    with DiagnosticsClient(address, tls=tls) as client:
        assert client.switch_stats()["now_ps"] > 0
    reader = SwitchReader(address, DEVICE, {}, side_channel=True, tls=tls)
    try:
        sample = reader.sample()
        assert (sample.error, sample.at_ns > 0) == ("", True)
    finally:
        reader.close()


def test_the_session_comes_back_over_tls(
    address: str, files: dict[str, tuple[Path, Path]], program: CompiledProgram
) -> None:
    async def twice() -> None:
        tls = tls_of(files)
        async with SwitchSession("s1", address, DEVICE, program, tls=tls) as session:
            await session.reconnect()
            assert session.is_primary

    asyncio.run(twice())


@pytest.mark.parametrize("who", ["clear text", "stranger", "no certificate"])
def test_others_are_not_heard_and_the_error_says_what_it_may_be(
    address: str, files: dict[str, tuple[Path, Path]], program: CompiledProgram, who: str
) -> None:
    tls = {
        "clear text": None,
        "stranger": tls_of(files, "stranger"),
        "no certificate": ClientTls(files["switch"][0]),
    }[who]

    async def connect() -> None:
        async with SwitchSession("s1", address, DEVICE, program, timeout=0.5, tls=tls):
            pass

    says = "lost|nothing answers" if tls is None else "TLS and a certificate|lost"
    with pytest.raises(SwitchUnreachable, match=says):
        asyncio.run(connect())
    with DiagnosticsClient(address, timeout_s=60, tls=tls) as client:
        with pytest.raises(DiagnosticsError, match="no switch answers") as caught:
            client.switch_stats()
        assert caught.value.gone
        assert ("TLS" in str(caught.value)) is (tls is not None)


def test_files_that_can_not_be_used_are_named(
    address: str,
    files: dict[str, tuple[Path, Path]],
    program: CompiledProgram,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    junk = tmp_path / "junk.pem"
    junk.write_text("no certificate\n")
    cert, key = files["switch"]
    for tls, says in (
        (ClientTls(tmp_path / "none.pem"), "none.pem: No such file"),
        (ClientTls(junk), "junk.pem: no PEM file with a certificate"),
        (ClientTls(cert, cert, cert), "switch.pem: no PEM file with a private key"),
        (ClientTls(cert, cert), "given together"),
        (ClientTls(cert, key=key), "given together"),
    ):

        async def connect(tls: ClientTls = tls) -> None:
            await SwitchSession("s1", address, DEVICE, program, tls=tls).connect()

        with pytest.raises(ControllerError, match=says):
            asyncio.run(connect())
    assert main(["trace", address, "--tls-ca", str(junk)]) == 2
    assert "junk.pem: no PEM file" in capsys.readouterr().err


def test_a_trace_over_tls(
    address: str,
    files: dict[str, tuple[Path, Path]],
    one_switch: Topology,
    program: CompiledProgram,
) -> None:
    cert, key = map(str, files["switch"])
    options = ["--tls-ca", cert, "--tls-cert", cert, "--tls-key", key]
    weft = str(Path(sys.executable).with_name("weft"))
    command = [weft, "trace", address, "--count", "1", "--json", *options]
    tls = tls_of(files)
    with BlockingController(one_switch, {"s1": address}, program, tls=tls) as controller:
        controller.bring_up()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as trace:
            assert trace.stdout is not None
            frame = b"\xff" * 6 + bytes(6) + b"\x88\xb5" + bytes(46)
            while trace.poll() is None:
                controller.packet_out("s1", 2, frame)
                try:
                    trace.wait(0.05)
                except subprocess.TimeoutExpired:
                    continue
            lines = trace.stdout.read().splitlines()
    assert json.loads(lines[0])["event"] == "packet"


def test_the_switch_cli_over_tls(
    address: str,
    files: dict[str, tuple[Path, Path]],
    one_switch: Topology,
    program: CompiledProgram,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cert, key = map(str, files["switch"])
    asked = ["cli", "--grpc", address, "-c", "show_tables"]
    assert main(asked) == 2
    assert "one with --grpc-server-ssl wants --tls-ca FILE" in capsys.readouterr().err
    assert main([*asked, "--tls-ca", cert, "--tls-key", key]) == 2
    assert "given together" in capsys.readouterr().err
    with BlockingController(one_switch, {"s1": address}, program, tls=tls_of(files)) as controller:
        controller.bring_up()
        options = ["--tls-ca", cert, "--tls-cert", cert, "--tls-key", key]
        assert main([*asked, *options]) == 0
    assert "[implementation=None, mk=" in capsys.readouterr().out
