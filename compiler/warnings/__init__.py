"""Warnings where p4c warns, a family a module; `program` runs them in p4c's order."""
