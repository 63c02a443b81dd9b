"""Drawing that leaves a notebook's own figures alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def own_style() -> Iterator[None]:
    """Give back matplotlib's backend and settings after Weft has drawn with its own.

    Weft draws into files, with a backend that has no screen: what the reader draws next would not
    be seen, and would look like ours.
    """
    import matplotlib as mpl  # heavy, and only pictures need it

    backend = mpl.get_backend(auto_select=False)
    if backend is not None and "inline" in backend:
        # Here, so that using one name of `weft` does not load what the others need.
        from matplotlib import pyplot

        # A notebook's backend changes settings when it is first used, which have to stay.
        pyplot.switch_backend(backend)
    with mpl.rc_context():  # which leaves the backend out
        try:
            yield
        finally:
            if backend is not None and backend != mpl.get_backend(auto_select=False):
                mpl.use(backend)
