#include "buffer.h"

#include <stdlib.h>
#include <string.h>

#include "pipeline.h"
#include "switch.h"
#include "trace.h"

enum {
    SHARED = 1, /* where a packet's bytes are */
    HEADROOM = 2,
    PFC_FRAME = 60,
    PFC_TIMES = 18,        /* where the classes' times begin */
    PFC_READ = 34,         /* bytes that say something */
    QUANTUM_BITS = 512,    /* 802.1Qbb: a time is in units of 512 bits */
    LONGEST_QUANTA = 0xffff,
    DSCPS = 64,
    ALPHA_ONE = 256,
    REFRESHES = 16, /* XOFFs in the time of one: a degraded port counts quanta more slowly than its far end */
};
static const ws_time PS_PER_S = 1000000000000;
static const ws_time UNPACED_QUANTA_PS = 1000000000; /* a pause on a port without a rate, where bits take no time */
static const uint8_t PFC_ADDRESS[6] = {0x01, 0x80, 0xc2, 0, 0, 1};

/* --- accounts -------------------------------------------------------------------------------- */

static struct ws_pauses *pauses_of(struct ws_port *port)
{
    if (!port->pauses) {
        port->pauses = calloc(1, sizeof *port->pauses);
        if (port->pauses) {
            port->pauses->refresh_at = port->pauses->wake_at = WS_NEVER;
        }
    }
    return port->pauses;
}

uint8_t ws_buffer_class(const struct ws_buffer *buffer, const uint8_t *frame, uint32_t length)
{
    uint32_t at = 12;
    while (at + 4 <= length && frame[at] == 0x81 && frame[at + 1] == 0x00)
        at += 4;
    if (at + 4 > length)
        return 0;
    uint32_t type = (uint32_t)frame[at] << 8 | frame[at + 1];
    if (type == 0x0800)
        return buffer->config.class_of_dscp[frame[at + 3] >> 2];
    if (type == 0x86dd)
        return buffer->config.class_of_dscp[(frame[at + 2] << 2 | frame[at + 3] >> 6) & 0x3f];
    return 0;
}

static int is_lossless(const struct ws_buffer *buffer, uint32_t class) { return buffer->config.lossless >> class & 1; }

int ws_buffer_lossless(const ws_switch *sw, const struct ws_packet *packet)
{
    return is_lossless(sw->buffer, packet->class_in);
}

static uint64_t left_of(const struct ws_buffer *buffer)
{
    uint64_t size = buffer->config.shared_bytes;
    return size > buffer->used ? size - buffer->used : 0; /* it may have been made smaller */
}

/* Choudhury and Hahne's dynamic threshold. */
static uint64_t threshold(const struct ws_buffer *buffer, uint32_t class)
{
    unsigned __int128 limit = (unsigned __int128)left_of(buffer) * buffer->config.alpha_q8[class] / ALPHA_ONE;
    return limit > UINT64_MAX ? UINT64_MAX : (uint64_t)limit;
}

static void take(struct ws_buffer *buffer, uint64_t bytes)
{
    buffer->used += bytes;
    if (buffer->used > buffer->most_used)
        buffer->most_used = buffer->used;
}

/* --- pauses that we ask for ------------------------------------------------------------------- */

static ws_time bits_time(const struct ws_port *port, uint64_t bits)
{
    uint64_t rate = port->config.rate_bps;
    return rate ? (ws_time)(((unsigned __int128)bits * (uint64_t)PS_PER_S + rate - 1) / rate) : 0;
}

static ws_time quanta_time(const struct ws_port *port, uint32_t quanta)
{
    if (!quanta)
        return 0;
    return port->config.rate_bps ? bits_time(port, (uint64_t)quanta * QUANTUM_BITS) : UNPACED_QUANTA_PS;
}

static void wake(ws_switch *sw, struct ws_port *port, ws_time at)
{
    struct ws_pauses *pauses = port->pauses;
    if (at >= pauses->wake_at)
        return;
    if (ws_events_push(&sw->events, at, WS_EVENT_PAUSE, port->number, port))
        pauses->wake_at = at;
    else
        sw->stats.drop_no_memory++;
}

