"""`weft uninstall`: say what Weft has on this machine, then remove it; the clone itself stays.

Standard library only, and it works where nothing is installed (`python3 -m weft.uninstall`, which
`make uninstall` calls): the environment that it runs in may be what it removes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from emulation import run_state, teardown
from emulation.errors import EmulationError
from weft import console, on_machine
from weft.on_machine import ROOT

SCHEMA = 1

_BUILT = (
    "build", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".import_linter_cache", ".hypothesis",
    "softswitch/core/_build", "simulator/core/_build", "hostagent/rnic/_build",
)  # fmt: skip
_LIBRARIES = ("softswitch/core", "simulator/core", "hostagent/rnic")
_CACHE_FOLDERS = ("pipelines", "programs", "algorithms")
# of softswitch.codegen.build, softswitch.program_cache, hostagent.own_algorithm
_LOGS = re.compile(r"w[0-9a-f]{4}|prompt-history")
_STATE_FILES = re.compile(r"crash-[\w-]+\.log|clones|debian-packages")


class UninstallError(Exception):
    """Nothing was removed, or not all; the message says what and why."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass(frozen=True)
class Item:
    """One thing to remove: what it is, where, how large, and how it goes."""

    what: str
    path: str
    size: int
    remove: Callable[[], None]
    needs_root: bool = False


@dataclass
class Plan:
    """What is to be removed, in this order, and what stays: (what, where, why)."""

    items: list[Item] = field(default_factory=list)
    kept: list[tuple[str, str, str]] = field(default_factory=list)

    def as_json(self, *, removed: bool) -> dict[str, Any]:
        """Return the plan in its stable form."""
        noted = on_machine.installed_packages()
        return {
            "schema": SCHEMA,
            "clone": str(ROOT),
            "removed": removed,
            "items": [
                {"what": each.what, "path": each.path, "bytes": each.size, "root": each.needs_root}
                for each in self.items
            ],
            "kept": [dict(zip(("what", "path", "why"), each, strict=True)) for each in self.kept],
            "debian_packages": {"noted": bool(noted), "names": noted or wanted_packages()},
        }


def size_of(path: Path) -> int:
    """Return the bytes of a file or of what is below a folder, as far as it can be read."""
    try:
        if path.is_symlink() or not path.is_dir():
            return path.lstat().st_size
        return sum(size_of(each) for each in path.iterdir())
    except OSError:
        return 0


