/* Owns messages that several queue pairs share: pieces, which go to the one that has sent its own.
 *
 * The flows of a group follow each other, and messages name the first one. A message is cut into pieces. A queue pair takes the next
 * piece while fewer than `outstanding` of its own are not complete, so that one on a free path carries more; those that could take it
 * do so in turn. Pieces are dealt in the order of messages, and each is a work request: they arrive in order on one queue pair,
 * and in any order on several. Towards a message's end they become smaller (guided self-scheduling, Polychronopoulos and Kuck 1987):
 * else the queue pair with the slowest path would still be busy with a whole one when the others are done.
 */
#include "engine.h"

#include <stdlib.h>

enum { OUTSTANDING_MOST = 1024 };

/* One of the queue pairs. `pieces` is a ring: of those handed over, the messages that are not whole without them. */
struct stripe {
    uint32_t *pieces;
    uint32_t first, arriving; /* its beginning, and how many are in it */
    uint32_t outstanding;     /* handed over and not complete */
    uint8_t failed;
};

struct stripes {
    struct sim_stripes config;
    uint64_t left; /* of the message that is being dealt: bytes */
    uint32_t turn; /* whose piece is next, if it can take it */
    struct stripe of[];
};

enum { SMALLEST_PIECE = 8 }; /* as a part of a whole one: what is on its way has to fill the path */

/* How long the next piece is where so many bytes of a message are left: whole packets, but for the last one. */
static uint64_t piece_of(const struct stripes *stripes, uint32_t payload, uint64_t left)
{
    const uint32_t pairs = stripes->config.queue_pairs;
    const uint64_t whole = stripes->config.piece_bytes;
    uint64_t length = pairs > 1 ? left / (2 * pairs) : whole;
    length = length > whole / SMALLEST_PIECE ? length : whole / SMALLEST_PIECE;
    length = (length + payload - 1) / payload * payload;
    length = length && length < whole ? length : whole;
    return length < left ? length : left;
}

/* How many pieces a message is cut into, and how many packets they have together. */
static void count_pieces(const struct flow *flow, uint64_t bytes, uint64_t *pieces, uint64_t *packets)
{
    const uint64_t payload = flow->config.payload, piece = flow->stripes->config.piece_bytes;
    const uint64_t ending = 2 * flow->stripes->config.queue_pairs * piece;
    const uint64_t whole = bytes > ending ? (bytes - ending) / piece : 0;
    *pieces = whole;
    *packets = whole * ((piece + payload - 1) / payload);
    for (uint64_t left = bytes - whole * piece; left;) {
        const uint64_t length = piece_of(flow->stripes, flow->config.payload, left);
        (*pieces)++;
        *packets += (length + payload - 1) / payload;
        left -= length;
    }
}

uint32_t message_packets(const struct flow *flow, uint64_t bytes)
{
    const uint64_t payload = flow->config.payload;
    if (!flow->stripes)
        return (uint32_t)((bytes + payload - 1) / payload);
    uint64_t pieces, packets;
    count_pieces(flow, bytes, &pieces, &packets);
    return (uint32_t)packets;
}

/* --- making ---------------------------------------------------------------------------------------- */

static int check(struct sim *s, const struct sim_stripes *config, uint32_t i)
{
    if (!config->queue_pairs || config->flow >= s->n_flows || config->queue_pairs > s->n_flows - config->flow)
        return sim_fail(s, SIM_EINVAL, "stripes %u: there are no %u flows from %u on", i, config->queue_pairs, config->flow);
    if (!config->piece_bytes || config->piece_bytes > PIECE_MOST || !config->outstanding || config->outstanding > OUTSTANDING_MOST)
        return sim_fail(s, SIM_EINVAL, "stripes %u: pieces have 1 to %llu bytes, and 1 to %d are outstanding", i,
                        (unsigned long long)PIECE_MOST, OUTSTANDING_MOST);
    const struct sim_flow_config *first = &s->flows[config->flow]->config;
    for (uint32_t k = 0; k < config->queue_pairs; k++) {
        const struct flow *flow = s->flows[config->flow + k];
        const struct sim_flow_config *each = &flow->config;
        if (!each->transport || each->src != first->src || each->src_port != first->src_port || each->dst != first->dst ||
            each->dst_port != first->dst_port || each->payload != first->payload || each->queue != first->queue)
            return sim_fail(s, SIM_EINVAL, "stripes %u: flow %u needs a transport, and ends, payload and queue of flow %u", i,
                            flow->number, config->flow);
        if (flow->stripes)
            return sim_fail(s, SIM_EINVAL, "stripes %u: flow %u is striped already", i, flow->number);
    }
    return SIM_OK;
}

static void stripes_free(struct stripes *stripes)
{
    for (uint32_t k = 0; k < stripes->config.queue_pairs; k++)
        free(stripes->of[k].pieces);
    free(stripes);
}

