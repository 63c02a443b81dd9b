"""PowerTCP: rates and windows from what queues hold and how fast they grow (docs/powertcp.md)."""
