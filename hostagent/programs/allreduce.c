/* A worker of an AllReduce in the network, with data of which every sum is known (docs/allreduce.md).
 *
 * It makes `repeat` calls of `bytes` bytes, `gap_ns` apart, from `start_ns` on, or what the run orders. Rank r adds to lane i of a call
 * x(call, i) * (r + 1), so that a contribution that is missing, doubled or of another chunk makes a wrong sum: which ends the run.
 *
 * A run may order a Broadcast or an AllGather, too. Each is a barrier, blocks, and a barrier. In the first one of a job the
 * barrier is a sum by which all ranks learn each other's addresses, for requests.
 */
#include "allreduce.h"

#include <stdio.h>
#include <string.h>

#include "blocks.h"
#include "datagram.h"
#include "host_program.h"
#include "worker.h"

enum {
    LANE = 4,
    ECT = 2,
    ECN_MASK = 3,
    ON_WIRE = 24, /* preamble, FCS and gap of a frame */
    RANKS_MAX = 32768, /* so that their sums fit int32 */
};

enum { WORKER_TIMER, CALL_TIMER, BLOCKS_TIMER };

/* What an order asks for; a Broadcast from root r is ORDER_BROADCAST + r. As workloads/in_network.py has it. */
enum { ORDER_SUM, ORDER_ALLGATHER, ORDER_BROADCAST };

/* What a worker's call is for. */
enum purpose { PURPOSE_SUM, PURPOSE_START, PURPOSE_END };

enum {
    JOB, RANK, RANKS, EPOCH, SLOTS, LANES, WIRE_LANES, WINDOW, ADAPT, PATIENCE, TIMEOUT_NS, SEED, DSCP, GATEWAY,
    BYTES, REPEAT, START_NS, GAP_NS, GIVE_UP_NS, BLOCK_BYTES, BLOCK_LANES, RATE_BPS, BEST_EFFORT,
    SETTINGS,
};

static const struct program_setting settings[] = {
    [JOB] = {"job", 1},
    [RANK] = {"rank", 0},
    [RANKS] = {"ranks", 2},
    [EPOCH] = {"epoch", 0},
    [SLOTS] = {"slots", 256},
    [LANES] = {"lanes", 32},
    [WIRE_LANES] = {"wire_lanes", 0}, /* 0: lanes */
    [WINDOW] = {"window", 0},         /* 0: slots */
    [ADAPT] = {"adapt", 0},
    [PATIENCE] = {"patience", 2},
    [TIMEOUT_NS] = {"timeout_ns", 100000},
    [SEED] = {"seed", 1},
    [DSCP] = {"dscp", 0},
    [GATEWAY] = {"gateway", 0}, /* IPv4; 0: 192.0.0.8, as switches have it */
    [BYTES] = {"bytes", 0},
    [REPEAT] = {"repeat", 0},
    [START_NS] = {"start_ns", 0},
    [GAP_NS] = {"gap_ns", 0},
    [GIVE_UP_NS] = {"give_up_ns", 100000000}, /* without any result; 0: never */
    [BLOCK_BYTES] = {"block_bytes", 0}, /* of the largest Broadcast or AllGather that is ordered; 0: none is */
    [BLOCK_LANES] = {"block_lanes", 256},
    [RATE_BPS] = {"rate_bps", 0}, /* of the slowest link of the job's trees; 0: the interface's */
    [BEST_EFFORT] = {"best_effort", 0}, /* 1: a parameter server completes what switches do not */
    [SETTINGS] = {NULL, 0},
};

static const uint32_t SWITCHES_ADDRESS = 0xc0000008;

struct one {
    struct program_host *host;
    struct worker *worker;
    struct blocks *blocks; /* NULL: no order asks for any */
    uint32_t *addresses;   /* by rank, for requests */
    uint64_t block_call, block_order;
    int64_t block_began;
    uint8_t addressed;     /* `addresses` are known */
    uint32_t lanes, wire_lanes;
    uint32_t rank_factor, sum_factor; /* of x: this rank's, all ranks' */
    uint32_t values;                  /* x is below this */
    uint64_t begun, ended;            /* calls */
    int64_t to_make;                  /* calls of its own that are to come */
    int64_t last_result;              /* of what is in flight; -1: nothing is */
    int64_t longest_gap, longest_call, shortest_call;
    uint64_t orders[WORKER_CALLS];    /* of the calls that are open, by number */
    int64_t begun_ns[WORKER_CALLS];
    uint8_t purposes[WORKER_CALLS];
    struct datagram datagram;
};

