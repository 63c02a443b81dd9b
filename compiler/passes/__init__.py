"""Passes over the checked tree before it is lowered: elaboration, effects, names, usage."""
