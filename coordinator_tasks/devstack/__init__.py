"""Servers on a single machine, and the demonstration that uses them. The wheel contains neither."""
