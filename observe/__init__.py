"""What a running fabric shows: samples, readers, metrics, the live views.

Reads, and changes nothing.
"""
