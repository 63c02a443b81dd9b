"""Scapy layers of Weft's own headers, and what scapy's RoCEv2 lacks: RETH and an ICRC check.

Layouts only, no sockets and no switches. RoCEv2 itself is scapy.contrib.roce.
"""

from __future__ import annotations
