"""What is wrong with a request to an endpoint's daemon, as it is answered."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from hostagent.algorithms import AlgorithmError
from hostagent.pinned_maps import MapsError
from hostagent.rnic.card_records import CardError
from hostagent.rnic.endpoint_records import EndpointError
from hostagent.rnic.interface import InterfaceError


class RequestError(Exception):
    """A request is wrong; the message says what would be right."""


_REFUSALS = (RequestError, AlgorithmError, CardError, EndpointError, InterfaceError, MapsError)
REFUSED = (*_REFUSALS, TypeError, KeyError, ValueError, OverflowError)
"""What a request raises that is not as it should be."""


def refusal(error: Exception) -> dict[str, Any]:
    """Return the answer to a request that raised one of REFUSED."""
    if isinstance(error, _REFUSALS):
        return {"error": str(error)}
    return {"error": f"the request's fields are wrong: {error}"}


def own_pairs(qpns: Iterable[int], pairs: Container[int]) -> list[int]:
    """Return queue pairs' numbers, all of which are a connection's. Raises RequestError."""
    found = list(qpns)
    for qpn in found:
        if qpn not in pairs:
            raise RequestError(f"there is no queue pair {qpn} of this connection")
    return found