static int64_t setting(const struct program_host *host, int which)
{
    return host->settings[which].value;
}

static uint64_t rate_of(const struct program_host *host)
{
    return setting(host, RATE_BPS) ? (uint64_t)setting(host, RATE_BPS) : host->interfaces[0].rate_bps;
}

static struct worker_config config_of(const struct program_setting *s)
{
    return (struct worker_config){
        .job = (uint16_t)s[JOB].value,
        .epoch = (uint16_t)s[EPOCH].value,
        .slots = (uint32_t)s[SLOTS].value,
        .lanes = (uint32_t)s[LANES].value,
        .wire_lanes = (uint32_t)(s[WIRE_LANES].value ? s[WIRE_LANES].value : s[LANES].value),
        .window = (uint32_t)(s[WINDOW].value ? s[WINDOW].value : s[SLOTS].value),
        .adapt = s[ADAPT].value != 0,
        .patience = s[BEST_EFFORT].value ? 0 : (uint32_t)s[PATIENCE].value, /* there is no other tree */
        .timeout_ns = s[TIMEOUT_NS].value,
        .seed = (uint64_t)s[SEED].value << 32 ^ (uint64_t)s[JOB].value << 20 ^ (uint64_t)s[RANK].value,
        .best_effort = s[BEST_EFFORT].value != 0,
        .rank = (uint32_t)s[RANK].value,
    };
}

/* Of what a rank sends in an AllGather, as the run orders it: what it gets from each other rank. */
static uint64_t share_of(uint64_t bytes, int64_t ranks)
{
    return (bytes + (uint64_t)ranks - 2) / ((uint64_t)ranks - 1);
}

static struct blocks_config blocks_config_of(const struct program_setting *s, uint64_t rate_bps)
{
    const uint32_t wire = (uint32_t)s[BLOCK_LANES].value, lanes = config_of(s).lanes;
    const int64_t ranks = s[RANKS].value;
    const uint64_t whole = share_of((uint64_t)s[BLOCK_BYTES].value, ranks) * (uint64_t)ranks;
    const uint64_t bits = 8 * (uint64_t)(ON_WIRE + DATAGRAM_HEADERS + WEFT_ALLREDUCE_BYTES + LANE * wire);
    return (struct blocks_config){
        .job = (uint16_t)s[JOB].value,
        .rank = (uint32_t)s[RANK].value,
        .ranks = (uint32_t)ranks,
        .lanes = lanes == config_of(s).wire_lanes || lanes > wire ? wire : lanes, /* all of them, where all are added */
        .wire_lanes = wire,
        .most = whole / LANE + (uint64_t)ranks,
        .slot_ps = (int64_t)(bits * 1000000000000u / (rate_bps ? rate_bps : 1)),
        .timeout_ns = s[TIMEOUT_NS].value,
        .seed = config_of(s).seed ^ 1,
    };
}

