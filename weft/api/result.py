"""A simulation's result with its figures: those of `weft plot`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from experiments.interactive import html
from experiments.interactive.errors import WeftError, plainly
from experiments.interactive.figures import own_style
from experiments.interactive.result import RunResult


class Pictures(list[html.Picture]):
    """Pictures that a notebook shows one below the other."""

    def _repr_html_(self) -> str:
        # Here, so that using one name of `weft` does not load what the others need.
        from base64 import b64encode

        return "".join(
            f'<img alt="{each.what}" src="data:image/png;base64,{b64encode(each.data).decode()}">'
            for each in self
        )


class Result(RunResult):
    """One run in virtual time: summary, numbers, tables, and figures."""

    @plainly
    def plot(self, what: str | None = None) -> Pictures:
        """Draw a topic of `weft plot`, such as "queues"; without one, all that have data.

        Raises WeftError for an unknown topic, and where this run has nothing of it.
        """
        # Here, so that using one name of `weft` does not load what the others need.
        from experiments.figures.axes import NothingToPlotError
        from simulator.result_model import ResultError
        from topologies.errors import did_you_mean
        from weft.plot_figures import TOPICS, draw

        if what is not None and what not in TOPICS:
            there = did_you_mean(what, TOPICS) or f": there is {', '.join(TOPICS)}"
            raise WeftError(f"no topic {what!r} to plot{there}")
        drawn = Pictures()
        with tempfile.TemporaryDirectory(prefix="weft-plot-") as scratch, own_style():
            for topic in TOPICS if what is None else (what,):
                path = Path(scratch) / f"{topic}.png"
                try:
                    draw(self._files(), topic, path)
                except NothingToPlotError as error:
                    if what is not None:
                        text = str(error).removeprefix(f"{self.folder}: ")
                        raise WeftError(f"{self.name}: {text}") from None
                    continue
                except ResultError:
                    if what is not None:
                        raise
                    continue  # a table that this run does not have
                drawn.append(html.Picture(path.read_bytes(), "png", f"{topic} of {self.name}"))
        return drawn
