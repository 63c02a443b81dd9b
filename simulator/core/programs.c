/* Owns programs on hosts: what they wait for, what they listen to, and the frames that they send until these may leave.
 *
 * A frame of a program takes a place in its class's queue of the card; programs and flows of a queue take turns there, a frame
 * each. A timer that is moved to later leaves its entry in the heap where it is until that comes: so each has one,
 * however often it is moved.
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"

enum { DSCPS = 64, UDP_PROTOCOL = 17, FRAGMENT = 0x3fff, ETHERTYPE_IPV4 = 0x0800 };
static const int64_t PS_PER_NS = 1000;

struct program_timer {
    ws_time at;       /* when it is wanted; WS_NEVER: it is not set */
    uint64_t sequence;
    ws_time entry_at; /* its entry in the heap, WS_NEVER: there is none */
    uint64_t entry_sequence;
};

struct counter {
    char *name;
    uint64_t value;
};

struct program {
    struct program_host host; /* first: calls get it */
    struct sim *sim;
    const struct program_ops *ops;
    uint32_t node, number;
    struct program_timer *timers;
    uint32_t n_timers;
    struct counter *counters;
    uint32_t n_counters;
};

struct programs {
    struct program **rows;
    uint32_t n;
    uint8_t started, stopped;
    int64_t tick_ps; /* of a program's ns */
    uint8_t queue_of_dscp[DSCPS];
    uint64_t armed;  /* timers that are set */
    char *failure;   /* NULL: none failed */
    uint32_t failed;
    int64_t failed_at_ns;
    uint8_t *whole;  /* room for a frame whose tail has to be written out */
};

struct program_listener {
    enum program_listen kind;
    uint32_t number;
    struct program *program;
};

struct hosted {
    uint32_t n;
    struct program_listener listeners[];
};

struct outbox {
    struct {
        struct flight *head, *tail;
    } queues[QUEUES];
    uint32_t n;
    uint8_t turn; /* bit q: the programs are next in queue q */
};

/* --- sending ------------------------------------------------------------------------------------- */

int outbox_send(struct sim *s, struct nic *nic, uint32_t queue)
{
    struct outbox *outbox = nic->outbox;
    const uint8_t bit = (uint8_t)(1u << queue);
    if (nic->queues[queue].turn && !(outbox->turn & bit)) {
        outbox->turn |= bit;
        return 0;
    }
    outbox->turn &= (uint8_t)~bit;
    struct flight *flight = outbox->queues[queue].head;
    outbox->queues[queue].head = flight->next;
    if (!flight->next)
        nic->active &= ~(1u << QUEUES << queue);
    outbox->n--;
    s->raws--;
    s->totals.sent++;
    nic->stats.queue_packets--;
    nic->stats.queue_bytes -= flight->length + flight->tail;
    nic_emit(s, nic, flight);
    return 1;
}

void outbox_free(struct outbox *outbox)
{
    for (uint32_t q = 0; outbox && q < QUEUES; q++)
        for (struct flight *at = outbox->queues[q].head; at; at = at->next)
            if (flight_is_long(at))
                free(at->long_data);
    free(outbox);
}

static uint32_t queue_of(const struct programs *programs, const uint8_t *frame, uint32_t length)
{
    const int ip = length >= ETHERNET + IPV4 && get16(frame + 12) == ETHERTYPE_IPV4;
    return ip ? programs->queue_of_dscp[frame[ETHERNET + 1] >> 2] : 0;
}

static int send_long(struct program_host *host, uint32_t interface, const uint8_t *frame, uint32_t length, uint32_t tail)
{
    const struct program *program = (struct program *)host;
    struct sim *s = program->sim;
    struct node *node = &s->nodes[program->node];
    if (interface >= node->n_nics)
        return PROGRAM_EINTERFACE;
    struct nic *nic = &node->nics[interface];
    if (length < PROGRAM_FRAME_MIN || length > PROGRAM_FRAME_MAX || tail > PROGRAM_FRAME_MAX || length + tail > ETHERNET + nic->config.mtu)
        return PROGRAM_ELENGTH;
    if (!nic->outbox && !(nic->outbox = calloc(1, sizeof *nic->outbox)))
        return sim_short(s, "frames of programs"), PROGRAM_ENOMEM;
    struct outbox *outbox = nic->outbox;
    if (outbox->n >= PROGRAM_WAITING_MAX)
        return PROGRAM_FULL;
    struct flight *flight = flight_new(s, length);
    if (!flight)
        return PROGRAM_ENOMEM;
    memcpy(flight_data(flight), frame, length);
    flight->tail = tail;
    flight->tail_seed = 0;
    const uint32_t q = queue_of(s->programs, frame, length);
    if (nic->active >> QUEUES >> q & 1)
        outbox->queues[q].tail->next = flight;
    else
        outbox->queues[q].head = flight;
    outbox->queues[q].tail = flight;
    nic->active |= 1u << QUEUES << q;
    outbox->n++;
    s->raws++;
    nic->stats.queue_packets++;
    nic->stats.queue_bytes += length + tail;
    nic_wake(s, program->node, interface);
    return PROGRAM_OK;
}