static const char *wrong_with(const struct program_host *host)
{
    static const struct {
        int which;
        int64_t least, most;
        const char *says;
    } limits[] = {
        {JOB, 1, UINT16_MAX, "job: from 1 to 65535"},
        {RANKS, 1, RANKS_MAX, "ranks: from 1 to 32768"},
        {RANK, 0, RANKS_MAX - 1, "rank: from 0 to ranks - 1"},
        {EPOCH, 0, UINT16_MAX, "epoch: from 0 to 65535"},
        {SLOTS, 1, WORKER_SLOTS_MAX, "slots: a power of two, from 1 to 32768"},
        {LANES, 1, WORKER_LANES_MAX, "lanes: from 1 to 2044"},
        {WIRE_LANES, 0, WORKER_LANES_MAX, "wire_lanes: from lanes to 2044"},
        {WINDOW, 0, WORKER_SLOTS_MAX, "window: from 1 to slots"},
        {PATIENCE, 0, INT32_MAX, "patience: a number of time-outs, 0 or more"},
        {TIMEOUT_NS, 1, (int64_t)1 << 40, "timeout_ns: from 1 to 2^40"},
        {DSCP, 0, 63, "dscp: from 0 to 63"},
        {GATEWAY, 0, UINT32_MAX, "gateway: an IPv4 address as a number"},
        {BYTES, 0, (int64_t)1 << 40, "bytes: from 0 to 2^40"},
        {REPEAT, 0, INT32_MAX, "repeat: 0 or more calls"},
        {START_NS, 0, INT64_MAX / 2, "start_ns: 0 or later"},
        {GAP_NS, 0, INT64_MAX / 2, "gap_ns: 0 or more"},
        {GIVE_UP_NS, 0, INT64_MAX / 2, "give_up_ns: 0 or more"},
        {BLOCK_BYTES, 0, (int64_t)1 << 40, "block_bytes: from 0 to 2^40"},
        {BLOCK_LANES, 1, WORKER_LANES_MAX, "block_lanes: from 1 to 2044"},
        {RATE_BPS, 0, (int64_t)1 << 50, "rate_bps: from 0 to 2^50"},
        {BEST_EFFORT, 0, 1, "best_effort: 0 or 1"},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (setting(host, limits[i].which) < limits[i].least || setting(host, limits[i].which) > limits[i].most)
            return limits[i].says;
    if (setting(host, RANK) >= setting(host, RANKS))
        return "rank: from 0 to ranks - 1";
    if (setting(host, REPEAT) && !setting(host, BYTES))
        return "bytes: from 1 to 2^40, where calls are repeated";
    const struct worker_config config = config_of(host->settings);
    const char *wrong = worker_wrong(&config);
    const uint32_t header = WEFT_ALLREDUCE_BYTES + (config.best_effort ? WEFT_ALLREDUCE_SET_BYTES : 0);
    if (!wrong && DATAGRAM_IP + DATAGRAM_UDP + header + LANE * config.wire_lanes > host->interfaces[0].mtu)
        return "wire_lanes: packets of as many lanes are longer than the interface's MTU";
    if (wrong || !setting(host, BLOCK_BYTES))
        return wrong;
    if (setting(host, RANKS) < 2)
        return "ranks: 2 or more, where blocks are sent";
    if (DATAGRAM_IP + DATAGRAM_UDP + WEFT_ALLREDUCE_BYTES + LANE * (uint32_t)setting(host, BLOCK_LANES) > host->interfaces[0].mtu)
        return "block_lanes: packets of as many lanes are longer than the interface's MTU";
    const struct blocks_config blocks = blocks_config_of(host->settings, rate_of(host));
    return blocks_wrong(&blocks);
}

/* What comes behind the state: the worker's memory, and where blocks are ordered theirs, and all ranks' addresses. */
static size_t room(const struct program_setting *given)
{
    const struct worker_config config = config_of(given);
    if (worker_wrong(&config))
        return 0;
    if (given[BLOCK_BYTES].value <= 0 || given[RANKS].value < 2 || given[BLOCK_LANES].value < 1)
        return worker_bytes(&config);
    const struct blocks_config blocks = blocks_config_of(given, 1000000000);
    if (blocks_wrong(&blocks))
        return worker_bytes(&config);
    return worker_bytes(&config) + blocks_bytes(&blocks) + blocks.ranks * sizeof(uint32_t);
}

/* --- data ---------------------------------------------------------------------------------------------- */

/* Small enough for the sum to fit int32, so that only what is wrong overflows. */
static uint32_t x_of(const struct one *one, uint64_t call, uint64_t lane)
{
    uint64_t x = (call + 1) * 0x9e3779b97f4a7c15u ^ lane * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 29) * 0x94d049bb133111ebu;
    return (uint32_t)(x >> 32) % one->values;
}

