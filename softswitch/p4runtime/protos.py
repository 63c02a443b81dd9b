"""P4Runtime's Protobuf messages, taken from finsy without importing all of finsy.

`finsy.proto` is a plain package of generated modules, but importing it runs `finsy/__init__`, which
pulls in asyncio, gNMI and the controller (0.15 s for each switch process). So the package is
loaded under a name of our own; Protobuf hands out the same classes for the same files, whoever
imports them, so messages of finsy's clients and ours mix freely.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING

PACKAGE = "softswitch.p4runtime._finsy_proto"
"""The name under which finsy's package of generated modules is loaded."""

if TYPE_CHECKING:
    from finsy.proto import p4d, p4i, p4r, p4t, rpc_code, rpc_status, stratum
else:

    def _register_package() -> None:
        spec = importlib.util.find_spec("finsy")
        if spec is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError(
                "finsy is not installed, and P4Runtime's messages come from it: pip install finsy"
            )
        package = types.ModuleType(PACKAGE)
        package.__path__ = [str(Path(spec.submodule_search_locations[0]) / "proto")]
        sys.modules[PACKAGE] = package

    _register_package()
    p4r = importlib.import_module(f"{PACKAGE}.p4.v1.p4runtime_pb2")
    p4d = importlib.import_module(f"{PACKAGE}.p4.v1.p4data_pb2")
    p4i = importlib.import_module(f"{PACKAGE}.p4.config.v1.p4info_pb2")
    p4t = importlib.import_module(f"{PACKAGE}.p4.config.v1.p4types_pb2")
    rpc_status = importlib.import_module(f"{PACKAGE}.google.rpc.status_pb2")
    stratum = importlib.import_module(f"{PACKAGE}.stratum1.p4_role_config_pb2")
    rpc_code = importlib.import_module(f"{PACKAGE}.google.rpc.code_pb2")

__all__ = ["PACKAGE", "p4d", "p4i", "p4r", "p4t", "rpc_code", "rpc_status", "stratum"]
