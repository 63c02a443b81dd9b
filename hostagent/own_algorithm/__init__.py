"""An algorithm of one's own: a header that is no entry of cc_algorithms.h, checked, built, run.

    own = own_algorithm.read(Path("my_choice.h"))      checked; OwnAlgorithmError says file and line
    built = own_algorithm.built(own)                   the shared headers with it in the list
    with built.card_in_place():                        each Card of this process has it
        card.add_queue_pair(config, {own.name: fields})
    own_algorithm.Alone(built)                         the header by itself, in half a second
    Agent.load(pins, include=built.include)            the XDP program with it
    own_algorithm.apart(work, seconds=20)              in a process of its own, with a time limit

A header whose name is an entry's stands in that entry's place; any other comes behind the last one.
The simulator's engine with it: `simulator.core.own_algorithm`. Nothing that is installed changes:
what is built lies in the user's cache, by content. docs/own-algorithms.md says what a header has.
"""

from hostagent.own_algorithm.alone import Alone
from hostagent.own_algorithm.apart import ApartError, apart
from hostagent.own_algorithm.check import OwnAlgorithm, OwnAlgorithmError, read
from hostagent.own_algorithm.make import Built, built

__all__ = [
    "Alone",
    "ApartError",
    "Built",
    "OwnAlgorithm",
    "OwnAlgorithmError",
    "apart",
    "built",
    "read",
]
