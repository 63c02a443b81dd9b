// Ids of the core's and the features' tables, actions, counters and registers in P4Info. Controllers
// and stored entries use them: an id that was given never changes and is never used again.
//
//   0x02 00 05 01    kind: 01 action, 02 table, 11 action selector, 12 counter, 13 direct counter,
//    |     |  |            16 register
//    |     |  `--- number in the module
//    |     `------ module; a mechanism takes a number that is free in all programs, and has
//    |             its ids in its own file
//    `------------ counters and direct counters are numbered without modules

#ifndef WEFT_IDS_P4
#define WEFT_IDS_P4

// parameters (01); 03 to 05 belong to a mechanism
#define ACTION_ID_SET_ROUTER_MAC        0x01000101
#define ACTION_ID_SET_CLASS             0x01000102
#define TABLE_ID_ROUTER                 0x02000101
#define TABLE_ID_DSCP_CLASS             0x02000102

// acl (02)
#define ACTION_ID_PERMIT_PACKET         0x01000201
#define ACTION_ID_DENY_PACKET           0x01000202
#define ACTION_ID_TRAP_TO_CPU           0x01000203
#define TABLE_ID_ACL                    0x02000201
#define DIRECT_COUNTER_ID_ACL_HITS      0x13000001

// arp (03)
#define ACTION_ID_ANSWER_REQUEST        0x01000301
#define ACTION_ID_IGNORE_REQUEST        0x01000302
#define TABLE_ID_ARP_TARGETS            0x02000301

// echo (04)
#define ACTION_ID_TAKE_PACKET           0x01000401
#define ACTION_ID_PASS_PACKET           0x01000402
#define TABLE_ID_OWN_ADDRESSES          0x02000401

// routing (05)
#define ACTION_ID_ROUTE_TO              0x01000501
#define ACTION_ID_ROUTE_TO_GROUP        0x01000502
#define ACTION_ID_DROP_UNROUTED         0x01000503
#define ACTION_ID_CHOOSE_NEXT_HOP       0x01000504
#define TABLE_ID_IPV4_ROUTE             0x02000501
#define TABLE_ID_ECMP_GROUP             0x02000502
#define SELECTOR_ID_ECMP_MEMBERS        0x11000501

// next_hop (06)
#define ACTION_ID_FORWARD_TO            0x01000601
#define ACTION_ID_DROP_UNRESOLVED       0x01000602
#define TABLE_ID_NEXT_HOP               0x02000601

// host_guard (07)
#define ACTION_ID_GUARD_HOST            0x01000701
#define ACTION_ID_TRUST_PORT            0x01000702
#define TABLE_ID_HOST_PORT              0x02000701

// notification (0a)
#define ACTION_ID_ENABLE_NOTIFICATIONS  0x01000a01
#define ACTION_ID_DISABLE_NOTIFICATIONS 0x01000a02
#define ACTION_ID_ADDRESS_TO_HOST       0x01000a03
#define ACTION_ID_ADDRESS_TO_NEIGHBOUR  0x01000a04
#define TABLE_ID_NOTIFICATION_MODE      0x02000a01
#define TABLE_ID_NOTIFICATION_PORT      0x02000a02
#define REGISTER_ID_NOTIFICATION_NUMBER 0x16000a01

// port_counters, drops, roce_counters, notification; 04 and 07 belong to mechanisms
#define COUNTER_ID_PORT_RX              0x12000001
#define COUNTER_ID_PORT_TX              0x12000002
#define COUNTER_ID_DROPPED              0x12000003
#define COUNTER_ID_ROCE_RX              0x12000005
#define COUNTER_ID_ROCE_NAK_RX          0x12000006
#define COUNTER_ID_NOTIFICATIONS        0x12000008

#endif
