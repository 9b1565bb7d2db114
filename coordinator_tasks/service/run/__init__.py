"""Periodic work: the plain loop, and the upkeep that the loop and `reconcile` share."""
