"""The record of a run: what it makes on this machine, written down before it is made.

A run has an id such as `w3f2a`, which is also the prefix of every name that it gives. Its record
is `<run root>/<run>/state.json`; beside it lie the run's sockets and ready files. The lock in the
run root is held by the runner for as long as it lives, so a record whose lock is free belongs to a
run that crashed. `emulation.teardown` removes what a record lists, and nothing else.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from emulation.errors import EmulationError, RunActiveError, StateError
from emulation.processes import MARKER_VARIABLE, ProcessIdentity, identify

RUN_ROOT_VARIABLE = "WEFT_RUN_DIR"
LOG_ROOT_VARIABLE = "WEFT_LOG_DIR"
LOGS_KEPT = 5
SHELL_ROLE = "shell"  # how the record marks Mininet's shell of a node

_CLONE = Path(__file__).resolve().parent.parent
_FORMAT = 1
_LOCK = "lock"
_STATE = "state.json"
_KEEP = ".keep"


def run_root() -> Path:
    """Return where records of runs live: $WEFT_RUN_DIR, else /run/weft (gone after a reboot)."""
    return Path(os.environ.get(RUN_ROOT_VARIABLE, "/run/weft"))


def log_root() -> Path:
    """Return where logs of runs stay after them: $WEFT_LOG_DIR, else /var/log/weft."""
    return Path(os.environ.get(LOG_ROOT_VARIABLE, "/var/log/weft"))


@dataclass
class RunRecord:
    """What one run has made or was about to make, as it stands in its state file."""

    run: str
    runner: ProcessIdentity
    started: str
    topology: str
    log_dir: str
    links: list[str] = field(default_factory=list)
    namespaces: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    processes: list[ProcessIdentity] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)

    @property
    def directory(self) -> Path:
        """The run's own directory, with the state file, sockets and ready files."""
        return run_root() / self.run

    def save(self) -> None:
        """Write the state file so that a reader sees the old text or the new, never half."""
        path = self.directory / _STATE
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps({"format": _FORMAT, **asdict(self)}, indent=1))
        fresh.replace(path)


def read_record(directory: Path) -> RunRecord | None:
    """Read a run's record; None when the run crashed before it had made anything.

    Raises StateError when the file is there and can't be understood.
    """
    path = directory / _STATE
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from None
    try:
        data: dict[str, Any] = json.loads(text)
        if data.pop("format") != _FORMAT:
            raise ValueError("written by another version")
        data["runner"] = ProcessIdentity(**data["runner"])
        data["processes"] = [ProcessIdentity(**entry) for entry in data["processes"]]
        return RunRecord(**data)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateError(
            f"{path}: not a record of a run ({error})",
            f"what that run made is called {directory.name}-...: remove it, then {directory}",
        ) from None


def recorded_runs() -> list[Path]:
    """Return the directories of all runs on record, live or crashed, by name."""
    try:
        entries = sorted(run_root().iterdir())
    except FileNotFoundError:
        return []
    return [entry for entry in entries if entry.is_dir()]


