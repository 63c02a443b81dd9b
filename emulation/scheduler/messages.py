"""Jobs and their states as messages of jobs.proto, and back."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from emulation.scheduler import proto_file
from emulation.scheduler.proto_file import Method, ProtoFile
from emulation.scheduler.states import JobState, JobStates, Quality, QueuePair
from workloads.job_schema import PLACEMENTS

PROTO = Path(__file__).with_name("jobs.proto")
SERVICE = "Jobs"
NO_LIMIT = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
"""Jobs have as many queue pairs as they like."""

_JOB = ("name", "ranks", "tp", "pp", "dp", "ep", "interfaces")
_PHASE = ("over", "algorithm", "channels")


@cache
def jobs_proto() -> ProtoFile:
    """Return what jobs.proto defines."""
    return proto_file.load(PROTO)


def method(name: str) -> Method:
    """Return a call of the service."""
    return jobs_proto().services[SERVICE][name]


def message(name: str, /, **fields: Any) -> Any:
    """Return a message."""
    return jobs_proto().messages[name](**fields)


# ---------------------------------------------------------------- jobs


def job_said(job: Any) -> dict[str, Any]:
    """Return a Job message as a run file's `job:` says it; what is not said is left out."""
    said: dict[str, Any] = {key: getattr(job, key) for key in _JOB if getattr(job, key)}
    placement = list(job.placement)
    if placement:
        is_word = len(placement) == 1 and placement[0] in PLACEMENTS
        said["placement"] = placement[0] if is_word else placement
    said["phases"] = [_phase_said(each) for each in job.phases]
    return said


def _phase_said(phase: Any) -> dict[str, Any]:
    if phase.parallel:
        said: dict[str, Any] = {"parallel": [_phase_said(each) for each in phase.parallel]}
    else:
        what = {key: getattr(phase, key) for key in _PHASE if getattr(phase, key)}
        said = {phase.kind: {"bytes": f"{phase.bytes}B", **what}}
    return {**said, "background": True} if phase.background else said


# ---------------------------------------------------------------- states


def states_message(states: JobStates) -> Any:
    """Return states as a JobStates message."""
    return message(
        "JobStates", jobs=[_state_message(each) for each in states.jobs], revision=states.revision
    )


def _state_message(state: JobState) -> Any:
    quality = state.quality
    planned = (
        {}
        if quality is None
        else {
            "planned": True,
            "planned_seconds": quality.planned_s,
            "bound_seconds": quality.bound_s,
            "quality": quality.quality,
            "proof": quality.proof,
            "plan_version": quality.version,
        }
    )
    pairs = [
        message(
            "QueuePair",
            source=each.source,
            target=each.target,
            number=each.number,
            udp_port=each.udp_port,
            by_entry=each.by_entry,
            bytes=each.bytes,
        )
        for each in state.queue_pairs
    ]
    return message(
        "JobState",
        name=state.name,
        ranks=state.ranks,
        placement=state.placement,
        queue_pairs=pairs,
        planning_seconds=state.planning_s,
        writing_seconds=state.writing_s,
        updates=state.updates,
        **planned,
    )


def states_said(found: Any) -> JobStates:
    """Return the states that a JobStates message says."""
    return JobStates(tuple(_state_said(each) for each in found.jobs), found.revision)


def _state_said(said: Any) -> JobState:
    return JobState(
        said.name,
        tuple(said.placement),
        tuple(
            QueuePair(p.source, p.target, p.number, p.udp_port, p.by_entry, p.bytes)
            for p in said.queue_pairs
        ),
        Quality(
            said.planned_seconds, said.bound_seconds, said.quality, said.proof, said.plan_version
        )
        if said.planned
        else None,
        said.planning_seconds,
        said.writing_seconds,
        said.updates,
    )
