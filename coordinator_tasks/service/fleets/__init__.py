"""Fleets: the number of consumers, their replacement by a new release, and automatic growth."""
