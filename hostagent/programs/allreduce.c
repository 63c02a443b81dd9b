/* A worker of an AllReduce in the network, with data of which every sum is known (docs/allreduce.md).
 *
 * It makes `repeat` calls of `bytes` bytes, `gap_ns` apart, from `start_ns` on, or what the run orders. Rank r adds to lane i of a call
 * x(call, i) * (r + 1), so that a contribution that is missing, doubled or of another chunk makes a wrong sum: which ends the run.
 */
#include "allreduce.h"

#include <stdio.h>
#include <string.h>

#include "host_program.h"
#include "worker.h"

enum {
    MAC_BYTES = 6,
    ETHERNET = 14,
    IPV4 = 20,
    UDP = 8,
    HEADERS = ETHERNET + IPV4 + UDP,
    LANE = 4,
    ECT = 2,
    ECN_MASK = 3,
    RANKS_MAX = 32768, /* so that their sums fit int32 */
};

enum { WORKER_TIMER, CALL_TIMER };

enum {
    JOB, RANK, RANKS, EPOCH, SLOTS, LANES, WIRE_LANES, WINDOW, ADAPT, PATIENCE, TIMEOUT_NS, SEED, DSCP, GATEWAY,
    BYTES, REPEAT, START_NS, GAP_NS, GIVE_UP_NS,
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
    [SETTINGS] = {NULL, 0},
};

static const uint32_t SWITCHES_ADDRESS = 0xc0000008;

struct one {
    struct program_host *host;
    struct worker *worker;
    uint32_t lanes, wire_lanes;
    uint32_t rank_factor, sum_factor; /* of x: this rank's, all ranks' */
    uint32_t values;                  /* x is below this */
    uint64_t begun, ended;            /* calls */
    int64_t to_make;                  /* calls of its own that are to come */
    int64_t last_result;              /* of what is in flight; -1: nothing is */
    int64_t longest_gap, longest_call, shortest_call;
    uint32_t ip_sum;                  /* of its header, without the length */
    uint64_t orders[WORKER_CALLS];    /* of the calls that are open, by number */
    int64_t begun_ns[WORKER_CALLS];
    uint8_t frame[HEADERS + WEFT_ALLREDUCE_BYTES + LANE * WORKER_LANES_MAX];
};

static int64_t setting(const struct program_host *host, int which)
{
    return host->settings[which].value;
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
        .patience = (uint32_t)s[PATIENCE].value,
        .timeout_ns = s[TIMEOUT_NS].value,
        .seed = (uint64_t)s[SEED].value << 32 ^ (uint64_t)s[JOB].value << 20 ^ (uint64_t)s[RANK].value,
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
    if (!wrong && IPV4 + UDP + WEFT_ALLREDUCE_BYTES + LANE * config.wire_lanes > host->interfaces[0].mtu)
        return "wire_lanes: packets of as many lanes are longer than the interface's MTU";
    return wrong;
}

/* What comes behind the state: the worker's memory. */
static size_t room(const struct program_setting *given)
{
    const struct worker_config config = config_of(given);
    return worker_wrong(&config) ? 0 : worker_bytes(&config);
}

/* --- data ---------------------------------------------------------------------------------------------- */

/* Small enough for the sum to fit int32, so that only what is wrong overflows. */
static uint32_t x_of(const struct one *one, uint64_t call, uint64_t lane)
{
    uint64_t x = (call + 1) * 0x9e3779b97f4a7c15u ^ lane * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 29) * 0x94d049bb133111ebu;
    return (uint32_t)(x >> 32) % one->values;
}

