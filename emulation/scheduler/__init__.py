"""The interface of a running fabric to schedulers of jobs.

Jobs come and go by `weft job`, by gRPC (jobs.proto) or by Python (client.py), and end at the run's
controller. No mechanism is named here: the one that plans with jobs says what it planned.
"""
