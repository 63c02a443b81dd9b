"""The same runs in virtual time, to be laid beside. See `experiments.live_beside`."""

from experiments.live_beside import *  # noqa: F403
