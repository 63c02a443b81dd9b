"""DPFR: the data plane detects dead links, reroutes and notifies others (docs/dpfr.md)."""
