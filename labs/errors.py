"""What labs raise. See `experiments.errors`."""

from experiments.errors import *  # noqa: F403
