"""What a user of the command line can get wrong beyond the syntax of arguments."""

from __future__ import annotations


class UsageError(Exception):
    """Arguments that fit the syntax and can't be used. The command ends with exit code 2."""
