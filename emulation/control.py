"""How other terminals ask the runner to do something: a Unix socket in the run's directory.

A request is a JSON object in one line, `{"command": "link", "words": ["s1", "s3", "down"]}`. The
answers are lines of JSON: each with `line` (to print), the last with `ok`, and `error` if that is
false. The socket goes with the run's directory, and only root may open it.
"""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from emulation import run_state
from emulation.errors import EmulationError
from emulation.fabric_record import NoRunError, running_run

_SOCKET = "control"
_LONGEST_REQUEST = 1 << 16

Handler = Callable[[list[str]], Iterable[str]]


class RefusedError(EmulationError):
    """The runner could not do what was asked; the message is its."""


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    handlers: Mapping[str, Handler]


class _Request(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        try:
            request = json.loads(self.rfile.readline(_LONGEST_REQUEST))
            assert isinstance(self.server, _Server)
            handler = self.server.handlers.get(request["command"])
            if handler is None:
                raise RefusedError(f"the run knows no {request['command']!r}")
            for line in handler([str(word) for word in request["words"]]):
                self._send(line=line)
        except (OSError, BrokenPipeError):
            return  # the client has gone
        except Exception as error:  # reported to the client, as it would be at the prompt
            self._send(ok=False, error=str(error), remedy=str(getattr(error, "remedy", "")))
            return
        self._send(ok=True)

    def _send(self, **message: Any) -> None:
        self.wfile.write(json.dumps(message).encode() + b"\n")


class Control:
    """Serves `handlers`, by command, until `close`. Each request has a thread of its own."""

    def __init__(self, directory: Path, handlers: Mapping[str, Handler]) -> None:
        """`directory` is the run's. Raises OSError when the socket can't be made."""
        path = directory / _SOCKET
        path.unlink(missing_ok=True)
        self._server = _Server(str(path), _Request)
        path.chmod(0o600)
        self._server.handlers = dict(handlers)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more requests."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def ask(command: str, words: list[str]) -> Iterator[str]:
    """Let the run that is up do something; yield the lines that it says.

    Raises NoRunError when no run takes requests, RefusedError with the run's own words.
    """
    run = running_run()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(run_state.run_root() / run / _SOCKET))
        except OSError:
            raise NoRunError(
                f"run {run} has no prompt, so it takes no commands",
                "start it with a prompt: make run-topo CLI=1",
            ) from None
        connection.sendall(json.dumps({"command": command, "words": words}).encode() + b"\n")
        with connection.makefile("r") as answers:
            for text in answers:
                answer = json.loads(text)
                if "line" in answer:
                    yield answer["line"]
                elif answer["ok"]:
                    return
                else:
                    raise RefusedError(answer["error"], answer["remedy"])
    raise RefusedError(f"run {run} ended meanwhile")
