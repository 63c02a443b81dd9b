"""Fast CNP: the switch that sees a queue grow notifies the source itself (docs/fast-cnp.md)."""
