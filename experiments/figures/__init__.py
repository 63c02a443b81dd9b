"""What `weft plot` draws: series of a result, several results beside each other, sweeps.

No command line here. A topic of one result is a function in `weft/plot_figures.py`.
"""
