"""Switches of any target, as the controller's tests have them."""

from __future__ import annotations

from tests.controller.conftest import (
    program,
    softswitches,
    switches,
    topology,
    wait_for,
)

__all__ = ["program", "softswitches", "switches", "topology", "wait_for"]