/* Lane r of all chunks together is rank r's address, to which the others add zero. */
static void fill_addresses(const struct one *one, uint32_t chunk, int32_t *lanes)
{
    const uint64_t rank = (uint64_t)setting(one->host, RANK);
    for (uint32_t i = 0; i < one->lanes; i++)
        lanes[i] = (uint64_t)chunk * one->lanes + i == rank ? (int32_t)one->host->interfaces[0].ip : 0;
}

static void take_addresses(struct one *one, uint32_t chunk, const int32_t *lanes)
{
    const uint64_t ranks = (uint64_t)setting(one->host, RANKS);
    for (uint32_t i = 0; i < one->lanes && (uint64_t)chunk * one->lanes + i < ranks; i++)
        one->addresses[(uint64_t)chunk * one->lanes + i] = (uint32_t)lanes[i];
}

static void fill(void *owner, uint64_t call, uint32_t chunk, int32_t *lanes)
{
    const struct one *one = owner;
    if (one->purposes[call % WORKER_CALLS] == PURPOSE_START) {
        fill_addresses(one, chunk, lanes);
        return;
    }
    for (uint32_t i = 0; i < one->lanes; i++)
        lanes[i] = (int32_t)(x_of(one, call, (uint64_t)chunk * one->wire_lanes + i) * one->rank_factor);
}

static void fail(struct one *one, const char *why)
{
    one->host->calls->fail(one->host, why);
}

static void take(void *owner, uint64_t call, uint32_t chunk, const int32_t *lanes)
{
    struct one *one = owner;
    const int64_t now = one->host->now_ns;
    if (one->last_result >= 0 && now - one->last_result > one->longest_gap)
        one->longest_gap = now - one->last_result;
    one->last_result = now;
    if (one->purposes[call % WORKER_CALLS] == PURPOSE_START) {
        take_addresses(one, chunk, lanes);
        return;
    }
    for (uint32_t i = 0; i < one->lanes; i++) {
        const uint32_t wanted = x_of(one, call, (uint64_t)chunk * one->wire_lanes + i) * one->sum_factor;
        if ((uint32_t)lanes[i] != wanted) {
            char why[160];
            snprintf(why, sizeof why, "call %llu, chunk %u, lane %u: the sum is %u, and has to be %u", (unsigned long long)call,
                     chunk, i, (uint32_t)lanes[i], wanted);
            one->host->calls->count(one->host, "wrong", 1);
            fail(one, why);
            return;
        }
    }
}

/* Of each call, sender and place its own. */
static uint32_t block_value(const struct one *one, uint64_t rank, uint32_t block, uint32_t i)
{
    const uint64_t lane = (uint64_t)block * (uint64_t)setting(one->host, BLOCK_LANES) + i;
    uint64_t x = (one->block_call + 1) * 0x9e3779b97f4a7c15u ^ (rank << 40 | lane) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 29) * 0x94d049bb133111ebu;
    return (uint32_t)(x >> 32);
}

static void fill_block(void *owner, uint32_t block, int32_t *lanes, uint32_t n)
{
    const struct one *one = owner;
    for (uint32_t i = 0; i < n; i++)
        lanes[i] = (int32_t)block_value(one, (uint64_t)setting(one->host, RANK), block, i);
}

static void take_block(void *owner, uint32_t rank, uint32_t block, const int32_t *lanes, uint32_t n)
{
    struct one *one = owner;
    for (uint32_t i = 0; i < n; i++)
        if ((uint32_t)lanes[i] != block_value(one, rank, block, i)) {
            char why[160];
            snprintf(why, sizeof why, "block %u of rank %u, lane %u: %u came, and has to be %u", block, rank, i,
                     (uint32_t)lanes[i], block_value(one, rank, block, i));
            one->host->calls->count(one->host, "wrong", 1);
            fail(one, why);
            return;
        }
}

/* --- datagrams -------------------------------------------------------------------------------------------- */

static void send_to(struct one *one, uint32_t address, uint32_t port, const uint8_t *payload, uint32_t length, uint32_t tail)
{
    if (datagram_send(&one->datagram, one->host, address, port, payload, length, tail))
        one->host->calls->count(one->host, "lost at the interface", 1);
}

