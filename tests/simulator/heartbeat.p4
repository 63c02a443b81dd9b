// Heartbeats of a ticker: a tick is copied to all ports, and what comes by a link says that it is alive.

#include <core.p4>
#include <v1model.p4>

const bit<9> TICKER_PORT = 509;

header beat_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
    bit<48> at; // when the tick came in, in ticks of the switch
}

struct headers_t {
    beat_t beat;
}

struct metadata_t {
}

parser BeatParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.beat);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
    }
}

control Beats(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<48>>(512) heard_at;
    register<bit<48>>(512) said_at;
    counter(512, CounterType.packets) beats;

    apply {
        beats.count((bit<32>)std.ingress_port);
        if (std.ingress_port == TICKER_PORT) {
            hdr.beat.at = std.ingress_global_timestamp;
            std.mcast_grp = 1;
        } else {
            heard_at.write((bit<32>)std.ingress_port, std.ingress_global_timestamp);
            said_at.write((bit<32>)std.ingress_port, hdr.beat.at);
            mark_to_drop(std);
        }
    }
}

control Nothing(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
    }
}

control BeatDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.beat);
    }
}

V1Switch(BeatParser(), NoChecksum(), Beats(), Nothing(), NoChecksum(), BeatDeparser()) main;
