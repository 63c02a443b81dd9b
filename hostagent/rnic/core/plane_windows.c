/* Owns what the congestion control of each plane learns, and how its window holds packets back, where algorithms want a window, round-trip
 * times or telemetry (RNIC_PLANES_SHARED). feedback.c does the same for a queue pair that has one slot.
 *
 * Acknowledgements say how many packets have come by each plane (plane_counts.c), and a plane delivers in order: so each plane has its own flight,
 * its own round trips and its own acknowledged bytes, whatever another plane still owes to the oldest PSN, and whichever plane
 * brought the acknowledgement. Every packet of own data counts, repeated ones too: a copy has its own place in the order of the plane that it takes.
 *
 *   flight       bytes sent by the plane behind the last packet that came or is known to be lost. None once the plane is lost: others send it again
 *   round trip   since the last packet that has come left, which the count names; a packet that was sent twice has no two meanings here
 *   telemetry    that of the plane by which the packet came that collected it, as the acknowledgement says. A receiver keeps the last of each plane
 *   full window  opens with what comes. Where no word comes for two round trips a probe asks (planes.c), then after four, eight, and
 *                each sixteen: its answer says what has come, and that the rest is lost
 *
 * READs pass: their requests have no payload, and the responses are the other end's.
 */
#include <stdlib.h>
#include <string.h>

#include "card.h"

enum { SENT_FIRST = 64, SENT_MOST = 1 << 16 }; /* packets of a plane that are remembered */
enum { NOTHING_DUE, DUE, PASSED_OVER };        /* plane.telemetry_due */
enum { PROBE_TRIPS = 2, PROBES_MOST = 3 };     /* round trips without a word before a probe; doublings of that time, at most */

struct sent_packet {
    uint64_t bytes; /* of payload by this plane, up to this packet's end */
    rnic_time at;
};

struct plane_window {
    struct sent_packet *sent; /* by the plane's order, modulo sent_mask + 1 */
    uint32_t sent_mask;
    uint32_t settled;         /* of that order: all up to it came or is lost */
    uint32_t come;            /* of what came so many were events */
    uint32_t reported;        /* when the last telemetry was collected so many had come */
    uint64_t bytes;           /* of payload, sent by this plane in all */
    uint64_t smoothed_ns, trip_ns; /* as in struct feedback */
    rnic_time probe_at;
    uint8_t probes;           /* in a row, since something came */
};

static uint32_t wants_of(const struct qp *qp) { return qp->wants & (CC_WINDOW | CC_RTT | CC_TELEMETRY); }

int plane_windows_begin(struct qp *qp)
{
    for (uint32_t i = 0; i < qp->ways->n && wants_of(qp); i++) {
        struct plane_window *own = qp->planes[i].window = calloc(1, sizeof *own);
        if (!own || !(own->sent = calloc(SENT_FIRST, sizeof *own->sent)))
            return 0;
        own->sent_mask = SENT_FIRST - 1;
        own->probe_at = RNIC_NEVER;
    }
    return 1;
}

void plane_window_free(struct plane *plane)
{
    if (plane->window)
        free(plane->window->sent);
    free(plane->window);
    free(plane->collected);
}

/* --- flight ------------------------------------------------------------------------------------ */

static int is_behind(uint32_t one, uint32_t other) { return (int32_t)(one - other) < 0; }

static uint32_t settled(const struct plane *plane)
{
    struct plane_window *own = plane->window;
    const uint32_t counted = plane->come_n + plane->lost_n, known = is_behind(counted, plane->answered_n) ? plane->answered_n : counted;
    if (is_behind(own->settled, known))
        own->settled = is_behind(plane->sent_n, known) ? plane->sent_n : known;
    return own->settled;
}

uint64_t plane_flight(const struct plane *plane)
{
    const struct plane_window *own = plane->window;
    if (!own)
        return 0;
    const uint32_t out = plane->sent_n - settled(plane), kept = out < own->sent_mask ? out : own->sent_mask;
    return out ? own->bytes - own->sent[(plane->sent_n - kept) & own->sent_mask].bytes : 0;
}

static int is_full_at(const struct plane *plane, uint64_t flight, uint64_t now)
{
    return flight && flight >= cc_window_at(plane->slot, now);
}

int plane_has_room(const struct plane *plane)
{
    return !plane->window || !(plane->way->qp->wants & CC_WINDOW) ||
           !is_full_at(plane, plane_flight(plane), nanoseconds(plane->way->qp->card));
}