/* Leaves behind the frame that is on the wire, before all that waits. */
static void send_pfc(ws_switch *sw, struct ws_port *port, uint32_t classes, uint32_t quanta)
{
    if (port->state == WS_PORT_DOWN || !sw->program || (sw->config.cpu_port && port->number == sw->config.cpu_port))
        return; /* a controller takes no pauses */
    struct ws_packet *packet = ws_packet_new(&sw->program->pool, PFC_FRAME);
    if (!packet)
        return;
    uint8_t *frame = packet->frame;
    memset(frame, 0, PFC_FRAME);
    memcpy(frame, PFC_ADDRESS, sizeof PFC_ADDRESS);
    frame[6] = 0x02; /* locally administered */
    frame[10] = (uint8_t)(port->number >> 8);
    frame[11] = (uint8_t)port->number;
    frame[12] = 0x88;
    frame[13] = 0x08; /* MAC control */
    frame[14] = 0x01;
    frame[15] = 0x01; /* priority-based flow control */
    frame[17] = (uint8_t)classes;
    for (uint32_t c = 0; c < WS_CLASSES; c++)
        if (classes >> c & 1) {
            frame[PFC_TIMES + 2 * c] = (uint8_t)(quanta >> 8);
            frame[PFC_TIMES + 2 * c + 1] = (uint8_t)quanta;
        }
    packet->out = frame;
    packet->length = PFC_FRAME;
    ws_port_insert(sw, port, packet);
}

static void say_xoff(ws_switch *sw, struct ws_port *port, uint32_t classes)
{
    struct ws_pauses *pauses = port->pauses;
    send_pfc(sw, port, classes, LONGEST_QUANTA);
    for (uint32_t c = 0; c < WS_CLASSES; c++)
        pauses->stats.xoff_sent[c] += classes >> c & 1;
    ws_time period = quanta_time(port, LONGEST_QUANTA) / REFRESHES, due = sw->now + (period > 0 ? period : 1);
    if (due < pauses->refresh_at) /* never later: another class may wait for it */
        pauses->refresh_at = due;
    wake(sw, port, pauses->refresh_at);
}

static void say_xon(ws_switch *sw, struct ws_port *port, uint32_t class)
{
    port->pauses->accounts[class].xoff = 0;
    port->pauses->stats.xon_sent[class]++;
    send_pfc(sw, port, 1u << class, 0);
}

static int may_resume(const struct ws_buffer *buffer, const struct ws_account *account, uint32_t class)
{
    if (account->headroom)
        return 0;
    uint64_t limit = threshold(buffer, class), gap = buffer->config.xon_gap_bytes;
    return !account->shared || (gap <= limit && account->shared <= limit - gap);
}

/* --- admission -------------------------------------------------------------------------------- */

static int admit_lossy(ws_switch *sw, struct ws_port *port, struct ws_packet *packet, uint32_t bytes)
{
    struct ws_buffer *buffer = sw->buffer;
    uint32_t queue = packet->priority;
    if (port->queues[queue].bytes + bytes > threshold(buffer, packet->class_in) || bytes > left_of(buffer)) {
        struct ws_pauses *pauses = pauses_of(port);
        if (pauses)
            pauses->stats.drop_shared[queue]++;
        return 0;
    }
    take(buffer, bytes);
    packet->buffered = SHARED;
    return 1;
}

static int admit_lossless(ws_switch *sw, struct ws_packet *packet, uint32_t bytes)
{
    struct ws_buffer *buffer = sw->buffer;
    struct ws_port *from = ws_port_at(sw, packet->ingress_port);
    struct ws_pauses *pauses = from ? pauses_of(from) : NULL;
    if (!pauses)
        return 0;
    uint32_t class = packet->class_in;
    struct ws_account *account = &pauses->accounts[class];
    if (!account->xoff && account->shared < threshold(buffer, class) && bytes <= left_of(buffer)) {
        account->shared += bytes;
        take(buffer, bytes);
        packet->buffered = SHARED;
    } else if (account->headroom + bytes <= account->headroom_limit) {
        account->headroom += bytes;
        packet->buffered = HEADROOM;
    } else {
        pauses->stats.drop_headroom[class]++;
        packet->buffered = 0;
    }
    if (account->shared + account->headroom > pauses->stats.most_bytes[class])
        pauses->stats.most_bytes[class] = account->shared + account->headroom;
    /* Said as soon as the threshold is reached: all that still comes has the headroom to itself. */
    if (!account->xoff && (packet->buffered != SHARED || account->shared >= threshold(buffer, class))) {
        account->xoff = 1;
        say_xoff(sw, from, 1u << class);
    }
    return packet->buffered != 0;
}

