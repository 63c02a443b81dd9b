"""Holds runs against numbers that other simulators gave for the same flows (docs/validation.md).

What the others gave is committed as facts, with version, settings and commands; none of them is
run here. Nothing else in the house imports this.
"""
