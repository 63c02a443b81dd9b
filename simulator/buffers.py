"""Shared buffers and PFC of simulated switches, from a run file's settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simulator.fabric import Fabric
from softswitch.core import SwitchCore
from topologies.workload_model import BufferSettings


def apply_buffer(fabric: Fabric, settings: BufferSettings) -> None:
    """Give every switch a shared buffer, and its ports headroom."""
    raise NotImplementedError


def buffer_end(core: SwitchCore, ports: Sequence[int]) -> dict[str, Any]:
    """What results tell of a switch's buffer and pauses: members of SwitchEnd."""
    del core, ports
    return {}
