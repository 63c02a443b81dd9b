// From headers to bytes, in the order of the wire. Invalid headers are skipped, and packet_out ends
// in the switch.

#ifndef WEFT_DEPARSER_P4
#define WEFT_DEPARSER_P4

#include "headers.p4"

control FabricDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv4_options);
        packet.emit(hdr.icmp);
        packet.emit(hdr.tcp);
        packet.emit(hdr.udp);
#ifdef WITH_TELEMETRY
        packet.emit(hdr.telemetry);
#endif
#define HOOK HOOK_DEPARSER
#include "../mechanisms.p4"
#undef HOOK
#ifdef WITH_TELEMETRY
        packet.emit(hdr.telemetry_written);
#endif
#ifdef WITH_TELEMETRY_WORD
        packet.emit(hdr.telemetry_word);
#endif
        packet.emit(hdr.bth);
        packet.emit(hdr.reth);
        packet.emit(hdr.aeth);
        packet.emit(hdr.notification);
#define HOOK HOOK_BODY_DEPARSER
#include "../mechanisms.p4"
#undef HOOK
        packet.emit(hdr.icrc);
    }
}

#endif
