"""A host program in Python: what it is, and what its host lets it do.

    class Ping(Program):
        def started(self, host): host.listen_udp(9000); host.set_timer(0, 1000)
        def packet(self, host, frame, now_ns): host.count("answers")
        def timer(self, host, token, now_ns): host.send(udp_frame(host.interfaces[0], ...))

A program is passive: it reads no clock, opens nothing and never sleeps; what it does
follows from its calls alone, so it does the same in virtual time and between namespaces. Times are
nanoseconds of the fabric, from the start of the run on, whatever the run's time scale.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

TIMERS = 65536
"""Tokens of timers are below this."""


class ProgramError(Exception):
    """A program can't be had, asked for what does not exist, or failed; the message says which."""


class Frame(NamedTuple):
    """A frame that arrived: whole, from its Ethernet header on, without FCS."""

    data: bytes
    interface: int


@dataclass(frozen=True)
class Interface:
    """An interface of the host; addresses are integers, `rate_bps` is that in the fabric."""

    rate_bps: int
    mac: int
    gateway_mac: int
    ip: int
    mtu: int  # largest IP packet


class Host(ABC):
    """The host that a program runs on, as the program sees it.

    `addresses`: every host's, by the name of the interface (h1 for the first, h1:1 for the second).
    """

    name: str
    interfaces: tuple[Interface, ...]
    addresses: Mapping[str, int]

    @property
    @abstractmethod
    def now_ns(self) -> int:
        """The time of the call that the program is in."""

    @abstractmethod
    def send(self, frame: bytes, interface: int = 0) -> bool:
        """Send a frame, behind what waits in the queue of its DSCP's class.

        False: too many frames wait there, and this one is lost. Raises ProgramError (no such
        interface, a length that its MTU does not allow).
        """

    @abstractmethod
    def set_timer(self, token: int, at_ns: int) -> None:
        """Be called at `at_ns`, once; now if that is past. A token that is set is moved.

        Raises ProgramError (token, time).
        """

    @abstractmethod
    def cancel_timer(self, token: int) -> None:
        """Be called no more for this token. Raises ProgramError (token)."""

    @abstractmethod
    def listen_udp(self, port: int) -> None:
        """Get what arrives for a UDP port. Raises ProgramError (taken, or RoCEv2's)."""

    @abstractmethod
    def listen_ethertype(self, number: int) -> None:
        """Get frames of an EtherType. Raises ProgramError (taken)."""

    @abstractmethod
    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter, which results tell."""


class Program:
    """What a program may be called for; one that does nothing. An instance runs on one host."""

    def started(self, host: Host) -> None:
        """Start on `host`, at the beginning of the run."""

    def packet(self, host: Host, frame: Frame, now_ns: int) -> None:
        """Handle a frame that the program listens to."""

    def timer(self, host: Host, token: int, now_ns: int) -> None:
        """Handle a timer that expired."""

    def stopped(self, host: Host) -> None:
        """End with the run."""


class Addresses(dict[str, int]):
    """Addresses by name of interface; asking for one that there is not raises ProgramError."""

    def __missing__(self, name: str) -> int:
        """Raise ProgramError."""
        from topologies.errors import did_you_mean  # large: not for each process that runs programs

        raise ProgramError(f"no host {name!r}{did_you_mean(name, self)}")


def why_refused(status: str) -> str:
    """Return what a status of host_program.h (enum program_status, its name) means."""
    return _REFUSED.get(status, status)


_REFUSED = {
    "PROGRAM_ENOMEM": "there is no memory left",
    "PROGRAM_EINTERFACE": "the host has no such interface",
    "PROGRAM_ELENGTH": "a frame has 14 bytes at least, and at most the interface's MTU + 14",
    "PROGRAM_ETOKEN": f"a timer's token is a number below {TIMERS}",
    "PROGRAM_ETIME": "a time is not before the start, nor later than there is time",
    "PROGRAM_ETAKEN": "another program of the host listens there",
    "PROGRAM_ECARD": "RoCEv2's port is the card's",
    "PROGRAM_ENUMBER": "UDP ports and EtherTypes are numbers from 1 to 65535",
}


def said(error: BaseException) -> str:
    """Return in one line what went wrong in a program, and where in its file."""
    where = ""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
        if not trace.tb_frame.f_code.co_filename.startswith(_HERE):
            code = trace.tb_frame.f_code
            where = f" ({code.co_filename.rpartition('/')[2]}, line {trace.tb_lineno})"
    text = " ".join(str(error).split())
    if isinstance(error, ProgramError):
        return f"{text}{where}"
    return f"{type(error).__name__}: {text}{where}"


_HERE = __file__.rpartition("/")[0] + "/"
