"""What a run over namespaces is asked for, and what it gives. See `experiments.live_model`."""

from experiments.live_model import *  # noqa: F403
