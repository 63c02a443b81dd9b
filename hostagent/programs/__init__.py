"""Host programs: what runs on a host and reacts to frames and timers, in C or in Python.

The same program runs on the simulator's hosts and, by `service`, in a host's network namespace.
Programs are passive (host_program.h): no clock, no socket, no sleep.
"""