/* A storming queue counts as paused, so that no packet passes it by. */
static void hold_queues(struct ws_port *port)
{
    port->pause_mask = port->asked_mask | port->pauses->mask | port->pauses->storm;
}

static int storming(ws_switch *sw, struct ws_port *port, uint32_t queue)
{
    struct ws_pauses *pauses = port->pauses;
    if (!pauses || !(pauses->storm >> queue & 1))
        return 0;
    if (!(pauses->mask >> queue & 1) && sw->now >= pauses->storm_until[queue]) {
        pauses->storm &= ~(1u << queue);
        hold_queues(port);
        return 0;
    }
    pauses->stats.watchdog_drops[queue]++;
    return 1;
}

int ws_buffer_admit(ws_switch *sw, struct ws_port *port, struct ws_packet *packet, uint32_t bytes)
{
    if (storming(sw, port, packet->priority))
        return 0;
    return is_lossless(sw->buffer, packet->class_in) ? admit_lossless(sw, packet, bytes)
                                                     : admit_lossy(sw, port, packet, bytes);
}

void ws_buffer_release(ws_switch *sw, struct ws_hold hold)
{
    uint32_t class = hold.class_in;
    if (!sw->buffer || !hold.where)
        return;
    if (!is_lossless(sw->buffer, class)) {
        sw->buffer->used -= hold.bytes;
        return;
    }
    struct ws_port *from = ws_port_at(sw, hold.ingress_port);
    struct ws_account *account = &from->pauses->accounts[class];
    /* Headroom first, whichever packet leaves: it is wanted again at the next XOFF, and its packets are the last in line. */
    uint64_t room = account->headroom < hold.bytes ? account->headroom : hold.bytes, shared = hold.bytes - room;
    account->headroom -= room;
    account->shared -= shared;
    sw->buffer->used -= shared;
    if (account->xoff && may_resume(sw->buffer, account, class))
        say_xon(sw, from, class);
}

/* --- pauses that we are asked for --------------------------------------------------------------- */

static void paused_so_far(const ws_switch *sw, struct ws_pauses *pauses, uint32_t class)
{
    pauses->stats.paused_ps[class] += (uint64_t)(sw->now - pauses->paused_since[class]);
}

static void set_pause(ws_switch *sw, struct ws_port *port, uint32_t class, ws_time until)
{
    struct ws_pauses *pauses = port->pauses;
    uint32_t bit = 1u << class;
    int was = (pauses->mask & bit) != 0, is = until > sw->now;
    pauses->paused_until[class] = until;
    if (is && !was) {
        pauses->mask |= bit;
        pauses->paused_since[class] = sw->now;
        if (sw->buffer->config.watchdog_ps)
            wake(sw, port, sw->now + sw->buffer->config.watchdog_ps);
    } else if (was && !is) {
        paused_so_far(sw, pauses, class);
        pauses->mask &= ~bit;
        pauses->storm_until[class] = sw->now + sw->buffer->config.watchdog_restore_ps;
    }
    if (is)
        wake(sw, port, until);
    hold_queues(port);
}

