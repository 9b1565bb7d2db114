"""Pure decisions: no clock, no randomness, no network, no logging."""
