"""Runs a P4Runtime controller of others' making whose switches are elsewhere than it thinks.

    PYTHON relay.py CONTROLLER.py            with WEFT_SWITCHES in the environment

WEFT_SWITCHES is JSON: by the address that the controller connects to, the address, device id and
election id that it is to use. It needs nothing of this repository: only what the controller needs.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from typing import Any

import grpc

SWITCHES: dict[str, tuple[str, int, int]] = json.loads(os.environ["WEFT_SWITCHES"])
_connect = grpc.insecure_channel


class _Signed(
    grpc.UnaryUnaryClientInterceptor,  # type: ignore[misc]
    grpc.UnaryStreamClientInterceptor,  # type: ignore[misc]
    grpc.StreamStreamClientInterceptor,  # type: ignore[misc]
):
    """Puts the right device and election id into every request."""

    def __init__(self, device_id: int, election_id: int) -> None:
        self._device_id, self._election_id = device_id, election_id

    def _sign(self, message: Any) -> Any:
        fields = message.DESCRIPTOR.fields_by_name
        if "device_id" in fields:
            message.device_id = self._device_id
        if "election_id" in fields:
            message.election_id.low = self._election_id
        return message

    def _sign_stream(self, message: Any) -> Any:
        if message.HasField("arbitration"):
            self._sign(message.arbitration)
        return message

    def intercept_unary_unary(self, call: Any, details: Any, request: Any) -> Any:
        return call(details, self._sign(request))

    def intercept_unary_stream(self, call: Any, details: Any, request: Any) -> Any:
        return call(details, self._sign(request))

    def intercept_stream_stream(self, call: Any, details: Any, requests: Any) -> Any:
        return call(details, map(self._sign_stream, requests))


def connect(address: str, *arguments: Any, **named: Any) -> Any:
    """Stand for grpc.insecure_channel."""
    where, device_id, election_id = SWITCHES[address]
    channel = _connect(where, *arguments, **named)
    return grpc.intercept_channel(channel, _Signed(device_id, election_id))


if __name__ == "__main__":
    grpc.insecure_channel = connect
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