static struct stripes *stripes_new(const struct sim_stripes *config)
{
    struct stripes *made = calloc(1, sizeof *made + config->queue_pairs * sizeof *made->of);
    if (!made)
        return NULL;
    made->config = *config;
    int whole = 1;
    for (uint32_t k = 0; k < config->queue_pairs; k++)
        whole &= (made->of[k].pieces = malloc(config->outstanding * sizeof *made->of[k].pieces)) != NULL;
    if (!whole) {
        stripes_free(made);
        return NULL;
    }
    return made;
}

/* From behind: a group's first flow is the last that is looked at. */
void stripes_free_all(struct sim *s)
{
    for (uint32_t i = s->n_flows; i-- > 0;)
        if (s->flows[i]->stripes && s->flows[i]->stripes->config.flow == i)
            stripes_free(s->flows[i]->stripes);
}

int sim_stripe_flows(sim *s, const struct sim_stripes *stripes, uint32_t n)
{
    if (s->n_messages)
        return sim_fail(s, SIM_EINVAL, "flows are striped before messages are added");
    for (uint32_t i = 0; i < n; i++) {
        const int status = check(s, &stripes[i], i);
        if (status)
            return status;
        struct stripes *made = stripes_new(&stripes[i]);
        if (!made)
            return sim_fail(s, SIM_ENOMEM, "no memory for %u stripes", n);
        for (uint32_t k = 0; k < stripes[i].queue_pairs; k++)
            s->flows[stripes[i].flow + k]->stripes = made;
    }
    return SIM_OK;
}

int stripes_take(const struct flow *flow) { return !flow->stripes || flow->stripes->config.flow == flow->number; }

/* --- dealing --------------------------------------------------------------------------------------- */

/* Whose turn it is to take a piece; NULL: none can. */
static struct stripe *next_taker(struct stripes *stripes)
{
    for (uint32_t tried = 0; tried < stripes->config.queue_pairs; tried++) {
        struct stripe *each = &stripes->of[stripes->turn];
        if (!each->failed && each->outstanding < stripes->config.outstanding)
            return each;
        stripes->turn = (stripes->turn + 1) % stripes->config.queue_pairs;
    }
    return NULL;
}

static void deal(struct sim *s, struct stripes *stripes)
{
    struct flow *first = s->flows[stripes->config.flow];
    struct stripe *taker;
    while (first->open_head >= 0 && (taker = next_taker(stripes))) {
        const uint64_t number = (uint64_t)first->open_head;
        const uint64_t length = piece_of(stripes, first->config.payload, stripes->left);
        if (!endpoint_post(s, s->flows[stripes->config.flow + stripes->turn], number, length, !taker->outstanding)) {
            taker->failed = 1;
            continue;
        }
        taker->pieces[(taker->first + taker->arriving++) % stripes->config.outstanding] = (uint32_t)number;
        taker->outstanding++;
        stripes->turn = (stripes->turn + 1) % stripes->config.queue_pairs;
        stripes->left -= length;
        if (stripes->left)
            continue;
        first->open_head = s->messages[number].next_open;
        if (first->open_head < 0)
            first->open_tail = -1;
        else
            stripes->left = s->messages[first->open_head].bytes;
    }
}

void stripes_message(struct sim *s, struct flow *flow, uint64_t number)
{
    struct stripes *stripes = flow->stripes;
    struct message *message = &s->messages[number];
    uint64_t pieces, packets;
    count_pieces(flow, message->bytes, &pieces, &packets);
    message->works = (uint32_t)pieces;
    if (flow->open_tail < 0) {
        flow->open_head = (int64_t)number;
        stripes->left = message->bytes;
    } else {
        s->messages[flow->open_tail].next_open = (int64_t)number;
    }
    flow->open_tail = (int64_t)number;
    deal(s, stripes);
}

/* --- what comes of it ------------------------------------------------------------------------------ */

static struct stripe *stripe_of(const struct flow *flow) { return &flow->stripes->of[flow->number - flow->stripes->config.flow]; }

int64_t stripes_arrived(struct flow *flow)
{
    struct stripe *stripe = stripe_of(flow);
    if (!stripe->arriving)
        return -1;
    const uint32_t number = stripe->pieces[stripe->first];
    stripe->first = (stripe->first + 1) % flow->stripes->config.outstanding;
    stripe->arriving--;
    return number;
}

void stripes_completed(struct sim *s, struct flow *flow)
{
    struct stripe *stripe = stripe_of(flow);
    if (stripe->outstanding)
        stripe->outstanding--;
    deal(s, flow->stripes);
}

void stripes_failed(struct sim *s, struct flow *flow)
{
    stripe_of(flow)->failed = 1;
    deal(s, flow->stripes);
}
