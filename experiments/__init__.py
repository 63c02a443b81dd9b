"""Runs labs, sweeps, reports, grades and measurements, on any runtime.

A lab's content is in `labs/`; what it may use of this room is offered there under `labs`.
"""
