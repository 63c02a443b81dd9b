"""What docs/workloads.md shows is what run files take, and every run file that ships is in it."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from mechanisms.dcqcn.parameters import SETS
from mechanisms.dcqcn.settings import OverridesEntry
from mechanisms.fast_cnp.settings import FastOverridesEntry
from workloads.job_schema import (
    AllReduceEntry,
    AllToAllEntry,
    JobEntry,
    PhaseEntry,
    PipelineEntry,
    StepEntry,
)
from workloads.loader import available_runs, read_run
from workloads.schema import (
    CbrEntry,
    IncastEntry,
    MatrixEntry,
    MessageEntry,
    MixEntry,
    PermutationEntry,
    RunEntry,
    ScriptEntry,
    TraceEntry,
    TrafficEntry,
)
from workloads.transport_schema import transport_entry

TransportEntry = transport_entry()

PAGE = (Path(__file__).parents[2] / "docs" / "workloads.md").read_text(encoding="utf-8")


def block(beginning: str) -> str:
    """Return the indented block that begins with a line."""
    lines = PAGE[PAGE.index(f"    {beginning}") :].splitlines()
    end = next((i for i, line in enumerate(lines) if line and not line.startswith("    ")), None)
    return "\n".join(line[4:] for line in lines[:end])


def test_the_run_file_and_the_job_that_it_shows_are_right() -> None:
    text = block("description: ring AllReduce against")
    text = text.replace("[...]", "[{incast: {to: h1, senders: 4, bytes: 64kB}}]", 1)
    job = block("job:\n").strip()
    text = re.sub(r"\njob: .*", "", text) + "\n" + job
    run = read_run(text)
    assert len(run.jobs[0].phases) == 5
    assert run.buffer is not None and run.until_ps == 20_000_000_000


def test_every_key_is_told() -> None:
    for form in (
        RunEntry,
        CbrEntry,
        IncastEntry,
        MixEntry,
        MessageEntry,
        MatrixEntry,
        PermutationEntry,
        ScriptEntry,
        TraceEntry,
        TrafficEntry,
        JobEntry,
        PhaseEntry,
        StepEntry,
        AllReduceEntry,
        AllToAllEntry,
        PipelineEntry,
        TransportEntry,
        OverridesEntry,
        FastOverridesEntry,
    ):
        for name, field in form.model_fields.items():
            key = field.alias or name
            assert re.search(rf"\b{key}\b", PAGE), f"{form.__name__}: {key}"


def test_every_run_file_is_listed() -> None:
    listed = re.findall(r"^\| `([a-z0-9-]+)` \|", PAGE, re.MULTILINE)
    assert sorted(listed) == list(available_runs())


def test_the_transport_that_it_shows_is_right() -> None:
    shown = TransportEntry.model_validate(yaml.safe_load(block("transport:\n"))["transport"])
    assert set(TransportEntry.model_fields) == shown.model_fields_set
    plain = TransportEntry()  # what it shows are the defaults, but for those that say so
    overrides = [name for name in TransportEntry.model_fields if name.endswith("overrides")]
    changed = {name: getattr(plain, name) for name in overrides}
    changed |= {"window": None, "mtu": None, "ack_class": None, "reorder": None}
    changed |= {"path_choice": None, "failover": None, "link_delay": None}
    assert shown.model_copy(update=changed) == plain


def test_every_parameter_set_is_named() -> None:
    for name in SETS:
        assert f"{name}" in block("transport:\n")


def test_the_examples_are_yaml() -> None:
    assert yaml.safe_load(block("job:\n"))["job"]["ranks"] == 16
