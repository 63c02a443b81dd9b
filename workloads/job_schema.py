"""A job of a run file: its ranks, how it is split, where it runs and what it does in turn.

job:
  ranks: 16
  tp: 2                                tensor, pipeline, data and expert parallel sizes;
  pp: 2                                tp x pp x dp = ranks, and ep divides dp
  dp: 4
  placement: stride                    linear, stride, random, or a list of hosts
  iterations: 2
  phases:
    - compute: 100us
    - allreduce: {bytes: 64MB, over: dp, algorithm: ring}
    - pipeline: {bytes: 4MB, microbatches: 8, forward: 50us, backward: 100us}
    - parallel: [{alltoall: {...}}, {allgather: {...}}]
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from topologies.errors import did_you_mean
from topologies.fields import Count, CountOrNone, Dscp, Model, Moment, Queue, Rate, Size, Volume
from topologies.units import parse_share

_FRACTION = re.compile(r"1/([0-9]+)")

PLACEMENTS = ("linear", "stride", "random")

Over = Literal["all", "tp", "pp", "dp", "ep", "dp_ep"]


def _one_in(value: object) -> object:
    match = _FRACTION.fullmatch(str(value).replace(" ", ""))
    if match is None or match.group(1) == "0":
        raise ValueError(f"{value!r} is not such a fraction: write 1/8 for one rank in eight")
    return int(match.group(1))


def _placement(value: object) -> object:
    if isinstance(value, str) and value not in PLACEMENTS:
        hint = did_you_mean(value, PLACEMENTS)
        known = ", ".join(PLACEMENTS)
        raise ValueError(f"no placement {value!r}{hint or f'; available: {known}'}, or list hosts")
    if isinstance(value, list) and not all(isinstance(host, str) for host in value):
        raise ValueError("a placement lists hosts by name: [h1, h3]")
    if not isinstance(value, str | list) or not value:
        raise ValueError(f"a placement is {', '.join(PLACEMENTS)}, or a list of hosts")
    return value


class CollectiveEntry(Model):
    """What every collective takes. `bytes` is of the buffer of one rank (see docs/workloads.md)."""

    bytes: Volume
    over: Over = "all"
    channels: Annotated[Count, Field(le=64)] = 1
    repeat: Count = 1
    compute: Moment = 0  # before each repetition


class AllReduceEntry(CollectiveEntry):
    """Every rank ends with the sum of all ranks' `bytes`.

    `inside`: of `hierarchical`, how many consecutive ranks of a group are in one place.
    """

    algorithm: Literal["ring", "tree", "hierarchical", "in-network"] = "ring"
    chunk: Volume | None = None  # of the tree's pipeline
    inside: Annotated[Count | None, Field(ge=2)] = None

    @model_validator(mode="after")
    def _inside(self) -> AllReduceEntry:
        if (self.inside is None) is (self.algorithm == "hierarchical"):
            raise ValueError("'inside' goes with algorithm hierarchical: ranks in one place")
        return self


class AllGatherEntry(CollectiveEntry):
    """Every rank ends with all ranks' shares, `bytes` together."""

    algorithm: Literal["ring", "in-network"] = "ring"


class BroadcastEntry(CollectiveEntry):
    """Every rank ends with the root's `bytes`. `chunk`: what a rank passes on at a time."""

    root: CountOrNone = 0
    algorithm: Literal["ring", "tree", "in-network"] = "ring"
    chunk: Volume | None = None


class AllToAllEntry(CollectiveEntry):
    """Every rank sends `bytes` in all, the same to each peer; `fraction: 1/8`: to one in eight."""

    fraction: Annotated[int, BeforeValidator(_one_in)] = 1
    window: Count | None = None


class RootedEntry(CollectiveEntry):
    """Every other rank sends `bytes` to the root."""

    root: CountOrNone = 0


class PipelineEntry(Model):
    """Microbatches through the stages of each pipeline group, and their gradients back."""

    bytes: Volume
    microbatches: Count
    forward: Moment
    backward: Moment
    schedule: Literal["1f1b", "gpipe"] = "1f1b"
    over: Over = "pp"
    channels: Annotated[Count, Field(le=64)] = 1
    repeat: Count = 1


class StepEntry(Model):
    """One thing that ranks do: one of its kinds."""

    name: str | None = None
    compute: Moment | None = None
    allreduce: AllReduceEntry | None = None
    allgather: AllGatherEntry | None = None
    broadcast: BroadcastEntry | None = None
    reducescatter: CollectiveEntry | None = None
    alltoall: AllToAllEntry | None = None
    incast: RootedEntry | None = None
    pipeline: PipelineEntry | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> StepEntry:
        if len(self.kinds()) != 1:
            raise ValueError(f"one kind a phase: {', '.join(self._known())}")
        if getattr(self, self.kind) is None:
            raise ValueError(f"{self.kind}: is empty: say what, as in docs/workloads.md")
        return self

    @classmethod
    def _known(cls) -> list[str]:
        return [name for name in cls.model_fields if name not in ("name", "background")]

    def kinds(self) -> list[str]:
        """Return the kinds that are given."""
        return [name for name in self._known() if name in self.model_fields_set]

    @property
    def kind(self) -> str:
        """The kind that is given."""
        return self.kinds()[0]

    @property
    def label(self) -> str:
        """How the step is called: its name, or its kind."""
        return self.name or self.kind


class PhaseEntry(StepEntry):
    """One phase: a step, or several that a rank does at the same time.

    With `background: true` the next phase does not wait for it; the end of the iteration does.
    """

    parallel: Annotated[list[StepEntry] | None, Field(min_length=1)] = None
    background: bool = False

    @model_validator(mode="after")
    def _background(self) -> PhaseEntry:
        if self.background and self.compute is not None:
            raise ValueError("computing is never in the background: a rank does it itself")
        return self


class JobEntry(Model):
    """A job. `interfaces: all` puts a rank on every NIC of a host, else only the first.

    `jitter`, in 1/2^32: by how much of it a rank's computing takes longer, at most.
    """

    name: str | None = None
    ranks: Annotated[Count, Field(ge=2)]
    placement: Annotated[Any, BeforeValidator(_placement)] = "linear"
    stride: Count | None = None
    interfaces: Literal["first", "all"] = "first"
    tp: Count | None = None
    pp: Count | None = None
    dp: Count | None = None
    ep: Count | None = None
    start: Moment = 0
    jitter: Annotated[int, BeforeValidator(parse_share)] = 0
    iterations: Count = 1
    dscp: Dscp = 26
    queue: Queue | None = None
    payload: Annotated[Size | None, Field(ge=1, le=4096)] = None
    rate: Rate | None = None
    phases: Annotated[list[PhaseEntry], Field(min_length=1)]