static int program_send(struct program_host *host, uint32_t interface, const uint8_t *frame, uint32_t length)
{
    return send_long(host, interface, frame, length, 0);
}

/* --- timers -------------------------------------------------------------------------------------- */

static int timer_enter(struct program *program, uint32_t token)
{
    struct program_timer *timer = &program->timers[token];
    timer->entry_at = timer->at;
    timer->entry_sequence = timer->sequence;
    return order_timer_again(program->sim, timer->at, TIMER_PROGRAM, (uint64_t)program->number << 32 | token,
                             timer->sequence);
}

static int set_timer(struct program_host *host, uint32_t token, int64_t at_ns)
{
    struct program *program = (struct program *)host;
    struct sim *s = program->sim;
    if (token >= PROGRAM_TIMERS)
        return PROGRAM_ETOKEN;
    if (at_ns < 0 || at_ns > (WS_NEVER - 1) / s->programs->tick_ps)
        return PROGRAM_ETIME;
    if (token >= program->n_timers) {
        uint32_t n = program->n_timers ? program->n_timers : 8;
        while (n <= token)
            n *= 2;
        struct program_timer *bigger = realloc(program->timers, n * sizeof *bigger);
        if (!bigger)
            return sim_short(s, "timers of programs"), PROGRAM_ENOMEM;
        for (uint32_t i = program->n_timers; i < n; i++)
            bigger[i] = (struct program_timer){.at = WS_NEVER, .entry_at = WS_NEVER};
        program->timers = bigger;
        program->n_timers = n;
    }
    struct program_timer *timer = &program->timers[token];
    const ws_time at = at_ns * s->programs->tick_ps;
    s->programs->armed += timer->at == WS_NEVER;
    timer->at = at > s->now ? at : s->now;
    timer->sequence = s->timer_sequence++;
    if (timer->at < timer->entry_at && timer_enter(program, token))
        return PROGRAM_ENOMEM;
    return PROGRAM_OK;
}

static int cancel_timer(struct program_host *host, uint32_t token)
{
    struct program *program = (struct program *)host;
    if (token >= PROGRAM_TIMERS)
        return PROGRAM_ETOKEN;
    if (token >= program->n_timers)
        return PROGRAM_OK;
    program->sim->programs->armed -= program->timers[token].at != WS_NEVER;
    program->timers[token].at = WS_NEVER;
    return PROGRAM_OK;
}

static void tell_time(struct program *program)
{
    program->host.now_ns = program->sim->now / program->sim->programs->tick_ps;
}

static void program_due(struct sim *s, const struct timer *entry)
{
    struct program *program = s->programs->rows[entry->object >> 32];
    const uint32_t token = (uint32_t)entry->object;
    struct program_timer *timer = &program->timers[token];
    if (timer->entry_at == WS_NEVER || timer->entry_sequence != entry->sequence)
        return; /* it was moved to sooner, and has another entry or has had it */
    timer->entry_at = WS_NEVER;
    if (timer->at == WS_NEVER)
        return; /* cancelled */
    if (timer->sequence != entry->sequence) { /* moved to later: now it takes its place */
        timer_enter(program, token);
        return;
    }
    timer->at = WS_NEVER;
    s->programs->armed--;
    tell_time(program);
    program->ops->timer(&program->host, token);
}

/* --- what else a program may do ----------------------------------------------------------------------- */

