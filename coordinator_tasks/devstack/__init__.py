"""Servers of one machine, and the demonstration on them. Neither is in the wheel."""
