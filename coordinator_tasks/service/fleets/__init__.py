"""The consumers of a fleet: how many run, how a release replaces another, and growth."""
