// Of how much a line is used: ids and constants.

#ifndef WEFT_PATH_TELEMETRY_TYPES_P4
#define WEFT_PATH_TELEMETRY_TYPES_P4

#define ACTION_ID_WRITE_USE             0x01001104
#define ACTION_ID_MEASURE_USE           0x01001105
#define ACTION_ID_SKIP_USE              0x01001106
#define TABLE_ID_PATH_USE               0x02001102
#define REGISTER_ID_PATH_USED           0x16001102
#define REGISTER_ID_PATH_USED_AT        0x16001103
#define REGISTER_ID_PATH_USED_SENT      0x16001104
#define REGISTER_ID_PATH_USED_QUEUE     0x16001105

const bit<8> PATH_TELEMETRY_MOST_USED = 2;
const bit<64> PATH_USE_ONE = 0x10000000;        // 2^28: U = 1
const bit<64> PATH_USE_MOST = 0x7fffffff;       // just below 8

#endif
