"""What a fabric carries: run files, jobs, collectives, placement, traffic, importers.

Knows topologies and no runtime: both the simulator and real hosts carry out what is planned here.
"""