static void fill(void *owner, uint64_t call, uint32_t chunk, int32_t *lanes)
{
    const struct one *one = owner;
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

/* --- frames -------------------------------------------------------------------------------------------- */

static void put16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void put_mac(uint8_t *at, uint64_t mac)
{
    for (int i = 0; i < MAC_BYTES; i++)
        at[i] = (uint8_t)(mac >> 8 * (MAC_BYTES - 1 - i));
}

static void put_ip(uint8_t *at, uint32_t address)
{
    put16(at, address >> 16);
    put16(at + 2, address);
}

static void make_headers(struct one *one)
{
    const struct program_host *host = one->host;
    const struct program_interface *interface = &host->interfaces[0];
    uint8_t *ip = one->frame + ETHERNET, *udp = ip + IPV4;
    put_mac(one->frame, interface->gateway_mac);
    put_mac(one->frame + MAC_BYTES, interface->mac);
    put16(one->frame + 12, 0x0800);
    ip[0] = 0x45;
    ip[1] = (uint8_t)(setting(host, DSCP) << 2 | (setting(host, ADAPT) ? ECT : 0));
    put16(ip + 6, 0x4000); /* it is never cut into pieces */
    ip[8] = 64;
    ip[9] = 17;
    put_ip(ip + 12, interface->ip);
    put_ip(ip + 16, setting(host, GATEWAY) ? (uint32_t)setting(host, GATEWAY) : SWITCHES_ADDRESS);
    for (int i = 0; i < IPV4; i += 2)
        one->ip_sum += (uint32_t)ip[i] << 8 | ip[i + 1];
    put16(udp, WEFT_ALLREDUCE_PORT);
    put16(udp + 2, WEFT_ALLREDUCE_PORT);
}

static void send_one(void *owner, const uint8_t *payload, uint32_t length, uint32_t tail)
{
    struct one *one = owner;
    uint8_t *ip = one->frame + ETHERNET;
    const uint32_t datagram = UDP + length + tail;
    uint32_t sum = one->ip_sum + IPV4 + datagram;
    put16(ip + 2, IPV4 + datagram);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    put16(ip + 10, ~sum);
    put16(ip + IPV4 + 4, datagram);
    memcpy(one->frame + HEADERS, payload, length);
    if (one->host->calls->send_long(one->host, 0, one->frame, HEADERS + length, tail))
        one->host->calls->count(one->host, "lost at the interface", 1);
}

static void set_timer(void *owner, int64_t at)
{
    struct one *one = owner;
    if (at == WORKER_NEVER)
        one->host->calls->cancel_timer(one->host, WORKER_TIMER);
    else
        one->host->calls->set_timer(one->host, WORKER_TIMER, at);
}

/* --- calls --------------------------------------------------------------------------------------------- */

static void begin(struct one *one, uint64_t bytes, uint64_t order)
{
    const uint64_t chunk = (uint64_t)LANE * one->wire_lanes, chunks = (bytes + chunk - 1) / chunk;
    const uint64_t place = one->begun % WORKER_CALLS;
    one->orders[place] = order;
    one->begun_ns[place] = one->host->now_ns;
    if (one->last_result < 0)
        one->last_result = one->host->now_ns;
    const int status = chunks > INT32_MAX ? WORKER_INVALID
                                          : worker_begin(one->worker, chunks ? WORKER_INTEGERS : WORKER_BARRIER, (uint32_t)chunks,
                                                         one->begun++, one->host->now_ns);
    if (status)
        fail(one, status == WORKER_FULL ? "more than 1024 calls are open at once" : "a call has at most 2^31 chunks");
}

static void done(void *owner, uint64_t call)
{
    struct one *one = owner;
    const int64_t now = one->host->now_ns, took = now - one->begun_ns[call % WORKER_CALLS];
    if (!worker_open(one->worker))
        one->last_result = -1;
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

/* --- the program --------------------------------------------------------------------------------------- */

static void start(struct program_host *host)
{
    struct one *one = host->state;
    const char *wrong = wrong_with(host);
    if (!wrong && host->calls->listen(host, PROGRAM_UDP, WEFT_ALLREDUCE_PORT))
        wrong = "another program of the host is a worker: a host has one";
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
    make_headers(one);
    one->worker = worker_make((uint8_t *)host->state + sizeof *one, &config, &calls, one);
    if (one->to_make)
        host->calls->set_timer(host, CALL_TIMER, setting(host, START_NS));
}

static void packet(struct program_host *host, uint32_t interface, const uint8_t *frame, uint32_t length)
{
    struct one *one = host->state;
    const uint32_t headers = ETHERNET + 4 * (frame[ETHERNET] & 15u) + UDP;
    (void)interface;
    if ((frame[ETHERNET + 1] & ECN_MASK) == ECN_MASK)
        host->calls->count(host, "results with CE", 1);
    if (length >= headers)
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
    } else if (one->to_make) {
        one->to_make--;
        begin(one, (uint64_t)setting(host, BYTES), 0);
    }
}

static void order(struct program_host *host, uint64_t number, uint64_t bytes)
{
    begin(host->state, bytes, number);
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