class RunLock:
    """The lock that a runner holds while it lives. The kernel frees it however the runner ends."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self._path = path

    @staticmethod
    def take() -> RunLock | None:
        """Take the lock, or return None when another process holds it.

        Raises EmulationError when the run root can't be made (not root, read-only).
        """
        path = run_root() / _LOCK
        while True:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except FileNotFoundError:
                continue  # its last holder removed the empty directory in between
            except OSError as error:
                raise EmulationError(
                    f"can't write {path}: {error.strerror}",
                    f"run as root, or set ${RUN_ROOT_VARIABLE} to a directory of yours",
                ) from None
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                return None
            # Its last holder may have removed the file between our open and our flock.
            with suppress(FileNotFoundError):
                if path.stat().st_ino == os.fstat(fd).st_ino:
                    return RunLock(fd, path)
            os.close(fd)

    def name_holder(self, run: str, runner: ProcessIdentity) -> None:
        """Write the holder into the lock file, for the message of a second run."""
        who = {"run": run, "pid": runner.pid, "start_ticks": runner.start_ticks}
        text = json.dumps({**who, "clone": str(_CLONE)})
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, text.encode(), 0)

    def release(self) -> None:
        """Free the lock and remove its file, and the run root when nothing else is in it."""
        self._path.unlink(missing_ok=True)
        with suppress(OSError):
            self._path.parent.rmdir()
        os.close(self._fd)


def holder() -> tuple[str, ProcessIdentity] | None:
    """Return the run and the process that wrote themselves into the lock file, if any."""
    try:
        data = json.loads((run_root() / _LOCK).read_text())
        return data["run"], ProcessIdentity(data["pid"], data["start_ticks"], "runner")
    except (OSError, ValueError, KeyError, TypeError):
        return None


def holders_clone() -> Path | None:
    """Return the clone of Weft whose run wrote itself into the lock file; None if none says."""
    try:
        return Path(json.loads((run_root() / _LOCK).read_text())["clone"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def refuse_second_run() -> RunActiveError:
    """Return the error for a run that is asked for while another is up."""
    who = holder()
    if who is None:
        return RunActiveError(
            "another run is just starting or stopping", "try again in a moment, or: weft stop"
        )
    run, process = who
    return RunActiveError(
        f"run {run} is up (process {process.pid}); there can be one at a time",
        "use its prompt, or end it with: weft stop",
    )


def _taken(run: str) -> bool:
    """Say whether anything on this machine already carries this prefix."""
    machine = (Path("/sys/class/net"), Path("/run/netns"), Path("/etc/netns"))
    places = (*machine, run_root(), log_root())
    return any(
        entry.name.startswith(run)
        for place in places
        if place.is_dir()
        for entry in place.iterdir()
    )


def _new_run_id() -> str:
    while True:
        run = "w" + secrets.token_hex(2)
        if not _taken(run):
            return run


class Run:
    """A run in progress: its id, its directories, and the record that it keeps up to date."""

    def __init__(self, record: RunRecord, lock: RunLock) -> None:
        self.record = record
        self._lock = lock
        self._writing = threading.Lock()  # a supervisor writes down what it starts, too

    @staticmethod
    def start(lock: RunLock, topology: str, *, keep_logs: bool = False) -> Run:
        """Begin a run under a lock already held: choose its id, make its directories.

        From here on every child process inherits the run's marker. Raises EmulationError when a
        directory can't be made.
        """
        run = _new_run_id()
        runner = identify(os.getpid(), "runner")
        assert runner is not None
        lock.name_holder(run, runner)
        log_dir = log_root() / run
        started = datetime.now(UTC).isoformat(timespec="seconds")
        record = RunRecord(run, runner, started, topology, str(log_dir))
        try:
            record.directory.mkdir(parents=True)
            record.save()
            log_dir.mkdir(parents=True)
            if keep_logs:
                (log_dir / _KEEP).touch()
        except BaseException as error:
            shutil.rmtree(record.directory, ignore_errors=True)  # nothing was made yet
            if isinstance(error, OSError):
                reason = f"can't write {error.filename}: {error.strerror}"
                raise EmulationError(reason) from None
            raise
        os.environ[MARKER_VARIABLE] = run
        prune_logs()
        return Run(record, lock)

    @property
    def name(self) -> str:
        """The run's id, which is the prefix of the names that it gives."""
        return self.record.run

    @property
    def directory(self) -> Path:
        """Where sockets and ready files go; it vanishes with the run."""
        return self.record.directory

    @property
    def log_dir(self) -> Path:
        """Where logs go; they stay after the run."""
        return Path(self.record.log_dir)

    def will_make(
        self,
        *,
        links: Iterable[str] = (),
        namespaces: Iterable[str] = (),
        files: Iterable[Path] = (),
        directories: Iterable[Path] = (),
    ) -> None:
        """Write down what is about to be made. Call it before making it.

        Directories are removed after the files, and only if nothing else is in them.
        """
        with self._writing:
            self.record.links.extend(links)
            self.record.namespaces.extend(namespaces)
            self.record.files.extend(str(path) for path in files)
            self.record.directories.extend(str(path) for path in directories)
            self.record.save()

    def started_processes(self, processes: Iterable[tuple[int, str]]) -> None:
        """Write down processes (id, role) that were started.

        Until this is called they are found by the marker that they inherited.
        """
        found = [identify(pid, role) for pid, role in processes]
        with self._writing:
            self.record.processes.extend(process for process in found if process is not None)
            self.record.save()

    def finish(self) -> None:
        """Forget the run once everything in its record is gone, and free the lock."""
        os.environ.pop(MARKER_VARIABLE, None)
        self._lock.release()


def prune_logs() -> None:
    """Remove the oldest runs' logs, all but the last few and those that were to be kept."""
    with suppress(OSError):
        runs = [entry for entry in log_root().iterdir() if entry.is_dir()]
        old = [entry for entry in runs if not (entry / _KEEP).exists()]
        old.sort(key=lambda entry: entry.stat().st_mtime, reverse=True)
        for entry in old[LOGS_KEPT:]:
            shutil.rmtree(entry, ignore_errors=True)
