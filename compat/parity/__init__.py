"""Parity: the same packets and entries on every pairing of compiler and switch, and what differs.

Here: generators of packets and entries from a compiled program, targets that run them (in process,
BMv2, our daemon), comparison and minimising. Not here: the command line (weft), Mininet.
"""
