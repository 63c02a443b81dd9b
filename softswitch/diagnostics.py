"""The switch's side channel `weft.switch.v1.Diagnostics`, as a client sees it.

It is a second gRPC service on the daemon's P4Runtime address, for what P4Runtime has no words:
counts of ports and of the switch, link settings, traces. Messages are JSON objects in UTF-8, so
that no stubs need to be generated. `softswitch.diagnostics_service` is the other end.

    with DiagnosticsClient("127.0.0.1:9559") as switch:
        switch.port_stats()[1]["rx_packets"]
        switch.set_link(1, rate_bps=40_000_000, tx_delay_ns=500)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import grpc

from softswitch.client_tls import ClientTls, channel

SERVICE = "weft.switch.v1.Diagnostics"
TIMEOUT_S = 10.0
Json = dict[str, Any]


class DiagnosticsError(Exception):
    """The switch did not answer, or refused; the message says why. `gone`: it can't be reached."""

    def __init__(self, message: str, *, gone: bool = False) -> None:
        super().__init__(message)
        self.gone = gone


def encode(message: Mapping[str, Any]) -> bytes:
    """Encode a message for the wire."""
    return json.dumps(message, separators=(",", ":")).encode()


def decode(data: bytes) -> Json:
    """Decode a message from the wire. Raises ValueError when it is no JSON object."""
    message = json.loads(data or b"{}")
    if not isinstance(message, dict):
        raise ValueError("the message is not a JSON object")
    return message


