"""Bolt: switches grant packets to senders, and notify them of queues (docs/bolt.md)."""
