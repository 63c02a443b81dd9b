"""Stand-ins for p4c and BMv2, and what measures how close they come: optional and finished.

Everything here may import everything below; nothing below imports it. `weft` finds its commands
by name.
"""
