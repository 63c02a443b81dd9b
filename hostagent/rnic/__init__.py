"""A RoCEv2 network card: the passive C core (`core/`), what drives it in real time (`driver/`).

`Card` (binding.py) is the core in Python; `python -m hostagent.rnic.service` is a host's endpoint.
Nothing here knows of networks or of runs.
"""
