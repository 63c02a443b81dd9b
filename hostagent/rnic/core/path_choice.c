/* Owns how a sender chooses among its paths: path_choice.h says by which rules. */
#include "path_choice.h"

#include <string.h>

static uint64_t draw(struct path_choice *choice)
{
    uint64_t word = choice->random += 0x9e3779b97f4a7c15;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9;
    word = (word ^ word >> 27) * 0x94d049bb133111eb;
    return word ^ word >> 31;
}

/* Paths are a power of two, so that the upper bits' remainder is even. */
static uint32_t draw_ev(struct path_choice *choice) { return (uint32_t)(draw(choice) >> 32) & (choice->config.paths - 1); }

const char *path_invalid(const struct path_config *config)
{
    if (config->kind >= PATH_KINDS)
        return "there is no such choice of paths";
    if (config->kind == PATH_KIND_NONE)
        return NULL;
    if (config->paths < 2 || config->paths > PATHS_MOST || config->paths & (config->paths - 1))
        return "its paths are a power of two from 2 to 256";
    if (config->idle_rounds > 31 || config->rounds > 31)
        return "at most 31 rounds";
    if (config->pause_ns > (uint64_t)1 << 60)
        return "its pause is out of range";
    return NULL;
}

void path_begin(struct path_choice *choice, const struct path_config *config, uint64_t seed)
{
    memset(choice, 0, sizeof *choice);
    choice->config = *config;
    if (!config->idle_rounds)
        choice->config.idle_rounds = PATH_PLB_IDLE_ROUNDS;
    if (!config->rounds)
        choice->config.rounds = PATH_PLB_ROUNDS;
    if (!config->pause_ns)
        choice->config.pause_ns = config->kind == PATH_PLB ? PATH_SUSPEND_NS : PATH_FREEZE_NS;
    choice->random = seed;
    choice->mix = draw_ev(choice);
    choice->ev = choice->mix;
}

/* --- oblivious and bitmap ----------------------------------------------------------------------- */

static uint32_t in_turn(const struct path_choice *choice) { return (choice->index ^ choice->mix) & (choice->config.paths - 1); }

static void step(struct path_choice *choice)
{
    if (++choice->index < choice->config.paths)
        return;
    choice->index = 0;
    choice->mix = draw_ev(choice);
}

/* Of the EVs that a packet passes over, the first one alone is forgiven a point. If all have penalties one is taken anyway. */
static uint32_t next_unpunished(struct path_choice *choice)
{
    uint32_t ev = in_turn(choice);
    for (uint32_t passed = 0; choice->penalty[ev]; passed++) {
        if (!passed)
            choice->penalty[ev]--;
        if (passed == choice->config.paths)
            break;
        step(choice);
        ev = in_turn(choice);
    }
    return ev;
}

static void punish(struct path_choice *choice, uint32_t ev, enum path_feedback feedback)
{
    static const uint32_t points[] = {
        [PATH_MARKED] = PATH_PENALTY_MARKED, [PATH_LOST] = PATH_PENALTY_LOST, [PATH_TIMEOUT] = PATH_PENALTY_MOST};
    const uint32_t sum = choice->penalty[ev] + points[feedback];
    choice->penalty[ev] = (uint8_t)(sum < PATH_PENALTY_MOST ? sum : PATH_PENALTY_MOST);
}

/* --- REPS --------------------------------------------------------------------------------------- */

static void remember(struct path_choice *choice, uint32_t ev)
{
    choice->fresh += !choice->fresh_at[choice->head];
    choice->ring[choice->head] = (uint8_t)ev;
    choice->fresh_at[choice->head] = 1;
    choice->head = (choice->head + 1) % PATH_RING;
    choice->count += choice->count < PATH_RING;
}

static uint32_t use(struct path_choice *choice, uint32_t at)
{
    choice->fresh -= choice->fresh_at[at];
    choice->fresh_at[at] = 0;
    return choice->ring[at];
}

static uint32_t next_recycled(struct path_choice *choice)
{
    if (choice->explore) {
        choice->explore--;
        return draw_ev(choice);
    }
    if (choice->frozen && choice->count) {
        const uint32_t at = choice->frozen_at;
        choice->frozen_at = (at + 1) % choice->count;
        return use(choice, at);
    }
    if (choice->frozen || !choice->fresh)
        return draw_ev(choice);
    return use(choice, (choice->head + PATH_RING - choice->fresh) % PATH_RING);
}

static void recycle(struct path_choice *choice, uint32_t ev, enum path_feedback feedback, uint64_t now)
{
    if (feedback == PATH_TIMEOUT && !choice->frozen && !choice->explore) {
        choice->frozen = 1;
        choice->frozen_until = now + choice->config.pause_ns;
    }
    if (choice->frozen && now > choice->frozen_until) {
        memset(choice->fresh_at, 0, sizeof choice->fresh_at);
        choice->head = choice->count = choice->fresh = choice->frozen_at = choice->frozen = 0;
        choice->explore = PATH_EXPLORE;
    }
    if (feedback == PATH_GOOD)
        remember(choice, ev);
}

/* --- PLB ---------------------------------------------------------------------------------------- */

static void move(struct path_choice *choice)
{
    const uint32_t others = choice->config.paths - 1; /* which may well share the links of this one: the hash decides */
    choice->ev = (choice->ev + 1 + (uint32_t)((draw(choice) >> 32) * others >> 32)) & others;
    choice->marked_rounds = 0;
    choice->moves++;
}

static void end_round(struct path_choice *choice, int idle, uint64_t now)
{
    if (choice->heard) {
        if (choice->marked * 256 < choice->heard * PATH_PLB_SHARE)
            choice->marked_rounds = 0;
        else if (choice->marked_rounds < choice->config.rounds)
            choice->marked_rounds++;
    }
    choice->heard = choice->marked = 0;
    const int due = choice->marked_rounds >= choice->config.rounds || (idle && choice->marked_rounds >= choice->config.idle_rounds);
    if (due && now >= choice->suspended_until)
        move(choice);
}

/* --- what the card calls -------------------------------------------------------------------------- */

uint32_t path_next(struct path_choice *choice)
{
    if (choice->config.kind == PATH_PLB)
        return choice->ev;
    if (choice->config.kind == PATH_REPS)
        return next_recycled(choice);
    const uint32_t ev = choice->config.kind == PATH_BITMAP ? next_unpunished(choice) : in_turn(choice);
    step(choice);
    return ev;
}

void path_heard(struct path_choice *choice, uint32_t ev, enum path_feedback feedback, uint64_t now)
{
    if (ev >= choice->config.paths)
        return;
    if (choice->config.kind == PATH_BITMAP) {
        if (feedback != PATH_GOOD)
            punish(choice, ev, feedback);
    } else if (choice->config.kind == PATH_REPS) {
        recycle(choice, ev, feedback, now);
    } else if (choice->config.kind == PATH_PLB) {
        if (feedback == PATH_TIMEOUT) {
            move(choice);
            choice->suspended_until = now + choice->config.pause_ns + draw(choice) % choice->config.pause_ns;
        } else if (feedback != PATH_LOST) {
            choice->heard++;
            choice->marked += feedback == PATH_MARKED;
        }
    }
}

void path_acked(struct path_choice *choice, uint64_t una, uint64_t next, uint64_t now)
{
    if (choice->config.kind != PATH_PLB || una < choice->round_end)
        return;
    if (choice->round_end) /* the first acknowledgement alone begins a round */
        end_round(choice, una == next, now);
    choice->round_end = next;
}
