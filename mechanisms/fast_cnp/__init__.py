"""Fast CNP: the switch that sees a queue grow tells the source itself (docs/fast-cnp.md)."""
