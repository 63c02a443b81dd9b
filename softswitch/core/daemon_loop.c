/* The packet loop: owns one thread's view of sockets, clock and switch, and the lock around the switch. */
#include <errno.h>
#include <linux/if_packet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "daemon_events.h"
#include "daemon_iface.h"
#include "daemon_links.h"
#include "daemon_ticker.h"
#include "switch.h"

enum {
    RX_BATCH = 64,     /* frames of one interface before the next one has its turn */
    RX_BATCH_LIMITED = 16, /* where an interface may push back: a batch that waits for its grants shows as depth */
    OUTPUT_BATCH = 256,
    TICK_BATCH = 64,   /* ticks that the loop makes up for before it looks at sockets again */
    READY_MAX = 64,
    LOG_PORT = 2,      /* level of our own lines through ws_set_log */
    LOG_OVERLOAD = 3,
};

/* The switch's time moves on by so much at a time, and by so many nanoseconds of ours before others have their turn. */
static const ws_time STEP_PS = 10000000;
static const int64_t TURN_NS = 5000000;
static const int64_t OVERLOAD_LOG_NS = 1000000000; /* one line a second */

/* What epoll calls our descriptors; sockets go by their port, since a port may be removed while we wait. */
static const uint64_t WAKE = UINT64_MAX, LINKS = UINT64_MAX - 1;

struct wd_loop {
    ws_switch *sw;
    int epoll, wake, links;
    struct wd_iface *ifaces;
    struct wd_iface **by_port; /* of by_port_n */
    uint32_t by_port_n;
    struct timespec started;
    atomic_llong held_back_ns;  /* see hold_back */
    int64_t overload_logged_ns; /* 0: never */
    struct wd_events events;
    struct wd_tickers tickers;
    struct wd_stats stats;
    int limited; /* as wd_iface.limited, of any */
    atomic_int stop;
    atomic_int waiting;  /* the loop is in epoll or about to be: work has to wake it */
    pthread_mutex_t next, mutex; /* the holder of `next` is the next to get `mutex`: no barging */
    clockid_t thread_clock;
    atomic_int has_clock;
    struct ws_packet_in packets[RX_BATCH];
    int64_t arrivals[RX_BATCH];
    struct ws_output outputs[OUTPUT_BATCH];
};

static int64_t nanoseconds(const struct timespec *t) { return t->tv_sec * INT64_C(1000000000) + t->tv_nsec; }

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return nanoseconds(&now);
}

ws_time wd_now(const wd_loop *loop)
{
    return (clock_ns(CLOCK_MONOTONIC) - nanoseconds(&loop->started) - atomic_load(&loop->held_back_ns)) * 1000;
}

/* --- the lock ------------------------------------------------------------------------------- */

/* The loop lets go once a batch. Were there only `mutex`, it would mostly have it again before a waiting
 * thread is awake; so it has to queue at `next`, which the waiting thread holds. */
void wd_lock(wd_loop *loop)
{
    pthread_mutex_lock(&loop->next);
    pthread_mutex_lock(&loop->mutex);
    pthread_mutex_unlock(&loop->next);
}

static void wake(wd_loop *loop)
{
    uint64_t one = 1;
    ssize_t written = write(loop->wake, &one, sizeof one);
    (void)written; /* only fails when the counter is full, and then the loop wakes too */
}

void wd_unlock(wd_loop *loop)
{
    int sleeping = atomic_load(&loop->waiting);
    pthread_mutex_unlock(&loop->mutex);
    if (sleeping)
        wake(loop);
}

/* --- ports ---------------------------------------------------------------------------------- */

static void say(wd_loop *loop, const struct wd_iface *iface, const char *what)
{
    if (!loop->sw->log)
        return;
    char line[128];
    snprintf(line, sizeof line, "port %u (%s): %s", iface->port, iface->name, what);
    loop->sw->log(loop->sw->log_opaque, LOG_PORT, line);
}

static void change_state(wd_loop *loop, uint32_t port, enum ws_port_state to)
{
    enum ws_port_state state;
    uint32_t pause_mask;
    if (ws_port_state_get(loop->sw, port, &state, &pause_mask) == WS_OK)
        ws_set_port(loop->sw, port, to, pause_mask, wd_now(loop));
}

static void watch(wd_loop *loop, struct wd_iface *iface, int operation)
{
    struct epoll_event event = {
        .events = EPOLLIN | (iface->send.waits ? EPOLLOUT : 0u),
        .data.u64 = iface->port,
    };
    epoll_ctl(loop->epoll, operation, iface->fd, &event);
}

