/* Owns what has been heard of switches: a table by type, switch and port, of which the row that was heard of longest ago makes room. */
#include "notifications.h"

#include <stdlib.h>
#include <string.h>

#include "card.h"

enum { ROWS_FIRST = 16, PROTOCOL_UDP = 17, NOTIFICATION_UDP = UDP + WEFT_NOTIFICATION_BYTES };
#define NO_ROW UINT32_MAX
#define MULTICAST_AND_UP 0xe0000000u

struct row {
    struct rnic_notification heard;
    uint32_t next;         /* of the same place in `places` */
    uint32_t newer, older; /* NO_ROW: the newest, the oldest */
};

struct notifications {
    struct rnic_notification_counts counts;
    struct row *rows;
    uint32_t *places;          /* first row by hash; as many as there is room for rows */
    uint32_t used, room;       /* room: a power of two, or 0 */
    uint32_t newest, oldest;
};

static uint32_t get16(const uint8_t *at) { return (uint32_t)at[0] << 8 | at[1]; }

static uint32_t *place_of(const struct notifications *n, uint32_t type, uint32_t switch_id, uint32_t port)
{
    const uint32_t mixed = ((type << 28 | switch_id << 12 | port) ^ type << 5) * 0x9e3779b1u;
    return &n->places[(mixed ^ mixed >> 16) & (n->room - 1)];
}

static uint32_t *place_of_row(const struct notifications *n, const struct rnic_notification *heard)
{
    return place_of(n, heard->type, heard->switch_id, heard->port);
}

/* --- the order of hearing ---------------------------------------------------------------------- */

static void out_of_order(struct notifications *n, uint32_t number)
{
    const struct row *row = &n->rows[number];
    *(row->newer == NO_ROW ? &n->newest : &n->rows[row->newer].older) = row->older;
    *(row->older == NO_ROW ? &n->oldest : &n->rows[row->older].newer) = row->newer;
}

static void make_newest(struct notifications *n, uint32_t number)
{
    struct row *row = &n->rows[number];
    row->newer = NO_ROW;
    row->older = n->newest;
    *(n->newest == NO_ROW ? &n->oldest : &n->rows[n->newest].newer) = number;
    n->newest = number;
}

/* --- rows -------------------------------------------------------------------------------------- */

static void enter(struct notifications *n, uint32_t number)
{
    uint32_t *place = place_of_row(n, &n->rows[number].heard);
    n->rows[number].next = *place;
    *place = number;
}

/* 0: no memory; the present ones stay. */
static int grow(struct notifications *n)
{
    const uint32_t room = n->room ? 2 * n->room : ROWS_FIRST;
    struct row *rows = realloc(n->rows, room * sizeof *rows);
    if (!rows)
        return 0;
    n->rows = rows;
    uint32_t *places = malloc(room * sizeof *places);
    if (!places)
        return 0;
    free(n->places);
    n->places = places;
    n->room = room;
    memset(places, 0xff, room * sizeof *places); /* NO_ROW */
    for (uint32_t i = 0; i < n->used; i++)
        enter(n, i);
    return 1;
}

static void forget(struct notifications *n, uint32_t number)
{
    uint32_t *at = place_of_row(n, &n->rows[number].heard);
    while (*at != number)
        at = &n->rows[*at].next;
    *at = n->rows[number].next;
    out_of_order(n, number);
}

static uint32_t find(const struct notifications *n, const struct weft_notification *said)
{
    uint32_t number = n->room ? *place_of(n, said->type, said->switch_id, said->port) : NO_ROW;
    while (number != NO_ROW) {
        const struct rnic_notification *heard = &n->rows[number].heard;
        if (heard->type == said->type && heard->switch_id == said->switch_id && heard->port == said->port)
            break;
        number = n->rows[number].next;
    }
    return number;
}

