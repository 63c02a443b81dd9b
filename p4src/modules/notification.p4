// Notifications in datagrams: between switches a hop at a time, and to hosts. docs/wire-formats.md has the bytes.
//
//  ingress
//   from a host -> HostGuard: dropped, counted as SPOOFED
//   from a switch -> TakeNotification: as it has to be? -> to the neighbours' address -> taken: HOOK_NOTIFICATION_TAKEN
//                                                      `-> to a host's -> routed as any packet
//   SendNotification: what was taken goes on to a multicast group; a copy of any packet becomes a new one
//  egress
//   AddressNotification: each copy gets the address of who is behind its port, a switch or a host
//
// A mechanism selects WITH_NOTIFICATIONS in its HOOK_PROFILE, and
//
//   takes    at HOOK_NOTIFICATION_TAKEN: reads hdr.notification and dispatches by its type. What comes twice, by
//            (switch_id, sequence), is its to find: only it knows for how long
//   relays   there: meta.notifying.relay = a multicast group. `hops` is counted down, 0 is not relayed, and nothing
//            goes back by the port that it came by
//   makes    anywhere in ingress, of any packet: meta.notifying.type .. queue = what to say, .session = a clone session
//            whose ports it leaves by. Number, switch and addresses are added here. With .to it is for a host behind
//            other switches: the session leads to RECIRCULATION_PORT, and it is routed
//   adds     a body: .body = its bytes, and its header is set valid at HOOK_EGRESS, where meta.notifying.made is 1

#ifndef WEFT_NOTIFICATION_MODULE_P4
#define WEFT_NOTIFICATION_MODULE_P4

#include "../include/constants.p4"
#include "../include/headers.p4"
#include "../include/ids.p4"

#define INGRESS_CLONE 1                     // standard_metadata.instance_type, as BMv2 numbers it

const bit<16> NOTIFICATION_BYTES = 24;      // UDP and the notification
const bit<8> NOTIFICATION_TTL = 64;         // to hosts

// The index of its counter is this and the type.
enum bit<8> NotificationOutcome {
    TAKEN   = 0,
    RELAYED = 16,
    ROUTED  = 32,       // on towards a host
    MADE    = 48
}

control TakeNotification(in headers_t hdr, inout local_metadata_t meta, in standard_metadata_t std) {
    // Enables them, and says what the switch writes into its own.
    @id(ACTION_ID_ENABLE_NOTIFICATIONS)
    action enable_notifications(@id(1) bit<16> switch_id, @id(2) mac_addr_t mac, @id(3) bit<6> dscp,
                                @id(4) bit<3> class_of_service) {
        meta.notifying.on = 1;
        meta.notifying.switch_id = switch_id;
        meta.notifying.mac = mac;
        meta.notifying.dscp = dscp;
        meta.notifying.class_of_service = class_of_service;
    }

    @id(ACTION_ID_DISABLE_NOTIFICATIONS)
    action disable_notifications() {
        meta.notifying.on = 0;
    }

    @id(TABLE_ID_NOTIFICATION_MODE)
    table notification_mode {
        actions = { enable_notifications; disable_notifications; }
        default_action = disable_notifications();
    }

    apply {
        notification_mode.apply();
        if (meta.notifying.datagram == 1 && meta.drop_reason == DropReason.UNDECIDED) {
            bool near = hdr.ipv4.dst == NOTIFICATION_NEIGHBOURS;
            bool whole = hdr.notification.isValid() && hdr.ipv4.ihl == 5 &&
                hdr.udp.length >= NOTIFICATION_BYTES && hdr.ipv4.length == hdr.udp.length + 20 &&
                (bit<32>)hdr.ipv4.length + 14 <= std.packet_length;
            bool right = hdr.notification.type != NotificationType.NONE &&
                hdr.ipv4.src == NOTIFICATION_SOURCE && (!near || hdr.ipv4.ttl == NEIGHBOUR_TTL);
            // The target may report a port before the controller has enabled anything, and does so only once.
            bool report = std.ingress_port == TICKER_PORT && hdr.notification.type == NotificationType.PORT_STATE;
            if ((meta.notifying.on == 0 && !report) || !whole || !right) {
                meta.drop_reason = DropReason.BAD_NOTIFICATION;
            } else if (near) {
                meta.notifying.taken = 1;
                meta.drop_reason = DropReason.FORWARDED;
            }
        }
    }
}

