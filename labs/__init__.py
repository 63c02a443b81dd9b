"""The labs: one folder each, with its text, its variants and its checks.

What a lab's checks.py may use is offered here under the names that docs/labs.md gives; what runs,
sweeps and grades labs is `experiments`. No lab brings its own switch or controller.
"""

from controller.program import CompiledProgram as Program
from experiments.api import (
    Check,
    Context,
    Figure,
    Finished,
    Measured,
    Run,
    Runtime,
    Table,
    Variant,
    Verdict,
)
from experiments.errors import LabError, NotRunError, RuntimeMissingError
from experiments.statistics import Estimate

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
