// A mechanism that does nothing but notify: what notifications' datagrams are tested with. A UDP packet to port
// 7777 says which notification is to be made. One of LINK_DOWN is remembered and relayed, unless it has come before;
// one of PATH_QUALITY has a body, which is remembered.

#if HOOK == HOOK_PROFILE
#ifdef WITH_ALARM
#define WITH_NOTIFICATIONS 1
#endif

#elif defined(WITH_ALARM)
#if HOOK == HOOK_TYPES

header alarm_t {
    bit<4>      type;
    bit<4>      severity;
    bit<4>      hops;
    bit<4>      validity;
    bit<16>     port;
    ipv4_addr_t destination;
    bit<8>      zero;
    qp_t        destination_qp;
    bit<16>     queue;
    bit<16>     session;
    ipv4_addr_t to;
    bit<32>     quality;
}

// More than what fast CNP leaves of what recirculates.
header quality_t {
    bit<32>  of_ports;
    bit<128> more;
}

const bit<16> QUALITY_BYTES = 20;

struct seen_t {
    bit<16> relay;
    bit<1>  known;
    @field_list(NOTIFICATION_COPY) bit<32> quality;
}

#elif HOOK == HOOK_HEADERS
    alarm_t alarm;
    quality_t quality;

#elif HOOK == HOOK_METADATA
    seen_t alarm;

#elif HOOK == HOOK_METADATA_START
        meta.alarm.relay = 0;
        meta.alarm.known = 0;
        meta.alarm.quality = 0;

#elif HOOK == HOOK_UDP_PORTS
            16w7777: parse_alarm;

#elif HOOK == HOOK_PARSER_STATES
    state parse_alarm {
        packet.extract(hdr.alarm);
        transition accept;
    }

    state parse_quality {
        packet.extract(hdr.quality);
        transition accept;
    }

#elif HOOK == HOOK_NOTIFICATION_BODIES
            NotificationType.PATH_QUALITY: parse_quality;

#elif HOOK == HOOK_DEPARSER
        packet.emit(hdr.alarm);

#elif HOOK == HOOK_BODY_DEPARSER
        packet.emit(hdr.quality);

#elif HOOK == HOOK_CONTROLS

control TakeAlarm(in headers_t hdr, inout local_metadata_t meta) {
    register<bit<64>>(16) alarm_last;       // by type: switch 16, port 12, sequence 12, told
    register<bit<32>>(16) alarm_quality;    // by the port that it is about
    counter(2, CounterType.packets) alarms; // new, known

    action set_relay(bit<16> group) {
        meta.alarm.relay = group;
    }

    table alarm_relay {
        actions = { set_relay; }
        default_action = set_relay(0);
    }

    action remember() {
        bit<64> last;
        bit<64> told = 23w0 ++ 1w1 ++ hdr.notification.switch_id ++ hdr.notification.port ++
            hdr.notification.sequence;
        alarm_last.read(last, (bit<32>)(bit<4>)hdr.notification.type);
        meta.alarm.known = last == told ? 1w1 : 1w0;
        alarm_last.write((bit<32>)(bit<4>)hdr.notification.type, told);
    }

    apply {
        alarm_relay.apply();
        if (hdr.notification.type == NotificationType.LINK_DOWN) {
            remember();
            alarms.count((bit<32>)meta.alarm.known);
            if (meta.alarm.known == 0) {
                meta.notifying.relay = meta.alarm.relay;
            }
        } else if (hdr.notification.type == NotificationType.PATH_QUALITY) {
            if (hdr.quality.isValid()) {
                alarm_quality.write((bit<32>)hdr.notification.port[3:0], hdr.quality.of_ports);
            }
            meta.notifying.relay = meta.alarm.relay;
        }
    }
}

control MakeAlarm(in headers_t hdr, inout local_metadata_t meta) {
    apply {
        if (hdr.alarm.isValid() && meta.drop_reason == DropReason.UNDECIDED) {
            meta.notifying.type = hdr.alarm.type;
            meta.notifying.severity = hdr.alarm.severity;
            meta.notifying.hops = hdr.alarm.hops;
            meta.notifying.validity = hdr.alarm.validity;
            meta.notifying.port = hdr.alarm.port[11:0];
            meta.notifying.destination = hdr.alarm.destination;
            meta.notifying.destination_qp = hdr.alarm.destination_qp;
            meta.notifying.queue = hdr.alarm.queue;
            meta.notifying.to = hdr.alarm.to;
            meta.notifying.session = (bit<32>)hdr.alarm.session;
            meta.notifying.body = hdr.alarm.type == 5 ? QUALITY_BYTES : 0;
            meta.alarm.quality = hdr.alarm.quality;
            meta.drop_reason = DropReason.FORWARDED;
        }
    }
}

#elif HOOK == HOOK_INGRESS_INSTANCES
    TakeAlarm() take_alarm;
    MakeAlarm() make_alarm;

#elif HOOK == HOOK_NOTIFICATION_TAKEN
            take_alarm.apply(hdr, meta);

#elif HOOK == HOOK_INGRESS_ADMITTED
        make_alarm.apply(hdr, meta);

#elif HOOK == HOOK_EGRESS
        if (meta.notifying.made == 1) {
            hdr.alarm.setInvalid();
            if (meta.notifying.body != 0) {
                hdr.quality.setValid();
                hdr.quality.of_ports = meta.alarm.quality;
                hdr.quality.more = 128w0x00112233445566778899aabbccddeeff;
            }
        }

#endif
#endif
