"""The Python side of an endpoint daemon's protocol (service.py has its words).

with EndpointClient.connect(path) as client:
    pairs = client.call("open", qps=2, buffer_bytes=65536)["pairs"]
    result = client.call("measure", timeout_s=60, qpns=[...], operation="write", ...)
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_CHUNK = 1 << 20
DEFAULT_TIMEOUT_S = 30.0
_RETRY_S = 0.02


class EndpointGone(Exception):
    """The daemon does not answer, or has ended."""


class RequestRefused(Exception):
    """The daemon refuses a request; the message is its reason."""


class EndpointClient:
    """A connection to one endpoint. Its queue pairs vanish when it is closed."""

    def __init__(self, connection: socket.socket, path: Path) -> None:
        self._connection = connection
        self._buffer = b""
        self.path = path

    @classmethod
    def connect(cls, path: Path, timeout_s: float = 10.0) -> EndpointClient:
        """Connect, waiting for a daemon that has just been started. Raises EndpointGone."""
        deadline = time.monotonic() + timeout_s
        while True:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(str(path))
            except OSError as error:
                connection.close()
                if time.monotonic() > deadline:
                    raise EndpointGone(f"no endpoint at {path}: {error.strerror}") from None
                time.sleep(_RETRY_S)
                continue
            return cls(connection, path)

    def __enter__(self) -> EndpointClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, and with it its queue pairs."""
        with contextlib.suppress(OSError):
            self._connection.close()

    def fileno(self) -> int:
        """Return the descriptor of the socket, to wait for."""
        return self._connection.fileno()

    def send(self, command: str, **fields: Any) -> None:
        """Send a request without waiting for its answer. Raises EndpointGone."""
        try:
            self._connection.sendall(json.dumps({"command": command, **fields}).encode() + b"\n")
        except OSError as error:
            raise EndpointGone(f"the endpoint at {self.path} is gone: {error.strerror}") from None

    def answer(self, timeout_s: float | None = DEFAULT_TIMEOUT_S) -> dict[str, Any]:
        """Wait for the next line. Raises EndpointGone, RequestRefused."""
        self._connection.settimeout(timeout_s)
        try:
            while b"\n" not in self._buffer:
                data = self._connection.recv(_CHUNK)
                if not data:
                    raise EndpointGone(f"the endpoint at {self.path} has ended")
                self._buffer += data
        except TimeoutError:
            raise EndpointGone(
                f"the endpoint at {self.path} does not answer within {timeout_s:g} s"
            ) from None
        except OSError as error:
            raise EndpointGone(f"the endpoint at {self.path} is gone: {error.strerror}") from None
        line, _, self._buffer = self._buffer.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise RequestRefused(found["error"])
        return found

    def set_source_ports(self, ports: Mapping[int, int]) -> None:
        """Let queue pairs, by number, send from other source ports on, also while they send.

        They may be another connection's: while one of this connection measures, it takes no other
        request. All move or none. Raises EndpointGone, RequestRefused.
        """
        pairs = [{"qpn": qpn, "udp_port": port} for qpn, port in ports.items()]
        self.call("set_ports", pairs=pairs)

    def call(
        self, command: str, *, timeout_s: float | None = DEFAULT_TIMEOUT_S, **fields: Any
    ) -> dict[str, Any]:
        """Send a request and wait for its answer. Raises EndpointGone, RequestRefused."""
        self.send(command, **fields)
        return self.answer(timeout_s)


def join(
    source: EndpointClient,
    target: EndpointClient,
    *,
    qps: int,
    buffer_bytes: int,
    direct: bool = False,
    at_target: Mapping[str, Any] | None = None,
    **settings: Any,
) -> tuple[list[int], list[int]]:
    """Open `qps` queue pairs at both ends and connect them; return their numbers there and here.

    `direct`: the ends are joined without a gateway between them. `settings` are those of `open`;
    `at_target`: what is different there.
    Raises EndpointGone, RequestRefused; what was opened is closed again.
    """
    opened: list[tuple[EndpointClient, list[dict[str, Any]]]] = []
    try:
        for client, own in ((source, {}), (target, at_target or {})):
            given = {**settings, **own}
            answer = client.call("open", qps=qps, buffer_bytes=buffer_bytes, **given)
            opened.append((client, answer["pairs"]))
        (_, ours), (_, theirs) = opened
        for client, pairs, others in ((source, ours, theirs), (target, theirs, ours)):
            client.call("connect", pairs=_peers(pairs, others, direct))
    except (EndpointGone, RequestRefused):
        for client, pairs in opened:
            with contextlib.suppress(EndpointGone, RequestRefused):
                client.call("close", qpns=[pair["qpn"] for pair in pairs])
        raise
    return [pair["qpn"] for pair in ours], [pair["qpn"] for pair in theirs]


def _peers(
    own: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]], direct: bool
) -> list[dict[str, Any]]:
    return [
        {
            "qpn": pair["qpn"],
            "peer_ip": other["ip"],
            "peer_qpn": other["qpn"],
            "peer_psn": other["psn"],
            "peer_rkey": other["rkey"],
            "peer_address": other["address"],
            **({"peer_mac": other["mac"]} if direct else {}),
            **({"peer_ways": _ways(other["ways"], direct)} if "ways" in other else {}),
        }
        for pair, other in zip(own, others, strict=True)
    ]


def _ways(ways: Sequence[dict[str, Any]], direct: bool) -> list[dict[str, Any]]:
    return [{"ip": way["ip"], **({"mac": way["mac"]} if direct else {})} for way in ways]