static void count_limited(wd_loop *loop)
{
    loop->limited = 0;
    for (const struct wd_iface *iface = loop->ifaces; iface; iface = iface->next)
        loop->limited |= iface->limited;
}

/* Lets the port send what its device will take, and waits for the socket where that is nothing. */
static void grant_room(wd_loop *loop, struct wd_iface *iface)
{
    ws_time now = wd_now(loop);
    int waited = iface->send.waits;
    uint32_t room = wd_send_room(&iface->send, now);
    int changed = iface->limited != (room != WS_UNLIMITED);
    iface->limited = room != WS_UNLIMITED;
    if (changed)
        count_limited(loop);
    if (iface->send.waits != waited) {
        watch(loop, iface, EPOLL_CTL_MOD);
        iface->send.blocked += (uint64_t)iface->send.waits;
        loop->stats.tx_blocked += (uint64_t)iface->send.waits;
    }
    ws_grant_port(loop->sw, iface->port, room, now);
}

/* Asks what the interface's queueing discipline is now: whether frames may wait there. */
static void look_at_qdisc(wd_loop *loop, struct wd_iface *iface)
{
    static const char *const says[] = {"", ", which may hold frames: what it does not take waits in the port's queues",
                                       ", which shapes: what it does not take waits in the port's queues"};
    char name[WD_QDISC_NAME] = "", line[128];
    int holds = wd_links_holding(iface->ifindex, name), same = strcmp(name, iface->qdisc) == 0;
    if (holds < 0 || (same && holds == (int)iface->send.holds))
        return;
    if (holds != WD_HOLDS_NOTHING || iface->qdisc[0]) {
        snprintf(line, sizeof line, "queueing discipline %s%s", name, says[holds]);
        say(loop, iface, line);
    }
    memcpy(iface->qdisc, name, sizeof name);
    wd_send_hold(&iface->send, (enum wd_holding)holds);
    wd_send_flush(&iface->send, &loop->stats);
    grant_room(loop, iface);
}

static struct wd_iface *iface_of(const wd_loop *loop, uint32_t port)
{
    return port < loop->by_port_n ? loop->by_port[port] : NULL;
}

static void count_kernel_drops(wd_loop *loop, const struct wd_iface *iface)
{
    struct tpacket_stats counts;
    socklen_t size = sizeof counts;
    if (iface->fd >= 0 && getsockopt(iface->fd, SOL_PACKET, PACKET_STATISTICS, &counts, &size) == 0)
        loop->stats.rx_dropped += counts.tp_drops;
}

static void close_socket(wd_loop *loop, struct wd_iface *iface)
{
    if (iface->fd < 0)
        return;
    count_kernel_drops(loop, iface);
    epoll_ctl(loop->epoll, EPOLL_CTL_DEL, iface->fd, NULL);
    wd_iface_close(iface);
    iface->qdisc[0] = '\0';
}

/* Likewise, of a port that stays: nothing would grant it anything. */
static void cut_off(wd_loop *loop, struct wd_iface *iface)
{
    close_socket(loop, iface);
    iface->limited = 0;
    count_limited(loop);
    ws_grant_port(loop->sw, iface->port, WS_UNLIMITED, wd_now(loop));
}

static void iface_free(wd_loop *loop, struct wd_iface *iface)
{
    close_socket(loop, iface);
    wd_pcap_close(iface->pcap_in);
    wd_pcap_close(iface->pcap_out);
    free(iface);
}