static void send_to_switches(struct one *one, const uint8_t *payload, uint32_t length, uint32_t tail)
{
    const int64_t gateway = setting(one->host, GATEWAY);
    send_to(one, gateway ? (uint32_t)gateway : SWITCHES_ADDRESS, WEFT_ALLREDUCE_PORT, payload, length, tail);
}

static void send_one(void *owner, const uint8_t *payload, uint32_t length, uint32_t tail)
{
    send_to_switches(owner, payload, length, tail);
}

static void send_block(void *owner, uint32_t to, const uint8_t *payload, uint32_t length, uint32_t tail)
{
    struct one *one = owner;
    if (to == BLOCKS_FLOOD)
        send_to_switches(one, payload, length, tail);
    else
        send_to(one, one->addresses[to], WEFT_ALLREDUCE_PEER_PORT, payload, length, tail);
}

static void set_one_timer(struct one *one, uint32_t token, int64_t at, int64_t never)
{
    if (at == never)
        one->host->calls->cancel_timer(one->host, token);
    else
        one->host->calls->set_timer(one->host, token, at);
}

static void set_timer(void *owner, int64_t at)
{
    set_one_timer(owner, WORKER_TIMER, at, WORKER_NEVER);
}

static void set_blocks_timer(void *owner, int64_t at)
{
    set_one_timer(owner, BLOCKS_TIMER, at, BLOCKS_NEVER);
}

/* --- calls --------------------------------------------------------------------------------------------- */

static void begin_chunks(struct one *one, enum purpose purpose, uint64_t chunks, uint64_t order)
{
    const uint64_t place = one->begun % WORKER_CALLS;
    one->orders[place] = order;
    one->purposes[place] = (uint8_t)purpose;
    one->begun_ns[place] = one->host->now_ns;
    if (one->last_result < 0)
        one->last_result = one->host->now_ns;
    const enum worker_kind kind = !chunks ? WORKER_BARRIER : purpose == PURPOSE_START ? WORKER_SHORT : WORKER_INTEGERS;
    const int status = chunks > INT32_MAX ? WORKER_INVALID
                                          : worker_begin(one->worker, kind, (uint32_t)chunks, one->begun++, one->host->now_ns);
    if (status)
        fail(one, status == WORKER_FULL ? "more than 1024 calls are open at once" : "a call has at most 2^31 chunks");
}

static void begin(struct one *one, uint64_t bytes, uint64_t order)
{
    const uint64_t chunk = (uint64_t)LANE * one->wire_lanes;
    begin_chunks(one, PURPOSE_SUM, (bytes + chunk - 1) / chunk, order);
}

static void begin_blocks(struct one *one, uint32_t what, uint64_t bytes, uint64_t order)
{
    const int64_t ranks = setting(one->host, RANKS), largest = setting(one->host, BLOCK_BYTES);
    const int32_t root = what == ORDER_ALLGATHER ? BLOCKS_ALL : (int32_t)(what - ORDER_BROADCAST);
    if (!one->blocks || bytes > (uint64_t)largest) {
        fail(one, "an order asks for more blocks than block_bytes says");
        return;
    }
    const uint64_t share = root == BLOCKS_ALL ? share_of(bytes, ranks) : bytes;
    const int status = blocks_begin(one->blocks, root, (share + LANE - 1) / LANE, one->host->now_ns);
    if (status) {
        fail(one, status == BLOCKS_BUSY ? "blocks of one call are sent at a time" : "blocks: no bytes, too many, or no such root");
        return;
    }
    one->block_order = order;
    one->block_began = one->host->now_ns;
    begin_chunks(one, PURPOSE_START, one->addressed ? 0 : ((uint64_t)ranks + one->lanes - 1) / one->lanes, order);
}

static void complete(void *owner)
{
    struct one *one = owner;
    begin_chunks(one, PURPOSE_END, 0, one->block_order);
}

static uint16_t epoch_now(void *owner)
{
    const struct one *one = owner;
    return (uint16_t)worker_epoch(one->worker);
}

