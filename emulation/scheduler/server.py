"""The gRPC server of jobs.proto, in the process of a run's controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from controller.errors import ControllerError
from emulation.errors import EmulationError
from emulation.scheduler.messages import (
    NO_LIMIT,
    SERVICE,
    job_said,
    jobs_proto,
    method,
    states_message,
)
from emulation.scheduler.scheduler import NobodyPlansError, NoSuchJobError, Scheduler
from emulation.scheduler.states import JobStates
from topologies.document import Document, parse_document
from topologies.errors import TopologyError
from workloads.job_files import NameTakenError, names_files, said_job

FIRST_PORT = 9540
PORTS = 16
_THREADS = 16  # a follower has one of them
_PATIENCE_S = 2.0

_CODES: tuple[tuple[type[Exception], Any], ...] = (
    (NameTakenError, grpc.StatusCode.ALREADY_EXISTS),
    (TopologyError, grpc.StatusCode.INVALID_ARGUMENT),
    (NoSuchJobError, grpc.StatusCode.NOT_FOUND),
    (NobodyPlansError, grpc.StatusCode.FAILED_PRECONDITION),
    (ControllerError, grpc.StatusCode.UNAVAILABLE),
)


class JobsServer:
    """Serves a scheduler's calls on 127.0.0.1 until `close`. `address`: host:port."""

    def __init__(self, scheduler: Scheduler) -> None:
        """Start the server. Raises EmulationError where no port from FIRST_PORT on is free."""
        self._scheduler = scheduler
        options = (*NO_LIMIT, ("grpc.so_reuseport", 0))
        self._server = grpc.server(ThreadPoolExecutor(_THREADS), options=options)
        calls = {"Submit": self._submit, "End": self._end, "List": self._list}
        handlers = {name: _handler(name, call) for name, call in calls.items()}
        package = method("List").path.split("/")[1]
        assert package.endswith(SERVICE)
        handler = grpc.method_handlers_generic_handler(package, handlers)
        self._server.add_generic_rpc_handlers((handler,))
        self.address = f"127.0.0.1:{self._bound()}"
        self._server.start()
        scheduler.address = self.address

    def _bound(self) -> int:
        for port in range(FIRST_PORT, FIRST_PORT + PORTS):
            try:
                if self._server.add_insecure_port(f"127.0.0.1:{port}"):
                    return port
            except RuntimeError:  # somebody has it
                continue
        last = FIRST_PORT + PORTS - 1
        raise EmulationError(
            f"no port of {FIRST_PORT} to {last} is free on 127.0.0.1 for schedulers' jobs",
            "end what listens there: ss -ltnp shows it",
        )

    def close(self) -> None:
        """Take no more calls, and end those that follow changes."""
        self._scheduler.close()
        self._server.stop(_PATIENCE_S).wait()

    # --- calls --------------------------------------------------------------------------------

    def _submit(self, request: Any, context: Any) -> Any:
        found = self._scheduler.submit(_document(request), name=request.name)
        return states_message(JobStates(found, self._scheduler.jobs().revision))

    def _end(self, request: Any, context: Any) -> Any:
        self._scheduler.end(list(request.names))
        return states_message(self._scheduler.jobs())

    def _list(self, request: Any, context: Any) -> Iterator[Any]:
        if not request.follow:
            yield states_message(self._scheduler.jobs())
            return
        for states in self._scheduler.follow(context.is_active):
            yield states_message(states)


def _document(request: Any) -> Document:
    file = request.file or "job"
    if request.yaml and request.HasField("job"):
        raise TopologyError([Document(file, {}, {}).problem((), "give yaml or job, not both")])
    if request.HasField("job"):
        return said_job(job_said(request.job), file)
    document = parse_document(request.yaml, file)
    if names_files(document):  # of this machine, which a client has no business with
        message = "'simai' names a file: send what is in it (JobsClient.submit does), or weft job"
        raise TopologyError([document.problem(("job", "simai"), message)])
    return document


def _handler(name: str, call: Callable[[Any, Any], Any]) -> Any:
    known = method(name)

    def answer(request: Any, context: Any) -> Any:
        try:
            return call(request, context)
        except Exception as error:
            _abort(context, error)

    def answers(request: Any, context: Any) -> Iterator[Any]:
        try:
            yield from call(request, context)
        except Exception as error:
            _abort(context, error)

    make = (
        grpc.unary_stream_rpc_method_handler
        if known.streams
        else grpc.unary_unary_rpc_method_handler
    )
    return make(
        answers if known.streams else answer,
        request_deserializer=known.request.FromString,
        response_serializer=jobs_proto().messages["JobStates"].SerializeToString,
    )


def _abort(context: Any, error: Exception) -> None:
    """End a call with what was wrong; a bug of ours ends it as gRPC ends those."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            remedy = getattr(error, "remedy", "")
            context.abort(code, f"{error}; {remedy}" if remedy else str(error))
    raise error
