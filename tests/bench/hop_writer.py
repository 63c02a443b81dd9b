"""Hold hop_writer.bpf.c between two interfaces of this namespace, until it is ended.

nsenter --net=... python tests/bench/hop_writer.py m0 m1
"""

from __future__ import annotations

import signal
import socket
import sys
from pathlib import Path

from hostagent import kernel_headers

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "hostagent" / "include"


def main() -> None:
    """Attach it to both, say so in a line, and wait."""
    import bcc

    kernel_headers.export()
    first, second = sys.argv[1:]
    loaded = []
    for here, there in ((first, second), (second, first)):
        flags = [f"-I{INCLUDE}", f"-DOUT={socket.if_nametoindex(there)}"]
        bpf = bcc.BPF(src_file=str(HERE / "hop_writer.bpf.c").encode(), cflags=flags)
        bpf.attach_xdp(here, bpf.load_func("hop_writer", bcc.BPF.XDP), 0)
        loaded.append(bpf)
    print("ready", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