static void blocks_done(struct one *one)
{
    const int64_t took = one->host->now_ns - one->block_began;
    blocks_end(one->blocks);
    one->block_call++;
    one->host->calls->count(one->host, "block calls", 1);
    one->host->calls->count(one->host, "all block calls, ns", (uint64_t)took);
    one->host->calls->answer(one->host, one->block_order);
}

static void done(void *owner, uint64_t call)
{
    struct one *one = owner;
    const int64_t now = one->host->now_ns, took = now - one->begun_ns[call % WORKER_CALLS];
    if (!worker_open(one->worker))
        one->last_result = -1;
    if (one->purposes[call % WORKER_CALLS] == PURPOSE_START) {
        one->addressed = 1;
        blocks_go(one->blocks, now);
        return;
    }
    if (one->purposes[call % WORKER_CALLS] == PURPOSE_END) {
        blocks_done(one);
        return;
    }
    if (took > one->longest_call)
        one->longest_call = took;
    if (took < one->shortest_call || !one->ended)
        one->shortest_call = took;
    if (!one->ended++)
        one->host->calls->count(one->host, "first call ended at, ns", (uint64_t)now);
    one->host->calls->count(one->host, "calls", 1);
    one->host->calls->count(one->host, "all calls, ns", (uint64_t)took);
    if (setting(one->host, REPEAT)) {
        if (one->to_make)
            one->host->calls->set_timer(one->host, CALL_TIMER, now + setting(one->host, GAP_NS));
        else
            one->host->calls->count(one->host, "last call ended at, ns", (uint64_t)now);
    } else {
        one->host->calls->answer(one->host, one->orders[call % WORKER_CALLS]);
    }
}

static const struct worker_calls calls = {
    .send = send_one,
    .set_timer = set_timer,
    .fill = fill,
    .take = take,
    .done = done,
};

static const struct blocks_calls blocks_calls = {
    .send = send_block,
    .set_timer = set_blocks_timer,
    .epoch = epoch_now,
    .fill = fill_block,
    .take = take_block,
    .complete = complete,
};

/* --- the program --------------------------------------------------------------------------------------- */

static void start(struct program_host *host)
{
    struct one *one = host->state;
    const char *wrong = wrong_with(host);
    if (!wrong && host->calls->listen(host, PROGRAM_UDP, WEFT_ALLREDUCE_PORT))
        wrong = "another program of the host is a worker: a host has one";
    if (!wrong && setting(host, BLOCK_BYTES) && host->calls->listen(host, PROGRAM_UDP, WEFT_ALLREDUCE_PEER_PORT))
        wrong = "another program of the host has UDP port 28793, by which lost blocks are asked for";
    if (wrong) {
        host->calls->fail(host, wrong);
        return;
    }
    const struct worker_config config = config_of(host->settings);
    const uint64_t ranks = (uint64_t)setting(host, RANKS);
    one->host = host;
    one->lanes = config.lanes;
    one->wire_lanes = config.wire_lanes;
    one->rank_factor = (uint32_t)setting(host, RANK) + 1;
    one->sum_factor = (uint32_t)(ranks * (ranks + 1) / 2);
    one->values = INT32_MAX / one->sum_factor;
    one->to_make = setting(host, REPEAT);
    one->last_result = -1;
    datagram_make(&one->datagram, host, (uint8_t)(setting(host, DSCP) << 2 | (setting(host, ADAPT) ? ECT : 0)));
    one->worker = worker_make((uint8_t *)host->state + sizeof *one, &config, &calls, one);
    if (setting(host, BLOCK_BYTES)) {
        const struct blocks_config blocks = blocks_config_of(host->settings, rate_of(host));
        uint8_t *memory = (uint8_t *)one->worker + worker_bytes(&config);
        one->blocks = blocks_make(memory, &blocks, &blocks_calls, one);
        one->addresses = (uint32_t *)(memory + blocks_bytes(&blocks));
    }
    if (one->to_make)
        host->calls->set_timer(host, CALL_TIMER, setting(host, START_NS));
}

