// Ids of AllReduce's actions, tables, registers and counter, as include/ids.p4 describes them.

#ifndef WEFT_ALLREDUCE_IDS_P4
#define WEFT_ALLREDUCE_IDS_P4

// allreduce (0c)
#define ACTION_ID_JOIN_FROM_CHILD                   0x01000c01
#define ACTION_ID_JOIN_FROM_PARENT                  0x01000c02
#define ACTION_ID_REFUSE_STRANGER                   0x01000c03
#define ACTION_ID_SET_ALLREDUCE_TREE                0x01000c04
#define ACTION_ID_SKIP_ALLREDUCE_TREE               0x01000c05
#define ACTION_ID_ADDRESS_ALLREDUCE_TO_HOST         0x01000c06
#define ACTION_ID_ADDRESS_ALLREDUCE_TO_NEIGHBOUR    0x01000c07
#define ACTION_ID_SKIP_ALLREDUCE_PORT               0x01000c08
#define ACTION_ID_JOIN_POOL_FROM_CHILD              0x01000c09
#define ACTION_ID_SET_ALLREDUCE_POOL                0x01000c0a
#define TABLE_ID_ALLREDUCE_EDGE                     0x02000c01
#define TABLE_ID_ALLREDUCE_TREE                     0x02000c02
#define TABLE_ID_ALLREDUCE_PORT                     0x02000c03
#define REGISTER_ID_ALLREDUCE_EPOCHS                0x16000c01
#define REGISTER_ID_ALLREDUCE_ROUNDS                0x16000c02
#define REGISTER_ID_ALLREDUCE_BITMAPS               0x16000c03
#define REGISTER_ID_ALLREDUCE_SUMS                  0x16000c04
#define COUNTER_ID_ALLREDUCE                        0x1200000a

#endif
