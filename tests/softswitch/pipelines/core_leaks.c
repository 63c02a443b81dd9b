/* One life of a switch with everything in use when it ends, for LeakSanitizer: core_leaks TOY.so REFUSED.so */
#include <stdio.h>
#include <string.h>

#include "weft_switch.h"

enum { EXACT, LPM, TERNARY, RANGE, SELECT };

static int failures;

static void check(int status, const char *what)
{
    if (status != WS_OK) {
        fprintf(stderr, "%s: %d\n", what, status);
        failures++;
    }
}

static void fill(ws_switch *sw)
{
    uint64_t port[1] = {3}, handle, members[2], group;
    struct ws_spec forward = {.target = WS_ACTION, .action = 0, .args = port, .limbs = 1};
    uint8_t key[6] = {0}, mask[6] = {0};
    for (uint8_t i = 0; i < 20; i++) {
        key[0] = i;
        check(ws_table_insert(sw, EXACT, key, NULL, 0, &forward, &handle), "exact");
        check(ws_table_insert(sw, LPM, key, mask, 0, &forward, &handle), "lpm");
        mask[0] = 0xff;
        check(ws_table_insert(sw, TERNARY, key, mask, i, &forward, &handle), "ternary");
        check(ws_table_insert(sw, RANGE, key, mask, i, &forward, &handle), "range");
        mask[0] = 0;
    }
    check(ws_table_set_default(sw, EXACT, &forward), "default");
    check(ws_table_set_default(sw, EXACT, &forward), "default again");
    for (int i = 0; i < 2; i++)
        check(ws_member_add(sw, 0, 0, port, 1, &members[i]), "member");
    check(ws_member_modify(sw, 0, members[0], 0, port, 1), "modify");
    check(ws_group_add(sw, 0, members, (const uint32_t[]){1, WS_NO_PORT}, 2, &group), "group");
    check(ws_group_set(sw, 0, group, members, NULL, 1), "group set");
    struct ws_spec to_group = {.target = WS_GROUP, .ref = group};
    check(ws_table_insert(sw, SELECT, key, NULL, 0, &to_group, &handle), "select");
    struct ws_replica replicas[2] = {{.port = 1}, {.port = 2}};
    check(ws_multicast_set(sw, 5, replicas, 2), "multicast");
    check(ws_multicast_set(sw, 5, replicas, 1), "multicast again");
    struct ws_session session = {.group = 5, .group_valid = 1};
    check(ws_clone_session_set(sw, 1, &session), "session");
}

static void use(ws_switch *sw)
{
    check(ws_set_port(sw, 1, WS_PORT_BLOCKED, 0, 0), "block");
    struct ws_port_impair impair = {.duplicate = WS_ALWAYS / 2, .loss = WS_ALWAYS / 4, .jitter_ps = 100};
    check(ws_impair_port(sw, 2, WS_SEND, &impair), "send");
    impair.jitter_ps = 0;
    check(ws_impair_port(sw, 2, WS_RECEIVE, &impair), "receive");
    uint8_t frame[3000] = {0};
    for (int i = 0; i < 40; i++) {
        frame[1] = (uint8_t)(i & 15);            /* clones, resubmits, digests */
        frame[3] = (uint8_t)(i % 3);             /* ports; 1 holds its packets */
        frame[14] = 1;                           /* session */
        frame[15] = (uint8_t)(i % 2);            /* recirculates */
        struct ws_packet_in in = {.port = 2, .length = i % 5 ? 60 : 3000, .data = frame};
        ws_inject(sw, &in, 1, i * 100000);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    struct ws_config config;
    ws_config_default(&config);
    ws_switch *sw = ws_create(&config);
    for (int life = 0; life < 2; life++) {
        check(ws_load(sw, argv[1]), "load");
        fill(sw);
        use(sw);
        struct ws_output out[8];
        if (ws_take_output(sw, out, 8, WS_NEVER) == 0)
            failures++;
    }
    /* Another program takes over while packets of the first are queued, then they leave. */
    use(sw);
    ws_switch *donor = ws_create(&config);
    check(ws_load(donor, argv[1]), "load the donor");
    fill(donor);
    const struct ws_keep keep[] = {{WS_KEEP_REGISTER, 0, 0, 0, 0}, {WS_KEEP_COUNTER, 0, 0, 0, 0},
                                   {WS_KEEP_METER, 0, 0, 0, 0}, {WS_KEEP_ENTRY, EXACT, EXACT, 1, 1}};
    check(ws_adopt(sw, donor, keep, sizeof keep / sizeof *keep), "adopt");
    ws_destroy(donor);
    use(sw);
    check(ws_set_port(sw, 1, WS_PORT_UP, 0, 0), "release");
    /* Neither a file that is not there nor a program that is refused half-way takes the old one's place. */
    if (ws_load(sw, "/nowhere") != WS_ELOAD || ws_load(sw, argv[2]) != WS_ELOAD || !ws_pipeline(sw))
        failures++;
    ws_destroy(sw);
    return failures != 0;
}
