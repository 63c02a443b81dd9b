"""The labs: one folder each, with its text, its variants and its checks; what runs them is here.

A lab composes what the packages below offer and says what a learner should see.
Only `weft` imports what is here, and no lab brings its own switch or controller.
"""

from labs.api import (
    Check,
    Context,
    Figure,
    Finished,
    Measured,
    Program,
    Run,
    Runtime,
    Table,
    Variant,
    Verdict,
)
from labs.errors import LabError, NotRunError, RuntimeMissingError
from labs.statistics import Estimate

__all__ = [
    "Check",
    "Context",
    "Estimate",
    "Figure",
    "Finished",
    "LabError",
    "Measured",
    "NotRunError",
    "Program",
    "Run",
    "Runtime",
    "RuntimeMissingError",
    "Table",
    "Variant",
    "Verdict",
]
