/* Owns the loop: frames in by all lines, time-outs, frames out, sleep until something is due. */
#include "loop.h"
#include "telemetry.h"

#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    MEMBERS_LEAST = 64,
    EVENTS = 1024,
    ETHERNET_GAP = 24,      /* preamble, FCS, gap: what a rate counts beside the frame */
    FRAME_LEAST = 84,
};
static const uint64_t SECOND_NS = 1000000000;
static const rnic_time LINE_SLACK_PS = 10000000000; /* a frame that leaves late brings the next ones forward by so much at most */
static const rnic_time SPIN_PS = 3000000;        /* waiting for less is not worth a sleep */
static const rnic_time RETRY_PS = 50000000;       /* until the interface is asked again to take what it had no room for */
static const rnic_time SLEEP_MOST_PS = 500000000000;
static const uint64_t BYTE_PS = 8000000000000;

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

uint64_t rnicd_base_ns(const rnicd *d) { return d->base_ns; }
rnic_time rnicd_now(const rnicd *d) { return (rnic_time)((clock_ns(CLOCK_MONOTONIC) - d->base_ns) * 1000); }

static struct io *open_io(struct line *line, const struct rnicd_config *config, char *reason, size_t reason_size, char *error,
                          size_t error_size)
{
    struct io *io = NULL;
    if (config->use_packet)
        snprintf(reason, reason_size, "AF_PACKET was asked for");
    else
        io = io_open_xdp(config->interface, reason, reason_size);
    if (io) {
        line->mode = RNICD_XDP;
        reason[0] = 0;
        return io;
    }
    line->mode = RNICD_PACKET;
    return io_open_packet(config->interface, error, error_size);
}

static void close_all(const int *descriptors, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (descriptors[i] >= 0)
            close(descriptors[i]);
}

/* The UDP ports of what the card reads, at one of its addresses. 0: `error` says why not. */
static int take_ports(struct line *line, uint32_t ip, char *error, size_t error_size)
{
    static const uint16_t ports[LINE_PORTS] = {ROCE_PORT, TELEMETRY_PORT, NOTIFICATION_PORT};
    for (size_t i = 0; i < LINE_PORTS; i++) {
        line->port_fds[i] = port_take(ip, ports[i], error, error_size);
        if (line->port_fds[i] < 0) {
            close_all(line->port_fds, i);
            return 0;
        }
    }
    return 1;
}

/* Opens the next interface; 0: `error` says why. */
static int open_line(struct rnicd *d, const struct rnicd_config *config, uint32_t ip, char *error, size_t error_size)
{
    struct line *line = &d->lines[d->n_lines];
    char reason[sizeof d->reason];
    *line = (struct line){.driver = d, .number = d->n_lines, .rate_bps = config->line_rate_bps, .told_fd = -1};
    line->ifindex = if_nametoindex(config->interface);
    if (!take_ports(line, ip, error, error_size))
        return 0;
    line->io = open_io(line, config, reason, sizeof reason, error, error_size);
    if (!line->io) {
        close_all(line->port_fds, LINE_PORTS);
        return 0;
    }
    if (!d->reason[0])
        memcpy(d->reason, reason, sizeof reason);
    d->n_lines++;
    return 1;
}

/* A card of several interfaces may have planes, which switches' words are about. 0: `error` says why they can't be heard. */
static int hear_switches(struct rnicd *d, char *error, size_t error_size)
{
    for (uint32_t i = 0; i < d->n_lines; i++) {
        struct line *line = &d->lines[i];
        if (line->mode == RNICD_PACKET || line->told_fd >= 0)
            continue;
        line->told_fd = told_open(line->ifindex, error, error_size);
        if (line->told_fd < 0)
            return 0;
    }
    return 1;
}

