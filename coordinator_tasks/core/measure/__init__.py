"""Measurements: lag, pauses, predictions of pauses, and the budget of moves. Pure."""
