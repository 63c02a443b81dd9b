// Makes the CNP: a copy of the packet that met the queue, rewritten and sent back to the source.
//
//   SendCopy   the packet, in ingress: fields for the copy -> clone to RECIRCULATION_PORT
//   MakeCnp    the copy, in egress of that port: becomes the CNP -> ingress -> routed as any packet
//   CutCopy    in ingress: without the packet's payload

#ifndef WEFT_FAST_CNP_MAKE_CNP_P4
#define WEFT_FAST_CNP_MAKE_CNP_P4

#include "../../include/constants.p4"
#include "../../include/headers.p4"
#include "ids.p4"
#include "claim.p4"

const bit<32> FAST_CNP_SESSION = 510;       // clone session to RECIRCULATION_PORT
const bit<32> FAST_CNP_BYTES = 74;          // Ethernet 14, IPv4 20, UDP 8, BTH 12, notification 16, ICRC 4
const bit<8> CNP_TTL = 64;

control SendCopy(inout local_metadata_t meta, in standard_metadata_t std,
                 in asked_queue_t queue) {
    @id(REGISTER_ID_SEQUENCES)
    register<bit<12>>(WATCHED) sequences;

    action number_cnp() {
        sequences.read(meta.fast_cnp.sequence, (bit<32>)queue.index);
        meta.fast_cnp.sequence = meta.fast_cnp.sequence + 1;
        sequences.write((bit<32>)queue.index, meta.fast_cnp.sequence);
    }

    action describe_cnp() {
        meta.fast_cnp.made = 1;
        meta.fast_cnp.port = std.egress_spec;
        meta.fast_cnp.router_mac = meta.router_mac;
    }

    apply {
        number_cnp();
        describe_cnp();
        clone_preserving_field_list(CloneType.I2E, FAST_CNP_SESSION, FAST_CNP);
    }
}

control MakeCnp(inout headers_t hdr, in local_metadata_t meta) {
    action rewrite_to_cnp() {
        ipv4_addr_t destination = hdr.ipv4.dst;
        hdr.ethernet.dst = meta.fast_cnp.router_mac;
        hdr.ethernet.src = meta.fast_cnp.router_mac;
        hdr.notification.setValid();
        hdr.notification.type = NotificationType.CONGESTION;
        hdr.notification.severity = 0;
        hdr.notification.hops = 0;
        hdr.notification.validity = meta.fast_cnp.validity;
        hdr.notification.switch_id = meta.fast_cnp.switch_id;
        hdr.notification.port = (bit<12>)meta.fast_cnp.port;
        hdr.notification.sequence = meta.fast_cnp.sequence;
        hdr.notification.destination = destination;
        hdr.notification.destination_qp = hdr.bth.destination_qp;
        hdr.notification.queue = meta.fast_cnp.rate;

#ifdef WITH_TELEMETRY
        hdr.telemetry.setInvalid();
        hdr.telemetry_written.setInvalid();
#endif
#ifdef WITH_TELEMETRY_WORD
        hdr.telemetry_word.setInvalid();
#endif

        // As the destination would send it: a NIC takes CNPs from its queue pair's peer only.
        hdr.ipv4.version = 4;
        hdr.ipv4.ihl = 5;
        hdr.ipv4.dscp = meta.fast_cnp.dscp;
        hdr.ipv4.ecn = Ecn.NOT_CAPABLE;
        hdr.ipv4.length = (bit<16>)(FAST_CNP_BYTES - 14);
        hdr.ipv4.id = 0;
        hdr.ipv4.reserved = 0;
        hdr.ipv4.dont_fragment = 1;
        hdr.ipv4.more_fragments = 0;
        hdr.ipv4.fragment = 0;
        hdr.ipv4.ttl = CNP_TTL;
        hdr.ipv4.protocol = IpProtocol.UDP;
        hdr.ipv4.dst = hdr.ipv4.src;
        hdr.ipv4.src = destination;
        hdr.udp.dst_port = ROCE_V2_PORT;
        hdr.udp.length = (bit<16>)(FAST_CNP_BYTES - 34);
        hdr.udp.checksum = 0;
        hdr.bth.opcode = BthOpcode.CNP;
        hdr.bth.solicited = 0;
        hdr.bth.migrated = 0;
        hdr.bth.padding = 0;
        hdr.bth.version = 0;
        hdr.bth.partition = 0xffff;
        hdr.bth.fecn = 0;
        hdr.bth.becn = 1;
        hdr.bth.reserved_6 = 0;
        hdr.bth.destination_qp = meta.fast_cnp.source_qp;
        hdr.bth.acknowledge = 0;
        hdr.bth.reserved_7 = 0;
        hdr.bth.sequence = 0;
        hdr.ipv4_options.setInvalid();
        hdr.reth.setInvalid();
        hdr.aeth.setInvalid();
    }

    // Over eight bytes of ones and the packet from IPv4 on, what routers change as ones: TOS, TTL, both
    // checksums, BTH's fifth byte (InfiniBand vol. 1, annex A17). On the wire from its least significant byte on.
    action write_icrc() {
        bit<32> crc;
        // In words of 64 bits: the target copies what it hashes.
        hash(crc, HashAlgorithm.crc32, 32w0, {
            64w0xffffffffffffffff,
            hdr.ipv4.version ++ hdr.ipv4.ihl ++ 8w0xff ++ hdr.ipv4.length ++ hdr.ipv4.id ++
                hdr.ipv4.reserved ++ hdr.ipv4.dont_fragment ++ hdr.ipv4.more_fragments ++
                hdr.ipv4.fragment,
            8w0xff ++ (bit<8>)hdr.ipv4.protocol ++ 16w0xffff ++ hdr.ipv4.src,
            hdr.ipv4.dst ++ hdr.udp.src_port ++ hdr.udp.dst_port,
            hdr.udp.length ++ 16w0xffff ++ (bit<8>)hdr.bth.opcode ++ hdr.bth.solicited ++
                hdr.bth.migrated ++ hdr.bth.padding ++ hdr.bth.version ++ hdr.bth.partition,
            8w0xff ++ hdr.bth.destination_qp ++ hdr.bth.acknowledge ++ hdr.bth.reserved_7 ++
                hdr.bth.sequence,
            (bit<4>)hdr.notification.type ++ hdr.notification.severity ++ hdr.notification.hops ++
                hdr.notification.validity ++ hdr.notification.switch_id ++
                hdr.notification.port ++ hdr.notification.sequence ++
                hdr.notification.destination[31:24],
            hdr.notification.destination[23:0] ++ hdr.notification.destination_qp ++
                hdr.notification.queue
        }, 64w0x100000000);
        hdr.icrc.setValid();
        hdr.icrc.value = crc[7:0] ++ crc[15:8] ++ crc[23:16] ++ crc[31:24];
    }

    apply {
        rewrite_to_cnp();
        write_icrc();
        recirculate_preserving_field_list(NOTHING);
    }
}

// In ingress: what recirculates has the payload again that it was cut off from.
control CutCopy(in standard_metadata_t std) {
    apply {
        if (std.instance_type == RECIRCULATED) {
            truncate(FAST_CNP_BYTES);
        }
    }
}

#endif
