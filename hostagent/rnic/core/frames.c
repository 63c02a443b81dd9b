/* Owns how packets look: builds and parses RoCEv2 over IPv4 (InfiniBand Architecture vol. 1, chapters 5 and 9, annex A17). */
#include <string.h>

#include "card.h"
#include "icrc.h"
#include "notifications.h"

enum { PROTOCOL_UDP = 17, TTL = 64, ECT0 = 2, CE = 3, CLASS_MASK = 0xe0, IP_LENGTH_MOST = 9216, MIGRATED = 0x40 };

static void put16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}
void bytes_put24(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 16);
    put16(at + 1, value);
}
void bytes_put32(uint8_t *at, uint32_t value)
{
    put16(at, value >> 16);
    put16(at + 2, value);
}
void bytes_put64(uint8_t *at, uint64_t value)
{
    bytes_put32(at, (uint32_t)(value >> 32));
    bytes_put32(at + 4, (uint32_t)value);
}
static void put48(uint8_t *at, uint64_t value)
{
    put16(at, (uint32_t)(value >> 32));
    bytes_put32(at + 2, (uint32_t)value);
}
static uint32_t get16(const uint8_t *at) { return (uint32_t)at[0] << 8 | at[1]; }
uint32_t bytes_get24(const uint8_t *at) { return (uint32_t)at[0] << 16 | get16(at + 1); }
uint32_t bytes_get32(const uint8_t *at) { return get16(at) << 16 | get16(at + 2); }
uint64_t bytes_get64(const uint8_t *at) { return (uint64_t)bytes_get32(at) << 32 | bytes_get32(at + 4); }

/* --- building ---------------------------------------------------------------------------------- */

void header_prepare(struct qp *qp, uint64_t peer_mac)
{
    const struct rnic_interface *own = &qp->lane->config;
    uint8_t *at = qp->header;
    memset(at, 0, HEADERS);
    put48(at, peer_mac ? peer_mac : own->gateway_mac);
    put48(at + 6, own->mac);
    put16(at + 12, 0x0800);
    uint8_t *ip = at + ETHERNET;
    ip[0] = 0x45;
    ip[1] = (uint8_t)(qp->config.dscp << 2 | ECT0);
    put16(ip + 6, 0x4000); /* don't fragment */
    ip[8] = qp->config.ttl ? qp->config.ttl : TTL;
    ip[9] = PROTOCOL_UDP;
    bytes_put32(ip + 12, own->ip);
    bytes_put32(ip + 16, qp->peer_ip);
    qp->ip_sum = 0;
    for (int i = 0; i < IPV4; i += 2)
        qp->ip_sum += get16(ip + i);
    put16(ip + IPV4 + 2, ROCE_PORT);
    uint8_t *bth = ip + IPV4 + UDP;
    bth[1] = MIGRATED; /* as every card starts that has no alternate */
    put16(bth + 2, 0xffff);
    bytes_put24(bth + 5, qp->peer_qpn);
}

void header_migrated(struct qp *qp, int migrated) { qp->header[ETHERNET + IPV4 + UDP + 1] = migrated ? MIGRATED : 0; }

/* Lengths and checksum. `sum`: of the IPv4 header without length and checksum. */
static void finish(uint8_t *frame, uint32_t sum, uint32_t ip_length)
{
    uint8_t *ip = frame + ETHERNET;
    sum += ip_length;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    put16(ip + 2, ip_length);
    put16(ip + 10, ~sum);
    put16(ip + IPV4 + 4, ip_length - IPV4);
}

uint8_t *packet_begin(struct qp *qp, struct rnic_packet *packet, uint32_t opcode, uint64_t psn, uint32_t extension,
                      const uint8_t *payload, uint32_t payload_length)
{
    uint8_t *at = packet->header, *bth = at + ETHERNET + IPV4 + UDP;
    const uint32_t pad = -payload_length & 3u;
    memcpy(at, qp->header, HEADERS);
    packet->header_length = HEADERS + extension;
    packet->payload = payload;
    packet->payload_length = payload_length;
    packet->pad = pad;
    packet->qpn = qp->config.qpn;
    packet->queue = qp->config.queue;
    packet->psn = (uint32_t)(psn & PSN_MASK);
    packet->repeated = 0;
    packet->begins = packet->ends = 0;
    packet->id = 0;
    put16(at + ETHERNET + IPV4, qp->config.udp_port + (uint32_t)(qp->config.udp_ports > 1 ? psn % qp->config.udp_ports : 0));
    bth[0] = (uint8_t)opcode;
    bth[1] = (uint8_t)(bth[1] | pad << 4);
    bytes_put24(bth + 9, packet->psn);
    finish(at, qp->ip_sum, IPV4 + UDP + BTH + extension + payload_length + pad + RNIC_ICRC);
    return at + HEADERS;
}