control SendNotification(inout headers_t hdr, inout local_metadata_t meta,
                         inout standard_metadata_t std) {
    @id(COUNTER_ID_NOTIFICATIONS)
    counter(64, CounterType.packets) notifications;     // by NotificationOutcome and type

    @id(REGISTER_ID_NOTIFICATION_NUMBER)
    register<bit<12>>(1) notification_number;

    action number_notification() {
        notification_number.read(meta.notifying.sequence, 0);
        meta.notifying.sequence = meta.notifying.sequence + 1;
        notification_number.write(0, meta.notifying.sequence);
    }

    action count_as(NotificationOutcome outcome, bit<4> type) {
        notifications.count((bit<32>)(bit<8>)outcome | (bit<32>)type);
    }

    apply {
        if (meta.notifying.datagram == 1 && meta.drop_reason == DropReason.FORWARDED) {
            std.priority = meta.notifying.class_of_service;
            bit<4> type = (bit<4>)hdr.notification.type;
            if (meta.notifying.taken == 0) {
                count_as(NotificationOutcome.ROUTED, type);
            } else {
                count_as(NotificationOutcome.TAKEN, type);
                if (meta.notifying.relay != 0 && hdr.notification.hops != 0) {
                    count_as(NotificationOutcome.RELAYED, type);
                    hdr.notification.hops = hdr.notification.hops - 1;
                    meta.notifying.relayed = 1;
                    std.mcast_grp = meta.notifying.relay;
                }
            }
        }
        // What recirculates has the payload again of the packet that it was made of.
        if (meta.notifying.datagram == 1 && std.instance_type == RECIRCULATED) {
            truncate((bit<32>)hdr.ipv4.length + 14);
        }
        if (meta.notifying.session != 0 && meta.notifying.on == 1) {
            number_notification();
            count_as(NotificationOutcome.MADE, meta.notifying.type);
            meta.notifying.made = 1;
            clone_preserving_field_list(CloneType.I2E, meta.notifying.session, NOTIFICATION_COPY);
        }
    }
}

control AddressNotification(inout headers_t hdr, inout local_metadata_t meta,
                            inout standard_metadata_t std) {
    // The copy of a packet becomes a notification; whatever it was is cut off.
    action write_notification() {
        hdr.ethernet.type = EtherType.IPV4;
        hdr.ipv4.setValid();
        hdr.ipv4.version = 4;
        hdr.ipv4.ihl = 5;
        hdr.ipv4.dscp = meta.notifying.dscp;
        hdr.ipv4.ecn = Ecn.NOT_CAPABLE;
        hdr.ipv4.length = NOTIFICATION_BYTES + 20 + meta.notifying.body;
        hdr.ipv4.id = 0;
        hdr.ipv4.reserved = 0;
        hdr.ipv4.dont_fragment = 1;
        hdr.ipv4.more_fragments = 0;
        hdr.ipv4.fragment = 0;
        hdr.ipv4.ttl = NOTIFICATION_TTL;
        hdr.ipv4.protocol = IpProtocol.UDP;
        hdr.ipv4.src = NOTIFICATION_SOURCE;
        hdr.ipv4.dst = meta.notifying.to;
        hdr.udp.setValid();
        hdr.udp.src_port = NOTIFICATION_PORT;
        hdr.udp.dst_port = NOTIFICATION_PORT;
        hdr.udp.length = NOTIFICATION_BYTES + meta.notifying.body;
        hdr.udp.checksum = 0;
        hdr.notification.setValid();
        hdr.notification.type = (NotificationType)meta.notifying.type;
        hdr.notification.severity = meta.notifying.severity;
        hdr.notification.hops = meta.notifying.hops;
        hdr.notification.validity = meta.notifying.validity;
        hdr.notification.switch_id = meta.notifying.switch_id;
        hdr.notification.port = meta.notifying.port;
        hdr.notification.sequence = meta.notifying.sequence;
        hdr.notification.destination = meta.notifying.destination;
        hdr.notification.destination_qp = meta.notifying.destination_qp;
        hdr.notification.queue = meta.notifying.queue;
        hdr.packet_out.setInvalid();
        hdr.arp.setInvalid();
        hdr.ipv4_options.setInvalid();
        hdr.icmp.setInvalid();
        hdr.tcp.setInvalid();
#ifdef WITH_TELEMETRY
        hdr.telemetry.setInvalid();
        hdr.telemetry_written.setInvalid();
#endif
#ifdef WITH_TELEMETRY_WORD
        hdr.telemetry_word.setInvalid();
#endif
        hdr.bth.setInvalid();
        hdr.reth.setInvalid();
        hdr.aeth.setInvalid();
        truncate((bit<32>)(NOTIFICATION_BYTES + meta.notifying.body) + 34);
    }

    @id(ACTION_ID_ADDRESS_TO_HOST)
    action address_to_host(@id(1) ipv4_addr_t address, @id(2) mac_addr_t mac) {
        hdr.ethernet.dst = mac;
        hdr.ipv4.dst = address;
        hdr.ipv4.ttl = NOTIFICATION_TTL;
    }

    @id(ACTION_ID_ADDRESS_TO_NEIGHBOUR)
    action address_to_neighbour() {
        hdr.ethernet.dst = NOTIFICATION_NEIGHBOURS_MAC;
        hdr.ipv4.dst = NOTIFICATION_NEIGHBOURS;
        hdr.ipv4.ttl = NEIGHBOUR_TTL;
    }

    // Who is behind a port: a switch, unless there is an entry.
    @id(TABLE_ID_NOTIFICATION_PORT)
    table notification_port {
        key = { std.egress_port: exact @name("port"); }
        actions = { address_to_host; @defaultonly address_to_neighbour; }
        const default_action = address_to_neighbour();
        size = PORTS;
    }

    apply {
        bool made = std.instance_type == INGRESS_CLONE && meta.notifying.made == 1;
        if (made) {
            write_notification();
        }
        if (made || meta.notifying.relayed == 1) {
            hdr.ethernet.src = meta.notifying.mac;
            if (made && meta.notifying.to != 0) {
                hdr.ethernet.dst = meta.notifying.mac;
                recirculate_preserving_field_list(NOTIFICATION_COPY);
            } else if (!made && std.egress_port == std.ingress_port) {
                mark_to_drop(std);
            } else {
                notification_port.apply();
            }
        }
    }
}

#endif
