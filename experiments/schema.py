"""The shape of lab.yaml: what a lab is called, what it runs in which variants, and where.

title: Two ways to slow down
teaches: why an early signal beats a late one
minutes: 4                             or {simulator: 4, softswitch: 6}
runtimes: [simulator, softswitch]
needs: {torch: make setup-torch}       Python modules beside set-up's, and what installs each
program: p4src/fabric.p4               of the lab's folder, or of the repository; {s2: own.p4}
entries: entries                       what switches with a program of one's own hold
seeds: [1, 2, 3]
settings: {relief: 20ms}               the lab's own, handed to its hooks
live: {seeds: [1, 2, 3, 4, 5], time_scale: 10000, beside: simulator, only: [{length: 10km}],
       set: {until: 40ms}}
simulator: {without: [{length: 10km}]}
base: {topology: ..., traffic: ...}    a run file (docs/workloads.md)
variants:                              each: the base with its own overrides merged in
  slow: {title: by hand, quick: true, labels: {control: slow}, runtimes: [simulator],
         set: {transport.overrides.gain: 0.1}, program: lb.p4, entries: {s1: s1-commands.txt}}
axes:                                  or the product of choices, each with its overrides
  length: {10km: {topology.links.2.length: 10km}, 100km: {}}
  control: {own: {}, other: {transport: {congestion_control: other}}}
without: [{length: 100km, control: own}]     not these of the product
quick: [{length: 10km}]                        what --quick runs
full: [{length: 100km}]                        what --full alone runs
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from experiments.api import Runtime
from topologies.document import Document
from topologies.errors import TopologyError
from topologies.fields import CountOrNone, Model, TimeScale
from topologies.schema import schema_problem

PROGRAM = "p4src/fabric.p4"
LIVE_TIME_SCALE = 10_000
MOST_VARIANTS = 1000

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


def check_name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(
            f"{value!r} is not a name: letters, digits, '-', '_' and '.', a letter or digit first"
        )
    return value


def _word(value: object) -> object:
    """Return a label as text: YAML reads 4 as a number."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _words(value: object) -> object:
    return [_word(each) for each in value] if isinstance(value, list) else [_word(value)]


def _runtime(value: object) -> object:
    if value not in list(Runtime):
        raise ValueError(f"{value!r} is not a runtime; available: {', '.join(Runtime)}")
    return Runtime(str(value))


def _minutes(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return dict.fromkeys(Runtime, float(value))
    return value


def _overrides(value: object) -> object:
    return {} if value is None else value


def _inside(value: str) -> str:
    path = PurePath(value)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{value!r} must be a path in the lab's folder or in the repository")
    return value


def _files(value: object) -> object:
    if isinstance(value, dict):
        return {name: _inside(file) if isinstance(file, str) else file
                for name, file in value.items()}  # fmt: skip
    return _inside(value) if isinstance(value, str) else value


def _different(values: list[Any]) -> list[Any]:
    if len(set(values)) < len(values):
        raise ValueError("each only once")
    return values


LabName = Annotated[str, AfterValidator(check_name)]
Label = Annotated[str, BeforeValidator(_word)]
AnyRuntime = Annotated[Runtime, BeforeValidator(_runtime)]
Runtimes = Annotated[list[AnyRuntime], Field(min_length=1), AfterValidator(_different)]
Seeds = Annotated[list[CountOrNone], Field(min_length=1), AfterValidator(_different)]
Overrides = Annotated[dict[str, Any], BeforeValidator(_overrides)]
Selection = dict[str, Annotated[list[Label], BeforeValidator(_words)]]
Files = Annotated[str | dict[str, str], BeforeValidator(_files)]
Minutes = Annotated[
    dict[AnyRuntime, Annotated[float, Field(ge=0)]], BeforeValidator(_minutes)
]  # fmt: skip


class RuntimeEntry(Model):
    """What holds for one kind of runtime: which variants, and what is laid over the base there."""

    only: list[Selection] = Field(default=[])
    without: list[Selection] = Field(default=[])
    set: Overrides = Field(default={})


class LiveEntry(RuntimeEntry):
    """Of softswitch and bmv2. `beside`: each variant runs in the simulator, too, as slowly."""

    seeds: Seeds | None = None
    time_scale: TimeScale = LIVE_TIME_SCALE
    beside: Literal["simulator"] | None = None


class VariantEntry(Model):
    """One variant: the base with `set` merged in.

    `program`, `entries`, `seeds`: in the place of the lab's. `full`: it takes long, and runs where
    it is asked for.
    """

    title: str = ""
    quick: bool = False
    full: bool = False
    seeds: Seeds | None = None
    labels: dict[str, Label] = Field(default={})
    runtimes: Runtimes | None = None
    program: Files | None = None
    entries: Files | None = None
    set: Overrides = Field(default={})


class LabEntry(Model):
    """A lab.yaml; the variants' run files are checked one by one."""

    title: Annotated[str, Field(min_length=1)]
    teaches: str = ""
    minutes: Minutes = Field(default={})
    runtimes: Runtimes
    needs: dict[str, str] = Field(default={})
    program: Files = PROGRAM
    entries: Files | None = None
    seeds: Seeds = Field(default=[1])
    settings: dict[str, Any] = Field(default={})
    live: LiveEntry = LiveEntry()
    simulator: RuntimeEntry = RuntimeEntry()
    base: dict[str, Any] = Field(default={})
    variants: dict[LabName, Annotated[VariantEntry, BeforeValidator(_overrides)]] = Field(
        default={}
    )
    axes: dict[LabName, Annotated[dict[LabName, Overrides], Field(min_length=1)]] = Field(
        default={}
    )
    without: list[Selection] = Field(default=[])
    quick: list[Selection] = Field(default=[])
    full: list[Selection] = Field(default=[])

    @model_validator(mode="after")
    def _makes_sense(self) -> LabEntry:
        if not self.variants and not self.axes:
            raise ValueError("say what runs: variants: {NAME: {set: ...}}, or axes")
        count = 1
        for choices in self.axes.values():
            count *= len(choices)
        if count > MOST_VARIANTS:
            raise ValueError(f"the axes have {count} variants; at most {MOST_VARIANTS}")
        return self

    def on(self, runtime: Runtime) -> RuntimeEntry:
        """Return the settings for a runtime."""
        return self.live if runtime.is_live else self.simulator


def validate_lab(document: Document) -> LabEntry:
    """Check a document against the form of a lab.yaml. Raises TopologyError with every mistake."""
    if not isinstance(document.data, dict):
        message = "a lab.yaml is a mapping: start with title, runtimes, base and variants"
        raise TopologyError([document.problem((), message)])
    try:
        return LabEntry.model_validate(document.data)
    except ValidationError as error:
        # Pydantic says "[key]" where a name is wrong, not what it names: not a part of the file.
        found = [
            {**detail, "loc": tuple(part for part in detail["loc"] if part != "[key]")}
            for detail in error.errors()
        ]
        raise TopologyError([schema_problem(document, each, LabEntry) for each in found]) from None
