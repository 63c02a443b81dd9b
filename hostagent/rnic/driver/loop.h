/* The driver's own types. */
#ifndef RNIC_LOOP_H
#define RNIC_LOOP_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "driver.h"
#include "io.h"

struct member {
    uint32_t qpn; /* 0: no task */
    struct rnicd_task task;
    struct rnicd_task_state state;
    uint64_t first_id; /* older completions are of the task before */
    uint64_t asked_ns; /* LATENCY: when the message that is out was posted */
};

enum { LINE_PORTS = 3 }; /* RoCEv2's, telemetry's and the notifications' */

/* An interface of the card. */
struct line {
    struct rnicd *driver;
    struct io *io;
    uint32_t number, mode;
    uint64_t rate_bps;
    rnic_time busy_until;
    int waited;               /* somebody waits, or has waited, until then */
    unsigned ifindex;
    int port_fds[LINE_PORTS];
    int told_fd;              /* what switches say of dead ways, if it does not come as other frames do; -1 */
};

struct rnicd {
    rnic *card;
    struct line lines[RNIC_INTERFACES];
    uint32_t n_lines;
    uint64_t base_ns;         /* CLOCK_MONOTONIC at time 0 */
    int wake_fd, event_fd;
    int links_fd;             /* says that a link went up or down; -1: there is one line, so it is not needed */
    atomic_int stopping;
    pthread_mutex_t next, lock; /* the holder of `next` is the next to get `lock`: no barging */
    uint64_t next_id;           /* of work requests */
    struct rnicd_stats stats;
    clockid_t thread_clock;
    int has_clock;            /* the loop runs */
    struct member *members;   /* by number modulo their count */
    uint32_t members_mask;
    struct rnic_event *events; /* of queue pairs without a task: a ring */
    uint32_t events_mask;
    uint64_t events_head, events_tail;
    char reason[200];
};

static inline uint64_t since_start(const struct rnicd *d) { return (uint64_t)rnicd_now(d) / 1000; }

/* --- port.c --- */
/* Takes a UDP port, else the kernel would answer its packets "port unreachable". -1: `error` says why. */
int port_take(uint32_t ip, uint16_t port, char *error, size_t error_size);

/* --- links.c: links that go up and down, of a card of several interfaces --- */
int links_open(struct rnicd *d, char *error, size_t error_size); /* -1: `error` says why */
void links_read(struct rnicd *d);                                 /* reports changes to the card */

/* --- told.c: switches' reports of dead ways, which AF_XDP leaves to the kernel --- */
int told_open(unsigned ifindex, char *error, size_t error_size); /* -1: `error` says why */
void told_read(struct line *line);                               /* reports them to the card */

/* --- task.c --- */
void tasks_event(struct rnicd *d, const struct rnic_event *event);
/* Lets Python know. */
void tell(struct rnicd *d);

#endif
