"""The shape of a sweep file: a run, what is varied, and what is looked for.

description: the best gain
run: two-flows                         a run file, the name of a shipped one, or the run itself
program: my/fabric.p4                  without it p4src/fabric.p4
vary:                                  dotted paths into the run; a number is a place in a list
  transport.overrides.gain: [0.004, 0.0625, 0.5]
  transport.overrides.rate_ai: {from: 100Mbps, to: 10Gbps, steps: 5, scale: log}
draw: {method: latin-hypercube, points: 40, seed: 1}       in the place of the whole grid
points: [{topology.link.rate: 100Gbps, until: 5ms}]        in the place of vary: a given list
seeds: [1, 2, 3]                       without it the run's own
metrics: [goodput, peak_queue]         without it all
objective: {maximise: goodput}         or {minimise: NAME}
subject_to: ["peak_queue <= 16MB"]
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from experiments.sweep_goal import Constraint, Objective
from experiments.sweep_space import Draw, Span, parse_path
from topologies.document import Document
from topologies.errors import TopologyError
from topologies.fields import Count, CountOrNone, Model
from topologies.schema import schema_problem


def _run(value: object) -> object:
    if not isinstance(value, str | dict):
        raise ValueError("a run is a file, the name of a shipped run, or the run itself")
    return value


def _choices(value: object) -> object:
    if isinstance(value, list):
        if not value:
            raise ValueError("needs at least one value")
        return value
    if isinstance(value, dict):
        return Span.of(value)
    raise ValueError("write the values as a list, or a range: {from: 1us, to: 1ms, steps: 5}")


def _unique(value: list[int]) -> list[int]:
    if len(set(value)) < len(value):
        raise ValueError("a seed stands here twice")
    return value


Dotted = Annotated[str, AfterValidator(parse_path)]
Choices = Annotated[Any, BeforeValidator(_choices)]  # a list, or a Span
Seeds = Annotated[list[CountOrNone], Field(min_length=1), AfterValidator(_unique)]


class DrawEntry(Model):
    """Points that are drawn and not all of a grid."""

    method: Literal["random", "latin-hypercube"]
    points: Count
    seed: CountOrNone = 1


class ObjectiveEntry(Model):
    """What the best point has most or least of."""

    maximise: str | None = None
    minimise: str | None = None

    @model_validator(mode="after")
    def _one(self) -> ObjectiveEntry:
        if (self.maximise is None) == (self.minimise is None):
            raise ValueError("write {maximise: NAME} or {minimise: NAME}")
        return self

    @property
    def objective(self) -> Objective:
        """The objective that this says."""
        if self.maximise is not None:
            return Objective(self.maximise, maximise=True)
        return Objective(self.minimise or "", maximise=False)


class SweepEntry(Model):
    """A sweep file."""

    run: Annotated[Any, BeforeValidator(_run)]
    description: str = ""
    program: str | None = None
    vary: dict[Dotted, Choices] = Field(default={})
    points: Annotated[list[dict[Dotted, Any]] | None, Field(min_length=1)] = None
    draw: DrawEntry | None = None
    seeds: Seeds | None = None
    metrics: Annotated[list[str] | None, Field(min_length=1)] = None
    objective: ObjectiveEntry | None = None
    subject_to: list[Annotated[str, AfterValidator(lambda text: str(Constraint.parse(text)))]] = (
        Field(default=[])
    )

    @model_validator(mode="after")
    def _one_form(self) -> SweepEntry:
        if self.points is not None and (self.vary or self.draw is not None):
            raise ValueError("'points' is the whole list: leave 'vary' and 'draw' out, or it")
        if self.draw is not None and not self.vary:
            raise ValueError("'draw' takes its points from 'vary': say there what is varied")
        if self.draw is None:
            for path, choices in self.vary.items():
                if isinstance(choices, Span) and choices.steps is None:
                    raise ValueError(f"{path}: say how many values a grid takes: steps: 5")
        return self

    @property
    def drawn(self) -> Draw | None:
        """How points are drawn; None for the whole grid."""
        if self.draw is None:
            return None
        stratified = self.draw.method == "latin-hypercube"
        return Draw(self.draw.points, self.draw.seed, stratified=stratified)


def is_sweep(document: Document) -> bool:
    """Say whether a file is a sweep and not a run."""
    return isinstance(document.data, dict) and "run" in document.data


def validate_sweep(document: Document) -> SweepEntry:
    """Check a document against the form of a sweep file.

    Raises TopologyError with every mistake, at its line.
    """
    if not isinstance(document.data, dict):
        message = "a sweep file is a mapping: start with run and vary"
        raise TopologyError([document.problem((), message)])
    try:
        return SweepEntry.model_validate(document.data)
    except ValidationError as error:
        raise TopologyError(
            [schema_problem(document, detail, SweepEntry) for detail in error.errors()]
        ) from None