rnicd *rnicd_open(const struct rnicd_config *config, const struct rnic_config *card, char *error, size_t error_size)
{
    struct rnicd *d = calloc(1, sizeof *d);
    uint32_t members = MEMBERS_LEAST;
    while (members < card->max_qps)
        members *= 2;
    if (!d) {
        snprintf(error, error_size, "no memory for an endpoint");
        return NULL;
    }
    pthread_mutex_init(&d->next, NULL);
    pthread_mutex_init(&d->lock, NULL);
    d->members = calloc(members, sizeof *d->members);
    d->events = calloc(EVENTS, sizeof *d->events);
    d->members_mask = members - 1;
    d->events_mask = EVENTS - 1;
    d->wake_fd = d->event_fd = d->links_fd = -1;
    d->next_id = 1;
    if (!d->members || !d->events) {
        snprintf(error, error_size, "no memory for an endpoint");
        goto failed;
    }
    d->base_ns = clock_ns(CLOCK_MONOTONIC);
    if (!open_line(d, config, card->ip, error, error_size))
        goto failed;
    struct rnic_config own = *card;
    own.cc_base_ns = d->base_ns;
    d->card = rnic_create(&own);
    d->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    d->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (!d->card || d->wake_fd < 0 || d->event_fd < 0) {
        snprintf(error, error_size, "no memory for an endpoint");
        goto failed;
    }
    return d;
failed:
    rnicd_close(d);
    return NULL;
}

int rnicd_add_interface(rnicd *d, const struct rnicd_config *config, const struct rnic_interface *interface, char *error,
                        size_t error_size)
{
    const int number = rnic_add_interface(d->card, interface);
    if (number < 0) {
        snprintf(error, error_size, "%s: %s", config->interface, rnic_error(d->card));
        return -1;
    }
    if (!open_line(d, config, interface->ip, error, error_size) || !hear_switches(d, error, error_size))
        return -1;
    return links_open(d, error, error_size) ? -1 : number;
}

void rnicd_close(rnicd *d)
{
    if (!d)
        return;
    for (uint32_t i = 0; i < d->n_lines; i++) {
        d->lines[i].io->ways->close(d->lines[i].io);
        close_all(d->lines[i].port_fds, LINE_PORTS);
        close_all(&d->lines[i].told_fd, 1);
    }
    rnic_destroy(d->card);
    const int descriptors[] = {d->wake_fd, d->event_fd, d->links_fd};
    close_all(descriptors, sizeof descriptors / sizeof *descriptors);
    pthread_mutex_destroy(&d->next);
    pthread_mutex_destroy(&d->lock);
    free(d->members);
    free(d->events);
    free(d);
}

int rnicd_mode(const rnicd *d)
{
    for (uint32_t i = 0; i < d->n_lines; i++)
        if (d->lines[i].mode == RNICD_PACKET)
            return RNICD_PACKET;
    return RNICD_XDP;
}

const char *rnicd_mode_reason(const rnicd *d) { return d->reason; }

int rnicd_socket(const rnicd *d, uint32_t interface)
{
    const struct line *line = &d->lines[interface];
    return interface < d->n_lines && line->mode == RNICD_XDP ? line->io->fd : -1;
}

rnic *rnicd_card(rnicd *d) { return d->card; }
int rnicd_event_fd(const rnicd *d) { return d->event_fd; }
uint32_t rnicd_places(const rnicd *d) { return d->members_mask + 1; }

/* The loop lets go once a round. Were there only `lock`, it would mostly have it again before a waiting thread is awake; so
 * it has to queue at `next`, which the waiting thread holds. */
void rnicd_lock(rnicd *d)
{
    pthread_mutex_lock(&d->next);
    pthread_mutex_lock(&d->lock);
    pthread_mutex_unlock(&d->next);
}

void rnicd_unlock(rnicd *d) { pthread_mutex_unlock(&d->lock); }

static void ring(int fd)
{
    const uint64_t one = 1;
    ssize_t written = write(fd, &one, sizeof one);
    (void)written; /* it only fails where it is readable already */
}

void rnicd_wake(rnicd *d) { ring(d->wake_fd); }
void tell(struct rnicd *d) { ring(d->event_fd); }

void rnicd_stop(rnicd *d)
{
    atomic_store(&d->stopping, 1);
    ring(d->wake_fd);
}

void rnicd_stats_get(rnicd *d, struct rnicd_stats *stats)
{
    *stats = d->stats;
    if (d->has_clock)
        stats->cpu_ns = clock_ns(d->thread_clock);
    stats->rx_dropped = stats->tx_dropped = 0;
    for (uint32_t i = 0; i < d->n_lines; i++) {
        uint64_t received, sent;
        d->lines[i].io->ways->dropped(d->lines[i].io, &received, &sent);
        stats->rx_dropped += received;
        stats->tx_dropped += sent;
    }
}

/* --- frames ------------------------------------------------------------------------------------ */

