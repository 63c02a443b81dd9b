"""Dual-plane NIC: queue pairs share their load over planes and outlive any (docs/dual-plane.md)."""
