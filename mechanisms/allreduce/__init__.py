"""AllReduce in the network: switches add up what hosts send (docs/allreduce.md)."""
