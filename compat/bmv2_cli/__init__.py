"""`weft cli`: simple_switch_CLI over P4Runtime and our side channel."""