static void take_frame(void *opaque, const uint8_t *frame, uint32_t length)
{
    const struct line *line = opaque;
    struct rnicd *d = line->driver;
    d->stats.rx_packets++;
    d->stats.rx_bytes += length;
    rnic_receive_on(d->card, line->number, frame, length, 0, rnicd_now(d));
}

static void keep_event(struct rnicd *d, const struct rnic_event *event)
{
    if (d->events_tail - d->events_head > d->events_mask)
        d->events_head++; /* they are not read: the oldest goes */
    d->events[d->events_tail++ & d->events_mask] = *event;
    tell(d);
}

static void take_events(struct rnicd *d)
{
    struct rnic_event events[IO_BATCH];
    size_t n;
    while ((n = rnic_take_events(d->card, events, IO_BATCH)))
        for (size_t i = 0; i < n; i++) {
            if (d->members[events[i].qpn & d->members_mask].qpn == events[i].qpn)
                tasks_event(d, &events[i]);
            else
                keep_event(d, &events[i]);
        }
}

size_t rnicd_take_events(rnicd *d, struct rnic_event *events, size_t max)
{
    size_t n = 0;
    while (n < max && d->events_head < d->events_tail)
        events[n++] = d->events[d->events_head++ & d->events_mask];
    return n;
}

static void occupy(struct line *line, uint32_t length, rnic_time now)
{
    if (!line->rate_bps)
        return;
    uint64_t bytes = length + ETHERNET_GAP;
    if (bytes < FRAME_LEAST)
        bytes = FRAME_LEAST;
    /* Only what has waited for the line may catch up; a line that was idle has lost its time. */
    const rnic_time earliest = line->waited ? now - LINE_SLACK_PS : now;
    if (line->busy_until < earliest)
        line->busy_until = earliest;
    line->busy_until += (rnic_time)(bytes * BYTE_PS / line->rate_bps);
}

enum sending { NOTHING_SENT = 0, SENT = 1, NO_ROOM = 2 };

/* Sends a frame, if one may go by this line now. */
static enum sending send_frame(struct rnicd *d, struct line *line)
{
    struct rnic_packet packet;
    const rnic_time now = rnicd_now(d);
    if (line->busy_until > now) {
        line->waited = rnic_ready_queue_on(d->card, line->number, now) >= 0;
        return NOTHING_SENT;
    }
    uint8_t *room = line->io->ways->room(line->io);
    if (!room)
        return rnic_next_event_on(d->card, line->number) <= now ? NO_ROOM : NOTHING_SENT;
    if (!rnic_transmit_on(d->card, line->number, now, &packet)) {
        line->waited = 0;
        return NOTHING_SENT;
    }
    const uint32_t length = rnic_write_packet(&packet, room);
    line->io->ways->put(line->io, length);
    d->stats.tx_packets++;
    d->stats.tx_bytes += length;
    occupy(line, length, now);
    return SENT;
}

static int flush(struct line *line, enum sending *result)
{
    const int status = line->io->ways->flush(line->io);
    if (status > 0 && *result == NOTHING_SENT)
        *result = NO_ROOM;
    return status < 0 ? status : 0;
}

/* Sends what may go. Returns enum sending, or a negative errno. */
static int send_frames(struct rnicd *d)
{
    struct line *line = &d->lines[0];
    enum sending result = NOTHING_SENT, last;
    while ((last = send_frame(d, line)) == SENT)
        result = SENT;
    if (last == NO_ROOM && result == NOTHING_SENT) {
        result = NO_ROOM;
        d->stats.tx_full++;
    }
    const int status = flush(line, &result);
    return status ? status : (int)result;
}

/* The same by several lines, a frame of each in turn, since what one sends may let another one send. */
static int send_by_lines(struct rnicd *d)
{
    enum sending result = NOTHING_SENT, of[RNIC_INTERFACES];
    for (int again = 1; again;) {
        again = 0;
        for (uint32_t i = 0; i < d->n_lines; i++) {
            struct line *line = &d->lines[i];
            of[i] = send_frame(d, line);
            again |= of[i] == SENT;
            /* A line that has no room is no place for a packet, and the next one may have some. */
            rnic_set_busy(d->card, i, of[i] == NO_ROOM ? rnicd_now(d) + RETRY_PS : line->busy_until);
        }
        result = again ? SENT : result;
    }
    for (uint32_t i = 0; i < d->n_lines; i++) {
        const int status = flush(&d->lines[i], &of[i]);
        if (status)
            return status;
        d->stats.tx_full += of[i] == NO_ROOM;
        if (result == NOTHING_SENT)
            result = of[i];
    }
    return (int)result;
}

