"""--tls-ca, --tls-cert and --tls-key (`weft.cli_arguments.add_tls`) as a client of a switch."""

from __future__ import annotations

import argparse

from observe.errors import UsageError
from softswitch.client_tls import ClientTls, ClientTlsError


def tls_of(arguments: argparse.Namespace) -> ClientTls | None:
    """What the options say; None without them. Raises UsageError for files that can't be used."""
    files = (arguments.tls_ca, arguments.tls_cert, arguments.tls_key)
    if files == (None, None, None):
        return None
    tls = ClientTls(*files)
    try:
        tls.credentials()
    except ClientTlsError as error:
        raise UsageError(f"--tls-ca, --tls-cert, --tls-key: {error}") from None
    return tls
