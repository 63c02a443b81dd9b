"""The interface of a fabric that is up to whoever schedules jobs on it.

Jobs come and go by `weft job`, by gRPC (jobs.proto) or by Python (client.py), and end at the run's
controller. No mechanism is named here: whoever plans with jobs says what it planned.
"""
