"""p4c's simple test format (STF): its statements, and running them on a switch.

`script` reads the text, `entries` finds names as p4c's runner does, `expectations` compares
packets, `runner` drives a `StfTarget`. Nothing here compiles programs or starts processes.
"""
