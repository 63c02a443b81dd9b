"""DCQCN: ECN marks at the switch, CNPs from the receiver, rates at the sender."""
