"""ENCC: rates and windows from what switches say of themselves (docs/encc.md)."""
