"""What a lab that grades programs gives and gets. See `experiments.grade`."""

from experiments.grade import *  # noqa: F403
