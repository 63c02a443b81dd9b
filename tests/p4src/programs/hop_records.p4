// For tests: a mechanism that writes 12 bytes into each packet that collects telemetry, when it leaves the switch.

#if HOOK == HOOK_PROFILE

#ifdef WITH_HOP_RECORDS
#define WITH_TELEMETRY 1
#define WITH_TELEMETRY_ROOM 1
#endif

#elif defined(WITH_HOP_RECORDS)
#if HOOK == HOOK_TYPES

const bit<8> HOP_RECORDS_FORMAT = 1;

header hop_record_t {
    bit<16> switch_id;
    bit<16> port;
    bit<32> queue;              // as the target counts it
    bit<32> left_at;
}

#elif HOOK == HOOK_HEADERS
    hop_record_t hop_record;

#elif HOOK == HOOK_DEPARSER
        packet.emit(hdr.hop_record);

#elif HOOK == HOOK_CONTROLS

control HopRecords(inout headers_t hdr, in standard_metadata_t std) {
    LengthenTelemetry() lengthen;

    action write_record(bit<16> switch_id) {
        hdr.hop_record.setValid();
        hdr.hop_record.switch_id = switch_id;
        hdr.hop_record.port = (bit<16>)std.egress_port;
        hdr.hop_record.queue = (bit<32>)std.deq_qdepth;
        hdr.hop_record.left_at = (bit<32>)std.egress_global_timestamp;
    }

    table hop_record_mode {
        actions = { write_record; }
        default_action = write_record(0);
    }

    apply {
        bool may = false;
        if (std.egress_port == RECIRCULATION_PORT) {
            hdr.hop_record.setInvalid();
        } else {
            lengthen.apply(hdr, 3, HOP_RECORDS_FORMAT, may);
        }
        if (may) {
            hop_record_mode.apply();
        }
    }
}

#elif HOOK == HOOK_EGRESS_INSTANCES
    HopRecords() hop_records;

#elif HOOK == HOOK_EGRESS
        hop_records.apply(hdr, std);

#endif
#endif