int ws_pfc_receive(ws_switch *sw, struct ws_port *port, const uint8_t *frame, uint32_t length)
{
    if (length < PFC_READ || memcmp(frame, PFC_ADDRESS, sizeof PFC_ADDRESS) || frame[12] != 0x88 || frame[13] != 0x08 ||
        frame[14] != 0x01 || frame[15] != 0x01)
        return 0;
    struct ws_pauses *pauses = pauses_of(port);
    if (!pauses)
        return 1;
    for (uint32_t c = 0; c < WS_CLASSES; c++) {
        if (!(frame[17] >> c & 1))
            continue;
        uint32_t quanta = (uint32_t)frame[PFC_TIMES + 2 * c] << 8 | frame[PFC_TIMES + 2 * c + 1];
        pauses->stats.xoff_received[c] += quanta != 0;
        pauses->stats.xon_received[c] += quanta == 0;
        set_pause(sw, port, c, sw->now + quanta_time(port, quanta));
    }
    ws_port_serve(sw, port);
    return 1;
}

void ws_pfc_forget(ws_switch *sw, struct ws_port *port)
{
    if (!port->pauses || !sw->buffer)
        return;
    for (uint32_t c = 0; c < WS_CLASSES; c++)
        set_pause(sw, port, c, sw->now);
}

void ws_pfc_remind(ws_switch *sw, struct ws_port *port)
{
    uint32_t classes = 0;
    for (uint32_t c = 0; port->pauses && sw->buffer && c < WS_CLASSES; c++)
        classes |= (uint32_t)port->pauses->accounts[c].xoff << c;
    if (classes)
        say_xoff(sw, port, classes);
}

static void watch(ws_switch *sw, struct ws_port *port, uint32_t class, ws_time *next)
{
    struct ws_pauses *pauses = port->pauses;
    ws_time patience = sw->buffer->config.watchdog_ps;
    uint32_t bit = 1u << class;
    if (!patience || pauses->storm & bit)
        return;
    ws_time due = pauses->paused_since[class] + patience;
    if (due > sw->now) {
        if (due < *next)
            *next = due;
        return;
    }
    if (!port->queues[class].packets)
        return;
    pauses->storm |= bit;
    hold_queues(port);
    pauses->stats.watchdog_events[class]++;
    pauses->stats.watchdog_drops[class] += ws_port_flush(sw, port, class);
}

void ws_pfc_due(ws_switch *sw, struct ws_port *port)
{
    struct ws_pauses *pauses = port->pauses;
    pauses->wake_at = WS_NEVER;
    if (!sw->buffer)
        return;
    ws_time next = WS_NEVER;
    for (uint32_t c = 0; c < WS_CLASSES; c++) {
        if (!(pauses->mask >> c & 1))
            continue;
        if (pauses->paused_until[c] <= sw->now) {
            set_pause(sw, port, c, sw->now);
            continue;
        }
        if (pauses->paused_until[c] < next)
            next = pauses->paused_until[c];
        watch(sw, port, c, &next);
    }
    if (pauses->refresh_at <= sw->now) {
        uint32_t again = 0;
        pauses->refresh_at = WS_NEVER;
        for (uint32_t c = 0; c < WS_CLASSES; c++) {
            if (!pauses->accounts[c].xoff)
                continue;
            if (may_resume(sw->buffer, &pauses->accounts[c], c))
                say_xon(sw, port, c);
            else
                again |= 1u << c;
        }
        if (again)
            say_xoff(sw, port, again);
    }
    if (pauses->refresh_at < next)
        next = pauses->refresh_at;
    if (next != WS_NEVER)
        wake(sw, port, next);
    ws_port_serve(sw, port);
}

/* --- life ---------------------------------------------------------------------------------------- */

void ws_buffer_forget_packets(ws_switch *sw)
{
    if (sw->buffer)
        sw->buffer->used = 0;
    for (uint32_t i = 0; i < sw->ports.capacity; i++) {
        struct ws_pauses *pauses = sw->ports.table[i] ? sw->ports.table[i]->pauses : NULL;
        if (!pauses)
            continue;
        for (uint32_t c = 0; c < WS_CLASSES; c++) {
            pauses->accounts[c].shared = pauses->accounts[c].headroom = 0;
            pauses->accounts[c].xoff = 0;
        }
        pauses->mask = pauses->storm = 0;
        pauses->wake_at = pauses->refresh_at = WS_NEVER;
        sw->ports.table[i]->pause_mask = sw->ports.table[i]->asked_mask;
    }
}

