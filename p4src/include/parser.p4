// From bytes to headers.
//
//   start -> [packet_out] -> ethernet -> arp
//                               `-> ipv4 -> [options] -> icmp | tcp | udp -> [telemetry] -> bth -> reth | aeth | notification
//                                                                        `-> notification -> [body]

#ifndef WEFT_PARSER_P4
#define WEFT_PARSER_P4

#include "constants.p4"
#include "headers.p4"

error {
    BadIpv4Header,
    ArpNotForIpv4
}

parser FabricParser(packet_in packet, out headers_t hdr, inout local_metadata_t meta,
                    inout standard_metadata_t std) {
    state start {
        meta.flow.protocol = 0;
        meta.flow.src_port = 0;
        meta.flow.dst_port = 0;
        meta.drop_reason = DropReason.UNDECIDED;
        meta.router_mac = 0;
        meta.group = 0;
        meta.next_hop = 0;
#ifdef WITH_CPU
        meta.cpu_reason = 0;
#endif
#ifdef WITH_CONGESTION_SIGNAL
        meta.congestion.told = 0;
        meta.congestion.must_mark = 0;
#endif
#ifdef WITH_MARKING_THRESHOLDS
        meta.marking.given = 0;
        meta.marking.low = 0;
        meta.marking.high = 0;
        meta.marking.slope = 0;
#endif
#ifdef WITH_NOTIFICATIONS
        meta.notifying.datagram = 0;
        meta.notifying.taken = 0;
        meta.notifying.on = 0;
        meta.notifying.class_of_service = 0;
        meta.notifying.relay = 0;
        meta.notifying.relayed = 0;
        meta.notifying.session = 0;
        meta.notifying.made = 0;
        meta.notifying.type = 0;
        meta.notifying.severity = 0;
        meta.notifying.hops = 0;
        meta.notifying.validity = 0;
        meta.notifying.port = 0;
        meta.notifying.destination = 0;
        meta.notifying.destination_qp = 0;
        meta.notifying.queue = 0;
        meta.notifying.body = 0;
        meta.notifying.to = 0;
#endif
#define HOOK HOOK_METADATA_START
#include "../mechanisms.p4"
#undef HOOK
        transition select(std.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }

    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition parse_ethernet;
    }

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            EtherType.IPV4: parse_ipv4;
            EtherType.ARP: parse_arp;
            default: accept;
        }
    }

    state parse_arp {
        packet.extract(hdr.arp);
        verify(hdr.arp.hardware == 1 && hdr.arp.protocol == 0x0800 &&
               hdr.arp.hardware_length == 6 && hdr.arp.protocol_length == 4,
               error.ArpNotForIpv4);
        transition accept;
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.version == 4 && hdr.ipv4.ihl >= 5, error.BadIpv4Header);
        meta.flow.protocol = (bit<8>)hdr.ipv4.protocol;
        transition select(hdr.ipv4.ihl) {
            5: parse_transport;
            default: parse_ipv4_options;
        }
    }

    state parse_ipv4_options {
        packet.extract(hdr.ipv4_options, ((bit<32>)hdr.ipv4.ihl - 5) << 5);
        transition parse_transport;
    }

    state parse_transport {
        transition select(hdr.ipv4.more_fragments, hdr.ipv4.fragment, hdr.ipv4.protocol) {
            (0, 0, IpProtocol.UDP): parse_udp;
            (0, 0, IpProtocol.TCP): parse_tcp;
            (0, 0, IpProtocol.ICMP): parse_icmp;
#ifdef WITH_NOTIFICATIONS
            (1, 0, IpProtocol.UDP): parse_first_fragment;
#endif
            default: accept;
        }
    }

#ifdef WITH_NOTIFICATIONS
    // The ports of what is cut up stand here alone: without this piece nobody can put it together. So a
    // notification can't get past the guard in pieces.
    state parse_first_fragment {
        transition select(packet.lookahead<bit<32>>()[15:0]) {
            NOTIFICATION_PORT: note_datagram;
            default: accept;
        }
    }

    state note_datagram {
        meta.notifying.datagram = 1;
        transition accept;
    }
#endif

    state parse_icmp {
        packet.extract(hdr.icmp);
        transition accept;
    }

    state parse_tcp {
        packet.extract(hdr.tcp);
        meta.flow.src_port = hdr.tcp.src_port;
        meta.flow.dst_port = hdr.tcp.dst_port;
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.udp);
        meta.flow.src_port = hdr.udp.src_port;
        meta.flow.dst_port = hdr.udp.dst_port;
        transition select(hdr.udp.dst_port) {
            ROCE_V2_PORT: parse_bth;
#ifdef WITH_TELEMETRY
            TELEMETRY_PORT: parse_telemetry;
#endif
#ifdef WITH_NOTIFICATIONS
            NOTIFICATION_PORT: parse_datagram;
#endif
#define HOOK HOOK_UDP_PORTS
#include "../mechanisms.p4"
#undef HOOK
            default: accept;
        }
    }

#ifdef WITH_TELEMETRY
    // The flow is that of the packet without the shim, so that it takes the same path.
    state parse_telemetry {
        packet.extract(hdr.telemetry);
        meta.flow.dst_port = ROCE_V2_PORT;
        transition select(hdr.telemetry.version, hdr.telemetry.words) {
#ifdef WITH_TELEMETRY_WORD
            (TELEMETRY_VERSION, 1): parse_telemetry_word;
#endif
            (TELEMETRY_VERSION, 0 &&& 0xc0): parse_telemetry_written;
            default: accept;
        }
    }

    state parse_telemetry_written {
        packet.extract(hdr.telemetry_written, (bit<32>)hdr.telemetry.words << 5);
        transition parse_bth;
    }
#endif

#ifdef WITH_TELEMETRY_WORD
    state parse_telemetry_word {
        packet.extract(hdr.telemetry_word);
        transition parse_bth;
    }
#endif

    state parse_bth {
        packet.extract(hdr.bth);
        transition select(hdr.bth.opcode) {
            BthOpcode.RC_WRITE_FIRST: parse_reth;
            BthOpcode.RC_WRITE_ONLY: parse_reth;
            BthOpcode.RC_WRITE_ONLY_IMMEDIATE: parse_reth;
            BthOpcode.RC_READ_REQUEST: parse_reth;
            BthOpcode.UC_WRITE_FIRST: parse_reth;
            BthOpcode.UC_WRITE_ONLY: parse_reth;
            BthOpcode.UC_WRITE_ONLY_IMMEDIATE: parse_reth;
            BthOpcode.RC_READ_RESPONSE_FIRST: parse_aeth;
            BthOpcode.RC_READ_RESPONSE_LAST: parse_aeth;
            BthOpcode.RC_READ_RESPONSE_ONLY: parse_aeth;
            BthOpcode.RC_ACKNOWLEDGE: parse_aeth;
            BthOpcode.CNP: parse_notification;
            default: accept;
        }
    }

    state parse_reth {
        packet.extract(hdr.reth);
        transition accept;
    }

    state parse_aeth {
        packet.extract(hdr.aeth);
        transition accept;
    }

    state parse_notification {
        packet.extract(hdr.notification);
        transition accept;
    }

#ifdef WITH_NOTIFICATIONS
    state parse_datagram {
        meta.notifying.datagram = 1;
        packet.extract(hdr.notification);
        transition select(hdr.notification.type) {
#define HOOK HOOK_NOTIFICATION_BODIES
#include "../mechanisms.p4"
#undef HOOK
            default: accept;
        }
    }
#endif

#define HOOK HOOK_PARSER_STATES
#include "../mechanisms.p4"
#undef HOOK
}

#endif
