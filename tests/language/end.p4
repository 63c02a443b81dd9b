// What the programs here end with. A program that has its own of these blocks names it before.
#ifndef VERIFY
#define VERIFY NoChecks
#endif
#ifndef DEPARSER
#define DEPARSER Emit
#endif
#ifndef EGRESS
#define EGRESS NoEgress
#endif
#ifndef COMPUTE
#define COMPUTE NoChecks
#endif

control NoChecks(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { }
}

control Emit(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(Parse(), VERIFY(), Main(), EGRESS(), COMPUTE(), DEPARSER()) main;
