"""TLS for a client of a switch: whom to trust, and how to identify itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc

MAX_METADATA_BYTES = 4 << 20
USER_AGENT = "weft"
"""How our clients begin their name in each call: a switch knows that they take so much metadata."""
"""Longest metadata of an answer that is taken."""


class ClientTlsError(Exception):
    """A file of certificates or keys that can't be used; the message says which and why."""


@dataclass(frozen=True)
class ClientTls:
    """PEM files, as `--grpc-server-ssl` of the switch takes them.

    `cacert`: the authority that signed the switch's certificate; None: those that gRPC brings.
    `cert`, `key`: our own, where the switch asks for one (`--grpc-server-with-client-auth`).
    """

    cacert: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        """Return the credentials to open a channel with. Raises ClientTlsError."""
        if (self.cert is None) != (self.key is None):
            raise ClientTlsError("a certificate and its key are given together, or neither")
        return grpc.ssl_channel_credentials(
            root_certificates=_pem(self.cacert, "CERTIFICATE"),
            certificate_chain=_pem(self.cert, "CERTIFICATE"),
            private_key=_pem(self.key, "PRIVATE KEY"),
        )


def channel(address: str, tls: ClientTls | None) -> grpc.Channel:
    """Return a channel to HOST:PORT, in clear text without `tls`. Raises ClientTlsError."""
    options = [
        ("grpc.max_receive_message_length", -1),  # a large program's JSON is over 4 MiB
        # What became of each update of a batch comes as metadata: 8 KB would be some 50 updates.
        ("grpc.max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.primary_user_agent", USER_AGENT),
    ]
    if tls is None:
        return grpc.insecure_channel(address, options)
    return grpc.secure_channel(address, tls.credentials(), options)


def _pem(path: Path | None, kind: str) -> bytes | None:
    """Read a PEM file here: gRPC gives no reason for an unusable file, and the switch seems
    silent.
    """
    if path is None:
        return None
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ClientTlsError(f"{path}: {error.strerror}") from None
    if b"-----BEGIN " not in data or f"{kind}-----".encode() not in data:
        raise ClientTlsError(f"{path}: no PEM file with a {kind.lower()}")
    return data
