"""The consumers of a fleet: their number, their replacement by a new release, and growth."""