static int add_port(wd_loop *loop, uint32_t port, const char *ifname, const char *pcap_path)
{
    ws_switch *sw = loop->sw;
    if (!ws_port_at(sw, port) || strlen(ifname) >= IF_NAMESIZE) {
        snprintf(sw->error, sizeof sw->error, "port %u on %.64s: port number or interface name out of range", port,
                 ifname);
        return -EINVAL;
    }
    if (iface_of(loop, port)) {
        snprintf(sw->error, sizeof sw->error, "port %u has an interface already", port);
        return -EEXIST;
    }
    if (wd_tickers_use(&loop->tickers, port)) {
        snprintf(sw->error, sizeof sw->error, "port %u is where tickers' packets come in", port);
        return -EEXIST;
    }
    if (port >= loop->by_port_n) {
        uint32_t n = port + 64;
        struct wd_iface **by_port = realloc(loop->by_port, n * sizeof(struct wd_iface *));
        if (!by_port)
            return -ENOMEM;
        memset(by_port + loop->by_port_n, 0, (n - loop->by_port_n) * sizeof(struct wd_iface *));
        loop->by_port = by_port;
        loop->by_port_n = n;
    }
    struct wd_iface *iface = calloc(1, sizeof *iface);
    if (!iface)
        return -ENOMEM;
    iface->port = port;
    iface->fd = -1;
    snprintf(iface->name, sizeof iface->name, "%s", ifname);
    int status = pcap_path ? wd_iface_capture(iface, pcap_path, sw->error, sizeof sw->error) : 0;
    if (status == 0)
        status = wd_iface_open(iface, sw->error, sizeof sw->error);
    if (status < 0) {
        iface_free(loop, iface);
        return status;
    }
    struct wd_iface **end = &loop->ifaces;
    while (*end)
        end = &(*end)->next;
    *end = iface;
    loop->by_port[port] = iface;
    watch(loop, iface, EPOLL_CTL_ADD);
    look_at_qdisc(loop, iface);
    change_state(loop, port, iface->up ? WS_PORT_UP : WS_PORT_DOWN);
    return 0;
}

int wd_add_port(wd_loop *loop, uint32_t port, const char *ifname, const char *pcap_path)
{
    wd_lock(loop);
    int status = add_port(loop, port, ifname, pcap_path);
    wd_unlock(loop);
    return status;
}

int wd_remove_port(wd_loop *loop, uint32_t port)
{
    int status = -ENOENT;
    wd_lock(loop);
    struct wd_iface **link = &loop->ifaces;
    while (*link && (*link)->port != port)
        link = &(*link)->next;
    if (*link) {
        struct wd_iface *iface = *link;
        *link = iface->next;
        loop->by_port[port] = NULL;
        change_state(loop, port, WS_PORT_DOWN);
        cut_off(loop, iface);
        iface_free(loop, iface);
        status = 0;
    } else {
        snprintf(loop->sw->error, sizeof loop->sw->error, "port %u has no interface", port);
    }
    wd_unlock(loop);
    return status;
}

/* A port whose interface vanished, or is too long for its ring since the MTU grew, is closed; the latter opens again. */
static void look_at_link(wd_loop *loop, struct wd_iface *iface)
{
    int link = wd_iface_link(iface);
    if (link < 0) {
        say(loop, iface, "the interface is gone, port closed");
        cut_off(loop, iface);
        link = 0;
    } else if (!wd_iface_fits(iface)) {
        char error[256];
        cut_off(loop, iface);
        if (wd_iface_open(iface, error, sizeof error) < 0) {
            say(loop, iface, error);
            link = 0;
        } else {
            watch(loop, iface, EPOLL_CTL_ADD);
            look_at_qdisc(loop, iface);
        }
    }
    if (link == iface->up)
        return;
    iface->up = link;
    if (iface->fd >= 0) {
        say(loop, iface, link ? "up" : "down");
        look_at_qdisc(loop, iface); /* a link that comes up for the first time gets one, without an event */
    }
    change_state(loop, iface->port, link ? WS_PORT_UP : WS_PORT_DOWN);
}

static void links_changed(wd_loop *loop)
{
    int news = wd_links_drain(loop->links);
    ws_time now = wd_now(loop);
    if (loop->tickers.next <= now) /* a port that changes takes the switch's time there */
        wd_tickers_run(&loop->tickers, loop->sw, now, TICK_BATCH);
    for (struct wd_iface *iface = loop->ifaces; iface; iface = iface->next) {
        if (iface->fd >= 0 && news & WD_NEWS_LINK)
            look_at_link(loop, iface);
        if (iface->fd >= 0 && news & WD_NEWS_QDISC)
            look_at_qdisc(loop, iface);
    }
}

/* --- packets -------------------------------------------------------------------------------- */

static void flush(wd_loop *loop, struct wd_iface *iface)
{
    wd_send_flush(&iface->send, &loop->stats);
    if (iface->send.holds)
        grant_room(loop, iface);
}

static void send_packet(wd_loop *loop, const struct ws_output *output)
{
    struct wd_iface *iface = iface_of(loop, output->port);
    if (!iface || iface->fd < 0)
        return; /* a port without an interface: the packet leaves into nothing, as in BMv2 */
    if (!wd_send_add(&iface->send, output->data, output->length)) {
        flush(loop, iface);
        wd_send_add(&iface->send, output->data, output->length);
    }
    if (iface->pcap_out)
        wd_pcap_write(iface->pcap_out, clock_ns(CLOCK_REALTIME), output->data, output->length);
}

