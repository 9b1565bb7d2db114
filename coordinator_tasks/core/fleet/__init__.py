"""Rules for fleets: growth, upgrades, and permitted settings. Pure."""
