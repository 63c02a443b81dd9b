// What a port's queue holds, and what its line could still carry.

#ifndef WEFT_BOLT_SUPPLY_P4
#define WEFT_BOLT_SUPPLY_P4

#include "../../include/constants.p4"
#include "types.p4"

// By port and class. Ingress writes the first and egress the second, so that neither waits for the other.
@id(REGISTER_ID_BOLT_CAME)
register<bit<32>>(PORTS * 8) bolt_came;     // bytes
@id(REGISTER_ID_BOLT_LEFT)
register<bit<64>>(PORTS * 8) bolt_left;     // when a packet last left: what had come, 32, and the depth in the target's unit, 32

control NoteQueue(in standard_metadata_t std) {
    action note_queue() {
        bit<32> came;
        bit<19> waits = std.deq_qdepth;
        bit<32> cell = (bit<32>)std.egress_port << 3 | (bit<32>)std.priority;
        bolt_came.read(came, cell);
        bolt_left.write(cell, came ++ (bit<32>)waits);
    }

    apply {
        note_queue();
    }
}

// The copy that becomes a notification still has the packet's headers here.
control NameQueued(inout headers_t hdr, in local_metadata_t meta) {
    apply {
        if (meta.notifying.made == 1 && meta.notifying.type == (bit<4>)NotificationType.QUEUE && hdr.bth.isValid()) {
            hdr.queued_packet.setValid();
            hdr.queued_packet.sequence = hdr.bth.sequence;
            hdr.queued_packet.reserved = 0;
        }
    }
}

#endif
