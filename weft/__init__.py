"""The command line: arguments, progress, tables, the prompt, messages and exit codes.

It stays thin: each command calls one package below and prints what comes back.
No networking, no P4 and no measuring lives here.
"""
