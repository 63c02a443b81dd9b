"""What Weft leaves on a machine outside of its clone, and where: launcher, cache, state, logs.

The shell's side of it, which makes launcher and notes, is `setup/on_machine.sh`. Standard library
only: it is used where nothing is installed.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOTS_PROGRAMS = Path("/usr/local/bin")

_MARK = "# Weft's launcher: `make setup` made it, `weft uninstall` removes it."
_CLONE, _END, _QUOTE = "clone='", "'", "'\\''"
_CLONES, _PACKAGES = "clones", "debian-packages"


def launched_clone(file: Path) -> Path | None:
    """Return the clone that a launcher starts; None if the file is no launcher of Weft's."""
    if file.is_symlink() or not file.is_file():
        return None
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return None
    if len(lines) < 3 or lines[1] != _MARK or not lines[2].startswith(_CLONE):
        return None
    return Path(lines[2].removeprefix(_CLONE).removesuffix(_END).replace(_QUOTE, "'"))


def is_set_up(clone: Path) -> bool:
    """Say whether there is a clone with a Weft that can be started."""
    return os.access(clone / ".venv" / "bin" / "weft", os.X_OK)


def homes() -> list[Path]:
    """Return the home folders to look in: this user's, the one's who called sudo, the clone's."""
    own = os.environ.get("HOME")
    found = [Path(own)] if own else []
    for user in (os.environ.get("SUDO_UID", ""), str(ROOT.stat().st_uid)):
        with suppress(KeyError):
            if user.isdecimal():
                found.append(Path(pwd.getpwuid(int(user)).pw_dir))
    return list(dict.fromkeys(found))


def launchers() -> list[Path]:
    """Return the launchers of Weft's that there are, of any clone."""
    chosen = os.environ.get("WEFT_BIN_DIR")
    folders = [*([Path(chosen)] if chosen else []), ROOTS_PROGRAMS]
    folders += [home / ".local" / "bin" for home in homes()]
    files = [folder / "weft" for folder in dict.fromkeys(folders)]
    return [file for file in files if launched_clone(file) is not None]


def caches() -> list[Path]:
    """Return where compiled programs are kept, this user's place first."""
    chosen, shared = os.environ.get("WEFT_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    found = [Path(chosen)] if chosen else []
    found += [Path(shared) / "weft"] if shared else []
    return list(dict.fromkeys([*found, *(home / ".cache" / "weft" for home in homes())]))


def states() -> list[Path]:
    """Return the folders with notes and traces of crashes, this user's first."""
    shared = os.environ.get("XDG_STATE_HOME")
    found = [Path(shared) / "weft"] if shared else []
    places = (home / ".local" / "state" / "weft" for home in homes())
    return list(dict.fromkeys([*found, *places]))


def _noted(name: str) -> Iterator[str]:
    for state in states():
        with suppress(OSError):
            yield from (state / name).read_text().splitlines()


def other_clones() -> list[Path]:
    """Return the other clones of Weft that are known here and set up."""
    known = [Path(line) for line in _noted(_CLONES) if line]
    known += [clone for file in launchers() if (clone := launched_clone(file)) is not None]
    return [each for each in dict.fromkeys(known) if each != ROOT and is_set_up(each)]


def forget_clone(state: Path) -> None:
    """Take this clone out of the notes of a state folder that stays."""
    file = state / _CLONES
    with suppress(FileNotFoundError):
        lines = [line for line in file.read_text().splitlines() if line != str(ROOT)]
        file.write_text("".join(f"{line}\n" for line in lines))


def is_noted(state: Path) -> bool:
    """Say whether the notes of a state folder name this clone."""
    with suppress(OSError):
        return str(ROOT) in (state / _CLONES).read_text().splitlines()
    return False


def installed_packages() -> list[str]:
    """Return the Debian packages that set-up has installed, as far as it is noted."""
    return sorted(set(filter(None, _noted(_PACKAGES))))