/* --- the loop ---------------------------------------------------------------------------------- */

static void clear(int fd)
{
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof count);
    (void)got; /* it is only a signal */
}

static void let_others(struct rnicd *d)
{
    pthread_mutex_unlock(&d->lock);
    rnicd_lock(d);
}

/* What a socket's error comes to: an interface that is only down comes up again. Reading the error clears it. */
static int interface_error(const struct line *line)
{
    int error = 0;
    socklen_t size = sizeof error;
    struct ifreq query = {.ifr_ifindex = (int)line->ifindex};
    getsockopt(line->io->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return ioctl(line->port_fds[0], SIOCGIFNAME, &query) ? -ENODEV : 0;
}

/* Lets others have the card, and sleeps until `due`, a frame or a wake-up. 0, or a negative errno of the interface. */
static int sleep_until(struct rnicd *d, rnic_time due)
{
    const rnic_time left = due - rnicd_now(d);
    if (left <= SPIN_PS) {
        let_others(d);
        return 0;
    }
    const rnic_time most = left < SLEEP_MOST_PS ? left : SLEEP_MOST_PS;
    const uint32_t n = d->n_lines;
    struct pollfd fds[2 * RNIC_INTERFACES + 2] = {[0] = {.fd = d->wake_fd, .events = POLLIN},
                                              [1] = {.fd = d->links_fd, .events = POLLIN}}; /* -1: is left out */
    for (uint32_t i = 0; i < n; i++) {
        fds[2 + i] = (struct pollfd){.fd = d->lines[i].io->fd, .events = POLLIN};
        fds[2 + n + i] = (struct pollfd){.fd = d->lines[i].told_fd, .events = POLLIN};
    }
    const struct timespec timeout = {.tv_sec = most / 1000000000000, .tv_nsec = most / 1000 % 1000000000};
    d->stats.wakeups++;
    pthread_mutex_unlock(&d->lock);
    const int idle = ppoll(fds, 2 + 2 * n, &timeout, NULL) == 0 && most == SLEEP_MOST_PS;
    if (fds[0].revents & POLLIN)
        clear(d->wake_fd);
    rnicd_lock(d);
    int status = 0;
    for (uint32_t i = 0; i < n && !status; i++) /* AF_XDP does not report that its interface is gone */
        status = idle || fds[2 + i].revents & POLLERR ? interface_error(&d->lines[i]) : 0;
    return status;
}

static int round_of(struct rnicd *d)
{
    size_t received = 0;
    if (d->links_fd >= 0)
        links_read(d);
    for (uint32_t i = 0; i < d->n_lines; i++)
        if (d->lines[i].told_fd >= 0)
            told_read(&d->lines[i]);
    for (uint32_t i = 0; i < d->n_lines; i++)
        received += d->lines[i].io->ways->receive(d->lines[i].io, take_frame, &d->lines[i]);
    d->stats.rx_batches += received > 0;
    rnic_advance(d->card, rnicd_now(d));
    take_events(d);
    const int status = d->n_lines == 1 ? send_frames(d) : send_by_lines(d);
    if (status < 0)
        return status;
    take_events(d);
    if (received || status == SENT) {
        let_others(d);
        return 0;
    }
    rnic_time due = RNIC_NEVER;
    for (uint32_t i = 0; i < d->n_lines; i++) {
        rnic_time next = rnic_next_event_on(d->card, i);
        if (next < d->lines[i].busy_until)
            next = d->lines[i].busy_until;
        if (next < due)
            due = next;
    }
    if (status == NO_ROOM)
        due = rnicd_now(d) + RETRY_PS;
    return sleep_until(d, due);
}

int rnicd_run(rnicd *d)
{
    int status = 0;
    prctl(PR_SET_TIMERSLACK, 1UL); /* the default of 50 us would be added to every wait */
    if (pthread_getcpuclockid(pthread_self(), &d->thread_clock) == 0)
        d->has_clock = 1;
    rnicd_lock(d);
    while (!status && !atomic_load(&d->stopping))
        status = round_of(d);
    d->stats.cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    d->has_clock = 0;
    pthread_mutex_unlock(&d->lock);
    return status;
}