/* The longest: a NAK with a bitmap that brings telemetry back. */
_Static_assert(HEADERS + TELEMETRY_SHIM_BYTES + CC_TELEMETRY_MOST + AETH + MISSING_MAP <= RNIC_HEADERS_MAX, "room for headers");

void packet_shim(struct rnic_packet *packet, enum weft_telemetry_kind kind, const struct cc_telemetry *blob)
{
    uint8_t *ip = packet->header + ETHERNET, *udp = ip + IPV4, *at = udp + UDP;
    const uint32_t bytes = blob ? blob->bytes : 0, all = TELEMETRY_SHIM_BYTES + bytes;
    const struct weft_telemetry shim = {
        .version = TELEMETRY_VERSION,
        .kind = (uint8_t)kind,
        .words = (uint8_t)(bytes / 4),
        .cut = blob ? blob->cut : 0,
        .hops = blob ? blob->hops : 0,
        .format = blob ? blob->format : 0,
    };
    memmove(at + all, at, packet->header_length - (ETHERNET + IPV4 + UDP));
    weft_telemetry_write(&shim, at);
    if (bytes)
        memcpy(at + TELEMETRY_SHIM_BYTES, blob->data, bytes);
    packet->header_length += all;
    put16(ip + 2, get16(ip + 2) + all);
    put16(udp + 2, TELEMETRY_PORT);
    put16(udp + 4, get16(udp + 4) + all);
    packet_recheck(packet);
}

/* How long the telemetry of a packet of ours is. */
static uint32_t shim_of(const uint8_t *frame)
{
    const uint8_t *udp = frame + ETHERNET + IPV4;
    return get16(udp + 2) == TELEMETRY_PORT ? weft_telemetry_length(udp + UDP) : 0;
}

int packet_migrated(const uint8_t *frame) { return (frame[ETHERNET + IPV4 + UDP + shim_of(frame) + 1] & MIGRATED) != 0; }

void packet_recheck(struct rnic_packet *packet)
{
    uint8_t *ip = packet->header + ETHERNET;
    uint32_t sum = 0;
    put16(ip + 10, 0);
    for (int i = 0; i < IPV4; i += 2)
        sum += get16(ip + i);
    sum = (sum & 0xffff) + (sum >> 16);
    put16(ip + 10, ~(sum + (sum >> 16)));
}

/* The same addresses' place in every packet: only those of one way differ from those of another. */
void ways_address(struct qp *qp, const struct lane *lane, struct rnic_packet *packet)
{
    const struct way *way = qp->ways->way;
    while (way->lane != lane)
        way++;
    memcpy(packet->header, way->macs, sizeof way->macs);
    bytes_put32(packet->header + ETHERNET + 12, way->ip);
    bytes_put32(packet->header + ETHERNET + 16, way->peer_ip);
    packet_recheck(packet);
}

void ways_connect(struct qp *qp, const struct rnic_address *peers)
{
    for (uint32_t i = 0; i < qp->ways->n; i++) {
        struct way *way = &qp->ways->way[i];
        const struct rnic_interface *own = &way->lane->config;
        put48(way->macs, peers[i].mac ? peers[i].mac : own->gateway_mac);
        put48(way->macs + 6, own->mac);
        way->ip = own->ip;
        way->peer_ip = peers[i].ip;
    }
}

void packet_port(struct rnic_packet *packet, uint32_t udp_port) { put16(packet->header + ETHERNET + IPV4, udp_port); }

