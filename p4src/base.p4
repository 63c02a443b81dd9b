// The smallest router made of the fabric's own parts: routes, next hops, TTL, checksum. To learn
// from, to measure, and to start from: -DWITH_ARP and the like add one part (include/profile.p4).

#define PROFILE 1

#include "fabric.p4"