def wanted_packages() -> list[str]:
    """Return the Debian packages that set-up installs where they are missing."""
    text = (ROOT / "setup" / "setup.sh").read_text()
    found = re.search(r"^readonly PACKAGES=\((.*?)^\)", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return sorted(re.sub(r"#.*", "", found[1]).split())


# --- what exists --------------------------------------------------------------------------------


def look() -> Plan:
    """Find what exists of this clone and, where no other clone shares it, of this machine."""
    plan = Plan()
    others = on_machine.other_clones()
    holder = run_state.holder()
    live = holder is not None and holder[1].is_alive()
    if live and run_state.holders_clone() not in (ROOT, None):
        others.append(run_state.holders_clone() or ROOT)
    why = f"{others[0]} uses it, too" if others else ""
    _add_launchers(plan)
    _add_runs(plan, live, why)
    for cache in on_machine.caches():
        parts = [cache / name for name in _CACHE_FOLDERS if (cache / name).is_dir()]
        _add_shared(plan, "cache of compiled programs", cache, parts, why)
    for state in on_machine.states():
        _add_state(plan, state, why)
    logs = run_state.log_root()
    _add_shared(plan, "logs of runs", logs, list(_inside(logs, _LOGS)), why)
    for path in _built():
        what = "Python environment" if path.name == ".venv" else "built here"
        plan.items.append(_files(what, path, [path]))
    return plan


def _inside(folder: Path, names: re.Pattern[str]) -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted(each for each in folder.iterdir() if names.fullmatch(each.name))


def _files(what: str, shown: Path, parts: list[Path], folder: Path | None = None) -> Item:
    """Return an item of files; `folder` goes with them if nothing else is in it."""

    def remove() -> None:
        for path in parts:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        if folder is not None:
            with suppress(OSError):  # it holds something that is not Weft's
                folder.rmdir()

    size = sum(size_of(path) for path in parts)
    return Item(what, str(shown), size, remove, not all(map(_is_ours, parts)))


def _is_ours(path: Path) -> bool:
    """Say whether this user can remove it, by the folder that it is in and its own rights."""
    inside = not path.is_dir() or path.is_symlink() or os.access(path, os.W_OK | os.X_OK)
    return inside and os.access(path.parent, os.W_OK | os.X_OK)


def _add_shared(plan: Plan, what: str, folder: Path, parts: list[Path], why: str) -> None:
    if parts and why:
        plan.kept.append((what, str(folder), why))
    elif parts:
        plan.items.append(_files(what, folder, parts, folder))


def _add_launchers(plan: Plan) -> None:
    for file in on_machine.launchers():
        clone = on_machine.launched_clone(file)
        if clone == ROOT:
            plan.items.append(_files("weft on PATH", file, [file]))
        else:
            plan.kept.append(("weft on PATH", str(file), f"it starts {clone}"))


def _add_runs(plan: Plan, live: bool, why: str) -> None:
    runs = run_state.recorded_runs()
    where = str(run_state.run_root())
    if live and run_state.holders_clone() not in (ROOT, None):
        plan.kept.append(("run that is up", where, why.replace("uses it, too", "runs it")))
    elif live or runs:
        what = "run that is up, with its links, namespaces and BPF pins" if live else "crashed run"
        plan.items.append(Item(what, where, 0, _stop, os.geteuid() != 0))


def _stop() -> None:
    teardown.stop()


def _add_state(plan: Plan, state: Path, why: str) -> None:
    parts = list(_inside(state, _STATE_FILES))
    if not why:
        _add_shared(plan, "state: notes of set-up, traces of crashes", state, parts, "")
        return
    if parts:
        plan.kept.append(("state", str(state), why))
    if on_machine.is_noted(state):
        name, root = state / "clones", not os.access(state, os.W_OK)
        forget = partial(on_machine.forget_clone, state)
        plan.items.append(Item("note of this clone", str(name), 0, forget, root))


def _built() -> Iterator[Path]:
    """Yield what set-up, programs and tests have made below the clone; the environment last."""
    found = [ROOT / name for name in _BUILT]
    found += [each for name in _LIBRARIES for each in (ROOT / name).glob("*.so")]
    found += [*ROOT.glob("mechanisms/*/_build"), *ROOT.glob("mechanisms/*/*.so")]
    found += sorted(ROOT.glob("*.egg-info"))
    inside = (each for each in ROOT.iterdir() if each.is_dir() and not each.name.startswith("."))
    for folder in sorted(inside):
        if folder.name != "build":
            found += sorted(folder.rglob("__pycache__"))
    yield from (path for path in [*found, ROOT / ".venv"] if path.exists() or path.is_symlink())


# --- saying and doing it ------------------------------------------------------------------------


def _sized(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size} B" if size else ""


def _say(plan: Plan) -> None:
    print("what Weft has on this machine:")
    bytecode = [item for item in plan.items if item.path.endswith("__pycache__")]
    for item in plan.items:
        if item not in bytecode:
            print(f"  {item.what:34} {item.path}  {_sized(item.size)}".rstrip())
    if bytecode:
        total = _sized(sum(item.size for item in bytecode))
        print(f"  {'bytecode':34} {len(bytecode)} folders __pycache__  {total}")
    for what, path, why in plan.kept:
        print(f"  stays: {what}, {path}: {why}")


def _say_what_stays() -> None:
    print(f"the clone itself stays, with what you have made in it: {ROOT}")
    noted = on_machine.installed_packages()
    if noted:
        print(f"Debian packages that set-up installed stay: apt-get remove {' '.join(noted)}")
    else:
        print(f"Debian packages stay; which set-up installed is not noted. It wants: "
              f"{' '.join(wanted_packages())}")  # fmt: skip


def _check_possible(plan: Plan) -> None:
    """Raise UninstallError before anything is removed where not all could be."""
    needing = [item for item in plan.items if item.needs_root]
    if needing:
        shown = ", ".join(item.path for item in needing[:3]) + (" ..." if needing[3:] else "")
        raise UninstallError(
            f"nothing was removed: {shown} can't be removed by user id {os.geteuid()}",
            "sudo make uninstall",
        )


def _is_confirmed() -> bool:
    try:
        answer = input("Remove all this? [y/N] ")
    except EOFError:
        print()
        return False
    return answer.strip().lower() in ("y", "yes")


def run(*, yes: bool, dry_run: bool, as_json: bool) -> int:
    """Do the command; return the exit code. Raises UninstallError, EmulationError."""
    sys.dont_write_bytecode = True  # what is removed would come back
    os.chdir(ROOT)
    plan = look()
    if not plan.items:
        if as_json:
            print(json.dumps(plan.as_json(removed=False), indent=2))
            return 0
        for what, path, why in plan.kept:
            print(f"stays: {what}, {path}: {why}")
        print(f"there is nothing left of this clone but its folder: {ROOT}")
        return 0
    if not as_json:
        _say(plan)
        _say_what_stays()
    if dry_run:
        if as_json:
            print(json.dumps(plan.as_json(removed=False), indent=2))
        return 0
    _check_possible(plan)
    if not yes:
        if as_json or not sys.stdin.isatty():
            raise UninstallError(
                "nothing was removed: there is no terminal for the question", "say --yes"
            )
        if not _is_confirmed():
            print("nothing was removed")
            return 1
    report = plan.as_json(removed=True)  # its notes are among what goes
    for item in plan.items:
        try:
            item.remove()
        except OSError as error:
            raise UninstallError(
                f"{item.path}: {error.strerror}; what stands below it in the list is still there",
                "fix that, then run it again",
            ) from None
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        print("all of that is removed")
    return 0


def main() -> int:
    """Run `python3 -m weft.uninstall`, for a machine without an installed `weft`."""
    parser = argparse.ArgumentParser(prog="weft uninstall", description=__doc__.splitlines()[0])
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="list everything, remove nothing")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    words = parser.parse_args()
    try:
        return run(yes=words.yes, dry_run=words.dry_run, as_json=words.json)
    except (UninstallError, EmulationError) as error:
        console.report(error)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