void packet_cnp(struct qp *qp, struct rnic_packet *packet)
{
    uint8_t *at = packet->header, *ip = at + ETHERNET, *bth = ip + IPV4 + UDP;
    uint8_t *reserved = packet_begin(qp, packet, OP_CNP, 0, CNP_RESERVED, NULL, 0);
    put16(ip + IPV4, qp->config.udp_port);
    bth[1] = 0;
    bth[4] = 0x40; /* BECN */
    memset(reserved, 0, CNP_RESERVED);
    ip[1] = (uint8_t)(qp->card->config.cnp_dscp << 2); /* not ECN-capable */
    packet_recheck(packet);
    packet->kind = RNIC_CNP;
    packet->queue = qp->card->config.cnp_queue;
}

uint32_t rnic_write_packet(const struct rnic_packet *packet, uint8_t *out)
{
    uint32_t at = packet->header_length;
    memcpy(out, packet->header, at);
    if (packet->payload_length) {
        if (packet->payload)
            memcpy(out + at, packet->payload, packet->payload_length);
        else
            memset(out + at, 0, packet->payload_length);
        at += packet->payload_length;
    }
    memset(out + at, 0, packet->pad);
    at += packet->pad;
    uint32_t crc = ws_icrc_without(out + ETHERNET, shim_of(out), at - ETHERNET, NULL, 0);
    for (int i = 0; i < RNIC_ICRC; i++)
        out[at++] = (uint8_t)(crc >> 8 * i);
    return at;
}

/* --- parsing ----------------------------------------------------------------------------------- */

enum extension { HAS_RETH = 1, HAS_AETH = 2, HAS_IMMEDIATE = 4, KNOWN = 8 };
static const uint8_t extensions[] = {
    [OP_SEND_FIRST] = KNOWN,
    [OP_SEND_MIDDLE] = KNOWN,
    [OP_SEND_LAST] = KNOWN,
    [OP_SEND_LAST_IMM] = KNOWN | HAS_IMMEDIATE,
    [OP_SEND_ONLY] = KNOWN,
    [OP_SEND_ONLY_IMM] = KNOWN | HAS_IMMEDIATE,
    [OP_WRITE_FIRST] = KNOWN | HAS_RETH,
    [OP_WRITE_MIDDLE] = KNOWN,
    [OP_WRITE_LAST] = KNOWN,
    [OP_WRITE_LAST_IMM] = KNOWN | HAS_IMMEDIATE,
    [OP_WRITE_ONLY] = KNOWN | HAS_RETH,
    [OP_WRITE_ONLY_IMM] = KNOWN | HAS_RETH | HAS_IMMEDIATE,
    [OP_READ_REQUEST] = KNOWN | HAS_RETH,
    [OP_READ_FIRST] = KNOWN | HAS_AETH,
    [OP_READ_MIDDLE] = KNOWN,
    [OP_READ_LAST] = KNOWN | HAS_AETH,
    [OP_READ_ONLY] = KNOWN | HAS_AETH,
    [OP_ACK] = KNOWN | HAS_AETH,
};

/* What an acknowledgement says of paths, and then a NAK's bitmap. An echo that is longer than what is there is none. */
static inline __attribute__((always_inline)) void parse_behind_aeth(struct inbound *in)
{
    const uint8_t *at = in->payload;
    uint32_t left = in->payload_length;
    if (at && left >= PLANE_ECHO && (at[0] & (PATH_ECHO_FLAG | PLANE_ECHO_FLAG)) == PLANE_ECHO_FLAG) {
        const uint32_t bytes = PLANE_ECHO + (at[0] & (PLANE_ECHO_FLAG - 1u)) * PLANE_ECHO_EACH;
        if (bytes > left)
            return;
        in->came = at;
        at += bytes;
        left -= bytes;
    } else if (at && left >= PATH_ECHO && at[0] & PATH_ECHO_FLAG) {
        const uint32_t bytes = PATH_ECHO + (at[0] & ~(uint32_t)PATH_ECHO_FLAG) * PATH_ECHO_EACH;
        if (bytes > left)
            return;
        in->echo = at;
        at += bytes;
        left -= bytes;
    }
    in->map = left == MISSING_MAP ? at : NULL;
}

