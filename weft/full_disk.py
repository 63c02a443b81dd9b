"""What is said when the disk is full: which file, where, and what to do; for every command.

The kernel says it at the write, not at the open, so that the error names no file: the file is
looked for in the calls that ended, and the place among those that the command writes to.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_ROOM_BYTES = 64 * 1024


def said_of(error: BaseException) -> tuple[str, str] | None:
    """Return what to say of an error and the remedy, None if it is not about a full disk."""
    found = _full(error)
    if found is None:
        return None
    name = found.filename if isinstance(found.filename, str) else _written(found.__traceback__)
    where = [f"{place} has {free // 1024} kB free" for place, free in _full_places(name)]
    text = os.strerror(found.errno or errno.ENOSPC)
    if found.errno == errno.ENOENT:
        text = "there is no room for temporary files"
    if not name and _output_fails():
        text = "the output can't be written: no space left where it goes"
    message = f"{name}: {text}" if name else text[:1].lower() + text[1:]
    if where:
        message += f" ({'; '.join(where)})"
    if found.errno == errno.EFBIG:
        return message, "files may not be so large here: see `ulimit -f`"
    if found.errno == errno.EDQUOT:
        return message, "free some of your quota, or write elsewhere"
    return message, "make room there, or write elsewhere"


def _full(error: BaseException | None) -> OSError | None:
    """Return the error of this chain that says so: others may have been raised on its way."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and (error.errno in _FULL or _no_temporary(error)):
            return error
        error = error.__cause__ or error.__context__
    return None


def _no_temporary(error: OSError) -> bool:
    """Say whether it is Python's own, which has tried to write in every place for such files."""
    return error.errno == errno.ENOENT and "No usable temporary directory" in str(error)


def _written(trace: TracebackType | None) -> str:
    """Return the name of the file that was being written, the innermost one; "" if none is seen."""
    name = ""
    while trace is not None:
        for value in trace.tb_frame.f_locals.values():
            if isinstance(value, io.IOBase):
                mode, path = getattr(value, "mode", ""), getattr(value, "name", "")
                if isinstance(path, str) and isinstance(mode, str) and set(mode) & set("wax+"):
                    name = "" if path.startswith("<") else path
        trace = trace.tb_next
    return name


def _output_fails() -> bool:
    """Say whether it is what is printed that finds no room: it is still there to be written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return error.errno in _FULL
    return False


def _full_places(name: str) -> Iterator[tuple[str, int]]:
    """Yield the folders without room among those that a command writes to, one a disk."""
    cache = os.environ.get("WEFT_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    words = [word.rpartition("=")[2] for word in sys.argv[1:] if os.sep in word]
    temporary = os.environ.get("TMPDIR") or "/tmp"
    seen: set[int] = set()
    for text in (name, *words, ".", cache, state, temporary):
        if not text:
            continue
        place = Path(text).expanduser()
        while not place.is_dir() and place != place.parent:
            place = place.parent
        try:
            disk, room = place.stat().st_dev, os.statvfs(place)
        except OSError:
            continue
        free = room.f_bavail * room.f_frsize
        if disk not in seen and room.f_blocks and free < _NO_ROOM_BYTES:
            seen.add(disk)
            yield str(place), free