class DiagnosticsClient:
    """Talks to one switch. All methods raise DiagnosticsError."""

    def __init__(
        self, address: str, *, timeout_s: float = TIMEOUT_S, tls: ClientTls | None = None
    ) -> None:
        """`address` is HOST:PORT, P4Runtime's own. Nothing is sent before the first call.

        `tls`: for a switch with `--grpc-server-ssl`. Raises ClientTlsError for its files.
        """
        self.address = address
        self._timeout_s = timeout_s
        self._channel = channel(address, tls)
        # gRPC does not tell a refused certificate from silence.
        self._how = "" if tls is None else " with TLS and a certificate that both sides accept"

    def close(self) -> None:
        """End running calls and the connection."""
        self._channel.close()

    def wait(self, timeout_s: float) -> bool:
        """Wait until the switch accepts connections.

        Return False if it does not within `timeout_s`.
        """
        try:
            grpc.channel_ready_future(self._channel).result(timeout=timeout_s)
        except grpc.FutureTimeoutError:
            return False
        return True

    def __enter__(self) -> DiagnosticsClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, method: str, **request: Any) -> Json:
        """Call any method of the service by name; arguments that are None are left out."""
        function = self._channel.unary_unary(
            f"/{SERVICE}/{method}", request_serializer=encode, response_deserializer=decode
        )
        try:
            answer: Json = function(_given(request), timeout=self._timeout_s)
        except grpc.RpcError as error:
            raise self._error(error) from None
        except ValueError:  # the channel is closed
            raise DiagnosticsError(f"the connection to {self.address} is closed") from None
        return answer

    # --- counts -------------------------------------------------------------------------------

    def port_stats(self) -> dict[int, Json]:
        """Return the statistics of each port.

        These are the counts (ws_port_stats), `state`, `pause_mask` and `interface`; `link`, the
        settings of
        the port (as `set_link` returns them); `wire`, the impairments of the frames that it `send`s
        and
        `receive`s (ws_impair_stats).
        """
        return self.port_stats_at()[0]

    def port_stats_at(self) -> tuple[dict[int, Json], int]:
        """Return `port_stats`, and when the switch counted: its machine's monotonic clock, in
        ns.
        """
        reply = self.call("PortStats")
        return {int(port): row for port, row in reply["ports"].items()}, int(reply["at_ns"])

    def switch_stats(self) -> Json:
        """Return the counts of the switch and its clocks.

        `switch`: of the switch (ws_stats). `loop`: of the packet loop (wd_stats). `trace`: of
        tracing
        (ws_trace_stats). `tickers`: of each ticker, and how late it was (wd_ticker_stats).
        `now_ps`: the
        switch's clock. `epoch_us`: its machine's (microseconds since 1970). `device_id`:
        P4Runtime's.
        """
        return self.call("SwitchStats")

    def queue(self, port: int) -> Json:
        """Return a port's depths, highest depth so far, capacities and pause mask."""
        return self.call("Queue", port=port)

    def watch_queue(self, port: int, queue: int, above_bytes: int) -> None:
        """Start to watch a queue for `queue_peak`; its first peak is its present depth."""
        self.call("WatchQueue", port=port, queue=queue, above_bytes=above_bytes)

    def queue_peak(self, port: int, queue: int) -> Json:
        """Return `bytes`: the most that a queue has held since it is watched; `above_ps`: when it
        first held more than `above_bytes`, by the switch's clock, None if never; `now_ps`, that
        clock.
        """
        return self.call("QueuePeak", port=port, queue=queue)

    # --- settings -----------------------------------------------------------------------------

    def set_port(self, port: int, up: bool) -> None:
        """Take a port up or down, as a cable does."""
        self.call("SetPort", port=port, up=up)

    def session_zero(
        self, *, port: int | None = None, group: int | None = None, delete: bool | None = None
    ) -> Json:
        """Set BMv2's mirroring session 0, which P4Runtime does not have, to `port` or `group`."""
        return self.call("SessionZero", port=port, group=group, delete=delete)

    def add_port(self, port: int, interface: str, pcap: str | None = None) -> None:
        """Open an interface as a port; `pcap`: write its packets to PCAP_in.pcap, PCAP_out.pcap.

        Paths are the switch's.
        """
        self.call("AddPort", port=port, interface=interface, pcap=pcap)

    def remove_port(self, port: int) -> None:
        """Close a port's interface."""
        self.call("RemovePort", port=port)

    def set_link(
        self,
        port: int,
        *,
        rate_bps: int | None = None,
        tx_delay_ns: int | None = None,
        rx_delay_ns: int | None = None,
        queue_packets: int | None = None,
        queue_bytes: int | None = None,
        quanta: Sequence[int] | None = None,
        send: Mapping[str, int] | None = None,
        receive: Mapping[str, int] | None = None,
        clear: bool | None = None,
        **settings: Any,
    ) -> Json:
        """Change the given settings, keep the others; return the settings in force, times in ps.

        `quanta`: of the 8 queues (ws_scheduler). `send`, `receive`: impairments, members of
        ws_port_impair, as softswitch.impairments.changes() returns them; `clear`: remove all
        impairments
        except those given with it. `settings`: any other member of ws_port_config by its name
        (`_ns` may
        stand for `_ps`).
        """
        return self.call(
            "SetLink",
            port=port,
            rate_bps=rate_bps,
            tx_delay_ns=tx_delay_ns,
            rx_delay_ns=rx_delay_ns,
            queue_packets=queue_packets,
            queue_bytes=queue_bytes,
            quanta=quanta,
            send=send,
            receive=receive,
            clear=clear,
            **settings,
        )

    # --- what a client keeps in the switch ----------------------------------------------------

    def ledger(
        self,
        section: str,
        *,
        put: Mapping[str, object] | None = None,
        drop: Sequence[str] | None = None,
        clear: bool | None = None,
        revision: int | None = None,
        guarded: bool | None = None,
    ) -> tuple[int, Json | None]:
        """Change rows of a section, which live as long as the program; `clear`: drop all before.

        Returns the section's revision and its rows; None for rows when they were those of
        `revision` before the change. `guarded`: nothing is changed unless they were.
        """
        answer = self.call(
            "Ledger",
            section=section,
            put=put,
            drop=drop,
            clear=clear,
            revision=revision,
            guarded=guarded,
        )
        return answer["revision"], answer.get("rows")

    # --- traces -------------------------------------------------------------------------------

    def trace(
        self,
        filter: str | None = None,
        limit: int | None = None,
        ports: Sequence[int] | None = None,
    ) -> Iterator[Json]:
        """Yield events as they happen, until `limit` packets or the iterator is closed
        (docs/trace.md).
        """
        function = self._channel.unary_stream(
            f"/{SERVICE}/Trace", request_serializer=encode, response_deserializer=decode
        )
        stream = function(_given({"filter": filter, "limit": limit, "ports": ports}))
        try:
            stream.initial_metadata()  # waits for the answer
            if not stream.is_active():
                next(stream)  # raises why
        except grpc.RpcError as error:
            raise self._error(error) from None
        return self._events(stream)

    def _events(self, stream: grpc.UnaryStreamMultiCallable) -> Iterator[Json]:
        try:
            yield from stream
        except grpc.RpcError as error:
            raise self._error(error) from None
        finally:
            stream.cancel()

    def _error(self, error: grpc.RpcError) -> DiagnosticsError:
        match error.code():
            case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.CANCELLED:
                return DiagnosticsError(
                    f"no switch answers on {self.address}{self._how}", gone=True
                )
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                return DiagnosticsError(
                    f"the switch on {self.address} did not answer in {self._timeout_s:g} s"
                )
            case grpc.StatusCode.UNIMPLEMENTED:
                return DiagnosticsError(
                    f"the switch on {self.address} has no diagnostics: it is not Weft's own"
                )
            case _:
                return DiagnosticsError(str(error.details()))


def _given(request: Mapping[str, Any]) -> Json:
    return {name: value for name, value in request.items() if value is not None}