static int listen_to(struct program_host *host, enum program_listen kind, uint32_t number)
{
    struct program *program = (struct program *)host;
    struct sim *s = program->sim;
    struct node *node = &s->nodes[program->node];
    if (!number || number > UINT16_MAX)
        return PROGRAM_ENUMBER;
    if (kind == PROGRAM_UDP && number == PROGRAM_ROCE_PORT)
        return PROGRAM_ECARD;
    const uint32_t n = node->hosted ? node->hosted->n : 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct program_listener *listener = &node->hosted->listeners[i];
        if (listener->kind == kind && listener->number == number)
            return listener->program == program ? PROGRAM_OK : PROGRAM_ETAKEN;
    }
    struct hosted *bigger = realloc(node->hosted, sizeof *bigger + (n + 1) * sizeof *bigger->listeners);
    if (!bigger)
        return sim_short(s, "what programs listen to"), PROGRAM_ENOMEM;
    bigger->listeners[n] = (struct program_listener){kind, number, program};
    bigger->n = n + 1;
    node->hosted = bigger;
    return PROGRAM_OK;
}

static int count(struct program_host *host, const char *name, uint64_t by)
{
    struct program *program = (struct program *)host;
    uint32_t i = 0;
    while (i < program->n_counters && strcmp(program->counters[i].name, name))
        i++;
    if (i == program->n_counters) {
        struct counter *bigger = realloc(program->counters, (i + 1) * sizeof *bigger);
        if (bigger)
            program->counters = bigger;
        char *copy = bigger ? strdup(name) : NULL;
        if (!copy)
            return sim_short(program->sim, "counters of programs"), PROGRAM_ENOMEM;
        program->counters[program->n_counters++] = (struct counter){copy, 0};
    }
    program->counters[i].value += by;
    return PROGRAM_OK;
}

static int fail(struct program_host *host, const char *why)
{
    struct program *program = (struct program *)host;
    struct programs *programs = program->sim->programs;
    program->sim->halted = 1;
    if (programs->failure)
        return PROGRAM_OK;
    programs->failure = strdup(why);
    programs->failed = program->number;
    programs->failed_at_ns = host->now_ns;
    sim_fail(program->sim, SIM_EINVAL, "program %u (%s) of node %u: %s", program->number, program->ops->name, program->node, why);
    return programs->failure ? PROGRAM_OK : (sim_short(program->sim, "why a program failed"), PROGRAM_ENOMEM);
}

static int answer(struct program_host *host, uint64_t order)
{
    struct sim *s = ((struct program *)host)->sim;
    if (order >= s->n_messages || !message_is_ordered(s, order))
        return PROGRAM_ENUMBER;
    s->messages[order].times.last_sent = s->messages[order].times.done = s->now;
    message_done(s, order);
    return PROGRAM_OK;
}

static const struct program_calls calls = {
    .send = program_send,
    .send_long = send_long,
    .answer = answer,
    .set_timer = set_timer,
    .cancel_timer = cancel_timer,
    .listen = listen_to,
    .count = count,
    .fail = fail,
};

/* --- what arrives --------------------------------------------------------------------------------------- */

/* The listener that a frame of `length` bytes, of which `here` are here, is for. */
static struct program *listener_of(const struct hosted *hosted, const uint8_t *frame, uint32_t here, uint32_t length)
{
    const uint32_t type = get16(frame + 12);
    uint32_t port = 0;
    if (type == ETHERTYPE_IPV4 && here >= ETHERNET + IPV4 + UDP && frame[ETHERNET + 9] == UDP_PROTOCOL &&
        !(get16(frame + ETHERNET + 6) & FRAGMENT)) {
        const uint32_t header = 4 * (frame[ETHERNET] & 15u), udp = ETHERNET + header;
        if (frame[ETHERNET] >> 4 == 4 && header >= IPV4 && here >= udp + UDP && get16(frame + udp + 4) >= UDP &&
            udp + get16(frame + udp + 4) <= length)
            port = get16(frame + udp + 2);
    }
    struct program *of_type = NULL; /* who listens to the UDP port comes first */
    for (uint32_t i = 0; i < hosted->n; i++) {
        const struct program_listener *listener = &hosted->listeners[i];
        if (listener->kind == PROGRAM_UDP && listener->number == port)
            return listener->program;
        if (listener->kind == PROGRAM_ETHERTYPE && listener->number == type)
            of_type = listener->program;
    }
    return of_type;
}

int program_take(struct sim *s, uint32_t node, uint32_t port, struct flight *flight)
{
    const uint8_t *frame = flight_data(flight);
    const uint32_t length = flight->length + flight->tail;
    if (flight->length < ETHERNET || length > WS_PACKET_BIG)
        return 0;
    struct program *program = listener_of(s->nodes[node].hosted, frame, flight->length, length);
    if (!program)
        return 0;
    const uint32_t tail = program->ops->heads ? flight->tail : 0;
    if (flight->tail && !tail) {
        struct programs *programs = s->programs;
        if (!programs->whole && !(programs->whole = malloc(WS_PACKET_BIG)))
            return sim_short(s, "frames of programs"), 0;
        memcpy(programs->whole, frame, flight->length);
        ws_write_tail(programs->whole, flight->length, flight->tail, flight->tail_seed);
        frame = programs->whole;
    }
    tell_time(program);
    program->host.tail = tail;
    program->ops->packet(&program->host, port, frame, length - tail);
    return 1;
}

