/* The sending half of a port (daemon_send.h) on a socket that the test drains, at times that the test chooses.
 *
 * A message that the other end of a UNIX socket has not read is charged to the sender's buffer, as a frame is that
 * a shaper holds. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon_send.h"

enum { MTU = 1500, FRAME = 1514, CHARGE = 2304, LEAST = 3 };
static const ws_time MS = 1000000000;

static struct wd_send port;
static struct wd_stats stats;
static int far;
static uint8_t next, expected;

static void check(int holds, int line)
{
    if (holds)
        return;
    fprintf(stderr, "line %d: window %u, waits %d, backlog %u\n", line, port.window, port.waits, port.backlog_n);
    exit(1);
}
#define CHECK(condition) check(condition, __LINE__)

static void send_frames(uint32_t n)
{
    uint8_t frames[WD_TX_BATCH][FRAME] = {0};
    for (uint32_t i = 0; i < n; i++) {
        frames[i][0] = next++;
        CHECK(wd_send_add(&port, frames[i], FRAME));
    }
    wd_send_flush(&port, &stats);
}

/* What the device lets go: in the order in which it was sent. */
static void drain(uint32_t n)
{
    uint8_t frame[FRAME];
    while (n--) {
        CHECK(recv(far, frame, sizeof frame, MSG_DONTWAIT) == FRAME);
        CHECK(frame[0] == expected++);
    }
}

static void nothing_is_limited_without_a_discipline(void)
{
    CHECK(wd_send_room(&port, 0) == WS_UNLIMITED);
    send_frames(5);
    CHECK(wd_send_room(&port, 0) == WS_UNLIMITED && !port.waits);
    drain(5);
}

static void a_shaper_gets_three_frames(void)
{
    wd_send_hold(&port, WD_HOLDS_BY_RATE);
    CHECK(port.window == LEAST * CHARGE);
    CHECK(wd_send_room(&port, 0) == LEAST);
    send_frames(2);
    CHECK(wd_send_room(&port, 0) == 1 && !port.waits);
    send_frames(1);
    CHECK(wd_send_room(&port, 0) == 0 && port.waits);
    CHECK(port.backlog_n == 0);
}

/* Two frames in 24 ms, as at 1 Mb/s: three are as much as it needs. */
static void a_slow_shaper_keeps_three(void)
{
    drain(2);
    CHECK(wd_send_room(&port, 24 * MS) == 2 && !port.waits);
    CHECK(port.window == LEAST * CHARGE);
    send_frames(2);
    CHECK(wd_send_room(&port, 24 * MS) == 0);
}

/* Two frames in 1 ms: 5 ms need ten. The window at most doubles at a time. */
static void a_faster_shaper_gets_what_leaves_in_5_ms(void)
{
    drain(2);
    CHECK(wd_send_room(&port, 25 * MS) == 5);
    CHECK(port.window == 6 * CHARGE);
    send_frames(5);
    CHECK(wd_send_room(&port, 25 * MS) == 0);
    drain(4);
    CHECK(wd_send_room(&port, 27 * MS) == 8);
    CHECK(port.window == 10 * CHARGE);
    send_frames(8);
    CHECK(wd_send_room(&port, 27 * MS) == 0);
}

/* And five frames in 60 ms: back to three, half at a time. */
static void a_shaper_that_slows_down_gets_less(void)
{
    drain(5);
    CHECK(wd_send_room(&port, 87 * MS) == 0 && port.waits); /* the five that are left are all that fit now */
    CHECK(port.window == 5 * CHARGE);
    drain(2);
    CHECK(wd_send_room(&port, 187 * MS) == 0 && port.waits);
    CHECK(port.window == LEAST * CHARGE);
    drain(3);
    CHECK(wd_send_room(&port, 197 * MS) == LEAST && !port.waits);
}

/* What delays frames says nothing about a rate: its window stays the socket's own. */
static void another_discipline_has_the_whole_buffer(void)
{
    wd_send_hold(&port, WD_HOLDS_SOME);
    uint32_t most = port.window_most, room = wd_send_room(&port, 200 * MS);
    CHECK(port.window == most && room == (most + CHARGE - 1) / CHARGE);
    send_frames(1);
    CHECK(wd_send_room(&port, 200 * MS) == (most - CHARGE + CHARGE - 1) / CHARGE);
    drain(1);
}

/* More than was granted waits in the backlog, leaves before what comes later, and is not lost. */
static void what_does_not_fit_keeps_its_place(void)
{
    wd_send_hold(&port, WD_HOLDS_BY_RATE);
    send_frames(6);
    CHECK(port.backlog_n == 3);
    send_frames(1);
    CHECK(port.backlog_n == 4);
    CHECK(wd_send_room(&port, 300 * MS) == 0 && port.waits);
    drain(3);
    wd_send_flush(&port, &stats);
    CHECK(port.backlog_n == 1 && wd_send_room(&port, 400 * MS) == 0);
    drain(3);
    send_frames(1);
    CHECK(port.backlog_n == 0);
    drain(2);
}

/* A full socket where nobody expected it: from then on there is pushback. */
static void a_full_socket_is_learned(void)
{
    wd_send_hold(&port, WD_HOLDS_NOTHING);
    while (port.holds == WD_HOLDS_NOTHING)
        send_frames(1);
    CHECK(port.holds == WD_HOLDS_SOME && port.backlog_n == 1);
    CHECK(wd_send_room(&port, 500 * MS) == 0 && port.waits);
    CHECK(stats.tx_errors == 0);
}

int main(void)
{
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends) == 0);
    far = ends[1];
    wd_send_open(&port, ends[0], MTU);
    CHECK(port.charge == CHARGE);
    nothing_is_limited_without_a_discipline();
    a_shaper_gets_three_frames();
    a_slow_shaper_keeps_three();
    a_faster_shaper_gets_what_leaves_in_5_ms();
    a_shaper_that_slows_down_gets_less();
    another_discipline_has_the_whole_buffer();
    what_does_not_fit_keeps_its_place();
    a_full_socket_is_learned();
    wd_send_close(&port);
    close(ends[0]);
    close(ends[1]);
    return 0;
}
