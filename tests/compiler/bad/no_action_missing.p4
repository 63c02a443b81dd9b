struct H { bit<8> a; }
control Ct(inout H hdr);
package Top(Ct c);

control C(inout H hdr) {
    action a() { }
    table t {
//        ^ table "t" has no "default_action", and there is no NoAction: #include <core.p4>
        actions = { a; }
    }
    table good {
        actions = { a; }
        default_action = a;
    }
    apply { t.apply(); good.apply(); }
}

Top(C()) main;
