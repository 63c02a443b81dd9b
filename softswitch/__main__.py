"""`python -m softswitch ...` is the switch daemon."""

from __future__ import annotations

import sys

from softswitch.daemon import main

sys.exit(main(sys.argv[1:]))