/* What lies between BTH and ICRC. */
static inline __attribute__((always_inline)) enum parse_result
parse_extensions(const uint8_t *at, uint32_t here, uint32_t bytes, uint32_t pad, uint32_t has, struct inbound *in)
{
    uint32_t used = 0;
    uint32_t needed = (has & HAS_RETH ? RETH : 0) + (has & HAS_AETH ? AETH : 0) + (has & HAS_IMMEDIATE ? IMMEDIATE : 0);
    if (needed > here || needed + pad > bytes)
        return PARSE_MALFORMED;
    if (has & HAS_RETH) {
        in->address = bytes_get64(at);
        in->rkey = bytes_get32(at + 8);
        in->length = bytes_get32(at + 12);
        used += RETH;
    }
    if (has & HAS_AETH) {
        in->syndrome = at[used];
        in->msn = bytes_get24(at + used + 1);
        used += AETH;
    }
    if (has & HAS_IMMEDIATE) {
        in->immediate = bytes_get32(at + used);
        used += IMMEDIATE;
    }
    in->payload_length = bytes - used - pad;
    in->payload = here >= used + in->payload_length ? at + used : NULL;
    in->map = in->echo = in->came = NULL;
    if (in->opcode == OP_ACK) {
        parse_behind_aeth(in);
        in->payload_length = 0;
    }
    return PARSE_OK;
}

/* The queue pair that a notification in a CNP is for; NULL: it is for the one that BTH names, as any CNP.
 *
 * A switch sends it in the name of the original destination, of which alone it may speak. Which of our queue pairs is
 * meant is known here and not by the switch, so that BTH's number does not count.
 */
static struct qp *parse_notification(struct rnic *r, const uint8_t *at, uint32_t source, struct inbound *in)
{
    struct weft_notification said;
    weft_notification_read(at, &said);
    if (said.type != WEFT_NOTIFICATION_CONGESTION) {
        r->stats.notification_type += said.type != WEFT_NOTIFICATION_NONE;
        if (weft_notification_known(said.type))
            notifications_keep(&r->notified, r->config.ip, &said, 0, r->now);
        return NULL;
    }
    struct qp *qp = said.destination == source ? qp_of_peer(r, source, said.destination_qp) : NULL;
    if (!qp) {
        r->stats.notification_qp++;
        return NULL;
    }
    if (!qp->slot || !(qp->slot->algorithms & cc_hearers(CC_NOTIFIED)))
        return NULL;
    inbound_notified(in, &said);
    return qp;
}

static int is_ours(const struct rnic *r, uint32_t address)
{
    if (__builtin_expect(address == r->first.config.ip, 1))
        return 1;
    for (uint32_t i = 1; i < r->interfaces; i++)
        if (r->lanes[i]->config.ip == address)
            return 1;
    return 0;
}

/* The shim behind UDP, of a frame that has at least HEADERS bytes: how long it is with what was written; 0: malformed. */
static uint32_t parse_shim(struct rnic *r, const uint8_t *udp, uint32_t length)
{
    const uint8_t *at = udp + UDP;
    const uint32_t all = weft_telemetry_length(at);
    if (!all || length < HEADERS + all)
        return 0;
    struct weft_telemetry shim;
    weft_telemetry_read(at, &shim);
    /* Only acknowledgements bring telemetry back, and to a receiver it comes with all but these. */
    const uint32_t opcode = at[all];
    if (shim.kind == WEFT_TELEMETRY_RETURNED ? opcode != OP_ACK : opcode == OP_ACK || opcode == OP_CNP)
        return 0;
    const uint32_t there = all - TELEMETRY_SHIM_BYTES, bytes = there < CC_TELEMETRY_MOST ? there : CC_TELEMETRY_MOST;
    struct cc_telemetry *blob = &r->telemetry;
    *blob = (struct cc_telemetry){
        .bytes = bytes, .format = shim.format, .hops = shim.hops, .cut = (uint8_t)(shim.cut || bytes < there)};
    memcpy(blob->data, at + TELEMETRY_SHIM_BYTES, bytes);
    return all;
}

