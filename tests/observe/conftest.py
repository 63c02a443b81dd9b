"""Switches of any target, as the controller's tests have them."""

from tests.controller.conftest import (
    fabric,
    program,
    softswitches,
    switches,
    topology,
    wait_for,
)

__all__ = ["fabric", "program", "softswitches", "switches", "topology", "wait_for"]
