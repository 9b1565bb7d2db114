"""The rules for fleets: growth, upgrades, and what a fleet may set. Pure."""