/* A packet to `port`, with `shim` bytes of telemetry. Compiled twice, so that those without pay nothing for it. */
static inline __attribute__((always_inline)) enum parse_result parse(struct rnic *r, const uint8_t *frame, uint32_t length,
                                                                     uint32_t tail, uint32_t port, uint32_t shim,
                                                                     struct qp **found, struct inbound *in)
{
    const uint8_t *ip = frame + ETHERNET, *udp = ip + IPV4, *bth = udp + UDP + shim;
    if (length < HEADERS || get16(frame + 12) != 0x0800 || ip[0] != 0x45 || ip[9] != PROTOCOL_UDP ||
        get16(udp + 2) != port || (get16(ip + 6) & 0x3fff) || !is_ours(r, bytes_get32(ip + 16)))
        return PARSE_OTHER;
    if (port == TELEMETRY_PORT && !shim)
        return PARSE_MALFORMED;
    const uint32_t ip_length = get16(ip + 2), udp_length = get16(udp + 4), pad = bth[1] >> 4 & 3u;
    if (ip_length > IP_LENGTH_MOST || udp_length != ip_length - IPV4 || udp_length < UDP + shim + BTH + RNIC_ICRC + pad ||
        ETHERNET + ip_length > length + tail || (!tail && ETHERNET + ip_length > length))
        return PARSE_MALFORMED;
    const uint32_t bytes = udp_length - UDP - shim - BTH - RNIC_ICRC;
    if (r->config.check_icrc && !tail) {
        const uint8_t *at = ip + ip_length - RNIC_ICRC;
        uint32_t said = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        if (said != ws_icrc_without(ip, shim, ip_length - RNIC_ICRC, NULL, 0))
            return PARSE_ICRC;
    }
    in->opcode = bth[0];
    in->notified = 0;
    in->drains_ns = 0;
    in->names_packet = 0;
    in->psn = bytes_get24(bth + 9);
    in->source_port = (uint16_t)get16(udp);
    in->ack_request = bth[8] >> 7;
    in->marked = (ip[1] & 3) == CE;
    in->telemetry = shim != 0;
    if (bth[1] & 0x0f)
        return PARSE_MALFORMED; /* transport version */
    uint32_t has = in->opcode < sizeof extensions ? extensions[in->opcode] : 0;
    if (in->opcode == OP_CNP) {
        if (bytes < CNP_RESERVED)
            return PARSE_MALFORMED;
    } else if (in->opcode == OP_PROBE || in->opcode == OP_PROBE_ANSWER) {
        if (bytes != PROBE_BODY || length < HEADERS + shim + PROBE_BODY)
            return PARSE_MALFORMED;
    } else if (!has) {
        return PARSE_MALFORMED;
    }
    const uint32_t behind = length - HEADERS - shim, here = behind < bytes ? behind : bytes, source = bytes_get32(ip + 12);
    struct qp *qp = in->opcode == OP_CNP && here >= CNP_RESERVED ? parse_notification(r, bth + BTH, source, in) : NULL;
    if (!qp)
        qp = qp_find(r, bytes_get24(bth + 5));
    if (!qp || qp->state == RNIC_RESET ||
        (__builtin_expect(r->interfaces > 1, 0) ? !ways_join(qp, bytes_get32(ip + 16), source) : source != qp->peer_ip))
        return PARSE_UNKNOWN;
    *found = qp;
    if (__builtin_expect(in->opcode >= OP_PROBE, 0)) {
        in->payload = bth + BTH;
        return qp->planes || qp->migration ? PARSE_OK : PARSE_MALFORMED;
    }
    return in->opcode == OP_CNP ? PARSE_OK : parse_extensions(bth + BTH, here, bytes, pad, has, in);
}

/* As it is not to RoCEv2's port. */
static __attribute__((noinline)) enum parse_result parse_other(struct rnic *r, const uint8_t *frame, uint32_t length, uint32_t tail,
                                                               struct qp **found, struct inbound *in)
{
    const uint8_t *udp = frame + ETHERNET + IPV4;
    if (length < HEADERS || get16(udp + 2) != TELEMETRY_PORT)
        return PARSE_OTHER;
    return parse(r, frame, length, tail, TELEMETRY_PORT, parse_shim(r, udp, length), found, in);
}

enum parse_result packet_parse(struct rnic *r, const uint8_t *frame, uint32_t length, uint32_t tail, struct qp **found,
                               struct inbound *in)
{
    const enum parse_result result = parse(r, frame, length, tail, ROCE_PORT, 0, found, in);
    return __builtin_expect(result != PARSE_OTHER, 1) ? result : parse_other(r, frame, length, tail, found, in);
}
