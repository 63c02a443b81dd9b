// Which job's tree a packet belongs to, and whether the port that it came by leads to a child or the parent.

#ifndef WEFT_ALLREDUCE_TREES_P4
#define WEFT_ALLREDUCE_TREES_P4

#ifndef ALLREDUCE_TREES
#define ALLREDUCE_TREES 1024
#endif
#ifndef ALLREDUCE_EDGES
#define ALLREDUCE_EDGES 8192
#endif

control FindTree(in headers_t hdr, in standard_metadata_t std, out allreduce_place_t place, out bool found) {
    @id(ACTION_ID_JOIN_FROM_CHILD)
    action join_from_child(@id(1) bit<8> index) {
        place.from_child = 1;
        place.own = (bit<64>)1 << index;
    }

#ifdef WITH_BEST_EFFORT
    // A child of a best-effort job, and the workers that can be beneath it.
    @id(ACTION_ID_JOIN_POOL_FROM_CHILD)
    action join_pool_from_child(@id(1) bit<64> workers) {
        place.from_child = 1;
        place.own = workers;
    }

#endif
    @id(ACTION_ID_JOIN_FROM_PARENT)
    action join_from_parent() {
        place.from_child = 0;
        place.own = 0;
    }

    @id(ACTION_ID_REFUSE_STRANGER)
    action refuse_stranger() { }

    @id(TABLE_ID_ALLREDUCE_EDGE)
    table allreduce_edge {
        key = {
            std.ingress_port: exact @name("port");
            hdr.allreduce.job: exact @name("job");
            hdr.allreduce.epoch[2:0]: exact @name("tree");
        }
        actions = {
            join_from_child;
            join_from_parent;
#ifdef WITH_BEST_EFFORT
            join_pool_from_child;
#endif
            @defaultonly refuse_stranger;
        }
        const default_action = refuse_stranger();
        size = ALLREDUCE_EDGES;
    }

    @id(ACTION_ID_SET_ALLREDUCE_TREE)
    action set_allreduce_tree(@id(1) bit<32> base, @id(2) bit<16> slots, @id(3) bit<64> children,
                              @id(4) bit<1> root, @id(5) port_t parent, @id(6) bit<16> children_group,
                              @id(7) bit<16> flood_group, @id(8) bit<3> class_of_service) {
        place.base = base;
        place.slots = slots;
        place.children = children;
        place.root = root;
        place.parent = parent;
        place.children_group = children_group;
        place.flood_group = flood_group;
        place.class_of_service = class_of_service;
    }

#ifdef WITH_BEST_EFFORT
    // `workers`: all that can be beneath this switch. `slots`: of the job's workers, not of this switch.
    @id(ACTION_ID_SET_ALLREDUCE_POOL)
    action set_allreduce_pool(@id(1) bit<32> cells, @id(2) bit<32> stride, @id(3) bit<32> offset,
                              @id(4) bit<16> slots, @id(5) bit<64> workers, @id(6) port_t parent,
                              @id(7) bit<16> children_group, @id(8) bit<16> flood_group,
                              @id(9) bit<3> class_of_service, @id(10) bit<16> patience) {
        place.best_effort = 1;
        place.cells = cells;
        place.stride = stride;
        place.offset = offset;
        place.slots = slots;
        place.children = workers;
        place.parent = parent;
        place.children_group = children_group;
        place.flood_group = flood_group;
        place.class_of_service = class_of_service;
        place.patience = patience;
    }

#endif
    @id(ACTION_ID_SKIP_ALLREDUCE_TREE)
    action skip_allreduce_tree() { }

    @id(TABLE_ID_ALLREDUCE_TREE)
    table allreduce_tree {
        key = {
            hdr.allreduce.job: exact @name("job");
            hdr.allreduce.epoch[2:0]: exact @name("tree");
        }
        actions = {
            set_allreduce_tree;
#ifdef WITH_BEST_EFFORT
            set_allreduce_pool;
#endif
            @defaultonly skip_allreduce_tree;
        }
        const default_action = skip_allreduce_tree();
        size = ALLREDUCE_TREES;
    }

    apply {
        place = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
        found = false;
        if (allreduce_edge.apply().hit) {
            if (allreduce_tree.apply().hit) {
                found = true;
            }
        }
    }
}

#endif