/* Sends all outputs that are due. A grant may make new ones: until there are no more. */
static void send_outputs(wd_loop *loop)
{
    for (;;) {
        size_t n = ws_take_output(loop->sw, loop->outputs, OUTPUT_BATCH, loop->sw->now);
        if (!n)
            return;
        for (size_t i = 0; i < n; i++) {
            if (loop->outputs[i].kind == WS_OUT_PACKET)
                send_packet(loop, &loop->outputs[i]);
            else
                wd_events_put(&loop->events, &loop->outputs[i]);
        }
        for (struct wd_iface *iface = loop->ifaces; iface; iface = iface->next)
            if (iface->send.n_messages)
                flush(loop, iface);
    }
}

/* Takes one batch from an interface. 1: more may be there. */
static int receive(wd_loop *loop, struct wd_iface *iface)
{
    uint32_t most = loop->limited ? RX_BATCH_LIMITED : RX_BATCH;
    uint32_t n = wd_iface_receive(iface, loop->packets, loop->arrivals, most, &loop->stats.truncated);
    if (!n)
        return 0;
    ws_time now = wd_now(loop);
    if (loop->tickers.next <= now) /* the switch's time must not pass them */
        wd_tickers_run(&loop->tickers, loop->sw, now, TICK_BATCH);
    /* Arrivals are stamped in wall-clock time: as picoseconds before `now`. */
    int64_t wall = clock_ns(CLOCK_REALTIME);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!loop->packets[i].data)
            continue;
        ws_time age = (wall - loop->arrivals[i]) * 1000;
        loop->packets[kept] = loop->packets[i];
        loop->packets[kept++].at = age > 0 && age < now ? now - age : now;
    }
    loop->stats.rx += kept;
    ws_inject(loop->sw, loop->packets, kept, now);
    wd_iface_release(iface, n);
    return n == most;
}

static void flush_captures(wd_loop *loop)
{
    for (struct wd_iface *iface = loop->ifaces; iface; iface = iface->next) {
        if (iface->pcap_in)
            wd_pcap_flush(iface->pcap_in);
        if (iface->pcap_out)
            wd_pcap_flush(iface->pcap_out);
    }
}

/* Waits for sockets, the wake-up or the switch's next event; holds no lock meanwhile. `busy`: only looks. */
static int wait_for_work(wd_loop *loop, struct epoll_event *ready, int busy)
{
    ws_time next = ws_next_event(loop->sw), now = wd_now(loop);
    if (loop->tickers.next < next)
        next = loop->tickers.next;
    struct timespec timeout = {0}, *limit = NULL;
    if (busy || next <= now) {
        limit = &timeout;
    } else if (next != WS_NEVER) {
        int64_t ns = (next - now + 999) / 1000;
        timeout = (struct timespec){ns / 1000000000, ns % 1000000000};
        limit = &timeout;
    }
    if (!limit)
        flush_captures(loop);
    atomic_store(&loop->waiting, 1);
    pthread_mutex_unlock(&loop->mutex);
    int n = epoll_pwait2(loop->epoll, ready, READY_MAX, limit, NULL);
    int status = n < 0 ? -errno : n;
    wd_lock(loop);
    atomic_store(&loop->waiting, 0);
    loop->stats.wakeups++;
    return status == -EINTR ? 0 : status;
}

