/* Which of its paths a sender gives to a packet, where the host chooses: one queue pair's state, and nothing of the card.
 *
 * A path is an entropy value (EV), 0 .. paths - 1, that the card turns into a UDP source port; switches hash it. What was
 * sent on an EV comes back as feedback. Random numbers are splitmix64 of a seed, so that runs repeat.
 *
 *   oblivious  all EVs once a round, in the order of index XOR a number that is drawn for each round; no feedback
 *   bitmap     the same order, but an EV with a penalty is passed over; UEC's per-EV bitmap
 *   REPS       the EVs of packets that came through unmarked are used again, once each; else a random one
 *   PLB        one EV until rounds of marked packets follow each other; then another one, drawn at random
 *
 * Sources: UEC's htsim (github.com/ultraethernet/uet-htsim, 40ccb05: uec_mp.cpp, buffer_reps.h) for the first three; REPS:
 * Bonato et al., arXiv 2407.21625. PLB: Qureshi et al., SIGCOMM 2022, with the rules and constants of Linux (net/ipv4/tcp_plb.c).
 */
#ifndef RNIC_PATH_CHOICE_H
#define RNIC_PATH_CHOICE_H

#include <stdint.h>

enum path_kind { PATH_KIND_NONE = 0, PATH_OBLIVIOUS = 1, PATH_BITMAP = 2, PATH_REPS = 3, PATH_PLB = 4, PATH_KINDS };
enum path_feedback { PATH_GOOD = 0, PATH_MARKED = 1, PATH_LOST = 2, PATH_TIMEOUT = 3 };

enum {
    PATHS_MOST = 256,
    PATH_PENALTY_MARKED = 1,
    PATH_PENALTY_LOST = 4,
    PATH_PENALTY_MOST = 15,      /* also what a time-out costs */
    PATH_RING = 8,               /* EVs that REPS remembers */
    PATH_EXPLORE = 16,           /* packets on random EVs when REPS leaves its frozen mode */
    PATH_PLB_IDLE_ROUNDS = 3,    /* marked rounds after which a queue pair without packets on the way takes another EV */
    PATH_PLB_ROUNDS = 12,        /* after which any does */
    PATH_PLB_SHARE = 128,        /* a round is marked if so many of 256 packets were */
};
#define PATH_FREEZE_NS ((uint64_t)10000000)          /* REPS after a time-out */
#define PATH_SUSPEND_NS ((uint64_t)60000000000)      /* PLB after a time-out: so long at least, less than twice that */

struct path_config {
    uint32_t kind;               /* enum path_kind */
    uint32_t paths;              /* a power of two, 2 .. PATHS_MOST */
    uint32_t idle_rounds;        /* PLB; 0: PATH_PLB_IDLE_ROUNDS */
    uint32_t rounds;             /* PLB; 0: PATH_PLB_ROUNDS */
    uint64_t pause_ns;           /* REPS's frozen mode, PLB's suspension; 0: the constants above */
};

struct path_choice {
    struct path_config config;
    uint64_t random;
    uint32_t index, mix;         /* oblivious, bitmap: of the round */
    uint8_t penalty[PATHS_MOST]; /* bitmap */
    /* REPS */
    uint8_t ring[PATH_RING], fresh_at[PATH_RING];
    uint32_t head, count, fresh, frozen_at, explore;
    uint32_t frozen;
    uint64_t frozen_until;
    /* PLB */
    uint32_t ev;
    uint32_t marked_rounds;
    uint64_t heard, marked;      /* packets of this round that the peer has reported */
    uint64_t round_end;          /* PSN */
    uint64_t suspended_until;
    uint64_t moves;              /* how often it has taken another EV */
};

const char *path_invalid(const struct path_config *config); /* why it is refused, a literal; NULL: it is not */
void path_begin(struct path_choice *choice, const struct path_config *config, uint64_t seed);
/* The EV of the next packet. */
uint32_t path_next(struct path_choice *choice);
/* What has become of a packet on an EV, at `now` (ns). */
void path_heard(struct path_choice *choice, uint32_t ev, enum path_feedback feedback, uint64_t now);
/* An acknowledgement was taken: all below `una` has arrived, `next` is the next new PSN. PLB's rounds end here. */
void path_acked(struct path_choice *choice, uint64_t una, uint64_t next, uint64_t now);

#endif
