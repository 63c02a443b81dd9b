"""P4Runtime (specification 1.4): entities on top of the core, and the gRPC server.

Everything that knows P4Info, Protobuf messages or P4Runtime's rules lives here; nothing here opens
a network interface, reads a clock by itself or knows how JSON becomes machine code.
"""
