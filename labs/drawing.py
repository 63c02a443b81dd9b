"""Figures of a lab, drawn alike. See `experiments.drawing`."""

from experiments.drawing import *  # noqa: F403
