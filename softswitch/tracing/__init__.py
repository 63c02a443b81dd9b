"""Traces: what a packet met on its way, as typed records, as text, and as JSON.

Filters, the decoder of the core's raw records, their text, the session that turns tracing on live
here. Not here: gRPC (softswitch.diagnostics*), and what packets do (softswitch.core).
"""

from __future__ import annotations

from softswitch.tracing.filter import FilterError, compile_filter
from softswitch.tracing.records import Branch, Outcome, PacketTrace, Step

__all__ = ["Branch", "FilterError", "Outcome", "PacketTrace", "Step", "compile_filter"]
