"""What `import weft` offers to programs and notebooks: P4, switches, topologies, runs, sweeps.

Each module wraps one room below for a caller who has values rather than files, and shows it well in
a notebook. No simulation, compiler or switch lives here; the names are in weft/__init__.py.
"""
