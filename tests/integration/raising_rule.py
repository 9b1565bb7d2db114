"""A site's own rule for upgrades that fails, for the tests that run upgrades on real servers."""


def rule(_facts: object) -> str:
    raise RuntimeError("no price is known")