void ws_buffer_free(ws_switch *sw)
{
    free(sw->buffer);
    sw->buffer = NULL;
}

/* --- public ---------------------------------------------------------------------------------------- */

int ws_configure_buffer(ws_switch *sw, const struct ws_buffer_config *config)
{
    for (int d = 0; d < DSCPS; d++)
        if (config->class_of_dscp[d] >= WS_CLASSES)
            return WS_EINVAL;
    if (config->watchdog_ps < 0 || config->watchdog_restore_ps < 0 || config->watchdog_ps > WS_DELAY_MAX ||
        config->watchdog_restore_ps > WS_DELAY_MAX)
        return WS_EINVAL;
    for (uint32_t i = 0; i < sw->ports.capacity; i++)
        if (sw->ports.table[i] && sw->ports.table[i]->nonempty)
            return WS_EBUSY; /* what waits has no account */
    if (!config->shared_bytes) {
        ws_buffer_forget_packets(sw);
        ws_buffer_free(sw);
        return WS_OK;
    }
    if (!sw->buffer && !(sw->buffer = calloc(1, sizeof *sw->buffer)))
        return WS_ENOMEM;
    sw->buffer->config = *config;
    return WS_OK;
}

int ws_port_headroom_set(ws_switch *sw, uint32_t number, const uint64_t headroom[8])
{
    struct ws_port *port = ws_port_at(sw, number);
    struct ws_pauses *pauses = port ? pauses_of(port) : NULL;
    if (!pauses)
        return port ? WS_ENOMEM : WS_EINVAL;
    for (uint32_t c = 0; c < WS_CLASSES; c++)
        pauses->accounts[c].headroom_limit = headroom[c];
    return WS_OK;
}

int ws_pfc_stats_get(const ws_switch *sw, uint32_t number, struct ws_pfc_stats *stats)
{
    if (number >= WS_PORTS_MAX)
        return WS_EINVAL;
    *stats = (struct ws_pfc_stats){0};
    if (number >= sw->ports.capacity || !sw->ports.table[number] || !sw->ports.table[number]->pauses)
        return WS_OK;
    const struct ws_pauses *pauses = sw->ports.table[number]->pauses;
    *stats = pauses->stats;
    for (uint32_t c = 0; c < WS_CLASSES; c++) {
        if (pauses->mask >> c & 1)
            stats->paused_ps[c] += (uint64_t)(sw->now - pauses->paused_since[c]);
        stats->bytes[c] = pauses->accounts[c].shared + pauses->accounts[c].headroom;
    }
    return WS_OK;
}

int ws_buffer_stats_get(const ws_switch *sw, struct ws_buffer_stats *stats)
{
    *stats = (struct ws_buffer_stats){0};
    if (!sw->buffer)
        return WS_ENOENT;
    stats->shared_bytes = sw->buffer->config.shared_bytes;
    stats->used_bytes = sw->buffer->used;
    stats->most_used_bytes = sw->buffer->most_used;
    return WS_OK;
}

size_t ws_waiting(const ws_switch *sw, struct ws_waiting *rows, size_t max)
{
    size_t n = 0;
    for (uint32_t i = 0; i < sw->ports.capacity; i++) {
        const struct ws_port *port = sw->ports.table[i];
        for (uint32_t q = 0; port && q < WS_PRIORITIES_MAX; q++) {
            if (!(port->nonempty >> q & 1))
                continue;
            const size_t first = n;
            for (const struct ws_packet *packet = port->queues[q].head; packet; packet = packet->next) {
                size_t at = first;
                while (at < n && at < max && rows[at].ingress_port != packet->ingress_port)
                    at++;
                if (at == n || at >= max) { /* past `max` each packet counts as a row: enough room for sure */
                    if (n < max)
                        rows[n] = (struct ws_waiting){.ingress_port = packet->ingress_port, .egress_port = i, .queue = q,
                                                      .paused = port->pause_mask >> q & 1};
                    n++;
                }
                if (at < max) {
                    rows[at].packets++;
                    rows[at].bytes += packet->queued_bytes;
                }
            }
        }
    }
    return n;
}