/* The socket's error (its interface went down) stays until it is asked for. */
static void clear_error(wd_loop *loop, struct wd_iface *iface)
{
    int error;
    socklen_t size = sizeof error;
    getsockopt(iface->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    look_at_link(loop, iface);
}

static int service(wd_loop *loop, const struct epoll_event *event)
{
    if (event->data.u64 == WAKE) {
        uint64_t count;
        ssize_t got = read(loop->wake, &count, sizeof count);
        (void)got;
        return 0;
    }
    if (event->data.u64 == LINKS) {
        links_changed(loop);
        return 0;
    }
    int more = 0;
    struct wd_iface *iface = iface_of(loop, (uint32_t)event->data.u64);
    if (iface && iface->fd >= 0 && event->events & EPOLLIN)
        more = receive(loop, iface);
    if (iface && iface->fd >= 0 && event->events & EPOLLOUT)
        flush(loop, iface);
    if (iface && iface->fd >= 0 && event->events & (EPOLLERR | EPOLLHUP))
        clear_error(loop, iface);
    send_outputs(loop);
    return more;
}

/* What is due enters before what has come in meanwhile, as its time was before the loop woke. 1: more may be due. */
static int run_tickers(wd_loop *loop)
{
    uint32_t n = wd_tickers_run(&loop->tickers, loop->sw, wd_now(loop), TICK_BATCH);
    if (n)
        send_outputs(loop);
    return n == TICK_BATCH;
}

/* What happens inside of the switch takes longer than it lasts: packets that recirculate, resubmit or clone themselves
 * for ever. The switch's time goes on from where it is, or each turn of the loop would take longer than the one before,
 * with no other thread at the switch meanwhile. */
__attribute__((cold)) static void hold_back(wd_loop *loop)
{
    const int64_t now = clock_ns(CLOCK_MONOTONIC);
    const ws_time behind = wd_now(loop) - loop->sw->now;
    if (behind > 0)
        atomic_fetch_add(&loop->held_back_ns, behind / 1000);
    if (!loop->sw->log || (loop->overload_logged_ns && now - loop->overload_logged_ns < OVERLOAD_LOG_NS))
        return;
    loop->overload_logged_ns = now;
    char line[160];
    snprintf(line, sizeof line, "the switch is slower than time, which is held back by %lld ms now: %u packets go round in it",
             (long long)(atomic_load(&loop->held_back_ns) / 1000000), loop->sw->waiting);
    loop->sw->log(loop->sw->log_opaque, LOG_OVERLOAD, line);
}

/* Moves the switch's time on towards `until`. 1: others had their turn before it was there. */
static int advance(wd_loop *loop, ws_time until)
{
    ws_switch *sw = loop->sw;
    if (ws_events_next(&sw->events) >= until || until - sw->now <= STEP_PS) {
        ws_advance(sw, until);
        return 0;
    }
    const int64_t began = clock_ns(CLOCK_MONOTONIC);
    const ws_time from = sw->now;
    while (sw->now < until) {
        ws_advance(sw, until - sw->now > STEP_PS ? sw->now + STEP_PS : until);
        const int64_t took = clock_ns(CLOCK_MONOTONIC) - began;
        if (took > TURN_NS && sw->now < until) {
            if ((sw->now - from) / 1000 < took)
                hold_back(loop);
            return 1;
        }
    }
    return 0;
}

/* As far as the switch may go: not past a tick that is due, which enters at its own time. */
static ws_time until(const wd_loop *loop)
{
    const ws_time now = wd_now(loop);
    return now < loop->tickers.next ? now : loop->tickers.next;
}

static int run(wd_loop *loop)
{
    struct epoll_event ready[READY_MAX];
    int busy = 0;
    while (!atomic_load(&loop->stop)) {
        int n = wait_for_work(loop, ready, busy);
        if (n < 0)
            return n;
        busy = advance(loop, until(loop)); /* before what came in, which would take the switch there at once */
        busy |= loop->tickers.next != WS_NEVER && run_tickers(loop);
        for (int i = 0; i < n; i++)
            busy |= service(loop, &ready[i]);
        busy |= advance(loop, until(loop));
        send_outputs(loop);
    }
    return 0;
}

int wd_run(wd_loop *loop)
{
    prctl(PR_SET_TIMERSLACK, 1UL); /* the default of 50 us would be added to every delay */
    if (pthread_getcpuclockid(pthread_self(), &loop->thread_clock) == 0)
        atomic_store(&loop->has_clock, 1);
    wd_lock(loop);
    int status = run(loop);
    loop->stats.cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    atomic_store(&loop->has_clock, 0);
    if (status < 0)
        snprintf(loop->sw->error, sizeof loop->sw->error, "packet loop");
    flush_captures(loop);
    pthread_mutex_unlock(&loop->mutex);
    return status;
}

/* --- the rest of the interface ----------------------------------------------------------------- */

static int add_descriptor(wd_loop *loop, int fd, uint64_t name)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = name};
    return fd < 0 ? -1 : epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event);
}

