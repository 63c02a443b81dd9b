"""From the checked program to P4Info, with the ids that controllers know."""
