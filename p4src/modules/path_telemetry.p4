// What a packet meets on its way, for its sender: what each line has sent, when, and what waits there; or how much the most used line
// of the path is used. docs/wire-formats.md has both formats, docs/path-telemetry.md says what for.
// Mirrored in hostagent/include/path_telemetry.h and protocols/path_telemetry.py; tests compare them.
//
//   a packet leaves a queue (egress) -> PathTelemetry   counts its bytes, and writes if it collects
//                                    -> LineUse         how much the port's line is used (WITH_PATH_USE)
//
// Without WITH_PATH_USE there is only the record a hop. What is written counts, too: bytes are as the line carries them.

#if HOOK == HOOK_PROFILE

#ifndef PROFILE
#define WITH_PATH_TELEMETRY 1
#define WITH_PATH_USE 1
#endif
#ifdef WITH_PATH_TELEMETRY
#define WITH_TELEMETRY 1
#define WITH_TELEMETRY_ROOM 1
#ifdef WITH_PATH_USE
#define WITH_TELEMETRY_WORD 1
#define WITH_TELEMETRY_SHARED 1
#endif
#endif

#elif defined(WITH_PATH_TELEMETRY)
#if HOOK == HOOK_TYPES

#define ACTION_ID_COUNT_PORT            0x01001101
#define ACTION_ID_WRITE_HOP             0x01001102
#define ACTION_ID_SKIP_PATH_PORT        0x01001103
#define TABLE_ID_PATH_PORT              0x02001101
#define REGISTER_ID_PATH_SENT           0x16001101

const bit<8> PATH_TELEMETRY_HOPS = 1;
const bit<8> PATH_HOP_WORDS = 3;
const bit<32> PATH_FRAME_OVERHEAD = 24;         // on the line, besides what std.packet_length counts: FCS, preamble, gap
const bit<32> PATH_FRAME_LEAST = 60;
const bit<64> PATH_QUEUE_MOST = 0xffff;

header path_hop_t {
    bit<16> hop;                // the port's number in the fabric, never 0
    bit<16> rate;               // its line's, as notifications have them
    bit<24> at;                 // when the packet left the queue, ns of the fabric
    bit<24> sent;               // what the line has carried by then, this packet included, in 64 bytes
    bit<16> queue;              // what waits in that queue, in 512 bytes
}

#ifdef WITH_PATH_USE
#include "path_telemetry/types.p4"
#endif

#elif HOOK == HOOK_HEADERS
    path_hop_t path_hop;

#elif HOOK == HOOK_DEPARSER
        packet.emit(hdr.path_hop);

#elif HOOK == HOOK_CONTROLS

#ifdef WITH_PATH_USE
#include "path_telemetry/line_use.p4"
#endif

control PathTelemetry(inout headers_t hdr, in standard_metadata_t std) {
    LengthenTelemetry() lengthen;
#ifdef WITH_PATH_USE
    ShareTelemetry() share;
    LineUse() line_use;
#endif

    @id(REGISTER_ID_PATH_SENT)
    register<bit<32>>(PORTS) path_sent;         // bytes

    bit<8>  format = 0;
    bit<16> number = 0;
    bit<16> line = 0;
    bit<64> scale = 0;
    bit<64> unit = 0;

    // Of a class that collects nothing: its packets use the line.
    @id(ACTION_ID_COUNT_PORT)
    action count_port() { }

    // `ns_per_tick`: of the fabric's ns in the target's tick, in 1/2^32. `depth_unit`: of depths, in bytes.
    @id(ACTION_ID_WRITE_HOP)
    action write_hop(@id(1) bit<16> hop, @id(2) bit<16> rate, @id(3) bit<48> ns_per_tick, @id(4) bit<32> depth_unit) {
        format = PATH_TELEMETRY_HOPS;
        number = hop;
        line = rate;
        scale = (bit<64>)ns_per_tick;
        unit = (bit<64>)depth_unit;
    }

#ifdef WITH_PATH_USE
    @id(ACTION_ID_WRITE_USE)
    action write_use(@id(1) bit<16> hop, @id(2) bit<32> depth_unit) {
        format = PATH_TELEMETRY_MOST_USED;
        number = hop;
        unit = (bit<64>)depth_unit;
    }
#endif

    @id(ACTION_ID_SKIP_PATH_PORT)
    action skip_path_port() { }

    // Ports to other switches and hosts, with all of their classes.
    @id(TABLE_ID_PATH_PORT)
    table path_port {
        key = {
            std.egress_port: exact @name("port");
            std.priority: exact @name("class");
        }
        actions = {
            count_port;
            write_hop;
#ifdef WITH_PATH_USE
            write_use;
#endif
            @defaultonly skip_path_port;
        }
        const default_action = skip_path_port();
        size = PORTS * 8;
    }

    apply {
        if (path_port.apply().hit) {
            bit<32> bytes = std.packet_length;
            bool hop_may = false;
            if (format == PATH_TELEMETRY_HOPS) {
                lengthen.apply(hdr, PATH_HOP_WORDS, PATH_TELEMETRY_HOPS, hop_may);
                if (hop_may) {
                    bytes = bytes + ((bit<32>)PATH_HOP_WORDS << 2);
                }
            }
#ifdef WITH_PATH_USE
            bool use_may = false;
            if (format == PATH_TELEMETRY_MOST_USED) {
                bit<32> more;
                share.apply(hdr, PATH_TELEMETRY_MOST_USED, more, use_may);
                bytes = bytes + more;
            }
#endif
            bytes = (bytes < PATH_FRAME_LEAST ? PATH_FRAME_LEAST : bytes) + PATH_FRAME_OVERHEAD;
            bit<32> sent;
            path_sent.read(sent, (bit<32>)std.egress_port);
            sent = sent + bytes;
            path_sent.write((bit<32>)std.egress_port, sent);

            bit<64> waits = (bit<64>)std.deq_qdepth * unit;
            if (hop_may) {
                bit<64> now = (bit<64>)std.egress_global_timestamp * scale;
                bit<64> cells = waits >> 9;
                hdr.path_hop.setValid();
                hdr.path_hop.hop = number;
                hdr.path_hop.rate = line;
                hdr.path_hop.at = now[55:32];
                hdr.path_hop.sent = sent[29:6];
                hdr.path_hop.queue = cells > PATH_QUEUE_MOST ? 0xffff : cells[15:0];
            }
#ifdef WITH_PATH_USE
            bit<64> used;
            line_use.apply(std, sent, format == PATH_TELEMETRY_MOST_USED, waits, used);
            if (use_may && hdr.telemetry_word.isValid()) {
                bit<16> path = hdr.telemetry_word.value[31:16];
                path = (path[14:0] ++ path[15:15]) ^ number;
                bit<16> most = hdr.telemetry_word.value[15:0];
                most = used[30:15] > most ? used[30:15] : most;
                hdr.telemetry_word.value = path ++ most;
            }
#endif
        }
    }
}

#elif HOOK == HOOK_EGRESS_INSTANCES
    PathTelemetry() path_telemetry;

#elif HOOK == HOOK_EGRESS
        path_telemetry.apply(hdr, std);

#endif
#endif
