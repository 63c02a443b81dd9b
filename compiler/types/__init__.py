"""Types of P4_16 and the checker that gives every expression one."""
