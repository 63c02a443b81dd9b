"""What is wrong with jobs that do not fit their fabric."""

from __future__ import annotations

from controller.errors import ControllerError
from mechanisms.allreduce.settings import KEY
from topologies.errors import FieldPath


class PlanError(ControllerError):
    """Jobs that do not fit their fabric. `path`: the setting that is wrong; `right`: the remedy."""

    def __init__(self, path: FieldPath, subject: str, message: str, right: str) -> None:
        super().__init__(f"{KEY}: {subject}: {message}; {right}")
        self.path, self.subject, self.message, self.right = path, subject, message, right
