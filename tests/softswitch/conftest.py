"""The toy pipeline (pipelines/toy.c) compiled, and a switch that runs it.

With WEFT_CORE_SANITIZE=1 in the environment the core is the sanitized build: test_core_sanitized.py
runs these tests once more that way, in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from softswitch.core import CoreConfig, Output, OutputKind, Spec, SwitchCore
from tests.softswitch.lanes import lanes_core, port_100g
from tests.softswitch.veth_rig import Rig

HERE = Path(__file__).resolve().parent
CORE = HERE.parents[1] / "softswitch" / "core"
SANITIZE = os.environ.get("WEFT_CORE_SANITIZE") == "1"
NO_ACTION = 0xFF  # the low byte of WP_NO_ACTION, as the toy writes it

CLONE_INGRESS, RESUBMIT, LEARN, CLONE_EGRESS = 1, 2, 4, 8
TRUNCATE, DROP_EGRESS, METER, LOG = 16, 32, 64, 128


def compile_pipeline(source: Path, target: Path, *flags: str) -> Path:
    """Compiles a hand-written pipeline to a shared object."""
    command = ["gcc", "-std=c11", "-Wall", "-Werror", "-O2", "-fPIC", "-shared"]
    if SANITIZE:
        command += ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    command += [*flags, f"-I{CORE}", str(source), "-o", str(target)]
    subprocess.run(command, check=True)
    return target


@dataclass(frozen=True)
class Seen:
    """One output, with what the toy wrote into its header."""

    port: int
    at_ps: int
    kind: OutputKind
    data: bytes

    @property
    def hit(self) -> bool:
        return bool(self.data[16])

    @property
    def action(self) -> int:
        return self.data[17]

    @property
    def value(self) -> int:
        return int.from_bytes(self.data[18:20], "big")

    @property
    def tag(self) -> int:
        return self.data[18]

    @property
    def colour(self) -> int:
        return self.data[20]

    @property
    def instance_type(self) -> int:
        return self.data[21]

    @property
    def enq_qdepth(self) -> int:
        return int.from_bytes(self.data[22:24], "big")

    @property
    def deq_qdepth(self) -> int:
        return int.from_bytes(self.data[24:26], "big")

    @property
    def deq_timedelta(self) -> int:
        return int.from_bytes(self.data[26:30], "big")

    @property
    def rid(self) -> int:
        return self.data[30]

    @property
    def ingress_port(self) -> int:
        return self.data[31]

    @property
    def payload(self) -> bytes:
        return self.data[32:]


def frame(
    *,
    table: int = 0,
    flags: int = 0,
    out: int = 1,
    key32: int = 0,
    key16: int = 0,
    key8: int = 0,
    arg: int = 0,
    priority: int = 0,
    group: int = 0,
    session: int = 0,
    rounds: int = 0,
    payload: bytes = b"",
) -> bytes:
    """Return a frame of the toy: 32 bytes of header, then `payload`."""
    head = bytes([table, flags]) + out.to_bytes(2, "big") + key32.to_bytes(4, "big")
    head += key16.to_bytes(2, "big") + bytes([key8, arg, priority, group, session, rounds])
    return head + bytes(16) + payload


class Toy:
    """A switch that runs the toy pipeline."""

    def __init__(self, so: Path, config: CoreConfig) -> None:
        self.core = SwitchCore(config, sanitize=SANITIZE)
        self.core.load(so)

    def send(self, port: int = 0, at: int = 0, **fields: int | bytes) -> None:
        """Injects frame(**fields) at `port` at `at` ps."""
        self.core.inject(port, frame(**fields), at)  # type: ignore[arg-type]

    def take(self, until: int | None = None) -> list[Seen]:
        """Everything that came out up to `until`."""
        return [seen(output) for output in self.core.take_output(until)]

    def ask(self, **fields: int | bytes) -> Seen:
        """Send one frame at once and return the one output."""
        self.send(**fields)  # type: ignore[arg-type]
        (only,) = self.take()
        return only

    def forward(self, port: int) -> Spec:
        """Return the toy's action that forwards to `port`."""
        return Spec.of_action(0, [port])


def seen(output: Output) -> Seen:
    return Seen(output.port, output.at_ps, output.kind, output.data)


@pytest.fixture(scope="session")
def toy_so(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the toy pipeline as a shared object."""
    return compile_pipeline(HERE / "pipelines" / "toy.c", tmp_path_factory.mktemp("toy") / "toy.so")


@pytest.fixture(scope="session")
def compile_c() -> Callable[..., Path]:
    """Compiles a C pipeline: (source, target, *flags) -> target."""
    return compile_pipeline


@pytest.fixture(scope="session")
def make_core() -> Callable[..., SwitchCore]:
    """Return a function that makes a switch of the build under test.

    Its keyword arguments are CoreConfig's.
    """

    def make(**config: int) -> SwitchCore:
        return SwitchCore(CoreConfig(**config), sanitize=SANITIZE)

    return make


@pytest.fixture
def make_toy(toy_so: Path) -> Iterator[Callable[..., Toy]]:
    """Yield a function that makes toy switches; its keyword arguments are CoreConfig's."""
    made: list[Toy] = []

    def make(**config: int) -> Toy:
        made.append(Toy(toy_so, CoreConfig(**config)))
        return made[-1]

    yield make
    for toy in made:
        toy.core.close()


@pytest.fixture
def toy(make_toy: Callable[..., Toy]) -> Toy:
    """Return a toy switch with BMv2's defaults."""
    return make_toy()


@pytest.fixture(scope="session")
def lanes_so(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the pipeline with lanes (pipelines/lanes.c) as a shared object."""
    source = HERE / "pipelines" / "lanes.c"
    return compile_pipeline(source, tmp_path_factory.mktemp("lanes") / "lanes.so")


@pytest.fixture
def six_ports(lanes_so: Path) -> Iterator[Callable[..., SwitchCore]]:
    """Yield a function that makes switches that run lanes.c with ports 1 to 6 at 100 Gb/s."""
    made: list[SwitchCore] = []

    def make(**config: int) -> SwitchCore:
        core = lanes_core(lanes_so, sanitize=SANITIZE, **config)
        made.append(core)
        for port in range(1, 7):
            core.configure_port(port, port_100g())
        return core

    yield make
    for core in made:
        core.close()


@pytest.fixture(name="frame", scope="session")
def frame_fixture() -> Callable[..., bytes]:
    """Return a function that makes a frame of the toy: frame(table=.., flags=.., ...)."""
    return frame


@pytest.fixture
def rig(toy_so: Path, make_core: Callable[..., SwitchCore]) -> Callable[..., Any]:
    """Return a context manager that runs the toy on veth pairs in a namespace of the test's own."""

    @contextmanager
    def make(
        ports: int = 2, pcap: Path | None = None, mtu: int = 1500, **config: int
    ) -> Iterator[Rig]:
        core = make_core(**config)
        core.load(toy_so)
        made = Rig(core, ports, pcap, mtu)
        try:
            yield made
        finally:
            made.close()

    return make
