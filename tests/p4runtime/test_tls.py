"""P4Runtime over TLS: certificates from openssl's command line, clients that were not written here.

finsy, grpc --TLS--> P4RuntimeServer(tls=Tls(cert, key, cacert, client_auth))
"""

from __future__ import annotations

import asyncio
import importlib
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import finsy
import grpc
import pytest

from softswitch.options import Tls
from softswitch.p4runtime import protos
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.server import P4RuntimeServer, ServerError

if TYPE_CHECKING:
    from conftest import Running

pytestmark = pytest.mark.reference("openssl")

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
TIMEOUT_S = 60.0

p4r_grpc: Any = importlib.import_module(f"{protos.PACKAGE}.p4.v1.p4runtime_pb2_grpc")


@dataclass(frozen=True)
class Pki:
    """An authority, and what it signed for the server and for a client."""

    ca: Path
    server: tuple[Path, Path]
    client: tuple[Path, Path]
    stranger: tuple[Path, Path]
    """A client's, signed by itself."""


def openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    folder = tmp_path_factory.mktemp("pki")
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")

    def self_signed(name: str) -> tuple[Path, Path]:
        cert, key = folder / f"{name}.pem", folder / f"{name}.key"
        subject = f"/CN={name}"
        openssl("req", "-x509", *new_key, "-subj", subject, "-keyout", key, "-out", cert)
        return cert, key

    ca, ca_key = self_signed("authority")

    def signed(name: str) -> tuple[Path, Path]:
        cert, key, request = (folder / f"{name}.{end}" for end in ("pem", "key", "csr"))
        extra = folder / f"{name}.ext"
        extra.write_text("subjectAltName=IP:127.0.0.1\n")
        openssl("req", *new_key, "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        sign = ("x509", "-req", "-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-extfile", extra)
        openssl(*sign, "-in", request, "-out", cert)
        return cert, key

    return Pki(ca, signed("switch"), signed("controller"), self_signed("stranger"))


@contextmanager
def serving(running: Running, tls: Tls) -> Iterator[str]:
    server = P4RuntimeServer(running.service, "127.0.0.1:0", tls=tls)
    server.start()
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        server.stop(0)


def ask(address: str, credentials: grpc.ChannelCredentials | None) -> str:
    """Return the API's version, by a call without finsy."""
    channel = (
        grpc.insecure_channel(address)
        if credentials is None
        else grpc.secure_channel(address, credentials)
    )
    with channel:
        stub = p4r_grpc.P4RuntimeStub(channel)
        answer = stub.Capabilities(p4r.CapabilitiesRequest(), timeout=TIMEOUT_S)
    return str(answer.p4runtime_api_version)


def credentials(pki: Pki, own: tuple[Path, Path] | None = None) -> grpc.ChannelCredentials:
    cert, key = (None, None) if own is None else (own[0].read_bytes(), own[1].read_bytes())
    return grpc.ssl_channel_credentials(pki.ca.read_bytes(), key, cert)


def refused(call: Callable[[], object]) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        call()
    assert failure.value.code() is grpc.StatusCode.UNAVAILABLE


def test_only_those_who_speak_tls_are_heard(running: Running, pki: Pki) -> None:
    with serving(running, Tls(*pki.server)) as address:
        assert ask(address, credentials(pki)).startswith("1.")
        refused(lambda: ask(address, None))
    with serving(running, Tls(*pki.stranger)) as address:
        refused(lambda: ask(address, credentials(pki)))  # the client knows another authority


def test_clients_need_a_certificate_of_the_authority(running: Running, pki: Pki) -> None:
    with serving(running, Tls(*pki.server, pki.ca, client_auth=True)) as address:
        assert ask(address, credentials(pki, pki.client)).startswith("1.")
        refused(lambda: ask(address, credentials(pki)))
        refused(lambda: ask(address, credentials(pki, pki.stranger)))


def test_finsy_controls_the_switch_over_tls(running: Running, pki: Pki) -> None:
    async def controller(address: str) -> None:
        options = finsy.SwitchOptions(
            p4info=GOLDEN / "l3.p4info.txtpb",
            p4blob=GOLDEN / "l3.json",
            device_id=3,
            fail_fast=True,
            channel_credentials=finsy.GRPCCredentialsTLS(
                cacert=pki.ca, cert=pki.client[0], private_key=pki.client[1]
            ),
        )
        async with finsy.Switch("s1", address, options) as switch:
            entry = finsy.P4TableEntry(
                "I.route",
                match=finsy.P4TableMatch({"h.ip.dst": "10.0.0.0/8"}),
                action=finsy.P4TableAction("I.fwd", mac=2, port=2),
            )
            await switch.insert([entry])
            assert len([e async for e in switch.read([finsy.P4TableEntry("I.route")])]) == 1

    with serving(running, Tls(*pki.server, pki.ca, client_auth=True)) as address:
        asyncio.run(asyncio.wait_for(controller(address), TIMEOUT_S))


def test_files_that_can_not_be_used_are_named(running: Running, pki: Pki, tmp_path: Path) -> None:
    junk = tmp_path / "junk.pem"
    junk.write_text("no certificate\n")
    cert, key = pki.server
    for tls, says in (
        (Tls(tmp_path / "none.pem", key), "none.pem: No such file"),
        (Tls(junk, key), "junk.pem with key .* can't be used"),
        (Tls(cert, pki.client[1]), "can't be used: KEY_VALUES_MISMATCH"),
        (Tls(cert, key, junk), "junk.pem can't be used"),
    ):
        with pytest.raises(ServerError, match=says):
            P4RuntimeServer(running.service, "127.0.0.1:0", tls=tls)
