"""AllReduce in the network: switches add what the hosts of a job send (docs/allreduce.md)."""