/* --- making and ending them -------------------------------------------------------------------------- */

static void program_free(struct program *program)
{
    for (uint32_t i = 0; i < program->n_counters; i++)
        free(program->counters[i].name);
    free(program->counters);
    free(program->timers);
    free(program->host.state);
    free((void *)(uintptr_t)program->host.settings);
    free((void *)(uintptr_t)program->host.interfaces);
    free(program);
}

static void programs_free(struct sim *s)
{
    struct programs *programs = s->programs;
    if (!programs)
        return;
    for (uint32_t i = 0; i < programs->n; i++) {
        free(s->nodes[programs->rows[i]->node].hosted);
        s->nodes[programs->rows[i]->node].hosted = NULL;
        program_free(programs->rows[i]);
    }
    free(programs->rows);
    free(programs->failure);
    free(programs->whole);
    free(programs);
    free(s->orders);
}

static uint32_t settings_of(const struct program_ops *ops)
{
    uint32_t n = 0;
    while (ops->settings && ops->settings[n].name)
        n++;
    return n;
}

/* All settings of `ops`, with what is given in the place of what holds without. */
static int settle(struct sim *s, struct program *program, const struct program_setting *given, uint32_t n)
{
    const uint32_t known = settings_of(program->ops);
    struct program_setting *settings = calloc((size_t)known + 1, sizeof *settings);
    if (!settings)
        return sim_fail(s, SIM_ENOMEM, "no memory for a program");
    program->host.settings = settings;
    program->host.n_settings = known;
    if (known)
        memcpy(settings, program->ops->settings, known * sizeof *settings);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = 0;
        while (at < known && strcmp(settings[at].name, given[i].name))
            at++;
        if (at == known)
            return sim_fail(s, SIM_EINVAL, "%s has no setting %s", program->ops->name, given[i].name);
        settings[at].value = given[i].value;
    }
    return SIM_OK;
}

static struct program_interface *interfaces_of(const struct node *node)
{
    struct program_interface *interfaces = calloc(node->n_nics, sizeof *interfaces);
    for (uint32_t i = 0; interfaces && i < node->n_nics; i++) {
        const struct sim_port_config *config = &node->nics[i].config;
        interfaces[i] = (struct program_interface){.rate_bps = config->rate_bps, .mac = config->mac,
                                                   .gateway_mac = config->gateway_mac, .ip = config->ip,
                                                   .mtu = config->mtu};
    }
    return interfaces;
}

int sim_add_program(sim *s, uint32_t number, const struct program_ops *ops, void *opaque,
                    const struct program_setting *settings, uint32_t n)
{
    if (number >= s->n_nodes || !s->nodes[number].n_nics)
        return sim_fail(s, SIM_ENOENT, "node %u is no host", number);
    if (!s->programs && !(s->programs = calloc(1, sizeof *s->programs)))
        return sim_fail(s, SIM_ENOMEM, "no memory for programs");
    struct programs *programs = s->programs;
    if (programs->started)
        return sim_fail(s, SIM_EINVAL, "programs have started");
    struct program **rows = realloc(programs->rows, (programs->n + 1) * sizeof(struct program *));
    if (rows)
        programs->rows = rows;
    struct program *program = rows ? calloc(1, sizeof *program) : NULL;
    if (!program)
        return sim_fail(s, SIM_ENOMEM, "no memory for a program");
    *program = (struct program){.sim = s, .ops = ops, .node = number, .number = programs->n};
    program->host = (struct program_host){.calls = &calls, .opaque = opaque, .n_interfaces = s->nodes[number].n_nics};
    program->host.interfaces = interfaces_of(&s->nodes[number]);
    int status = settle(s, program, settings, n);
    const size_t more = !status && ops->room ? ops->room(program->host.settings) : 0;
    program->host.state = calloc(1, ops->bytes + more + 1);
    if (!status && (!program->host.interfaces || !program->host.state))
        status = sim_fail(s, SIM_ENOMEM, "no memory for a program");
    if (status)
        return program_free(program), status;
    programs->rows[programs->n] = program;
    return (int)programs->n++;
}

