"""Workers of collectives that switches compute: the passive core in C, and its Python binding.

`core/` knows no clock, socket or thread; the simulator's hosts and `driver/` run it. What a worker
says on the wire is in docs/allreduce.md. No mechanism's settings are read here.
"""
