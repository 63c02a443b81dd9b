struct H { bit<8> a; }
control Ct(inout H hdr);
package Top(Ct c);

action NoAction(bit<8> x) { }
//     ^ NoAction must be an action without parameters

control C(inout H hdr) {
    table t {
        actions = { }
    }
    apply { t.apply(); }
}

Top(C()) main;
