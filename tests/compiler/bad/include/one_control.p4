// What the bad programs share: types to make mistakes with, and a package of one control.
#include <core.p4>

header h_t { bit<8> a; bit<16> b; int<8> s; bit<1> flag; }
header v_t { bit<8> n; varbit<64> data; }
header_union u_t { h_t h; v_t v; }
struct H { h_t h; h_t[3] stack; v_t v; u_t u; }
enum bit<8> proto_t { TCP = 6, UDP = 17 }
enum color_t { RED, GREEN }
typedef bit<9> port_t;
type bit<9> port_id_t;

extern counter_t { counter_t(bit<32> size); void count(in bit<32> index); }
extern void compute<T>(in T data, out bit<16> result);

control Block(inout H hdr);
parser Parse(packet_in packet, out H hdr);
package Top(Block b);
package Both(Parse p, Block b);
