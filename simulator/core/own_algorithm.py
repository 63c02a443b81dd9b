"""The engine with algorithms of one's own, beside the one that is installed.

    built = own_algorithm.built(own_algorithm.read(path))     (hostagent.own_algorithm)
    with engine_in_place(built):
        Engine(...)                                       has them, and so do runs of this process

Its module is compiled once a header, like the card's: a quarter of a minute without optimisation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hostagent.own_algorithm import Built
from hostagent.own_algorithm.make import FAST_BUILD, in_place, loaded
from simulator.core import binding
from simulator.core import build as engine_build
from softswitch.core.native import attach_log


@contextmanager
def engine_in_place(
    built: Built, *, fast_build: bool = True, sanitize: bool = False
) -> Iterator[None]:
    """Let every Engine that this process makes meanwhile have the algorithms, and every Card.

    `fast_build`: compiled without optimisation; False: as the installed one is, for long runs.
    `sanitize`: under the sanitizers, both.
    Raises softswitch.core.extension.CoreBuildError.
    """
    options = FAST_BUILD if fast_build else ()
    folder = built.part("engine" if fast_build else "engine-optimised")
    module = loaded(engine_build.extension(folder, built.include, *options), sanitize=sanitize)
    attach_log(module)
    with (
        built.card_in_place(sanitize=sanitize),
        in_place(binding._loaded, module, sanitize=sanitize),
    ):
        yield
