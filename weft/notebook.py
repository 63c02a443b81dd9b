"""`weft notebook` and `weft setup-notebook`: Jupyter, with the notebooks that come with Weft.

Jupyter and pandas are installed into Weft's own environment on demand, in the versions of
`setup/notebook.lock`. A reader works on copies: Jupyter writes outputs into what is open.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

from observe.errors import UsageError
from topologies.errors import did_you_mean
from weft import console
from weft.command_line import argument, command, flag, option
from weft.doctor import NOTEBOOK_LOCK
from weft.locked_packages import LockedPackages

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
JUPYTER = LockedPackages(NOTEBOOK_LOCK, "Jupyter and pandas", "make setup-notebook")

_COPIES = Path("my-notebooks")


class JupyterMissingError(Exception):
    """Jupyter is not installed."""

    remedy = "make setup-notebook installs it, with pandas (some 150 MB)"


@command("""
    examples:
      weft notebook                     all of them, in Jupyter Lab
      weft notebook 02                  begin with this one: a name, or how it begins
      weft notebook --list
    """)
@argument("name", required=False, help="the notebook to begin with")
@flag("--list", "listing", help="list the notebooks, with what each teaches")
@option("--in", "folder", type=Path, default=_COPIES, metavar="DIR",
        help="where your copies are, and stay (default: my-notebooks)")  # fmt: skip
def run(name: str | None, listing: bool, folder: Path) -> int:
    """Copy the notebooks that are not there yet, and become Jupyter Lab. Raises UsageError."""
    if listing:
        for each, about in described().items():
            print(f"{each:24}  {about}")
        return 0
    name = None if name is None else chosen(name)
    if not JUPYTER.is_ready():
        raise JupyterMissingError("weft notebook needs Jupyter")
    for path in copied(folder):
        console.notice(f"copied {path}")
    words = [sys.executable, "-m", "jupyterlab", f"{name}.ipynb" if name else "."]
    if os.geteuid() == 0:
        words.append("--allow-root")
    return _become(words, folder)


def _become(words: list[str], folder: Path) -> NoReturn:
    os.chdir(folder)
    sys.stdout.flush()
    os.execv(words[0], words)


def available() -> tuple[str, ...]:
    """Return the names of the notebooks, in the order in which to read them."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.ipynb")))


def chosen(given: str) -> str:
    """Return the notebook that is called so, or begins so. Raises UsageError."""
    name = given.removesuffix(".ipynb")
    found = [each for each in available() if each.startswith(name) or each[3:].startswith(name)]
    if len(found) != 1:
        hint = did_you_mean(name, available()) or f": there is {', '.join(available())}"
        raise UsageError(f"notebook: no notebook {given!r}{hint}")
    return found[0]


def described() -> dict[str, str]:
    """Return each notebook's title by its name."""
    import json  # for the list alone

    titles = {}
    for name in available():
        first = json.loads((FOLDER / f"{name}.ipynb").read_text())["cells"][0]["source"]
        titles[name] = "".join(first).splitlines()[0].lstrip("# ")
    return titles


def copied(folder: Path) -> list[Path]:
    """Copy the notebooks that a folder does not have yet; return the copies. Raises UsageError."""
    made = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in available():
            path = folder / f"{name}.ipynb"
            if not path.exists():
                shutil.copyfile(FOLDER / path.name, path)
                made.append(path)
    except OSError as error:
        raise UsageError(f"--in {folder}: {error.strerror}") from None
    return made


@command("""
    examples:
      weft setup-notebook
    """)
def setup() -> int:
    """`weft setup-notebook`; returns the exit code. Raises PackagesError."""
    there = JUPYTER.is_ready()
    JUPYTER.ensure()
    print(f"Jupyter and pandas are {'there already' if there else 'installed'}")
    return 0
