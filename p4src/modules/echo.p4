// Answers pings to the switch's own addresses. The answer is then routed like any packet, so that
// it finds hosts behind other switches too. Anything else to these addresses is dropped.

#ifndef WEFT_ECHO_P4
#define WEFT_ECHO_P4

#include "../include/headers.p4"
#include "../include/ids.p4"

const bit<8> DEFAULT_TTL = 64;  // of packets that a switch itself originates (RFC 1700)

control EchoResponder(inout headers_t hdr, inout local_metadata_t meta) {
    @id(ACTION_ID_TAKE_PACKET)
    action take_packet() {
        meta.drop_reason = DropReason.NOT_FOR_HOSTS;
    }

    @id(ACTION_ID_PASS_PACKET)
    action pass_packet() {
    }

    @id(TABLE_ID_OWN_ADDRESSES)
    table own_addresses {
        key = { hdr.ipv4.dst: exact @name("address"); }
        actions = { take_packet; @defaultonly pass_packet; }
        const default_action = pass_packet();
        size = 64;
    }

    action answer_echo() {
        ipv4_addr_t asker = hdr.ipv4.src;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.dst = asker;
        hdr.ipv4.ttl = DEFAULT_TTL;
        hdr.icmp.type = IcmpType.ECHO_REPLY;
        // The type's byte goes from 8 to 0, so the one's complement sum loses 0x0800 (RFC 1624).
        bit<17> sum = (bit<17>)hdr.icmp.checksum + 0x0800;
        hdr.icmp.checksum = sum[15:0] + (bit<16>)sum[16:16];
        meta.drop_reason = DropReason.UNDECIDED;
    }

    apply {
        if (own_addresses.apply().hit) {
            if (hdr.icmp.isValid() && hdr.icmp.type == IcmpType.ECHO_REQUEST) {
                answer_echo();
            }
        }
    }
}

#endif
