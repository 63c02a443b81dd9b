"""--tls-ca, --tls-cert and --tls-key (`weft.command_line.tls_files`) as a client of a switch."""

from __future__ import annotations

from pathlib import Path

from observe.errors import UsageError
from softswitch.client_tls import ClientTls, ClientTlsError


def tls_of(ca: Path | None, cert: Path | None, key: Path | None) -> ClientTls | None:
    """Return the options' TLS settings; None without them. Raises UsageError for unusable files."""
    if ca is None and cert is None and key is None:
        return None
    tls = ClientTls(ca, cert, key)
    try:
        tls.credentials()
    except ClientTlsError as error:
        raise UsageError(f"--tls-ca, --tls-cert, --tls-key: {error}") from None
    return tls
