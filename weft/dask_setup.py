"""Dask, which `weft sweep --scheduler` and the workers on other machines need.

It is installed into Weft's own environment on demand, from the versions in `setup/dask.lock`:
scheduler, workers and we have to have the same Python packages.
"""

from __future__ import annotations

from weft.doctor import DASK_LOCK
from weft.locked_packages import LockedPackages

_DASK = LockedPackages(DASK_LOCK, "Dask", "make setup-dask")

is_ready = _DASK.is_ready
ensure = _DASK.ensure
pins = _DASK.pins
