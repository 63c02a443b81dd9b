"""A sender's parameters in a slowed-down run: rates divided, times multiplied."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    AnyParameters = TypeVar("AnyParameters", bound=DataclassInstance)


class ParameterError(ValueError):
    """A parameter set that is not there, or a rate that none serves; the message says which."""


def slowed(parameters: AnyParameters, scale: int) -> AnyParameters:
    """Return the same with rates (`..._bps`) and times (`..._ns`) of a run that is so slow.

    Rates are rounded to the nearest bit/s, so that small ones are not off to one side; they are at
    least one. What has neither suffix stays. Raises ParameterError.
    """
    if scale < 1:
        raise ParameterError(f"a time scale of {scale}: it has to be a positive integer")
    changed: dict[str, Any] = {}
    for name in (each.name for each in fields(parameters)):
        value = getattr(parameters, name)
        if name.endswith("_bps"):
            changed[name] = max((value + scale // 2) // scale, 1)
        elif name.endswith("_ns"):
            changed[name] = value * scale
    return replace(parameters, **changed)
