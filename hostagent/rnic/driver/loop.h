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

struct rnicd {
    struct io *io;
    rnic *card;
    uint32_t mode;
    uint64_t base_ns;         /* CLOCK_MONOTONIC at time 0 */
    uint64_t line_rate_bps;
    rnic_time busy_until;     /* of the line */
    int line_waited;          /* somebody waits, or has waited, until then */
    unsigned ifindex;
    int wake_fd, event_fd, port_fd, telemetry_fd, notifications_fd;
    atomic_int stopping;
    pthread_mutex_t next, lock; /* whoever holds `next` is the next to get `lock`: nobody barges in */
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

/* --- task.c --- */
void tasks_event(struct rnicd *d, const struct rnic_event *event);
/* Lets Python know. */
void tell(struct rnicd *d);

#endif
