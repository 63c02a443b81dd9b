"""Runs a P4Runtime controller of others' making whose switches are at other ports than it thinks.

    PYTHON relay.py CONTROLLER.py            with WEFT_SWITCHES in the environment

WEFT_SWITCHES is JSON: by the address that the controller connects to, the address that there is.
What it says to them is its own. Nothing of this repository is needed here.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from typing import Any

import grpc

SWITCHES: dict[str, str] = json.loads(os.environ["WEFT_SWITCHES"])
_connect = grpc.insecure_channel


def connect(address: str, *arguments: Any, **named: Any) -> Any:
    """Stand for grpc.insecure_channel."""
    return _connect(SWITCHES[address], *arguments, **named)


if __name__ == "__main__":
    grpc.insecure_channel = connect
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
