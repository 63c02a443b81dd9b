"""A topology run in virtual time: one event loop over the same pipelines and host algorithms.

Time is an integer count of picoseconds; the same file and seed give the same bytes everywhere.
No clock, no socket, no thread and no floating point in the order of events lives here.
"""
