/* A card on a real interface: owns its time, its frames, and the work that is measured on it.
 *
 * One thread runs the loop (rnicd_run); others lock the driver, call the card or the functions below, unlock and wake it.
 * Frames come and go by AF_XDP (one queue; the program that redirects to the socket is not ours) or by AF_PACKET.
 */
#ifndef RNIC_DRIVER_H
#define RNIC_DRIVER_H

#include "rnic.h"

typedef struct rnicd rnicd;

struct rnicd_config {
    const char *interface;
    uint32_t use_packet;      /* 1: AF_PACKET, also where AF_XDP works */
    uint64_t line_rate_bps;   /* the interface's: frames leave no faster; 0: as fast as they can */
};

/* Opens the interface; the card's clock starts. NULL: `error` says why. */
rnicd *rnicd_open(const struct rnicd_config *config, const struct rnic_config *card, char *error, size_t error_size);
/* One more interface of the same card, before the loop runs and before there are queue pairs. Its number, or -1: `error` says why.
 * Links that go down and up are heard of from then on. */
int rnicd_add_interface(rnicd *d, const struct rnicd_config *config, const struct rnic_interface *interface, char *error,
                        size_t error_size);
void rnicd_close(rnicd *d); /* after the loop has ended */

enum rnicd_mode { RNICD_PACKET = 0, RNICD_XDP = 1 };
int rnicd_mode(const rnicd *d);                /* of all interfaces: AF_PACKET if it is one's */
const char *rnicd_mode_reason(const rnicd *d); /* why it is not AF_XDP; empty if it is */
int rnicd_socket(const rnicd *d, uint32_t interface); /* its AF_XDP socket's descriptor, -1: there is none */
rnic *rnicd_card(rnicd *d);
rnic_time rnicd_now(const rnicd *d);
uint64_t rnicd_base_ns(const rnicd *d);        /* CLOCK_MONOTONIC when rnicd_now was 0 */

int rnicd_run(rnicd *d);   /* until rnicd_stop; 0, or a negative errno of the interface */
void rnicd_stop(rnicd *d); /* from any thread or signal handler */
void rnicd_lock(rnicd *d);
void rnicd_unlock(rnicd *d);
void rnicd_wake(rnicd *d); /* something was posted */
int rnicd_event_fd(const rnicd *d); /* readable when a measurement has ended or events wait; reading clears it */

struct rnicd_stats {
    uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes;
    uint64_t rx_batches, wakeups;
    uint64_t tx_full;                /* times that the interface had no room for what was to be sent */
    uint64_t rx_dropped, tx_dropped; /* by the kernel: its queues were full, or the interface down */
    uint64_t cpu_ns;                 /* of the loop's thread */
};
void rnicd_stats_get(rnicd *d, struct rnicd_stats *stats); /* call locked */
/* Events of queue pairs that have no task. */
size_t rnicd_take_events(rnicd *d, struct rnic_event *events, size_t max);

/* --- tasks: work that the loop keeps going by itself ------------------------------------------ */

enum rnicd_task_kind { RNICD_NO_TASK = 0, RNICD_BANDWIDTH = 1, RNICD_LATENCY = 2, RNICD_SERVE = 3, RNICD_ANSWER = 4 };
struct rnicd_task {
    uint32_t kind;            /* enum rnicd_task_kind; SERVE keeps receives posted, ANSWER also answers each message */
    uint32_t operation;       /* enum rnic_operation: SEND, WRITE or READ */
    uint64_t size, count;     /* bytes a message; messages, at most `times` has room for */
    uint32_t depth;           /* BANDWIDTH: outstanding at once */
    uint32_t rkey;
    uint64_t remote_address;
    uint8_t *buffer;          /* `size` bytes to send from or to READ into */
    uint8_t *receive;         /* what SENDs go to */
    uint64_t receive_size;    /* bytes there; 0: `size` */
    uint64_t duration_ns;     /* no new messages after that; 0: none */
    uint64_t *left;           /* BANDWIDTH: messages that are left for all tasks with this place, each of which takes one when fewer than
                                 `depth` of its own are outstanding; NULL: `count` of its own */
    uint64_t *posts;          /* when each was posted; ns, room for `count`, or NULL */
    uint64_t *times;          /* BANDWIDTH: when each was completed; LATENCY: how long each took; ns, room for `count` */
};
struct rnicd_task_state {
    uint64_t posted, completed;
    uint64_t started_ns, ended_ns; /* first post and last completion, since the driver's start */
    uint32_t done, failure;        /* enum rnic_failure */
};
/* Queue pairs have to differ in their number modulo that. */
uint32_t rnicd_places(const rnicd *d);
/* Replaces the queue pair's task; starts at once, unless messages are shared. 0 or RNIC_E*. Call locked, as the two below. */
int rnicd_task_set(rnicd *d, uint32_t qpn, const struct rnicd_task *task);
/* Tasks that share messages take one each, in turn, until each has `depth` or none is left; then they go on by themselves. Call locked. */
int rnicd_tasks_share(rnicd *d, const uint32_t *qpns, uint32_t n);
int rnicd_task_get(rnicd *d, uint32_t qpn, struct rnicd_task_state *state);
void rnicd_task_end(rnicd *d, uint32_t qpn); /* forgets it; what is posted stays so */

#endif