/* As in feedback.c: a window only widens with time, and what does not come before the time-out need not be known. */
rnic_time plane_window_opens(const struct plane *plane)
{
    const struct qp *qp = plane->way->qp;
    const uint64_t base = qp->card->config.cc_base_ns, flight = plane_flight(plane);
    if (plane_has_room(plane) || qp->deadline == RNIC_NEVER || qp->deadline <= qp->card->now)
        return RNIC_NEVER;
    uint64_t closed = nanoseconds(qp->card), open = base + (uint64_t)qp->deadline / 1000;
    if (is_full_at(plane, flight, open))
        return RNIC_NEVER;
    while (open - closed > 1) {
        const uint64_t middle = closed + (open - closed) / 2;
        if (is_full_at(plane, flight, middle))
            closed = middle;
        else
            open = middle;
    }
    const rnic_time at = (rnic_time)(open - base) * 1000;
    return at > qp->card->now ? at : qp->card->now + 1000;
}

/* --- probes of a full window ------------------------------------------------------------------- */

static void probe_after(struct plane *plane)
{
    struct plane_window *own = plane->window;
    const uint64_t patience_ns = PROBE_TRIPS * own->trip_ns << own->probes;
    own->probe_at = own->trip_ns ? plane->way->qp->card->now + (rnic_time)patience_ns * 1000 : RNIC_NEVER;
    if (own->trip_ns && !plane_has_room(plane))
        planes_set(plane->way->qp, own->probe_at);
}

rnic_time plane_window_due(const struct plane *plane)
{
    return plane->window && !plane->lost && !plane_has_room(plane) ? plane->window->probe_at : RNIC_NEVER;
}

void plane_window_probe(struct plane *plane)
{
    struct plane_window *own = plane->window;
    if (own->probes < PROBES_MOST)
        own->probes++;
    plane_probe(plane);
    probe_after(plane);
}

/* --- what leaves ------------------------------------------------------------------------------- */

/* Room for twice as many; without memory the oldest are forgotten. */
static void remember_more(struct plane *plane)
{
    struct plane_window *own = plane->window;
    const uint32_t mask = 2 * own->sent_mask + 1;
    struct sent_packet *bigger = calloc((size_t)mask + 1, sizeof *bigger);
    if (!bigger)
        return;
    for (uint32_t i = 1; i <= own->sent_mask + 1; i++) /* the one that is being sent has no place yet */
        bigger[(plane->sent_n - i) & mask] = own->sent[(plane->sent_n - i) & own->sent_mask];
    free(own->sent);
    own->sent = bigger;
    own->sent_mask = mask;
}

/* For slots of the kernel's: what it needs to know the same of acknowledgements. */
static void tell_kernel_of_loss(struct plane *plane)
{
    if (plane->sent)
        __atomic_store_n(&plane->sent->lost, plane->lost_n, __ATOMIC_RELEASE);
}

static void tell_kernel(struct plane *plane)
{
    const uint64_t word = cc_sent_word(plane->sent_n & PSN_MASK, nanoseconds(plane->way->qp->card), 0);
    tell_kernel_of_loss(plane);
    if (plane->sent)
        __atomic_store_n(&plane->sent->packets[plane->sent_n % CC_SENT_KERNEL], word, __ATOMIC_RELEASE);
}

void plane_window_sent(struct plane *plane, uint32_t bytes)
{
    struct plane_window *own = plane->window;
    if (plane->sent_n - settled(plane) > own->sent_mask && own->sent_mask + 1 < SENT_MOST)
        remember_more(plane);
    own->bytes += bytes;
    own->sent[plane->sent_n & own->sent_mask] = (struct sent_packet){.bytes = own->bytes, .at = plane->way->qp->card->now};
    tell_kernel(plane);
    probe_after(plane);
}

/* --- what acknowledgements say ----------------------------------------------------------------- */

/* ns, since the packet left that was the `come`-th to arrive; 0: not known. */
static uint64_t trip_of(const struct plane *plane, uint32_t come)
{
    const struct plane_window *own = plane->window;
    const uint32_t order = come + plane->lost_n, since = plane->sent_n - order;
    if (!order || is_behind(plane->sent_n, order) || since >= own->sent_mask || since >= plane->sent_n)
        return 0;
    const rnic_time trip = plane->way->qp->card->now - own->sent[order & own->sent_mask].at;
    return (uint64_t)trip / 1000;
}

static void came(struct plane *plane, uint64_t trip_ns)
{
    struct plane_window *own = plane->window;
    if (trip_ns) {
        own->smoothed_ns = own->smoothed_ns ? own->smoothed_ns - own->smoothed_ns / 8 + trip_ns / 8 : trip_ns;
        own->trip_ns = trip_ns > own->smoothed_ns ? trip_ns : own->smoothed_ns;
    }
    own->probes = 0;
    probe_after(plane);
}

