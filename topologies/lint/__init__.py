"""Faults of a topology that loads, found before it is started."""