static void packet(struct program_host *host, uint32_t interface, const uint8_t *frame, uint32_t length)
{
    struct one *one = host->state;
    const uint32_t headers = DATAGRAM_ETHERNET + 4 * (frame[DATAGRAM_ETHERNET] & 15u) + DATAGRAM_UDP;
    (void)interface;
    if ((frame[DATAGRAM_ETHERNET + 1] & ECN_MASK) == ECN_MASK)
        host->calls->count(host, "results with CE", 1);
    if (one->blocks && length > headers && (frame[headers] == WEFT_ALLREDUCE_BLOCK || frame[headers] == BLOCKS_ASK))
        blocks_receive(one->blocks, frame + headers, length - headers, host->now_ns);
    else if (length >= headers)
        worker_receive(one->worker, frame + headers, length - headers, host->now_ns);
}

static void timer(struct program_host *host, uint32_t token)
{
    struct one *one = host->state;
    const int64_t patience = setting(host, GIVE_UP_NS);
    if (token == WORKER_TIMER && patience && host->now_ns - worker_heard(one->worker) >= patience) {
        char why[160];
        snprintf(why, sizeof why, "job %d: no result came for %lld ns: a worker is missing, no tree is left, or switches add nothing",
                 (int)setting(host, JOB), (long long)patience);
        fail(one, why);
    } else if (token == WORKER_TIMER) {
        worker_timer(one->worker, host->now_ns);
    } else if (token == BLOCKS_TIMER && patience && host->now_ns - blocks_heard(one->blocks) >= patience) {
        char why[160];
        snprintf(why, sizeof why, "job %d: blocks of rank %u are missing, and none came for %lld ns", (int)setting(host, JOB),
                 blocks_missing(one->blocks), (long long)patience);
        fail(one, why);
    } else if (token == BLOCKS_TIMER) {
        blocks_timer(one->blocks, host->now_ns);
    } else if (one->to_make) {
        one->to_make--;
        begin(one, (uint64_t)setting(host, BYTES), 0);
    }
}

static void order(struct program_host *host, uint64_t number, uint32_t what, uint64_t bytes)
{
    if (what == ORDER_SUM)
        begin(host->state, bytes, number);
    else
        begin_blocks(host->state, what, bytes, number);
}

static void count_blocks(struct program_host *host, const struct blocks_stats *stats)
{
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"blocks sent", stats->sent},
        {"blocks flooded again", stats->flooded},
        {"blocks sent to one", stats->unicast},
        {"blocks taken", stats->taken},
        {"blocks doubled", stats->doubled},
        {"blocks late", stats->late},
        {"blocks malformed", stats->malformed},
        {"requests sent", stats->asked},
        {"requests answered", stats->answered},
        {"trees left", stats->turns},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        host->calls->count(host, rows[i].name, rows[i].value);
}

static void stop(struct program_host *host)
{
    const struct one *one = host->state;
    if (!one->worker)
        return;
    const struct worker_stats *stats = worker_stats_of(one->worker);
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"sent", stats->sent},
        {"repeated", stats->repeated},
        {"sent again", stats->sent_again},
        {"overtaken", stats->overtaken},
        {"results", stats->results},
        {"wrong", 0},
        {"late", stats->late},
        {"spurious", stats->spurious},
        {"malformed", stats->malformed},
        {"moves", stats->moves},
        {"moved", stats->moved},
        {"overflowed", stats->overflowed},
        {"congested", stats->congested},
        {"cuts", stats->cuts},
        {"longest gap, ns", (uint64_t)one->longest_gap},
        {"longest call, ns", (uint64_t)one->longest_call},
        {"shortest call, ns", (uint64_t)one->shortest_call},
        {"calls open", worker_open(one->worker)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        host->calls->count(host, rows[i].name, rows[i].value);
    if (one->blocks)
        count_blocks(host, blocks_stats_of(one->blocks));
}

const struct program_ops allreduce_program = {
    .name = "allreduce",
    .bytes = sizeof(struct one),
    .settings = settings,
    .room = room,
    .heads = 1,
    .start = start,
    .packet = packet,
    .timer = timer,
    .stop = stop,
    .order = order,
};
