"""Dynamic ECN thresholds: from the flows and the bursts that a switch measures, not by hand."""
