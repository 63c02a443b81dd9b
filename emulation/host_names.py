"""Names of hosts in every host: `ip netns exec` puts what lies in /etc/netns/NAME over /etc."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from emulation.live_host import LiveHost
from emulation.run_state import Run

NETNS_ETC = Path("/etc/netns")
ETC = Path("/etc")
_NO_SERVER = "# No name server can be reached from here: other names are unknown, and at once.\n"


def hosts_text(interfaces: Iterable[LiveHost], machine: str) -> str:
    """Return an /etc/hosts: a line each interface, and behind them the machine's own text.

    A host's name is its first interface's; each interface's own name (h1-eth1) is its, too.
    """
    lines = [
        f"{each.address} {each.interface}"
        if ":" in each.name
        else f"{each.address} {each.name} {each.interface}"
        for each in interfaces
    ]
    return "\n".join(["# hosts of this run", *lines, "", machine])


def write(run: Run, interfaces: Iterable[LiveHost]) -> bool:
    """Give every host the names of all; say whether that could be written.

    Where /etc can't be written names stay unknown, and nothing else is lost.
    """
    known = list(interfaces)
    folders = [NETNS_ETC / name for name in dict.fromkeys(each.namespace for each in known)]
    try:
        # Only over files that are there: `ip` complains of others, in every command.
        machine = (ETC / "hosts").read_text()
        texts = {"hosts": hosts_text(known, machine)}
        if (ETC / "resolv.conf").exists():
            texts["resolv.conf"] = _NO_SERVER
        # Ours alone are removed with the run; the folder around them only when it is empty.
        around = [] if NETNS_ETC.exists() else [NETNS_ETC]
        run.will_make(
            files=[folder / name for folder in folders for name in texts],
            directories=[*folders, *around],
        )
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in texts.items():
                (folder / name).write_text(text)
    except OSError:
        return False
    return True
