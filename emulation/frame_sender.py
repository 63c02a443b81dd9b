"""A process in a host's namespace that sends a frame by an interface: INTERFACE HEX COUNT GAP_S.

ip netns exec RUN-h1 python -m emulation.frame_sender h1-eth0 0200... 10 0.01
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """Send it; return the exit code."""
    interface, text, count, gap_s = argv
    frame = bytes.fromhex(text)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.bind((interface, 0))
        for number in range(int(count)):
            if number:
                time.sleep(float(gap_s))
            out.send(frame)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
