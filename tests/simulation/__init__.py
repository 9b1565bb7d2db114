"""A seeded simulation of the whole system: the production code of core, services and agents in a simulated world.

`python -m tests.simulation --seeds 1000` runs histories; every history replays byte for byte from its seed.
"""
