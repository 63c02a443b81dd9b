/* Elements: what can be in a network, and what it does when something happens. A new kind is a file and a line in the list.
 *
 * A node is an element, and so is a thing at a node that sets timers. A function that an element has no use for is NULL.
 * Of nodes there are two sorts (engine.h, on order). Those with `run` take turns: each runs alone through a window.
 * At the others everything happens in the order of (time, node, port): they have `send` and `receive`.
 */
#ifndef WEFT_SIM_ELEMENT_H
#define WEFT_SIM_ELEMENT_H

#include <stdint.h>

#include "weft_switch.h"

struct sim;
struct node;
struct end;
struct flight;
struct timer;

/* Whether a run that goes on until all is sent may end. */
enum element_state {
    ELEMENT_UNUSED = 0,
    ELEMENT_SENT = 1, /* it sends nothing more; its frames are waited for */
    ELEMENT_OPEN = 2,
};

struct element_ops {
    /* --- of things at nodes: all of a kind */
    void (*due)(struct sim *s, const struct timer *timer); /* a timer that it set */
    enum element_state (*state)(const struct sim *s);
    void (*free)(struct sim *s);

    /* --- of a node */
    /* Where its port's link is joined. NULL: there is no such port, sim_error says so; `make`: one may be made. */
    struct end *(*end)(struct sim *s, uint32_t node, uint32_t port, int make);
    int (*fix)(struct sim *s, uint32_t node);              /* numbers what happens there; 0: no memory */
    ws_time (*delay)(const struct sim *s, uint32_t node, uint32_t port); /* the least, of what the port sends */
    void (*link)(struct sim *s, uint32_t node, uint32_t port, int up);   /* the port's link went up or down */
    void (*free_node)(struct node *node);

    /* --- of a node that takes turns */
    void (*near)(const struct node *node, uint32_t turns); /* its turn comes after that many others: 2, 1, then 0 */
    void (*run)(struct sim *s, uint32_t node, ws_time last); /* up to and at `last` */

    /* --- of any other node */
    void (*send)(struct sim *s, uint32_t node, uint32_t port); /* what order_set announced of the port is due */
    void (*expect)(const struct sim *s, uint32_t node, uint32_t port, const struct flight *flight); /* it arrives soon */
    void (*receive)(struct sim *s, uint32_t node, uint32_t port, struct flight *flight); /* consumes it */
};

/* The kinds of nodes. */
extern const struct element_ops switch_element, host_element;

/* The things at nodes: what their timers are called, and their functions. */
#define ELEMENTS(ELEMENT)                                                                                              \
    ELEMENT(STREAM, stream_element)                                                                                    \
    ELEMENT(MESSAGE, message_element)                                                                                  \
    ELEMENT(FLOW, flow_element)                                                                                        \
    ELEMENT(SCRIPT, script_element)                                                                                    \
    ELEMENT(TAKE, receiver_element)                                                                                    \
    ELEMENT(CARRIER, carrier_element)                                                                                  \
    ELEMENT(PROGRAM, program_element)

#define ELEMENT_TIMER(name, ops) TIMER_##name,
enum timer_kind { ELEMENTS(ELEMENT_TIMER) TIMER_KINDS };
#undef ELEMENT_TIMER
#define ELEMENT_OPS(name, ops) extern const struct element_ops ops;
ELEMENTS(ELEMENT_OPS)
#undef ELEMENT_OPS

/* By enum timer_kind. */
extern const struct element_ops *const element_of[TIMER_KINDS];

#endif