static void keep(struct notifications *n, const struct weft_notification *said, uint32_t ip, uint32_t body_bytes, rnic_time now)
{
    uint32_t number = find(n, said);
    const uint64_t times = number == NO_ROW ? 1 : n->rows[number].heard.times + 1;
    const struct rnic_notification heard = {
        .type = said->type,
        .severity = said->severity,
        .hops = said->hops,
        .validity = said->validity,
        .switch_id = said->switch_id,
        .port = said->port,
        .sequence = said->sequence,
        .destination = said->destination,
        .destination_qp = said->destination_qp,
        .queue = said->queue,
        .body_bytes = body_bytes,
        .local_ip = ip,
        .times = times,
        .at = now,
    };
    if (number != NO_ROW) {
        out_of_order(n, number);
        n->rows[number].heard = heard;
        make_newest(n, number);
        return;
    }
    if (n->used < RNIC_NOTIFICATIONS && (n->used < n->room || grow(n))) {
        number = n->used++;
    } else if (n->used) {
        number = n->oldest;
        forget(n, number);
    } else {
        n->counts.lost++;
        return;
    }
    n->rows[number].heard = heard;
    enter(n, number);
    make_newest(n, number);
}

/* --- frames ------------------------------------------------------------------------------------ */

static struct notifications *made(struct notifications **own)
{
    if (*own)
        return *own;
    *own = calloc(1, sizeof **own);
    if (*own)
        (*own)->newest = (*own)->oldest = NO_ROW;
    return *own;
}

void notifications_keep(struct notifications **own, uint32_t ip, const struct weft_notification *said, uint32_t body_bytes, rnic_time now)
{
    if (made(own))
        keep(*own, said, ip, body_bytes, now);
}

int notifications_is_one(uint32_t ip, const uint8_t *frame, uint32_t length)
{
    const uint8_t *at = frame + ETHERNET, *udp = at + IPV4;
    return length >= ETHERNET + IPV4 + UDP && get16(frame + 12) == 0x0800 && at[0] == 0x45 && at[9] == PROTOCOL_UDP &&
           !(get16(at + 6) & 0x3fff) && get16(udp + 2) == WEFT_NOTIFICATION_PORT && bytes_get32(at + 16) == ip;
}

enum notified notifications_take(struct notifications **own, uint32_t ip, const uint8_t *frame, uint32_t length, uint32_t tail,
                                 rnic_time now, struct weft_notification *said)
{
    const uint8_t *at = frame + ETHERNET, *udp = at + IPV4;
    if (!notifications_is_one(ip, frame, length))
        return NOTIFIED_OTHER;
    struct notifications *n = made(own);
    if (!n)
        return NOTIFIED_REFUSED;
    const uint32_t udp_length = get16(udp + 4), ip_length = get16(at + 2);
    said->type = WEFT_NOTIFICATION_NONE;
    if (udp_length >= NOTIFICATION_UDP && ip_length == udp_length + IPV4 && ETHERNET + ip_length <= (uint64_t)length + tail &&
        length >= ETHERNET + IPV4 + NOTIFICATION_UDP && bytes_get32(at + 12) == WEFT_NOTIFICATION_SOURCE && ip < MULTICAST_AND_UP)
        weft_notification_read(udp + UDP, said);
    if (said->type == WEFT_NOTIFICATION_NONE) {
        n->counts.malformed++;
        return NOTIFIED_REFUSED;
    }
    n->counts.types[said->type]++;
    if (!weft_notification_known(said->type))
        return NOTIFIED_REFUSED;
    keep(n, said, ip, udp_length - NOTIFICATION_UDP, now);
    return NOTIFIED_TAKEN;
}

void notifications_no_qp(struct notifications *own) { own->counts.no_qp++; }

size_t notifications_rows(const struct notifications *own, struct rnic_notification *rows, size_t max)
{
    size_t given = 0;
    for (uint32_t at = own ? own->newest : NO_ROW; at != NO_ROW && given < max; at = own->rows[at].older)
        rows[given++] = own->rows[at].heard;
    return given;
}

void notifications_counts(const struct notifications *own, struct rnic_notification_counts *counts)
{
    *counts = own ? own->counts : (struct rnic_notification_counts){0};
}

void notifications_free(struct notifications *own)
{
    if (!own)
        return;
    free(own->rows);
    free(own->places);
    free(own);
}
