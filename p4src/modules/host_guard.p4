// What hosts may not say. Signals between switches, and from switches to hosts, must not come from a
// host: it could slow others down, or keep the fabric quiet about itself.
//
//   a CNP from another address than its own, or with a notification    dropped, counted as SPOOFED
//   BTH's reserved bits, which switches set for each other             cleared (ICRC masks them)
//
// Ports without an entry lead to switches, which have guarded their own hosts.

#ifndef WEFT_HOST_GUARD_P4
#define WEFT_HOST_GUARD_P4

#include "../include/constants.p4"
#include "../include/headers.p4"

const bit<32> RECIRCULATED = 4; // standard_metadata.instance_type, as BMv2 numbers it

control HostGuard(inout headers_t hdr, inout local_metadata_t meta,
                  in standard_metadata_t std) {
    @id(0x01000701)
    action attached(@id(1) ipv4_addr_t address) {
        bool foreign = hdr.ipv4.src != address;
        bool told = hdr.notification.type != NotificationType.NONE;
        bool spoofed = hdr.notification.isValid() && (foreign || told);
        hdr.bth.reserved_6 = 0;
        meta.drop_reason = spoofed ? DropReason.SPOOFED : meta.drop_reason;
    }

    @id(0x01000702)
    action between_switches() {
    }

    @id(0x02000701)
    table host_port {
        key = { std.ingress_port: exact @name("port"); }
        actions = { attached; @defaultonly between_switches; }
        const default_action = between_switches();
        size = PORTS;
    }

    apply {
        // A CNP of this switch's own making enters again with the port of the packet that met the queue.
        if (hdr.bth.isValid() && std.instance_type != RECIRCULATED) {
            host_port.apply();
        }
    }
}

#endif