wd_loop *wd_create(ws_switch *sw)
{
    wd_loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return NULL;
    loop->sw = sw;
    wd_tickers_init(&loop->tickers);
    clock_gettime(CLOCK_MONOTONIC, &loop->started);
    pthread_mutex_init(&loop->next, NULL);
    pthread_mutex_init(&loop->mutex, NULL);
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    loop->links = wd_links_open();
    if (loop->epoll < 0 || add_descriptor(loop, loop->wake, WAKE) < 0 ||
        add_descriptor(loop, loop->links, LINKS) < 0 || wd_events_init(&loop->events) < 0) {
        snprintf(sw->error, sizeof sw->error, "%s", strerror(errno));
        wd_destroy(loop);
        return NULL;
    }
    return loop;
}

void wd_destroy(wd_loop *loop)
{
    if (!loop)
        return;
    while (loop->ifaces) {
        struct wd_iface *iface = loop->ifaces;
        loop->ifaces = iface->next;
        iface_free(loop, iface);
    }
    free(loop->by_port);
    int descriptors[] = {loop->epoll, loop->wake, loop->links};
    for (size_t i = 0; i < sizeof descriptors / sizeof *descriptors; i++)
        if (descriptors[i] >= 0)
            close(descriptors[i]);
    wd_events_free(&loop->events);
    wd_tickers_free(&loop->tickers);
    pthread_mutex_destroy(&loop->next);
    pthread_mutex_destroy(&loop->mutex);
    free(loop);
}

void wd_stop(wd_loop *loop)
{
    atomic_store(&loop->stop, 1);
    wake(loop);
    wd_events_close(&loop->events);
}

int wd_packet_out(wd_loop *loop, const uint8_t *data, uint32_t length)
{
    int status = -ENOENT;
    wd_lock(loop);
    if (loop->sw->config.cpu_port) {
        struct ws_packet_in packet = {.port = loop->sw->config.cpu_port, .length = length, .data = data};
        ws_time now = wd_now(loop), soon = loop->sw->now + STEP_PS;
        /* Not after all that the loop has yet to make up for, which may be long. */
        ws_inject(loop->sw, &packet, 1, now > soon && ws_events_next(&loop->sw->events) < now ? soon : now);
        status = 0;
    } else {
        snprintf(loop->sw->error, sizeof loop->sw->error, "packet-out without a CPU port");
    }
    wd_unlock(loop);
    return status;
}

size_t wd_wait_events(wd_loop *loop, struct ws_output *out, size_t max, uint8_t *buffer, size_t buffer_size,
                      int timeout_ms)
{
    return wd_events_wait(&loop->events, out, max, buffer, buffer_size, timeout_ms);
}

void wd_nudge_events(wd_loop *loop) { wd_events_nudge(&loop->events); }

int wd_port_stats_get(const wd_loop *loop, uint32_t port, struct wd_port_stats *stats)
{
    const struct wd_iface *iface = iface_of(loop, port);
    if (!iface)
        return -ENOENT;
    *stats = (struct wd_port_stats){.blocked = iface->send.blocked, .lost = iface->send.lost};
    memcpy(stats->discipline, iface->qdisc, sizeof iface->qdisc);
    return 0;
}

int wd_add_ticker(wd_loop *loop, const struct wd_ticker_config *config)
{
    ws_switch *sw = loop->sw;
    int number = -EEXIST;
    wd_lock(loop);
    if (iface_of(loop, config->port) || (sw->config.cpu_port && config->port == sw->config.cpu_port))
        snprintf(sw->error, sizeof sw->error, "ticker at port %u: the port has an interface, or is the controller's", config->port);
    else
        number = wd_tickers_add(&loop->tickers, config, wd_now(loop), sw->error, sizeof sw->error);
    wd_unlock(loop);
    return number;
}

int wd_ticker_stats_get(const wd_loop *loop, uint32_t number, struct wd_ticker_stats *stats)
{
    return wd_tickers_stats(&loop->tickers, number, stats);
}

void wd_stats_get(const wd_loop *loop_, struct wd_stats *stats)
{
    wd_loop *loop = (wd_loop *)(uintptr_t)loop_; /* the lock and the kernel's drop counts are not const */
    wd_lock(loop);
    for (struct wd_iface *iface = loop->ifaces; iface; iface = iface->next)
        count_kernel_drops(loop, iface);
    *stats = loop->stats;
    pthread_mutex_lock(&loop->events.mutex);
    stats->events_dropped = loop->events.dropped;
    stats->held_back_ns = atomic_load(&loop->held_back_ns);
    pthread_mutex_unlock(&loop->events.mutex);
    if (atomic_load(&loop->has_clock))
        stats->cpu_ns = clock_ns(loop->thread_clock);
    wd_unlock(loop);
}
