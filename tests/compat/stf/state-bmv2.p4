// A register, a counter and a meter, each by the packet's level.
#include "frame.p4"

control ProbeIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<8>>(16) memory;
    counter(16, CounterType.packets_and_bytes) seen;
    meter(16, MeterType.packets) limit;

    apply {
        bit<2> colour = 0;
        std.egress_spec = 1;
        seen.count((bit<32>)hdr.probe.level);
        memory.read(hdr.probe.answer, (bit<32>)hdr.probe.level);
        memory.write((bit<32>)hdr.probe.level, hdr.probe.answer + 1);
        limit.execute_meter((bit<32>)hdr.probe.level, colour);
        hdr.probe.target = (bit<32>)colour;
    }
}

control ProbeEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { }
}

V1Switch(FrameParser(), Unchecked(), ProbeIngress(), ProbeEgress(), Unchecked(), FrameDeparser()) main;
