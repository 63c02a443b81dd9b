"""A topology run in real time on this machine: namespaces, links, switch processes, real packets.

Here live the run's record and its clean-up, the Mininet network, the switch processes and the
proofs on real traffic. What switches decide is `controller`'s, terminal output is `weft`'s.
"""
