"""A real PyTorch job on hosts of a fabric: its ranks, its faults, what came of it.

`rank` and `launcher` run in processes of their own and import torch; what runs a job does not.
"""
