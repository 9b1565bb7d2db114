"""Pure decisions, without clock, random numbers, network or log."""
