"""A scheduler's client in Python.

from emulation.scheduler.client import JobsClient

with JobsClient("127.0.0.1:9540") as jobs:
    (state,) = jobs.submit({"name": "llm", "ranks": 8, "dp": 8, "phases": [
        {"allreduce": {"bytes": "64MB", "over": "dp"}}]})
    for pair in state.queue_pairs:
        print(pair.source, pair.target, pair.number, pair.udp_port)
    jobs.end("llm")
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import grpc

from emulation.errors import EmulationError
from emulation.scheduler.messages import NO_LIMIT, message, method, states_said
from emulation.scheduler.states import JobState, JobStates
from workloads.job_files import by_itself, names_files, read_job_file

DEFAULT_ADDRESS = "127.0.0.1:9540"
CALL_S = 60.0


class JobsError(EmulationError):
    """A call that was refused or not answered; `code` is gRPC's name for why."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class JobsClient:
    """Talks to the Jobs service of a run. Every call raises JobsError."""

    def __init__(self, address: str = DEFAULT_ADDRESS, timeout_s: float = CALL_S) -> None:
        """`address`: host:port, as `weft job list` shows it. Nothing is asked yet."""
        self._address = address
        self._timeout_s = timeout_s
        self._channel = grpc.insecure_channel(address, options=NO_LIMIT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; jobs go on."""
        self._channel.close()

    def submit(
        self, job: Mapping[str, Any] | Path | str, *, name: str = ""
    ) -> tuple[JobState, ...]:
        """Start a job, or several of one file; return what was planned for each.

        `job`: a run file's `job:` as a mapping, a job file's path, or its text. `name`: of the only
        job. Raises TopologyError for a file that can't be read.
        """
        if isinstance(job, Path):
            document = read_job_file(job)
            text = job.read_text(encoding="utf-8")
            if names_files(document):
                text = by_itself(document, job.parent)
        else:
            text = job if isinstance(job, str) else json.dumps({"job": dict(job)})
        file = str(job) if isinstance(job, Path) else ""
        return self._once("Submit", message("SubmitRequest", name=name, yaml=text, file=file)).jobs

    def submit_message(self, job: Any, *, name: str = "") -> tuple[JobState, ...]:
        """Start a job that is given as a Job message."""
        return self._once("Submit", message("SubmitRequest", name=name, job=job)).jobs

    def end(self, *names: str) -> JobStates:
        """End jobs; return those that are left."""
        return self._once("End", message("EndRequest", names=names))

    def jobs(self) -> JobStates:
        """Return the jobs that run."""
        return next(self._stream(follow=False, timeout_s=self._timeout_s))

    def follow(self) -> Iterator[JobStates]:
        """Yield the jobs that run, and again after each change, until the run ends."""
        return self._stream(follow=True, timeout_s=None)

    def _once(self, name: str, request: Any) -> JobStates:
        known = method(name)
        call = self._channel.unary_unary(
            known.path,
            request_serializer=known.request.SerializeToString,
            response_deserializer=known.answer.FromString,
        )
        try:
            return states_said(call(request, timeout=self._timeout_s))
        except grpc.RpcError as error:
            raise self._error(error) from None

    def _stream(self, *, follow: bool, timeout_s: float | None) -> Iterator[JobStates]:
        known = method("List")
        call = self._channel.unary_stream(
            known.path,
            request_serializer=known.request.SerializeToString,
            response_deserializer=known.answer.FromString,
        )
        answers = call(message("ListRequest", follow=follow), timeout=timeout_s)
        try:
            for each in answers:
                yield states_said(each)
        except grpc.RpcError as error:
            raise self._error(error) from None
        finally:
            answers.cancel()

    def _error(self, error: Any) -> JobsError:
        code = error.code().name
        if code in ("UNAVAILABLE", "DEADLINE_EXCEEDED") and "controller" not in error.details():
            text = f"{self._address}: no answer ({error.details()})"
            return JobsError(f"{text}; weft job list shows where a run takes jobs", code)
        return JobsError(error.details(), code)