/* --- orders ------------------------------------------------------------------------------------------ */

int sim_order(sim *s, uint64_t message, uint32_t program, uint32_t what)
{
    if (!s->programs || program >= s->programs->n || !s->programs->rows[program]->ops->order)
        return sim_fail(s, SIM_EINVAL, "program %u takes no orders", program);
    if (message >= s->n_messages || message_is_made(s, message))
        return sim_fail(s, SIM_ENOENT, "there is no message %llu", (unsigned long long)message);
    if (message >= s->n_orders) {
        const uint64_t n = s->n_stored ? s->n_stored : s->n_messages;
        struct order *bigger = realloc(s->orders, n * sizeof *bigger);
        if (!bigger)
            return sim_fail(s, SIM_ENOMEM, "no memory for orders");
        memset(bigger + s->n_orders, 0, (n - s->n_orders) * sizeof *bigger);
        s->orders = bigger;
        s->n_orders = n;
    }
    s->orders[message] = (struct order){program + 1, what};
    return SIM_OK;
}

void program_order(struct sim *s, uint64_t message)
{
    const struct order *order = &s->orders[message];
    struct program *program = s->programs->rows[order->program - 1];
    tell_time(program);
    program->ops->order(&program->host, message, order->what, s->messages[message].bytes);
}

int sim_start_programs(sim *s, uint32_t time_scale, const uint8_t *queue_of_dscp)
{
    struct programs *programs = s->programs;
    if (!programs || programs->started)
        return sim_fail(s, SIM_EINVAL, programs ? "programs have started" : "there are no programs");
    if (!time_scale)
        return sim_fail(s, SIM_EINVAL, "a time scale is 1 or more");
    int status = order_fix(s);
    if (status)
        return status;
    programs->tick_ps = PS_PER_NS * time_scale;
    for (uint32_t dscp = 0; dscp < DSCPS; dscp++) {
        if (queue_of_dscp[dscp] >= QUEUES)
            return sim_fail(s, SIM_EINVAL, "DSCP %u has no queue %u", dscp, queue_of_dscp[dscp]);
        programs->queue_of_dscp[dscp] = queue_of_dscp[dscp];
    }
    for (uint32_t i = 0; i < programs->n; i++) {
        struct program_interface *interfaces = (struct program_interface *)(uintptr_t)programs->rows[i]->host.interfaces;
        for (uint32_t p = 0; p < programs->rows[i]->host.n_interfaces; p++)
            interfaces[p].rate_bps *= time_scale;
    }
    programs->started = 1;
    for (uint32_t i = 0; i < programs->n && !s->halted; i++) {
        tell_time(programs->rows[i]);
        programs->rows[i]->ops->start(&programs->rows[i]->host);
    }
    return s->halted ? SIM_EINVAL : SIM_OK;
}

int sim_stop_programs(sim *s)
{
    struct programs *programs = s->programs;
    if (!programs || !programs->started || programs->stopped)
        return SIM_OK;
    programs->stopped = 1;
    for (uint32_t i = 0; i < programs->n && !s->halted; i++)
        if (programs->rows[i]->ops->stop) {
            tell_time(programs->rows[i]);
            programs->rows[i]->ops->stop(&programs->rows[i]->host);
        }
    return s->halted ? SIM_EINVAL : SIM_OK;
}

int sim_program_failure_get(const sim *s, struct sim_program_failure *failure)
{
    const struct programs *programs = s->programs;
    if (!programs || !programs->failure)
        return SIM_ENOENT;
    *failure = (struct sim_program_failure){programs->failed, 0, programs->failed_at_ns, programs->failure};
    return SIM_OK;
}

int sim_program_counter_get(const sim *s, uint32_t number, uint32_t i, struct sim_program_counter *counter)
{
    const struct programs *programs = s->programs;
    if (!programs || number >= programs->n || i >= programs->rows[number]->n_counters)
        return SIM_ENOENT;
    *counter = (struct sim_program_counter){programs->rows[number]->counters[i].name,
                                            programs->rows[number]->counters[i].value};
    return SIM_OK;
}

/* A run ends when no program waits for a time, and nothing is on its way to one. */
static enum element_state programs_state(const struct sim *s)
{
    if (!s->programs || !s->programs->started)
        return ELEMENT_UNUSED;
    return s->programs->armed || s->held ? ELEMENT_OPEN : ELEMENT_SENT;
}

const struct element_ops program_element = {.due = program_due, .state = programs_state, .free = programs_free};
