"""What a run file's `path_choice` and `queue_pairs` ask of the rest of its transport."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from hostagent.rnic.path_kinds import DEFAULT_PAUSE_NS, PathKind
from workloads.transport_schema import (
    DEFAULT_OUTSTANDING,
    DEFAULT_PIECE,
    PS_PER_NS,
    PathChoice,
    TransportFields,
)


class PathSettings(TypedDict):
    """The fields of a queue pair that say how it chooses (rnic.h)."""

    path_kind: PathKind
    path_idle_rounds: int
    path_rounds: int
    path_pause_ns: int


def path_settings(choice: PathChoice | None, time_scale: int = 1) -> PathSettings:
    """Return a choice as the card has it, slowed down by `time_scale`."""
    kind = PathKind.NONE if choice is None else PathKind[choice.kind.upper()]
    pause = DEFAULT_PAUSE_NS.get(kind, 0)
    if choice is not None and choice.pause is not None:
        pause = choice.pause // PS_PER_NS
    return {
        "path_kind": kind,
        "path_idle_rounds": 0 if choice is None else choice.idle_rounds or 0,
        "path_rounds": 0 if choice is None else choice.rounds or 0,
        "path_pause_ns": pause * time_scale,
    }


def path_request(choice: PathChoice | None, time_scale: int = 1) -> dict[str, Any] | None:
    """Return a choice as an endpoint's `open` takes it, slowed down by `time_scale`."""
    if choice is None:
        return None
    settings = path_settings(choice, time_scale)
    return {
        "kind": choice.kind,
        "idle_rounds": settings["path_idle_rounds"],
        "rounds": settings["path_rounds"],
        "pause_ns": settings["path_pause_ns"],
    }


def path_words(choice: PathChoice | None, time_scale: int = 1) -> dict[str, Any]:
    """Return what summaries say of a choice, as it ran; nothing without one."""
    request = path_request(choice, time_scale)
    return {} if request is None else {"path_choice": {k: v for k, v in request.items() if v}}


def stripes(sizes: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """Return the sizes of `count` stripes of each message, one message's behind the other's.

    They differ by a byte at most.
    """
    whole, rest = np.divmod(sizes[:, None], count)
    striped: npt.NDArray[np.int64] = (whole + (np.arange(count) < rest)).ravel()
    return striped


def choice_problems(
    transport: TransportFields, operations: Collection[str], has_graphs: bool
) -> Iterator[tuple[str, str]]:
    """Yield the key and what is wrong with it, for what makes no sense together.

    `has_graphs`: there are jobs or traces, whose messages wait for each other one by one.
    """
    if transport.equal_stripes > 1 and has_graphs:
        yield (
            "queue_pairs",
            "messages of jobs and traces are striped as queue pairs drain: striping: as-drained; "
            "or a job's collectives have 'channels', a queue pair each",
        )
    if transport.striping == "equal":
        for key, default in (("piece", DEFAULT_PIECE), ("outstanding", DEFAULT_OUTSTANDING)):
            if getattr(transport, key) != default:
                yield key, "it is for messages that are dealt out: write striping: as-drained"
    if transport.queue_pairs > 1 and transport.interfaces == "all":
        yield "queue_pairs", "a queue pair of all interfaces is spread already: interfaces: one"
    choice = transport.path_choice
    if choice is None:
        return
    for key, kinds in (("rounds", ("plb",)), ("idle_rounds", ("plb",)), ("pause", ("plb", "reps"))):
        if getattr(choice, key) is not None and choice.kind not in kinds:
            yield "path_choice", f"{key!r} is for {' and '.join(kinds)}, not for {choice.kind}"
    if transport.udp_ports > 1:
        yield "udp_ports", "'path_choice' has 'paths' of its own: leave 'udp_ports' out"
    if choice.kind == "single":
        return
    if transport.retransmission == "go-back-n":
        yield (
            "path_choice",
            f"{choice.kind} needs what came by other paths to be kept, and go-back-n keeps nothing "
            "that comes early: write retransmission: selective-repeat",
        )
    elif choice.reorders and transport.reorder is None:
        yield (
            "path_choice",
            f"{choice.kind} lets packets overtake each other, and without 'reorder' each of these "
            "counts as a loss: give 'reorder: 200us', more than a full queue lasts",
        )
    if "read" in operations:
        yield (
            "path_choice",
            "a READ's data comes from the far end, which has nothing to choose by: its responses "
            "are not acknowledged; use write or send",
        )
    if transport.interfaces == "all":
        yield "path_choice", "it chooses among the paths of one interface: interfaces: one"
