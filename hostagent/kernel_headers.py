"""Where bcc finds kernel headers, and the merged tree it uses when the running kernel ships none.

bcc compiles every program against the headers of a kernel. It looks for those of the running
one; a kernel that was not built by Debian (a cloud VM's, for example) often has none. Debian's
`linux-headers-amd64` can stand in for networking programs, but it is split in two halves
(`linux-headers-V-common` and `linux-headers-V-ARCH`), and bcc takes one directory, from the
variable `BCC_KERNEL_SOURCE`. So set-up merges both halves into one tree of links.

Standard library only: set-up runs this before any package is installed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path

ENVIRONMENT_VARIABLE = "BCC_KERNEL_SOURCE"
MERGED_TREE = Path(__file__).resolve().parent.parent / "build" / "kernel-headers"
SOURCES = Path("/usr/src")
_ESSENTIAL = Path("include/linux/kconfig.h")
_GENERATED = Path("include/generated/autoconf.h")
_MERGED_PARTS = ("include", "arch")


class KernelHeadersError(Exception):
    """No kernel headers to merge; the message says which package brings them."""


@dataclass(frozen=True, order=True)
class HeaderPackages:
    """The two halves of one Debian kernel header version; the newest sorts last."""

    version: tuple[int, ...]
    common: Path
    flavour: Path


def running_kernel_has_headers(modules: Path = Path("/lib/modules")) -> bool:
    """Return whether bcc finds headers of the running kernel by itself."""
    own = modules / os.uname().release
    installed = any((own / name / _ESSENTIAL).exists() for name in ("build", "source"))
    return installed or Path("/sys/kernel/kheaders.tar.xz").exists()


def installed_packages(sources: Path = SOURCES) -> list[HeaderPackages]:
    """Return the Debian header versions under `sources` that have both halves, oldest first."""
    found = []
    for common in sources.glob("linux-headers-*-common"):
        stem = common.name.removesuffix("common")
        version = tuple(int(part) for part in re.findall(r"\d+", stem))
        found += [
            HeaderPackages(version, common, flavour)
            for flavour in sources.glob(f"{stem}*")
            if flavour != common and (flavour / _GENERATED).exists()
        ]
    return sorted(found)


def source_tree() -> Path | None:
    """Return the tree that bcc must be given; None if bcc needs none, or if there is none.

    A value that the user has set in the environment wins.
    """
    chosen = os.environ.get(ENVIRONMENT_VARIABLE)
    if chosen:
        return Path(chosen)
    if running_kernel_has_headers() or not (MERGED_TREE / _ESSENTIAL).exists():
        return None
    return MERGED_TREE


def available() -> bool:
    """Return whether bcc will find headers, once `export` has been called."""
    return running_kernel_has_headers() or source_tree() is not None


def export(environment: MutableMapping[str, str] | None = None) -> Path | None:
    """Point bcc at the merged tree; call before `import bcc` compiles anything.

    Sets `BCC_KERNEL_SOURCE` in `environment` (default: this process's) if it is needed, and
    returns the tree, else None.
    """
    tree = source_tree()
    if tree is not None:
        (os.environ if environment is None else environment)[ENVIRONMENT_VARIABLE] = str(tree)
    return tree


def merge(packages: HeaderPackages, destination: Path) -> int:
    """Build at `destination` one tree of links with `packages.flavour` laid over `.common`.

    A directory that only one half has is one link, so the tree stays small. What is right already
    is left alone, and another tree replaced whole: a compiler may be reading it. Returns the number
    of links.
    """
    fresh = destination.with_name(destination.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    links = sum(
        _overlay([half / part for half in (packages.flavour, packages.common)], fresh / part)
        for part in _MERGED_PARTS
    )
    before = destination.with_name(destination.name + ".old")
    shutil.rmtree(before, ignore_errors=True)
    if destination.is_dir():
        if _shape(fresh) == _shape(destination):
            shutil.rmtree(fresh)
            return links
        destination.rename(before)
    fresh.rename(destination)
    shutil.rmtree(before, ignore_errors=True)
    return links


def _shape(tree: Path) -> dict[Path, Path | None]:
    """Return all that is in a tree, with what its links point to."""
    return {
        each.relative_to(tree): each.readlink() if each.is_symlink() else None
        for each in tree.rglob("*")
    }


def _overlay(layers: list[Path], target: Path) -> int:
    """Link at `target` what `layers` hold, an earlier layer hiding a later one; count links."""
    present = [layer for layer in layers if layer.exists()]
    if not present:
        return 0
    if len(present) == 1 or not present[0].is_dir():
        target.symlink_to(present[0].resolve())
        return 1
    target.mkdir()
    names = sorted({entry.name for layer in present if layer.is_dir() for entry in layer.iterdir()})
    return sum(_overlay([layer / name for layer in present], target / name) for name in names)


def prepare(destination: Path = MERGED_TREE, sources: Path = SOURCES) -> str:
    """Make sure bcc has headers; return one line that says which.

    Raises KernelHeadersError if neither the running kernel nor Debian's packages have any.
    """
    if running_kernel_has_headers():
        return f"the running kernel's own ({os.uname().release})"
    packages = installed_packages(sources)
    if not packages:
        raise KernelHeadersError(
            f"kernel {os.uname().release} ships no headers and {sources} has no "
            "linux-headers-*-common with its other half; install linux-headers-amd64"
        )
    newest = packages[-1]
    links = merge(newest, destination)
    return f"{newest.flavour.name} merged over {newest.common.name} ({links} links)"


def main() -> int:
    """Run `python -m hostagent.kernel_headers`: prepare the headers and say which they are."""
    argparse.ArgumentParser(description=main.__doc__).parse_args()
    try:
        print(prepare())
    except KernelHeadersError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
