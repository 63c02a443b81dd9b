"""Runs over namespaces and real time. See `experiments.live`."""

from experiments.live import *  # noqa: F403
