// What hosts may not say. Signals between switches, and from switches to hosts, must not come from a
// host: it could slow others down, or keep the fabric quiet about itself.
//
//   a CNP from another address than its own, or with a notification    dropped, counted as SPOOFED
//   BTH's reserved bits, which switches set for each other             cleared (ICRC masks them)
//   a datagram to the notifications' port, or a first piece of one     dropped, counted as SPOOFED
//
// Ports without an entry lead to switches, which have guarded their own hosts.

#ifndef WEFT_HOST_GUARD_P4
#define WEFT_HOST_GUARD_P4

#include "../include/constants.p4"
#include "../include/headers.p4"
#include "../include/ids.p4"

control HostGuard(inout headers_t hdr, inout local_metadata_t meta,
                  in standard_metadata_t std) {
    @id(ACTION_ID_GUARD_HOST)
    action guard_host(@id(1) ipv4_addr_t address) {
        bool foreign = hdr.ipv4.src != address;
        bool told = hdr.notification.type != NotificationType.NONE;
        bool spoofed = hdr.notification.isValid() && (foreign || told);
#ifdef WITH_NOTIFICATIONS
        spoofed = spoofed || meta.notifying.datagram == 1;
#endif
        hdr.bth.reserved_6 = 0;
        meta.drop_reason = spoofed ? DropReason.SPOOFED : meta.drop_reason;
    }

    @id(ACTION_ID_TRUST_PORT)
    action trust_port() {
    }

    @id(TABLE_ID_HOST_PORT)
    table host_port {
        key = { std.ingress_port: exact @name("port"); }
        actions = { guard_host; @defaultonly trust_port; }
        const default_action = trust_port();
        size = PORTS;
    }

    apply {
        // A packet that the switch itself made enters again with the port of the one that caused it.
#ifdef WITH_NOTIFICATIONS
        if ((hdr.bth.isValid() || meta.notifying.datagram == 1) &&
            std.instance_type != RECIRCULATED) {
#else
        if (hdr.bth.isValid() && std.instance_type != RECIRCULATED) {
#endif
            host_port.apply();
        }
    }
}

#endif
