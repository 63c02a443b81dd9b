/* Owns the loop: frames in, time-outs, frames out, sleep until something is due. */
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

static struct io *open_io(struct rnicd *d, const struct rnicd_config *config, char *error, size_t error_size)
{
    struct io *io = NULL;
    if (config->use_packet)
        snprintf(d->reason, sizeof d->reason, "AF_PACKET was asked for");
    else
        io = io_open_xdp(config->interface, d->reason, sizeof d->reason);
    if (io) {
        d->mode = RNICD_XDP;
        d->reason[0] = 0;
        return io;
    }
    d->mode = RNICD_PACKET;
    return io_open_packet(config->interface, error, error_size);
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
    d->wake_fd = d->event_fd = d->port_fd = d->telemetry_fd = d->notifications_fd = -1;
    d->next_id = 1;
    if (!d->members || !d->events) {
        snprintf(error, error_size, "no memory for an endpoint");
        goto failed;
    }
    d->line_rate_bps = config->line_rate_bps;
    d->base_ns = clock_ns(CLOCK_MONOTONIC);
    d->ifindex = if_nametoindex(config->interface);
    d->port_fd = port_take(card->ip, ROCE_PORT, error, error_size);
    if (d->port_fd < 0)
        goto failed;
    d->telemetry_fd = port_take(card->ip, TELEMETRY_PORT, error, error_size);
    if (d->telemetry_fd < 0)
        goto failed;
    d->notifications_fd = port_take(card->ip, NOTIFICATION_PORT, error, error_size);
    if (d->notifications_fd < 0)
        goto failed;
    d->io = open_io(d, config, error, error_size);
    if (!d->io)
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

void rnicd_close(rnicd *d)
{
    if (!d)
        return;
    if (d->io)
        d->io->ways->close(d->io);
    rnic_destroy(d->card);
    const int descriptors[] = {d->wake_fd, d->event_fd, d->port_fd, d->telemetry_fd, d->notifications_fd};
    for (size_t i = 0; i < sizeof descriptors / sizeof *descriptors; i++)
        if (descriptors[i] >= 0)
            close(descriptors[i]);
    pthread_mutex_destroy(&d->next);
    pthread_mutex_destroy(&d->lock);
    free(d->members);
    free(d->events);
    free(d);
}

int rnicd_mode(const rnicd *d) { return (int)d->mode; }
const char *rnicd_mode_reason(const rnicd *d) { return d->reason; }
int rnicd_socket(const rnicd *d) { return d->mode == RNICD_XDP ? d->io->fd : -1; }
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
    d->io->ways->dropped(d->io, &stats->rx_dropped, &stats->tx_dropped);
}

/* --- frames ------------------------------------------------------------------------------------ */

static void take_frame(void *opaque, const uint8_t *frame, uint32_t length)
{
    struct rnicd *d = opaque;
    d->stats.rx_packets++;
    d->stats.rx_bytes += length;
    rnic_receive(d->card, frame, length, 0, rnicd_now(d));
}

static void keep_event(struct rnicd *d, const struct rnic_event *event)
{
    if (d->events_tail - d->events_head > d->events_mask)
        d->events_head++; /* nobody takes them: the oldest goes */
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

static void occupy_line(struct rnicd *d, uint32_t length, rnic_time now)
{
    if (!d->line_rate_bps)
        return;
    uint64_t bytes = length + ETHERNET_GAP;
    if (bytes < FRAME_LEAST)
        bytes = FRAME_LEAST;
    /* Only what has waited for the line may catch up; a line that was idle has lost its time. */
    const rnic_time earliest = d->line_waited ? now - LINE_SLACK_PS : now;
    if (d->busy_until < earliest)
        d->busy_until = earliest;
    d->busy_until += (rnic_time)(bytes * BYTE_PS / d->line_rate_bps);
}

enum sending { NOTHING_SENT = 0, SENT = 1, NO_ROOM = 2 };

/* Sends what may go. Returns enum sending, or a negative errno. */
static int send_frames(struct rnicd *d)
{
    struct rnic_packet packet;
    enum sending result = NOTHING_SENT;
    for (;;) {
        const rnic_time now = rnicd_now(d);
        if (d->busy_until > now) {
            d->line_waited = rnic_ready_queue(d->card, now) >= 0;
            break;
        }
        uint8_t *room = d->io->ways->room(d->io);
        if (!room) {
            if (result == NOTHING_SENT && rnic_next_event(d->card) <= now) {
                result = NO_ROOM;
                d->stats.tx_full++;
            }
            break;
        }
        if (!rnic_transmit(d->card, now, &packet)) {
            d->line_waited = 0;
            break;
        }
        const uint32_t length = rnic_write_packet(&packet, room);
        d->io->ways->put(d->io, length);
        d->stats.tx_packets++;
        d->stats.tx_bytes += length;
        occupy_line(d, length, now);
        result = SENT;
    }
    const int status = d->io->ways->flush(d->io);
    if (status < 0)
        return status;
    return status > 0 && result == NOTHING_SENT ? NO_ROOM : result;
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
static int interface_error(struct rnicd *d)
{
    int error = 0;
    socklen_t size = sizeof error;
    struct ifreq query = {.ifr_ifindex = (int)d->ifindex};
    getsockopt(d->io->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return ioctl(d->port_fd, SIOCGIFNAME, &query) ? -ENODEV : 0;
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
    struct pollfd fds[2] = {{.fd = d->io->fd, .events = POLLIN}, {.fd = d->wake_fd, .events = POLLIN}};
    const struct timespec timeout = {.tv_sec = most / 1000000000000, .tv_nsec = most / 1000 % 1000000000};
    d->stats.wakeups++;
    pthread_mutex_unlock(&d->lock);
    const int idle = ppoll(fds, 2, &timeout, NULL) == 0 && most == SLEEP_MOST_PS;
    if (fds[1].revents & POLLIN)
        clear(d->wake_fd);
    rnicd_lock(d);
    /* AF_XDP does not tell that its interface is gone. */
    return idle || fds[0].revents & POLLERR ? interface_error(d) : 0;
}

static int round_of(struct rnicd *d)
{
    const size_t received = d->io->ways->receive(d->io, take_frame, d);
    d->stats.rx_batches += received > 0;
    rnic_advance(d->card, rnicd_now(d));
    take_events(d);
    const int status = send_frames(d);
    if (status < 0)
        return status;
    take_events(d);
    if (received || status == SENT) {
        let_others(d);
        return 0;
    }
    rnic_time due = rnic_next_event(d->card);
    if (due < d->busy_until)
        due = d->busy_until;
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
