"""The topic's state machine: what is written next, from what is stored and what the consumers say."""
