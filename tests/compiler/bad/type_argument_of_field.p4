#include "one_control.p4"

struct y_t { h_t[2] stack; }
header h<T> { T field; }
header_union u<T> { T field; }
struct s<T> { T field; }
control ct();

typedef h<int> of_int;
//      ^ field "field" of header "h" can't have type int
typedef h<y_t> of_stack;
//      ^ field "field" of header "h" can't have type h_t[2]
typedef u<bit<8>> of_bits;
//      ^ field "field" of header_union "u" can't have type bit<8>
typedef s<ct> of_control;
//      ^ field "field" of struct "s" can't have type ct

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
