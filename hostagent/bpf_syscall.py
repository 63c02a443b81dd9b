"""The bpf(2) system call: what we need of it and bcc does not offer.

Maps by descriptor, objects by their pins. Source: the kernel's `linux/bpf.h`. Needs root.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path

_SYSCALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280}
_MAP_CREATE, _MAP_LOOKUP, _MAP_UPDATE, _MAP_DELETE, _MAP_NEXT_KEY = 0, 1, 2, 3, 4
_OBJ_PIN, _OBJ_GET, _OBJ_INFO = 6, 7, 15
HASH, ARRAY = 1, 2
"""Types of maps."""
ANY, NO_EXIST = 0, 1
"""Flags of an update: whatever there is, or only where nothing is."""

_MAP_INFO = struct.Struct("<IIIIII")  # type, id, key size, value size, max entries, flags


def bpf(command: int, attributes: bytes) -> tuple[int, bytes]:
    """Call it; return its result and the attributes as the kernel left them. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    result: int = libc.syscall(_SYSCALL[os.uname().machine], command, buffer, len(attributes))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result, buffer.raw


def map_create(kind: int, key_bytes: int, value_bytes: int, entries: int, name: str) -> int:
    """Make a map; return its descriptor. `name`: at most 15 characters. Raises OSError."""
    attributes = struct.pack(
        "<7I16s", kind, key_bytes, value_bytes, entries, 0, 0, 0, name.encode()[:15]
    )
    return bpf(_MAP_CREATE, attributes)[0]


def _element(
    command: int, fd: int, key: bytes, value: ctypes.Array[ctypes.c_char] | None, flags: int
) -> None:
    key_buffer = ctypes.create_string_buffer(key, len(key))
    at = 0 if value is None else ctypes.addressof(value)
    bpf(command, struct.pack("<IIQQQ", fd, 0, ctypes.addressof(key_buffer), at, flags))


def map_update(fd: int, key: bytes, value: bytes, flags: int = ANY) -> None:
    """Write an element. Raises OSError."""
    _element(_MAP_UPDATE, fd, key, ctypes.create_string_buffer(value, len(value)), flags)


def map_lookup(fd: int, key: bytes, size: int) -> bytes | None:
    """Return an element of `size` bytes, None if there is none. Raises OSError."""
    value = ctypes.create_string_buffer(size)
    try:
        _element(_MAP_LOOKUP, fd, key, value, 0)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    return value.raw


def map_delete(fd: int, key: bytes) -> bool:
    """Remove an element; say whether it was there. Raises OSError."""
    try:
        _element(_MAP_DELETE, fd, key, None, 0)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return False
        raise
    return True


def map_keys(fd: int, size: int) -> list[bytes]:
    """Return all keys of `size` bytes. Raises OSError."""
    return list(map_walk(fd, size))


def map_walk(fd: int, size: int) -> Iterator[bytes]:
    """Yield the keys of `size` bytes, one call each. Raises OSError.

    A key that is removed before the walk goes on restarts it: others come twice then.
    """
    following = ctypes.create_string_buffer(size)
    before = 0
    while True:
        try:
            attributes = struct.pack("<IIQQQ", fd, 0, before, ctypes.addressof(following), 0)
            bpf(_MAP_NEXT_KEY, attributes)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return
            raise
        yield following.raw
        current = ctypes.create_string_buffer(following.raw, size)
        before = ctypes.addressof(current)


def pin(fd: int, path: Path) -> None:
    """Give an object a name on a BPF file system. Raises OSError."""
    name = ctypes.create_string_buffer(os.fsencode(path))
    bpf(_OBJ_PIN, struct.pack("<QII", ctypes.addressof(name), fd, 0))


def get(path: Path) -> int:
    """Return a new descriptor of a pinned object. Raises OSError."""
    name = ctypes.create_string_buffer(os.fsencode(path))
    return bpf(_OBJ_GET, struct.pack("<QII", ctypes.addressof(name), 0, 0))[0]


def value_size(fd: int) -> int:
    """Return the size of a map's elements. Raises OSError."""
    info = ctypes.create_string_buffer(_MAP_INFO.size)
    bpf(_OBJ_INFO, struct.pack("<IIQ", fd, len(info), ctypes.addressof(info)))
    return int(_MAP_INFO.unpack(info.raw)[3])
