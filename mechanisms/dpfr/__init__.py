"""DPFR: the data plane finds dead links, sends round them, and tells others (docs/dpfr.md)."""
