"""What runs on a host: eBPF programs (`bpf/`), their loaders, the agents and the RoCE endpoint.

Host algorithms are plain C headers without kernel calls, shared with the simulator.
Nothing here knows about switches, P4Runtime or how the network around the host is made.
"""
