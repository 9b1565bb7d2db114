"""The consumer's process, from registration to leave."""
