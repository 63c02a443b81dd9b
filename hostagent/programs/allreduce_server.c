/* The parameter server of a best-effort job: one a job, on a host that is none of its workers (docs/allreduce.md). */
#include "allreduce.h"

#include "datagram.h"
#include "host_program.h"
#include "server.h"

enum {
    LANE = 4,
    ECT = 2,
    ECN_MASK = 3,
    JOB_MAX = UINT16_MAX,
    DSCP_MAX = 63,
};

enum { JOB, RANKS, SLOTS, LANES, WIRE_LANES, QUIET_NS, DSCP, ADAPT, GATEWAY, SETTINGS };

static const struct program_setting settings[] = {
    [JOB] = {"job", 1},
    [RANKS] = {"ranks", 2},
    [SLOTS] = {"slots", 256},
    [LANES] = {"lanes", 32},
    [WIRE_LANES] = {"wire_lanes", 0}, /* 0: lanes */
    [QUIET_NS] = {"quiet_ns", 50000}, /* between two copies of a result: half of the workers' time-out */
    [DSCP] = {"dscp", 0},
    [ADAPT] = {"adapt", 0},           /* results can be marked */
    [GATEWAY] = {"gateway", 0},       /* IPv4; 0: 192.0.0.8, as switches have it */
    [SETTINGS] = {NULL, 0},
};

static const uint32_t SWITCHES_ADDRESS = 0xc0000008;

struct one {
    struct program_host *host;
    struct server *server;
    struct datagram datagram;
};

static int64_t setting(const struct program_host *host, int which)
{
    return host->settings[which].value;
}

static struct server_config config_of(const struct program_setting *s)
{
    return (struct server_config){
        .job = (uint16_t)s[JOB].value,
        .ranks = (uint32_t)s[RANKS].value,
        .slots = (uint32_t)s[SLOTS].value,
        .lanes = (uint32_t)s[LANES].value,
        .wire_lanes = (uint32_t)(s[WIRE_LANES].value ? s[WIRE_LANES].value : s[LANES].value),
        .quiet_ns = s[QUIET_NS].value,
    };
}

static const char *wrong_with(const struct program_host *host)
{
    static const struct {
        int which;
        int64_t least, most;
        const char *says;
    } limits[] = {
        {JOB, 1, JOB_MAX, "job: from 1 to 65535"},
        {RANKS, 1, UINT16_MAX, "ranks: from 1 to 64: a partial has a bit for each"},
        {SLOTS, 1, UINT16_MAX, "slots: a power of two, from 1 to 32768"},
        {LANES, 1, UINT16_MAX, "lanes: from 1 to 2044"},
        {WIRE_LANES, 0, UINT16_MAX, "wire_lanes: from lanes to 2044"},
        {QUIET_NS, 0, INT64_MAX / 2, "quiet_ns: 0 or more"},
        {DSCP, 0, DSCP_MAX, "dscp: from 0 to 63"},
        {ADAPT, 0, 1, "adapt: 0 or 1"},
        {GATEWAY, 0, UINT32_MAX, "gateway: an IPv4 address as a number"},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (setting(host, limits[i].which) < limits[i].least || setting(host, limits[i].which) > limits[i].most)
            return limits[i].says;
    const struct server_config config = config_of(host->settings);
    const char *wrong = server_wrong(&config);
    if (!wrong && DATAGRAM_IP + DATAGRAM_UDP + WEFT_ALLREDUCE_BYTES + LANE * config.wire_lanes > host->interfaces[0].mtu)
        return "wire_lanes: packets of as many lanes are longer than the interface's MTU";
    return wrong;
}

static size_t room(const struct program_setting *given)
{
    const struct server_config config = config_of(given);
    return server_wrong(&config) ? 0 : server_bytes(&config);
}

static void send_result(void *owner, const uint8_t *payload, uint32_t length, uint32_t tail)
{
    struct one *one = owner;
    const int64_t gateway = setting(one->host, GATEWAY);
    const uint32_t to = gateway ? (uint32_t)gateway : SWITCHES_ADDRESS;
    if (datagram_send(&one->datagram, one->host, to, WEFT_ALLREDUCE_PORT, payload, length, tail))
        one->host->calls->count(one->host, "lost at the interface", 1);
}

static void start(struct program_host *host)
{
    static const struct server_calls calls = {.send = send_result};
    struct one *one = host->state;
    const char *wrong = wrong_with(host);
    if (wrong) {
        host->calls->fail(host, wrong);
        return;
    }
    if (host->calls->listen(host, PROGRAM_UDP, WEFT_ALLREDUCE_PORT)) {
        host->calls->fail(host, "another program listens to AllReduce's UDP port: a host has one worker or one server");
        return;
    }
    const struct server_config config = config_of(host->settings);
    one->host = host;
    datagram_make(&one->datagram, host, (uint8_t)(setting(host, DSCP) << 2 | (setting(host, ADAPT) ? ECT : 0)));
    one->server = server_make((uint8_t *)host->state + sizeof *one, &config, &calls, one);
}

static void packet(struct program_host *host, uint32_t interface, const uint8_t *frame, uint32_t length)
{
    struct one *one = host->state;
    const uint32_t headers = DATAGRAM_ETHERNET + 4 * (frame[DATAGRAM_ETHERNET] & 15u) + DATAGRAM_UDP;
    (void)interface;
    if (length >= headers)
        server_receive(one->server, frame + headers, length - headers,
                       (frame[DATAGRAM_ETHERNET + 1] & ECN_MASK) == ECN_MASK, host->now_ns);
}

static void timer(struct program_host *host, uint32_t token)
{
    (void)host;
    (void)token; /* it sets none */
}

static void stop(struct program_host *host)
{
    const struct one *one = host->state;
    if (!one->server)
        return;
    const struct server_stats *stats = server_stats_of(one->server);
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"taken", stats->taken},
        {"whole", stats->whole},
        {"doubled", stats->doubled},
        {"overlapping", stats->overlapping},
        {"late", stats->late},
        {"malformed", stats->malformed},
        {"results", stats->results},
        {"answered", stats->answered},
        {"overflowed", stats->overflowed},
        {"congested", stats->congested},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        host->calls->count(host, rows[i].name, rows[i].value);
}

const struct program_ops allreduce_server_program = {
    .name = "allreduce_server",
    .bytes = sizeof(struct one),
    .settings = settings,
    .room = room,
    .heads = 1,
    .start = start,
    .packet = packet,
    .timer = timer,
    .stop = stop,
};
