"""Load balancing: which of several equally short paths a packet takes."""
