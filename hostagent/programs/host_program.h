/* Host programs: what runs on a host and reacts to frames and to timers.
 *
 * A program is passive: it reads no clock, owns no socket and never sleeps. What it runs on (the simulator's hosts, a driver in a
 * host's namespace) calls it with the time and gives it the calls below. The same calls at the same times make it do
 * the same. Time is in ns of the fabric (a run's time scale is undone), from the run's start on, and never goes back.
 *
 * Frames are whole, from the Ethernet header on, without FCS. One that a program sends waits in the queue of its DSCP's class
 * (of no IPv4: queue 0) until that may send, as everything else that its host sends. A program gets the frames to the UDP ports
 * and of the EtherTypes that it listens to, and no others; who listens to a datagram's port comes before who listens to IPv4.
 */
#ifndef WEFT_HOST_PROGRAM_H
#define WEFT_HOST_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

enum {
    PROGRAM_TIMERS = 65536,     /* tokens are below this */
    PROGRAM_FRAME_MIN = 14,     /* bytes of a frame */
    PROGRAM_FRAME_MAX = 16384,
    PROGRAM_WAITING_MAX = 65536, /* frames of programs that wait at an interface */
    PROGRAM_ROCE_PORT = 4791,   /* is the card's */
};

enum program_status {
    PROGRAM_OK = 0,
    PROGRAM_FULL = 1,             /* the frame is lost: too many wait at the interface */
    PROGRAM_ENOMEM = -1,
    PROGRAM_EINTERFACE = -2,      /* the host has no such interface */
    PROGRAM_ELENGTH = -3,         /* no frame is that long, or longer than the interface's MTU allows */
    PROGRAM_ETOKEN = -4,          /* not below PROGRAM_TIMERS */
    PROGRAM_ETIME = -5,           /* before the start, or later than there is time */
    PROGRAM_ETAKEN = -6,          /* another program of the host listens there */
    PROGRAM_ECARD = -7,           /* RoCEv2's port: its packets are the card's */
    PROGRAM_ENUMBER = -8,         /* no UDP port or EtherType */
};

enum program_listen { PROGRAM_UDP = 0, PROGRAM_ETHERTYPE = 1 };

struct program_interface {
    uint64_t rate_bps; /* in the fabric */
    uint64_t mac, gateway_mac;
    uint32_t ip;  /* host order */
    uint32_t mtu; /* largest IP packet */
};

struct program_setting { const char *name; int64_t value; };

struct program_host;

/* What a program may do. Each returns an enum program_status. */
struct program_calls {
    /* The bytes are copied. */
    int (*send)(struct program_host *host, uint32_t interface, const uint8_t *frame, uint32_t length);
    /* The same, and `tail` bytes of any value behind it: where they mean nothing, the simulator need not have them. */
    int (*send_long)(struct program_host *host, uint32_t interface, const uint8_t *frame, uint32_t length, uint32_t tail);
    /* `timer` is called at `at_ns`, or now if that is past, once. A token that is set is moved. */
    int (*set_timer)(struct program_host *host, uint32_t token, int64_t at_ns);
    int (*cancel_timer)(struct program_host *host, uint32_t token); /* one that is not set stays so */
    int (*listen)(struct program_host *host, enum program_listen kind, uint32_t number);
    /* What the run asked for by `order` is done. Only the simulator asks. */
    int (*answer)(struct program_host *host, uint64_t order);
    /* Adds to a counter of this name, which results contain. */
    int (*count)(struct program_host *host, const char *name, uint64_t by);
    /* Ends the run: `why` is reported with program, host and time. The program is not called again. */
    int (*fail)(struct program_host *host, const char *why);
};

/* One program on one host. */
struct program_host {
    const struct program_calls *calls;
    const struct program_interface *interfaces;
    uint32_t n_interfaces, n_settings;
    const struct program_setting *settings; /* all of those that its ops name */
    int64_t now_ns; /* of this call */
    uint32_t tail;  /* of a call of `packet`, with ops->heads: bytes behind those that are here */
    void *state;    /* ops->bytes of zeros at first, and what ops->room says, its own */
    void *opaque;   /* of who made it */
};

struct program_ops {
    const char *name;
    size_t bytes;
    const struct program_setting *settings; /* that it takes, with what holds without; the last one has no name */
    size_t (*room)(const struct program_setting *settings); /* more bytes of state, by all of its settings; NULL: none */
    int heads; /* 1: frames come without those bytes at their end that mean nothing (send_long), where they are not there */
    void (*start)(struct program_host *host);
    void (*packet)(struct program_host *host, uint32_t interface, const uint8_t *frame, uint32_t length);
    void (*timer)(struct program_host *host, uint32_t token);
    void (*stop)(struct program_host *host); /* the run ends; NULL: nothing to do */
    /* The run asks for something of `bytes` bytes, to be answered when it is done; NULL: it takes no orders. `what`: a number that
     * means something to the program and to who made the run's orders. */
    void (*order)(struct program_host *host, uint64_t order, uint32_t what, uint64_t bytes);
};

/* By name, NULL: there is none. `program_at`: those of the list, in order; NULL behind the last one. */
const struct program_ops *program_named(const char *name);
const struct program_ops *program_at(uint32_t number);

#endif
