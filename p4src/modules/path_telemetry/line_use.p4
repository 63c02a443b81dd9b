// How much a port's line is used, as an average over a round trip T with the queue as what is still to be sent in one:
//
//   U' = (T - d) / T * U  +  d / T * queue / (B T)  +  bytes / (B T)        d: ticks since U, at most T
//
// PINT's rule (Ben Basat et al., SIGCOMM 2020) for HPCC's U. There every packet changes U, and the switch reckons in logarithms. Here U
// is renewed by the first packet after a step of T / 64, with all bytes since, so that numbers of 64 bits are exact enough: U
// in 1/2^28, parts of T and loads in 1/2^28 of products with factors in 1/2^56. Nothing is divided.

#ifndef WEFT_PATH_TELEMETRY_LINE_USE_P4
#define WEFT_PATH_TELEMETRY_LINE_USE_P4

// `sent`: by the port, bytes. `own`: the packet left a queue that counts, in which `waits` bytes are left. `used`: U in 1/2^28.
control LineUse(in standard_metadata_t std, in bit<32> sent, in bool own, in bit<64> waits, out bit<64> used) {
    @id(REGISTER_ID_PATH_USED)
    register<bit<32>>(PORTS) path_used;
    @id(REGISTER_ID_PATH_USED_AT)
    register<bit<48>>(PORTS) path_used_at;      // when it was renewed, in ticks
    @id(REGISTER_ID_PATH_USED_SENT)
    register<bit<32>>(PORTS) path_used_sent;    // what had been sent by then
    @id(REGISTER_ID_PATH_USED_QUEUE)
    register<bit<64>>(PORTS) path_used_queue;   // what waited when a packet of such a queue renewed it, bytes

    bit<48> whole = 0;
    bit<48> least = 0;
    bit<64> part_of_tick = 0;
    bit<64> load_of_byte = 0;
    bit<64> bytes_most = 0;

    // `round_trip`, `step`: T and the least time between two U, in ticks. `per_tick`: 2^56 / T. `per_byte`: 2^56 / (B T).
    // `most`: bytes of 8 B T.
    @id(ACTION_ID_MEASURE_USE)
    action measure_use(@id(1) bit<48> round_trip, @id(2) bit<48> step, @id(3) bit<64> per_tick, @id(4) bit<64> per_byte,
                       @id(5) bit<64> most) {
        whole = round_trip;
        least = step;
        part_of_tick = per_tick;
        load_of_byte = per_byte;
        bytes_most = most;
    }

    @id(ACTION_ID_SKIP_USE)
    action skip_use() { }

    @id(TABLE_ID_PATH_USE)
    @name(".FabricEgress.path_telemetry.path_use")
    table path_use {
        key = { std.egress_port: exact @name("port"); }
        actions = { measure_use; @defaultonly skip_use; }
        const default_action = skip_use();
        size = PORTS;
    }

    apply {
        used = 0;
        if (path_use.apply().hit) {
            bit<32> at = (bit<32>)std.egress_port;
            bit<32> before;
            bit<48> since;
            path_used.read(before, at);
            path_used_at.read(since, at);
            used = (bit<64>)before;
            bit<48> passed = std.egress_global_timestamp - since;
            if (passed >= least) {
                bit<32> sent_then;
                bit<64> queue;
                path_used_sent.read(sent_then, at);
                path_used_queue.read(queue, at);
                queue = own ? waits : queue;
                queue = queue > bytes_most ? bytes_most : queue;
                bit<64> bytes = (bit<64>)(sent - sent_then);
                bytes = bytes > bytes_most ? bytes_most : bytes;
                bit<64> part = (bit<64>)(passed > whole ? whole : passed) * part_of_tick;
                part = part >> 28;
                bit<64> queue_load = queue * load_of_byte;
                queue_load = (queue_load >> 28) * part;
                bit<64> load = bytes * load_of_byte;
                used = used * (PATH_USE_ONE - part) + queue_load;
                used = (used >> 28) + (load >> 28);
                used = used > PATH_USE_MOST ? PATH_USE_MOST : used;
                path_used.write(at, used[31:0]);
                path_used_at.write(at, std.egress_global_timestamp);
                path_used_sent.write(at, sent);
                path_used_queue.write(at, queue);
            }
        }
    }
}

#endif
