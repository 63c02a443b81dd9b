"""`weft web` and `weft metrics`: what `observe` serves on this machine, until Ctrl-C."""

from __future__ import annotations

from observe import metrics as prometheus
from observe.web import server
from weft.command_line import METRICS_PORT, command, option, port_number

WEB_PORT = 9480

_PORT = "TCP port of 127.0.0.1, 0 for any that is free (default)"


@command("""
    examples:
      weft web                 then open the address that it prints
      weft web --port 0        on any free port
    """)
@option("--port", type=port_number, default=WEB_PORT, metavar="N", help=_PORT)
@option("--interval", default="1s", metavar="T", help="time between updates (default)")
def web(port: int, interval: str) -> int:
    """Serve the page; return the exit code. Raises PortInUseError, UsageError."""
    return server.run(port, interval)


@command(f"""
    examples:
      weft metrics                                  until Ctrl-C, for this run and later ones
      curl -s http://127.0.0.1:{METRICS_PORT}/metrics        what Prometheus scrapes
    """)
@option("--port", type=port_number, default=METRICS_PORT, metavar="N", help=_PORT)
def metrics(port: int) -> int:
    """Serve metrics of whichever run is up; return the exit code. Raises PortInUseError."""
    return prometheus.run(port)
