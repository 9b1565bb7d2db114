"""Servers on a single machine, and the demonstration on them. Neither is in the wheel."""
