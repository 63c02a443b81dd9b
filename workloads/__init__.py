"""What a fabric carries: run files, jobs, collectives, placement, traffic, importers.

Knows topologies and no runtime: both the simulator and real hosts play what is planned here.
"""