static void hear_plane(struct plane *plane, uint32_t come, const struct cc_telemetry *telemetry)
{
    struct plane_window *own = plane->window;
    const struct qp *qp = plane->way->qp;
    const uint32_t more = is_behind(own->come, come) ? come - own->come : 0;
    if (telemetry && is_behind(come, own->reported))
        telemetry = NULL; /* it was overtaken by what was collected later */
    if (plane->lost || (!more && !telemetry))
        return;
    const struct cc_event event = {
        .kind = CC_ACKED,
        .path = (uint8_t)(plane - qp->planes),
        .bytes = (uint64_t)more * qp->config.mtu,
        .rtt_ns = trip_of(plane, come),
    };
    if (telemetry)
        own->reported = come;
    own->come += more;
    tell_kernel_of_loss(plane);
    if (qp->config.slot_is_ours)
        cc_on_event(plane->slot, &event, telemetry, nanoseconds(qp->card));
    if (more)
        came(plane, event.rtt_ns);
}

void plane_windows_hear(struct qp *qp, const struct inbound *in)
{
    if (!qp->planes[0].window || (in->came[0] & (PLANE_ECHO_FLAG - 1u)) != qp->ways->n)
        return;
    for (uint32_t i = 0; i < qp->ways->n; i++)
        hear_plane(&qp->planes[i], bytes_get32(in->came + PLANE_ECHO + i * PLANE_ECHO_EACH),
                   in->telemetry && in->came[PLANE_ECHO_COLLECTED] == i + 1 ? &qp->card->telemetry : NULL);
}

/* The plane is back: what its algorithms knew of its way was of before, and what it lost is none of its flight. */
void plane_window_begin_anew(struct plane *plane)
{
    struct plane_window *own = plane->window;
    if (!own)
        return;
    own->settled = plane->sent_n;
    own->come = own->reported = plane->come_n;
    own->smoothed_ns = own->trip_ns = 0;
    own->probe_at = RNIC_NEVER;
    own->probes = 0;
    tell_kernel_of_loss(plane);
    if (plane->way->qp->config.slot_is_ours) /* the kernel does it at the first answer after the loss */
        cc_begin_anew(plane->slot, CC_WINDOW | CC_RTT | CC_TELEMETRY, nanoseconds(plane->way->qp->card));
}

/* --- telemetry at the receiver ----------------------------------------------------------------- */

void plane_collect(struct plane *plane)
{
    if (!plane->collected && !(plane->collected = malloc(sizeof *plane->collected)))
        return;
    *plane->collected = plane->way->qp->card->telemetry;
    if (!plane->telemetry_due)
        plane->telemetry_due = DUE;
}

/* Counts and a bitmap come first: what switches wrote is cut to what is left, those next to the sender as always. */
static struct cc_telemetry as_it_fits(const struct qp *qp, const struct cc_telemetry *blob)
{
    const uint32_t room = (RNIC_HEADERS_MAX - HEADERS - AETH - MISSING_MAP - TELEMETRY_SHIM_BYTES - planes_come_bytes(qp)) / 4 * 4;
    struct cc_telemetry fits = *blob;
    if (fits.bytes > room) {
        memset(fits.data + room, 0, fits.bytes - room);
        fits.bytes = room;
        fits.cut = 1;
    }
    return fits;
}

/* The line's own plane first, because its acknowledgements are those that come back soonest by it; but what has been passed over once is next. */
static struct plane *next_to_return(const struct qp *qp, const struct lane *lane)
{
    struct plane *next = NULL;
    for (uint32_t i = 0; i < qp->ways->n; i++) {
        struct plane *plane = &qp->planes[i];
        if (plane->telemetry_due && (!next || plane->telemetry_due > next->telemetry_due ||
                                     (plane->telemetry_due == next->telemetry_due && plane->way->lane == lane)))
            next = plane;
    }
    return next;
}

void planes_return(struct qp *qp, const struct lane *lane, struct rnic_packet *packet)
{
    struct plane *plane = next_to_return(qp, lane);
    if (!plane)
        return;
    const struct cc_telemetry blob = as_it_fits(qp, plane->collected);
    packet->header[HEADERS + AETH + PLANE_ECHO_COLLECTED] = (uint8_t)(plane - qp->planes + 1);
    packet_shim(packet, WEFT_TELEMETRY_RETURNED, &blob);
    plane->telemetry_due = NOTHING_DUE;
    for (uint32_t i = 0; i < qp->ways->n; i++)
        if (qp->planes[i].telemetry_due)
            qp->planes[i].telemetry_due = PASSED_OVER;
}
