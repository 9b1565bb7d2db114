"""Periodic work: the plain loop, and the upkeep of the loop and of `reconcile`."""
